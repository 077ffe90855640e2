"""The metered door: what was not planned cannot be read."""

from __future__ import annotations

import copy
import math
import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import GraphveilError, InvalidInput, Overspent, PrivateAccess, Unsupported
from graphveil.mechanisms.described import mechanisms
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Tally
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.noisy_max import NoisyMax
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.privacy.noise import Seeded, Stream
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Query, Reading, Step, Unit

READS: dict[str, Callable[[Sealed], object]] = {
    "x": lambda sealed: sealed.x,
    "y": lambda sealed: sealed.y,
    "edges": lambda sealed: sealed.adj,
}


def opened(unit: Unit | str = "node", times: int = 2) -> tuple[Session, Sealed]:
    adjacency = Adjacency.of(unit)
    public, sealed = gv.datasets.load("chain-s").seal(adjacency)
    steps = tuple(
        Step(name, act, act.curve(1), times, why="test")
        for name, act in (("sum", Laplace(1.0)), ("other", Laplace(2.0)))
    )
    return Session(public, sealed, Plan(adjacency, Reading.SOUND, steps), Seeded(0)), sealed


def total(sealed: Sealed) -> Tensor:
    return sealed.x


def test_sessions_count_for_themselves() -> None:
    """Another run of the plan neither gives back what this one has used nor uses anything of it."""
    first, _ = opened(times=1)
    first.release("sum", total)
    second, _ = opened(times=1)
    assert (first.left("sum"), second.left("sum")) == (0, 1)
    with pytest.raises(Overspent, match="sum"):
        first.release("sum", total)
    second.release("sum", total)


def test_a_step_runs_as_often_as_planned() -> None:
    session, _ = opened(times=2)
    assert session.left("sum") == 2
    first, second = session.release("sum", total), session.release("sum", total)
    assert not torch.equal(first, second), "the same noise twice"
    assert session.left("sum") == 0
    with pytest.raises(Overspent, match="sum"):
        session.release("sum", total)
    assert session.release("other", total).shape == first.shape, "one step's end must not close another"


def test_nothing_is_read_past_the_plan() -> None:
    session, _ = opened(times=1)
    session.release("sum", total)
    touched = []
    with pytest.raises(Overspent):
        session.release("sum", lambda sealed: touched.append(sealed.x))
    assert not touched


def test_a_failed_use_counts_and_closes_the_gate() -> None:
    session, sealed = opened(times=1)
    with pytest.raises(GraphveilError, match="failed with ZeroDivisionError"):
        session.release("sum", lambda sealed: sealed.x / (1 // 0))
    assert session.left("sum") == 0
    with pytest.raises(Overspent):
        session.release("sum", total)
    with pytest.raises(PrivateAccess):
        _ = sealed.x


def answering(times: int) -> tuple[Session, Sealed]:
    adjacency = Adjacency.of("node")
    public, sealed = gv.datasets.load("chain-s").seal(adjacency)
    act = NoisyMax(1.0, 2)
    step = Step("name", act, act.curve(1), times, why="test")
    loud = Step("sum", Laplace(1.0), Laplace(1.0).curve(1), times, why="test")
    return Session(public, sealed, Plan(adjacency, Reading.SOUND, (step, loud)), Seeded(0)), sealed


def test_many_uses_at_once_are_counted_one_by_one() -> None:
    session, _ = answering(times=10)
    assert session.release("name", lambda _: torch.ones(7, 2), uses=7).shape == (7,)
    assert session.left("name") == 3
    touched: list[int] = []
    with pytest.raises(Overspent, match="of which 3 are left; 4 were asked"):
        session.release("name", lambda _: touched.append(1) or torch.ones(4, 2), uses=4)
    assert not touched
    assert session.left("name") == 3, "what is refused before anything is read costs nothing"
    session.release("name", lambda _: torch.ones(1, 2))
    assert session.release("name", lambda _: torch.ones(2, 2), uses=2).shape == (2,)
    assert session.left("name") == 0


def test_failed_uses_count() -> None:
    session, sealed = answering(times=10)
    with pytest.raises(GraphveilError, match=r"failed with InvalidInput at categorical\.py") as met:
        session.release("name", lambda _: torch.ones(8, 2), uses=4)
    # How many rows there are may be private.
    assert "8 row" not in str(met.value)
    assert session.left("name") == 6
    with pytest.raises(PrivateAccess):
        _ = sealed.x


@pytest.mark.parametrize("uses", [0, -1, 1.5, True, "2"])
def test_uses_are_whole_numbers(uses: Any) -> None:
    session, _ = answering(times=10)
    with pytest.raises(InvalidInput, match="uses"):
        session.release("name", lambda _: torch.ones(1, 2), uses=uses)
    assert session.left("name") == 10


def test_mechanisms_that_answer_once_refuse_many_uses() -> None:
    session, _ = answering(times=10)
    with pytest.raises(Unsupported, match="one use at a time"):
        session.release("sum", lambda _: pytest.fail("private data were read"), uses=2)


@dataclass(frozen=True)
class Miscounts(Mechanism):
    """Answers once more or less often than it was asked."""

    more: int

    def apply(self, sealed: Sealed, query: Query, source: Stream) -> Tensor:
        raise NotImplementedError

    def apply_many(self, sealed: Sealed, query: Query, source: Stream, uses: int) -> Tensor:  # noqa: ARG002
        return torch.zeros(uses + self.more, 2)

    def curve(self, sensitivity: float) -> ExposedCurve:  # noqa: ARG002
        return ExposedCurve()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(1), cls(-1)


@pytest.mark.parametrize("act", Miscounts.specimens(), ids=str)
def test_a_mechanism_answers_as_often_as_is_counted(act: Miscounts) -> None:
    """More rows than uses would be releases that nobody paid for."""
    public, sealed = gv.datasets.load("chain-s").seal(Adjacency.of("node"))
    plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("many", act, act.curve(1), 9, why="test"),))
    session = Session(public, sealed, plan, Seeded(0))
    with pytest.raises(GraphveilError, match=f"answered {4 + act.more} times and was counted 4 times"):
        session.release("many", lambda _: None, uses=4)
    assert session.left("many") == 5


# --- What goes wrong inside a release is told without what was seen. ---

SECRET = 271828.1828
"""A private feature; nothing that leaves a failed release may hold its digits."""


def secretive(act: Mechanism, times: int = 9) -> Session:
    """A graph all of whose features, and the number of whose arcs, are telling."""
    graph = gv.datasets.load("chain-s")
    graph = replace(graph, x=torch.full_like(graph.x, SECRET))
    public, sealed = graph.seal(Adjacency.of("node"))
    plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("sum", act, act.curve(1), times, why="test"),))
    return Session(public, sealed, plan, Seeded(0))


def everything_said(error: BaseException) -> str:
    """Words, notes and locals of an error and of all that hangs on it, but for the frames that asked."""
    said, frames = [], []
    for one in (error, error.__cause__, error.__context__):
        if one is not None:
            said += [repr(one), *getattr(one, "__notes__", [])]
            frames += list(traceback.walk_tb(one.__traceback__))
    said += [repr(frame.f_locals) for frame, _ in frames if "test_session" not in frame.f_code.co_filename]
    return "\n".join(said)


def quoting(kind: type[Exception]) -> Callable[[Sealed], Tensor]:
    def query(sealed: Sealed) -> Tensor:
        value = float(sealed.x[0, 0])
        raise kind(f"x is {value}")

    return query


def chaining(sealed: Sealed) -> Tensor:
    """An error of ours with clean words that was raised from one that quotes."""
    try:
        raise ValueError(f"x is {float(sealed.x[0, 0])}")
    except ValueError as error:
        error.add_note(f"x was {float(sealed.x[0, 0])}")
        clean = Unsupported("this is not supported; use that")
        clean.add_note(f"x was {float(sealed.x[0, 0])}")
        raise clean from error


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError, InvalidInput, AssertionError])
def test_an_error_inside_a_release_quotes_nothing_private(kind: type[Exception]) -> None:
    with pytest.raises(GraphveilError, match=rf"step 'sum' failed with {kind.__name__} at test_session\.py:\d") as met:
        secretive(Laplace(1.0)).release("sum", quoting(kind))
    assert "271828" not in everything_said(met.value)


@dataclass(frozen=True, eq=False)
class LateMarks:
    """Marks whose cells are made while the mechanism counts them, and fail there."""

    sealed: Sealed
    size: int = 3

    def blocks(self) -> Any:
        raise InvalidInput(f"x is {float(self.sealed.x[0, 0])}")

    def counted_there(self, marks: int) -> None:
        del marks


@dataclass(frozen=True, eq=False)
class LateSum:
    """Contributions that fail while they are summed."""

    sealed: Sealed

    def clipped_sum(self, clip: float) -> Tensor:
        raise InvalidInput(f"x is {float(self.sealed.x[0, 0])} and clip {clip}")


@pytest.mark.parametrize(
    ("act", "late"),
    [(Tally(1.0), LateMarks), (Gaussian(1.0), LateSum)],
    ids=lambda one: str(one),
)
def test_an_answer_that_fails_inside_the_mechanism_quotes_nothing_private(act: Mechanism, late: Any) -> None:
    with pytest.raises(GraphveilError, match=r"step 'sum' failed with InvalidInput at test_session\.py:\d") as met:
        secretive(act).release("sum", late)
    assert "271828" not in everything_said(met.value)


def test_a_want_of_memory_stays_one_and_quotes_no_sizes() -> None:
    with pytest.raises(MemoryError, match="step 'sum' failed with MemoryError") as met:
        secretive(Laplace(1.0)).release("sum", quoting(MemoryError))
    assert "271828" not in everything_said(met.value)


def test_our_own_words_leave_and_what_they_hang_on_does_not() -> None:
    with pytest.raises(Unsupported, match="not supported; use that") as met:
        secretive(Laplace(1.0)).release("sum", chaining)
    assert "271828" not in everything_said(met.value)


def charged(act: Mechanism) -> float:
    """A sensitivity that the mechanism can be charged at."""
    return 2 if isinstance(act, HeterPoissonSampling) else 1


ROTTEN: dict[str, Callable[[Tensor], Any]] = {
    "of another shape": lambda x: x[0],
    "whole": lambda x: x.long(),
    "of another kind": lambda x: [float(x[0, 0])],
    "as words": lambda x: str(float(x[0, 0])),
    "not finite": lambda x: x * math.inf,
    "sums that are not finite": lambda x: Given(torch.cat([x[0], x[0] * math.inf])),
    "sums of another shape": lambda x: Given(x[:0]),
}


PROTECTING = [one for kind in mechanisms().values() for one in kind.specimens() if not one.curve(charged(one)).infinite]


@dataclass(frozen=True, eq=False)
class Given:
    """A sum that nobody clipped."""

    total: Tensor

    def clipped_sum(self, clip: float) -> Tensor:  # noqa: ARG002
        return self.total


@pytest.mark.parametrize("make", ROTTEN.values(), ids=ROTTEN)
@pytest.mark.parametrize("act", PROTECTING, ids=str)
def test_no_mechanism_quotes_what_it_was_given(act: Mechanism, make: Callable[[Tensor], Any]) -> None:
    """Whatever a query hands over: an answer, or an error without a private digit."""
    step = Step("sum", act, act.curve(charged(act)), 9, why="test")
    session = secretive(Laplace(1.0))
    session.plan = replace(session.plan, steps=(step,))

    def query(sealed: Sealed, **given: Any) -> Any:  # noqa: ARG001
        return make(sealed.x)

    for uses in (None, 3):
        met = ""
        try:
            session.release("sum", query, uses)
        except GraphveilError as error:
            met = everything_said(error)
        assert "271828" not in met


def test_unplanned_steps_are_refused() -> None:
    session, _ = opened()
    touched = []
    with pytest.raises(PrivateAccess, match="not planned; planned steps: sum, other"):
        session.release("peek", lambda sealed: touched.append(sealed.x))
    assert not touched


@pytest.mark.parametrize("unit", list(Unit))
def test_the_gate_is_shut_outside(unit: Unit) -> None:
    _, sealed = opened(unit)
    for part, read in READS.items():
        if part in Adjacency.of(unit).private:
            with pytest.raises(PrivateAccess):
                read(sealed)
        else:
            read(sealed)


def test_the_gate_shuts_again_after_a_release() -> None:
    session, sealed = opened()
    kept: list[Sealed] = []
    session.release("sum", lambda sealed: kept.append(sealed) or sealed.x)
    for door in (sealed, kept[0]):
        with pytest.raises(PrivateAccess):
            _ = door.x
        with pytest.raises(PrivateAccess):
            door.derived("anything", lambda inner: inner.x)


@pytest.mark.parametrize("unit", list(Unit))
def test_what_was_derived_stays_behind_the_gate(unit: Unit) -> None:
    """Kept from a release or not yet made, and whatever it is made of: a build may have been handed private parts."""
    session, sealed = opened(unit)
    session.release("sum", lambda sealed: sealed.derived("rows", lambda inner: inner.x.clone()))
    for name in ("rows", "another"):
        with pytest.raises(PrivateAccess, match="derived"):
            sealed.derived(name, lambda _: pytest.fail("built outside a release"))


def test_a_release_cannot_run_inside_another() -> None:
    session, _ = opened()

    def nested(sealed: Sealed) -> Tensor:
        session.release("other", total)
        return sealed.x

    with pytest.raises(PrivateAccess, match="inside another"):
        session.release("sum", nested)


def test_a_sealed_graph_cannot_be_copied() -> None:
    _, sealed = opened()
    for copied in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivateAccess):
            copied(sealed)


def test_releases_carry_no_gradient_back() -> None:
    adjacency = Adjacency.of("node")
    public, sealed = gv.datasets.load("chain-s").seal(adjacency)
    act = Gaussian(1.0)
    plan = Plan(adjacency, Reading.SOUND, (Step("sum", act, act.curve(1), 1, why="test"),))

    class Sums:
        def clipped_sum(self, clip: float) -> Tensor:
            return torch.ones(3, requires_grad=True) * clip

    out = Session(public, sealed, plan, Seeded(0)).release("sum", lambda _: Sums())
    assert not out.requires_grad


@dataclass(frozen=True)
class Warm(Miscounts):
    """Answers with a tensor that remembers what it was made of."""

    def apply(self, sealed: Sealed, query: Query, source: Stream) -> Tensor:  # noqa: ARG002
        return query(sealed)

    def apply_many(self, sealed: Sealed, query: Query, source: Stream, uses: int) -> Tensor:  # noqa: ARG002
        return query(sealed)


@pytest.mark.parametrize("uses", [None, 3])
def test_no_mechanism_leaves_a_way_back_to_private_data(uses: int | None) -> None:
    public, sealed = gv.datasets.load("chain-s").seal(Adjacency.of("node"))
    act = Warm(0)
    plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("warm", act, act.curve(1), 9, why="test"),))
    out = Session(public, sealed, plan, Seeded(0)).release(
        "warm", lambda _: torch.ones(3, requires_grad=True) * 2, uses
    )
    assert not out.requires_grad
    assert out.grad_fn is None


def test_plans_cannot_see_private_parts() -> None:
    public = gv.datasets.load("chain-s").seal(Adjacency.of("node"))[0]
    assert isinstance(public, Public)
    for read in (public.features, public.labels, public.arcs):
        with pytest.raises(PrivateAccess):
            read()
