"""The metered door to the sealed graph."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from graphveil.core import GraphveilError, InvalidInput, Overspent, Plan, Query
from graphveil.graph import Public, Sealed
from graphveil.noise import Source


class Session:
    """One run of one plan: hands out the planned releases, counts them, and refuses any other."""

    def __init__(self, public: Public, sealed: Sealed, plan: Plan, source: Source) -> None:
        self.public = public
        self.plan = plan
        self._sealed = sealed
        self._source = source
        self._used: Counter[str] = Counter()

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        """Run the planned step `name` on the private data. What it uses counts even if it fails.

        With `uses` the query answers for so many uses at once, and what comes back has one row for each of them.
        """
        step = self.plan.step(name)
        count = 1 if uses is None else uses
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            raise InvalidInput(f"uses must be a whole number of at least 1, got {uses!r}")
        if count > self.left(name):
            left = self.left(name)
            raise Overspent(
                f"step {name!r} was planned {step.times} time(s), of which {left} are left; {count} were asked"
            )
        self._used[name] += count
        with self._sealed.opened() as sealed:
            if uses is None:
                return step.act.apply(sealed, query, self._source).detach()
            answers = step.act.apply_many(sealed, query, self._source, uses).detach()
        if len(answers) != uses:
            raise GraphveilError(f"step {name!r} answered {len(answers)} times and was counted {uses} times")
        return answers

    def left(self, name: str) -> int:
        """How often the step `name` may still run."""
        return self.plan.step(name).times - self._used[name]
