"""The metered door: what was not planned cannot be read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.core import (
    Adjacency,
    InvalidInput,
    Overspent,
    Plan,
    PrivateAccess,
    Reading,
    Step,
    Unit,
    Unsupported,
)
from graphveil.graph import Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.noisy_max import NoisyMax
from graphveil.noise import Seeded
from graphveil.session import Session

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
    with pytest.raises(ZeroDivisionError):
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
    with pytest.raises(InvalidInput, match="8 row"):
        session.release("name", lambda _: torch.ones(8, 2), uses=4)
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


def test_plans_cannot_see_private_parts() -> None:
    public = gv.datasets.load("chain-s").seal(Adjacency.of("node"))[0]
    assert isinstance(public, Public)
    for read in (public.features, public.labels, public.arcs):
        with pytest.raises(PrivateAccess):
            read()
