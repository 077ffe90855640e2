"""The class that most training nodes have, for everybody: a yardstick that reads labels openly, not a release."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.mechanisms.unprotected import exposing_plan
from graphveil.methods.baseline.parts.exposed_gnn import expose
from graphveil.methods.method import Method, PredictionReads
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit


class Constant(nn.Module):
    """The same scores for every row, x [n, d] -> [n, c]."""

    def __init__(self, scores: Tensor) -> None:
        super().__init__()
        self.scores = nn.Buffer(scores)

    def forward(self, x: Tensor) -> Tensor:
        """The row of x says nothing: 0 x_1 + scores."""
        return 0 * x[:, :1] + self.scores


@dataclass(frozen=True)
class Majority(Method):
    """log of the classes' shares among training nodes. Under EDGE the plan is empty; elsewhere it exposes labels."""

    subtitle = "the most frequent training class for every node"
    units = frozenset(Unit)
    reads = PredictionReads.OWN_FEATURES

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, frozenset({"y"}))

    def fit(self, session: Session) -> State:
        y, public = expose(session, "y"), session.public
        counts = torch.bincount(y[public.train & (y >= 0)], minlength=public.num_classes)
        # One more of each, so that a class nobody has keeps a chance.
        return {"scores": ((counts + 1.0) / (counts + 1.0).sum()).log().float()}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        scores: Tensor = self.scorer(state)(x)
        return scores

    def scorer(self, state: State) -> Constant:
        return Constant(state["scores"])
