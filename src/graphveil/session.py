"""The metered door to the sealed graph."""

from __future__ import annotations

from collections import Counter

from torch import Tensor

from graphveil.core import Overspent, Plan, Query
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

    def release(self, name: str, query: Query) -> Tensor:
        """Run the planned step `name` once on the private data. The use counts even if it fails."""
        step = self.plan.step(name)
        if self._used[name] >= step.times:
            raise Overspent(f"step {name!r} was planned {step.times} time(s) and has been used up")
        self._used[name] += 1
        with self._sealed.opened() as sealed:
            return step.act.apply(sealed, query, self._source).detach()

    def left(self, name: str) -> int:
        """How often the step `name` may still run."""
        return self.plan.step(name).times - self._used[name]
