"""PATE (Papernot et al., ICLR 2017 and 2018) on graphs, as PrivGNN's authors adapt it: PATEM and PATEG, node level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Self

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.sealing import PUBLIC_GRAPH_APART, Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.noisy_votes import MAX_VOTERS, NoisyVotes, PureMoments
from graphveil.mechanisms.renyi import MomentsCurve
from graphveil.methods.public_graph.parts.teacher_student import TeacherStudent, drawn
from graphveil.nn.features import Scaling
from graphveil.nn.inductive import inductive
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Curve, Plan, Reading, State, Step

_WHY = "docs/methods/pate.md"
_TEACHERS = ("mlp", "gnn")
_AGGREGATES = ("lnmax", "gnmax")
_ORDERS = 9
"""The authors' accountant takes eight moments, which are the Renyi orders 2 to 9."""


@dataclass(frozen=True)
class Pate(TeacherStudent):
    """Private ids are dealt out to teachers; for every query each names a class, and noise joins the counts.

    The paper's own: aggregate=lnmax, student=sage.
    """

    subtitle = "noisy votes of teachers on disjoint private nodes"

    voters: int = 20
    """Teachers that private ids are dealt out to, at least 1."""
    teacher: Annotated[str, _TEACHERS] = "mlp"
    """What a teacher reads. mlp: features alone (PATEM); gnn: also the arcs among its own nodes (PATEG)."""
    aggregate: Annotated[str, _AGGREGATES] = "gnmax"
    """Noise on every count. lnmax: Laplace of scale `noise`; gnmax: normal of deviation `noise`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "voters")
        if not 1 <= self.voters <= MAX_VOTERS:
            raise InvalidInput(f"pate needs 1 to {MAX_VOTERS:,} voters, got {self.voters}")
        if self.teacher not in _TEACHERS or self.aggregate not in _AGGREGATES:
            raise InvalidInput("pate: teacher is mlp or gnn, and aggregate is lnmax or gnmax")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        act = NoisyVotes(noise, public.num_classes, gaussian=self.aggregate == "gnmax")
        claim: Curve = act.curve(1)
        if reading is Reading.PUBLISHED and self.aggregate == "lnmax" and not claim.infinite:
            claim = MomentsCurve(PureMoments(2 / noise), _ORDERS)
        return Plan(
            adjacency,
            reading,
            (Step("label", act, claim, self.most_queries(public), why=_WHY, assumes=(PUBLIC_GRAPH_APART,)),),
        )

    def fit(self, session: Session) -> State:
        public = session.public
        public_graph, times = public.require_public_graph(), session.plan.step("label").times
        asked = drawn(public_graph, times)
        scaled = Scaling.fit(public_graph.x, self.scale)(public_graph.x)
        # Dealt out by public chance, present or not: where a node goes does not depend on any other.
        ids = public.train.nonzero().flatten().numpy()
        sets = np.array_split(ids[torch.randperm(len(ids)).numpy()], self.voters)
        seed = torch.initial_seed()

        def votes(sealed: Sealed) -> Tensor:
            known = self.known(sealed, public_graph)
            rows = torch.from_numpy(asked)
            said = [
                inductive(
                    known, np.sort(own), scaled, public_graph.adj, self.recipe(), self.teacher == "gnn", seed + place
                )
                for place, own in enumerate(sets)
            ]
            return torch.stack([posteriors[rows].argmax(dim=1) for posteriors in said], dim=1)

        return self.learn(public, asked, session.release("label", votes, times), 1.0, session.run.progress)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(queries=5, voters=3, hidden=4, epochs=2)
        return replace(small, width=3), replace(small, teacher="gnn", aggregate="lnmax", student="sage")
