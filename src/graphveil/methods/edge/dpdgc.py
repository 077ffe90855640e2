"""DPDGC: decoupled graph convolution (Chien et al., NeurIPS 2023), edge level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from graphveil.checks import parse
from graphveil.data.sealing import Public, Sealed
from graphveil.methods.edge.parts.edge_method import NO_NODES, EdgeMethod, messages, sums_plan
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.features import one_scale, unit_rows
from graphveil.nn.mlp import Dropout
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading


class TowerInput(StrEnum):
    """Where the rows W [n, c] come from that stand for nodes."""

    LABELS = "labels"
    LEARNT = "learnt"


@dataclass(frozen=True)
class Dpdgc(EdgeMethod):
    """Z = A W + N(0, noise^2), unit rows of W stand for nodes; a head reads features and Z through layers of their own.

    R_i = unit_rows(onehot(y_i) - class shares) for training nodes, 0 for others: public. A^T R is one full-batch
    gradient step of the adjacency encoder softmax(A W + log shares) from W = 0. Features stay out of Z.
    """

    subtitle = "one noisy neighbour sum, decoupled from features"
    refuses = NO_NODES

    rows: Annotated[str, TowerInput] = "labels"
    """W. labels: R itself, one sum. learnt: unit rows of A^T R + N(0, noise^2), two sums."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parse(TowerInput, self.rows, "rows")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return sums_plan(adjacency, reading, noise, "sum", self._sums, why="docs/methods/dpdgc.md")

    @property
    def _sums(self) -> int:
        return 2 if self.rows == TowerInput.LEARNT else 1

    def released(self, session: Session, targets: Tensor) -> Tensor:  # noqa: ARG002
        """Z, or [A^T R | Z] where W is learnt, each on one common scale, [n, sums c]."""
        rows, seen = residuals(session.public), []
        if self.rows == TowerInput.LEARNT:
            gradient = session.release("sum", partial(replies, rows=rows))
            rows = unit_rows(gradient)
            seen.append(one_scale(gradient))
        seen.append(one_scale(session.release("sum", partial(messages, rows=rows))))
        return torch.cat(seen, dim=1)

    def width(self, features: int, classes: int) -> int:  # noqa: ARG002
        return self._sums * classes

    def _head(self, features: int, classes: int) -> nn.Module:
        return Decoupled(classes, self.width(features, classes), self.head, classes)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, head=4, epochs=2)
        return small, replace(small, rows="learnt")


class Decoupled(nn.Module):
    """head(relu(mix(relu(h_X | h_A)) + h_X + h_A)), h_X = T_X x, h_A = T_A z: LINKX (Lim et al. 2021)."""

    def __init__(self, own: int, neighbours: int, hidden: int, classes: int, dropout: float = 0.2) -> None:
        super().__init__()
        self.parts = [own, neighbours]
        self.towers = nn.ModuleList(nn.Linear(part, hidden) for part in self.parts)
        self.mix, self.head = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, classes)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [n, c] of inputs [n, own + neighbours]."""
        parts = zip(self.towers, x.split_with_sizes(self.parts, dim=1), strict=True)
        own, neighbours = (tower(part) for tower, part in parts)
        mixed = self.mix(self.dropout(torch.relu(torch.cat([own, neighbours], dim=1))))
        logits: Tensor = self.head(self.dropout(torch.relu(mixed + own + neighbours)))
        return logits


def residuals(public: Public) -> Tensor:
    """R [n, c]: unit rows of onehot(y) less the class shares for training nodes, 0 for all others."""
    targets = torch.zeros(public.num_nodes, public.num_classes)
    targets[public.train] = one_hot(public.labels()[public.train], public.num_classes).float()
    shares = targets[public.train].mean(dim=0)
    return unit_rows((targets - shares) * public.train[:, None])


def replies(sealed: Sealed, rows: Tensor) -> NeighbourSums:
    """Query: every node hears the public `rows` [n, c] of the nodes that hear it."""
    return NeighbourSums(sealed.adj.transpose(), rows)
