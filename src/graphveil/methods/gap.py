"""GAP: aggregation perturbation (Sajadmanesh et al., USENIX Security 2023), edge level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Plan,
    Reading,
    Step,
    require_whole,
)
from graphveil.graph import Public
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.nn.edge_method import EdgeMethod, messages
from graphveil.nn.features import unit_rows
from graphveil.session import Session

_ONE_ROW = (
    "one undirected edge moves TWO rows of the sum, by one clip each: the sensitivity is sqrt(2), not 1; "
    "claimed 1/2/4/8 is truly 1.465/2.954/5.992/12.26 at delta 1e-5"
)


@dataclass(frozen=True)
class Gap(EdgeMethod):
    """X_k = unit_rows(A X_{k-1} + N(0, noise^2)) for k = 1..hops; a head reads [encoder | X_1 | ... | X_hops].

    X_0 = unit_rows(P - 1/c) for the class posteriors P [n, c] of an encoder trained on public features and
    labels. Few coordinates, because noise energy grows with each. Only the sums read edges.
    """

    hops: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "hops")
        if self.hops < 1:
            raise InvalidInput(f"gap needs hops of at least 1, got {self.hops}")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(std=noise, clip=1.0)
        undirected = adjacency.undirected
        moved = math.sqrt(2) if undirected and reading is Reading.SOUND else 1.0
        refuted = _ONE_ROW if undirected and reading is Reading.PUBLISHED else ""
        step = Step("hop", act, act.curve(moved), self.hops, why="docs/methods/gap.md", refuted=refuted)
        return Plan(adjacency, reading, (step,))

    def released(self, session: Session, posteriors: Tensor) -> Tensor:
        rows, seen = unit_rows(posteriors - 1 / posteriors.shape[1]), []
        for _ in range(self.hops):
            rows = unit_rows(session.release("hop", partial(messages, rows=rows)))
            seen.append(rows)
        return torch.cat(seen, dim=1)

    def width(self, features: int, classes: int) -> int:  # noqa: ARG002
        return self.hops * classes

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(hidden=4, head=4, epochs=2), cls(hops=3, hidden=4, head=4, epochs=2)
