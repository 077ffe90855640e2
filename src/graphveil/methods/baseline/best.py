"""The best of several candidates on validation, with all of them charged: tuning pays from the same budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.edge.lapgraph import LapGraph
from graphveil.methods.method import Method, PredictionReads
from graphveil.methods.node.dpsgd import DpSgd
from graphveil.nn.clipping import lengths_of
from graphveil.nn.own_network import OwnNetwork
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Query, Reading, Relation, State, Step, Unit

_WINNER = "best.winner"
"""Where the state keeps the winner's place among the candidates."""

_CHOICE = "choice"
_SHARE = 0.1
"""What the noisy choice spends, as a share of what all trainings provably spend (Renyi divergences of order 2)."""

_ROUNDING = 1 + 1e-9
"""Clip a little harder rather than exceed the bound."""


@dataclass(frozen=True)
class Best(Method):
    """Trains every candidate and keeps the one that labels most validation nodes rightly, the first on a tie.

    Training nodes decide where there are no validation nodes. The plan is that of all candidates, one after the other
    and at the same noise: what is charged is k releases, although only one is kept. Where labels are private the choice
    is one more step, a noisy count of right labels for each candidate; docs/methods/best.md has the proof.
    """

    subtitle = "several methods, of which validation chooses one"
    units = frozenset(Unit)

    candidates: tuple[Method, ...] = ()
    """What is chosen from: at least two methods that predict alike."""

    def __post_init__(self) -> None:
        several = isinstance(self.candidates, tuple) and len(self.candidates) > 1
        if not several or not all(isinstance(one, Method) for one in self.candidates):
            raise InvalidInput(
                "best needs at least two methods to choose from: Best((Gap(hops=1), Gap(hops=2))), or in a spec a grid "
                'with selection = "charged"'
            )
        if any(isinstance(one, Best) for one in self.candidates):
            raise InvalidInput("best cannot choose among choices; list all candidates in one place")
        served = {one.reads for one in self.candidates}
        if len(served) > 1:
            raise Unsupported(f"candidates must predict alike, and these do from: {', '.join(sorted(served))}")
        if not served <= {PredictionReads.RELEASED, PredictionReads.OWN_FEATURES}:
            raise Unsupported(
                f"best cannot choose for {self.candidates[0].name()}, which predicts from {self.reads.value}: one "
                "node would sway the predictions of many validation nodes; fix the hyper-parameters, or take a method "
                "whose predictions read released state or a node's own features"
            )

    @property
    def reads(self) -> PredictionReads:  # type: ignore[override]  # elsewhere the class says it, here the candidates do
        """As the candidates do."""
        return self.candidates[0].reads

    def standing(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for one in self.candidates for item in one.standing()))

    def networks(self) -> tuple[OwnNetwork, ...]:
        return tuple(own for one in self.candidates for own in one.networks())

    def with_networks(self, given: Callable[[OwnNetwork], OwnNetwork]) -> Self:
        return replace(self, candidates=tuple(one.with_networks(given) for one in self.candidates))

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        plans = self._plans(public, adjacency, reading, noise)
        steps = [replace(step, name=_own(place, step.name)) for place, plan in enumerate(plans) for step in plan.steps]
        if "y" in adjacency.private:
            # Both readings must run the same acts, so the noise of the choice follows the sound claims.
            sound = self._plans(public, adjacency, Reading.SOUND, noise)
            steps.append(self._choice(adjacency, list(chain(*(plan.steps for plan in sound))), noise))
        return Plan(adjacency, reading, tuple(steps))

    def _plans(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> list[Plan]:
        for one in self.candidates:
            if adjacency.unit not in one.units:
                why = one.refuses.get(adjacency.unit, "choose among methods that do")
                raise Unsupported(f"the candidate {one.name()} does not protect {adjacency.unit.value!r}. {why}")
        return [one.plan(public, adjacency, reading, noise) for one in self.candidates]

    def _choice(self, adjacency: Adjacency, trained: Sequence[Step], noise: float) -> Step:
        """Marks of +-1/2 per candidate: a node's k marks are sqrt(k)/2 long, and an absent node has none."""
        moved = 2.0 if adjacency.relation is Relation.REPLACE else 1.0
        # A step without a finite claim gives no measure, and must not take the noise from a choice that has one.
        spent = sum(step.times * _order_two(step) for step in trained if not step.claim.infinite)
        std = moved / math.sqrt(_SHARE * spent) if spent else noise
        act = Gaussian(std=std, clip=math.sqrt(len(self.candidates)) / 2)
        return Step(_CHOICE, act, act.curve(moved), 1, why="docs/methods/best.md")

    def fit(self, session: Session) -> State:
        states = [one.fit(_Turn(session, place)) for place, one in enumerate(self.candidates)]
        public = session.public
        judges = np.flatnonzero(public.val if bool(public.val.any()) else public.train)
        if public.y is None:
            counted = session.release(_CHOICE, partial(_marks, methods=self.candidates, states=states, nodes=judges))
        else:
            x = public.features()[torch.from_numpy(judges)]
            counted = _Marks.of(self.candidates, states, judges, x, public.y).rows.sum(dim=0)
        winner = int(counted.argmax())
        return {_WINNER: torch.tensor(winner), **states[winner]}

    def chosen(self, state: State) -> tuple[Method, State]:
        return self.candidates[int(state[_WINNER])], {name: part for name, part in state.items() if name != _WINNER}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        winner, kept = self.chosen(state)
        return winner.logits(kept, x, visible_arcs)

    def scorer(self, state: State) -> nn.Module:
        winner, kept = self.chosen(state)
        return winner.scorer(kept)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        graph = LapGraph(hidden=4, epochs=2)
        floor = DpSgd(steps=2)
        return cls((graph, replace(graph, network="sage"))), cls((floor, replace(floor, steps=3, scale="rows")))


class _Turn(Session):
    """One candidate's part of a session: its steps under their own names, answered and counted by the whole."""

    def __init__(self, whole: Session, place: int) -> None:
        mark = _own(place, "")
        steps = [replace(step, name=step.name[len(mark) :]) for step in whole.plan.steps if step.name.startswith(mark)]
        self.public, self.plan = whole.public, Plan(whole.plan.adjacency, whole.plan.reading, tuple(steps))
        self.run, self._whole, self._place = whole.run, whole, place

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        asked = partial(_asked_by, query=query, owner=_own(self._place, ""))
        return self._whole.release(_own(self._place, name), asked, uses)

    def left(self, name: str) -> int:
        return self._whole.left(_own(self._place, name))


def _own(place: int, name: str) -> str:
    """What the whole plan calls a candidate's step."""
    return f"{place + 1}.{name}"


def _asked_by(sealed: Sealed, query: Query, owner: str, **given: Any) -> Any:
    """The candidate's query; what another candidate derived under other bounds is out of its sight."""
    sealed.derive_for(owner)
    return query(sealed, **given)


def _order_two(step: Step) -> float:
    """Renyi divergence of order 2 of one use, which is finite."""
    found = step.claim.rdp(np.array([2.0]))
    if found is None:
        raise Unsupported(
            f"the claim of step {step.name!r} has no Renyi divergence by which to set the noise of a choice; fix the "
            "hyper-parameters instead"
        )
    return float(found[0])


@dataclass(frozen=True, eq=False)
class _Marks:
    """rows [m, k]: +1/2 where candidate j labels node i rightly, -1/2 where it does not, 0 where there is no label."""

    rows: Tensor

    @classmethod
    def of(cls, methods: Sequence[Method], states: Sequence[State], nodes: Ids, x: Tensor, y: Tensor) -> Self:
        """nodes: who judges, int64 [m]; x: their features [m, d]; y: all labels, int64 [n]."""
        places = torch.from_numpy(nodes)
        truth = y[places]
        said = [_labels(one, state, places, x) for one, state in zip(methods, states, strict=True)]
        right = torch.stack([labels == truth for labels in said], dim=1).double() - 0.5
        return cls(right * (truth >= 0)[:, None])

    def clipped_sum(self, clip: float) -> Tensor:
        """Float64 [k]."""
        weights = clip / (lengths_of(self.rows) * _ROUNDING).clamp(min=clip)
        return (self.rows * weights[:, None]).sum(dim=0)


def _labels(method: Method, state: State, nodes: Tensor, x: Tensor) -> Tensor:
    """The predicted classes of some nodes, int64 [m], each from released state and maybe its own row of x [m, d]."""
    if method.reads is PredictionReads.RELEASED:
        return method.logits(state, Tensor(), Csr.empty(0))[nodes].argmax(dim=1)
    return method.logits(state, x, Csr.empty(len(x))).argmax(dim=1)


def _marks(sealed: Sealed, methods: Sequence[Method], states: Sequence[State], nodes: Ids) -> _Marks:
    """Query: the marks of the nodes that judge."""
    return _Marks.of(methods, states, nodes, sealed.rows(nodes), sealed.y)
