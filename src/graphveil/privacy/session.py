"""The metered door to the sealed graph."""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil import plugins
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import GraphveilError, InvalidInput, Overspent, Unsupported
from graphveil.nn.clipping import ExampleGradients
from graphveil.privacy.noise import Stream
from graphveil.runtime.compute import HERE, Run
from graphveil.vocabulary import Plan, Query

T = TypeVar("T")


class Session:
    """One run of one plan: hands out the planned releases, counts them, and refuses any other.

    run: what it is carried out with, for what is made of public data and of what was released; closed: queries answer
    with classes of this library alone, which keep their bounds; for methods that are not ours.
    """

    def __init__(
        self, public: Public, sealed: Sealed, plan: Plan, source: Stream, closed: bool = False, run: Run = HERE
    ) -> None:
        self.public = public
        self.plan = plan
        self.run = run
        self._sealed = sealed
        self._source = source
        self._closed = closed
        self._used: Counter[str] = Counter()

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        """Run the planned step `name` on the private data. What it uses counts even if it fails.

        An error that names what it was given, or one that is not ours, is told by its kind and place alone, whether the
        query raised it or the mechanism, which may call on the query's answer: it may quote private data.
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
        self._source.begin()
        self._used[name] += count
        ask = _discreet(name, query)
        ask = _bounding(name, ask) if self._closed else ask
        with self._sealed.opened() as sealed:
            if uses is None:
                return _discreet(name, step.act.apply)(sealed, ask, self._source).detach()
            answers = _discreet(name, step.act.apply_many)(sealed, ask, self._source, uses).detach()
        if len(answers) != uses:
            raise GraphveilError(f"step {name!r} answered {len(answers)} times and was counted {uses} times")
        return answers

    def left(self, name: str) -> int:
        """How often the step `name` may still run."""
        return self.plan.step(name).times - self._used[name]


_PLAIN = (Tensor, np.ndarray, np.memmap, sp.csr_array, bool, int, float, str, bytes, type(None))


def _bounding(name: str, query: Query) -> Query:
    """`query`, if it answers with a tensor or with a class of this library: those are clipped and counted as stated."""

    def asked(*args: Any, **kwargs: Any) -> Any:
        answer = query(*args, **kwargs)
        if not _is_plain(answer):
            raise Unsupported(
                f"step {name!r} was answered with a {type(answer).__name__}, a class that could leave out the bound; "
                "answer with one of graphveil's own, say nn.clipping.Vectors of one row for every contribution"
            )
        # Lengths that were computed before are somebody's word.
        return replace(answer, known=None) if type(answer) is ExampleGradients else answer

    return asked


def _is_plain(value: Any) -> bool:
    """Numbers and tensors, and classes of this library that are made of such and of nothing beside their fields."""
    if type(value) in (tuple, list, dict):
        return all(map(_is_plain, value.values() if type(value) is dict else value))
    if type(value) in _PLAIN:
        return True
    if not is_dataclass(value) or isinstance(value, type) or not plugins.is_ours(type(value)):
        return False
    known = {item.name for item in fields(value)}
    beside = [name for name in vars(value) if name not in known]
    # What a class of ours keeps of its own accord is no addition.
    kept = all(isinstance(getattr(type(value), name, None), cached_property) for name in beside)
    return kept and all(_is_plain(getattr(value, item)) for item in known)


def _discreet(name: str, work: Callable[..., T]) -> Callable[..., T]:
    """`work`, of whose errors only ours leave with their words, and none with its frames."""

    def run(*args: Any, **kwargs: Any) -> T:
        failure: Exception
        try:
            return work(*args, **kwargs)
        except Exception as error:
            # InvalidInput names the offending item, and what is looked at in here is private.
            if isinstance(error, GraphveilError) and not isinstance(error, InvalidInput):
                failure = error.with_traceback(None)
                failure.__cause__ = failure.__context__ = None
                vars(failure).pop("__notes__", None)
            else:
                at = traceback.extract_tb(error.__traceback__)[-1]
                room = isinstance(error, MemoryError | torch.OutOfMemoryError)
                failure = (MemoryError if room else GraphveilError)(
                    f"step {name!r} failed with {type(error).__name__} at {Path(at.filename).name}:{at.lineno}; "
                    "its words may quote private data and are withheld: try the query on a made-up graph"
                )
        # Out here: in there Python would tie the first error to this one, with its frames and all they hold.
        raise failure

    return run
