"""Census: every private node adds itself to the sum of its class, once, with noise; node level.

Our own method. One release of a small matrix instead of a thousand noisy labels: a node moves it by one length at
most, and what a linear student needs beside it, how public nodes are spread, is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor

from graphveil.checks import parse, require_positive, require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import PUBLIC_GRAPH_APART, Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.class_sums import ClassSums
from graphveil.methods.method import Method, PredictionReads
from graphveil.nn.features import Scale
from graphveil.nn.public_embedding import PublicEmbedding, learnt_view
from graphveil.nn.student import ridge_logits
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_COUNTS = 0.5
"""The entry of every row whose sum counts the nodes of a class, beside coordinates of length at most 1."""

_LENGTH = (1 + _COUNTS**2) ** 0.5
"""The length that rows are divided by."""


@dataclass(frozen=True)
class Census(Method):
    """S = sum over private u of r_u e_{y_u}^T + N(0, noise^2), and a linear discriminant of the class means in it.

    r_u = (alone(x_u), 1/2) / sqrt(5/4) in the `width` coordinates of a view of the public graph. m_k, the noisy sum of
    class k over its noisy count, and C, the covariance of public nodes seen alone, give
        logits_ik = w_k . (context_i - (m_k + mean)/2) + ln(count_k),   w_k = (C + shrink I)^-1 (m_k - mean),
    shrink = ridge + noise / n for n private ids that teach.
    """

    subtitle = "noisy class sums label a public graph"
    units = frozenset({Unit.NODE})
    reads = PredictionReads.PUBLIC_GRAPH
    needs_public = True

    width: int = 32
    """Coordinates of the view of the public graph, at least 1."""
    ridge: float = 0.01
    """What the covariance is shrunk by beside the noise, above 0."""
    scale: Annotated[str, Scale] = "rows"
    """How features are scaled: fitted to public features, and applied to private rows one at a time."""

    def __post_init__(self) -> None:
        require_whole(self, "width")
        require_positive(self.width, "width")
        require_positive(self.ridge, "ridge")
        parse(Scale, self.scale, "scale")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        # Nobody published a claim for it, so both readings are the sound one.
        act = Gaussian(noise)
        return Plan(
            adjacency,
            reading,
            (Step("sums", act, act.curve(1), 1, why="docs/methods/census.md", assumes=(PUBLIC_GRAPH_APART,)),),
        )

    def fit(self, session: Session) -> State:
        public = session.public
        public_graph, act = public.require_public_graph(), session.plan.act("sums", Gaussian)
        view = learnt_view(public, self.width, self.scale)
        released = session.release("sums", partial(class_sums, view=view, train=public.train)).double()
        sums, teaching = released.reshape(-1, public.num_classes) * _LENGTH, max(int(public.train.sum()), 1)
        # A class is not believed to be smaller than a twentieth of an even share.
        counts = (sums[-1] / _COUNTS).clamp(min=teaching / (20 * public.num_classes))
        known = view.alone(public_graph.x).double()
        mean, apart = known.mean(dim=0), (sums[:-1] / counts).T
        shrink = (self.ridge + act.std / teaching) * torch.eye(view.width, dtype=torch.float64)
        weights = torch.linalg.solve(torch.cov(known.T, correction=0).reshape(shrink.shape) + shrink, (apart - mean).T)
        offsets = (counts / counts.sum()).log() - ((apart + mean) * weights.T).sum(dim=1) / 2
        return {**view.state(), "student.weights": torch.cat([weights, offsets[None]]).float()}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        return ridge_logits(
            state["student.weights"], PublicEmbedding.restore(state, self.scale).context(x, visible_arcs)
        )

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(width=3),)


def class_sums(sealed: Sealed, view: PublicEmbedding, train: Tensor) -> ClassSums:
    """Query: the nodes that teach, seen alone. Absent ids have rows too: none changes how another is rounded."""
    return ClassSums(rows_of(view.alone(sealed.x[train])), sealed.y[train], sealed.public.num_classes)


def rows_of(alone: Tensor) -> Tensor:
    """r = (alone, 1/2) / sqrt(5/4), no longer than 1, [k, p + 1]."""
    counts = torch.full((len(alone), 1), _COUNTS)
    rows: Tensor = torch.cat([alone, counts], dim=1) / _LENGTH
    return rows
