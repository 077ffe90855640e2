"""GAP: aggregation perturbation (Sajadmanesh et al., USENIX Security 2023), edge level."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from graphveil.checks import require_whole
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.methods.edge.parts.edge_method import NO_NODES, EdgeMethod, heard_rows, sums_plan
from graphveil.nn.features import Scaling, unit_rows
from graphveil.nn.jumping import Embedder, Jumping, embedded
from graphveil.nn.mlp import Perceptron
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading


@dataclass(frozen=True)
class Gap(EdgeMethod):
    """X_k = unit_rows(A X_{k-1} + N(0, noise^2)) for k = 1..hops; a head reads [encoder | X_1 | ... | X_hops].

    X_0 = unit_rows(P - 1/c) for the class posteriors P [n, c] of an encoder trained on public features and labels, or
    unit rows of its hidden embedding; without an encoder, of the features [n, d]. The authors' architecture is
    Gap(hops=2, embedding=16, jumping=True). Only the sums read edges.
    """

    subtitle = "noisy sums of neighbours' features, then a perceptron"
    on_gpu = True

    refuses = NO_NODES
    least_hidden = 0

    hops: int = 1
    """Noisy sums, one after the other, at least 1."""
    embedding: int = 0
    """Columns of the encoder's hidden embedding, which X_0 is made of; 0 takes its class posteriors."""
    jumping: bool = False
    """Whether each X_k gets a layer of its own before the head."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "hops", "embedding")
        if self.hops < 1 or self.embedding < 0:
            raise InvalidInput(
                f"gap needs hops of at least 1 and embedding of at least 0, got {self.hops} and {self.embedding}"
            )
        if self.embedding and not self.hidden:
            raise InvalidInput("hidden=0 leaves the encoder out, so there is no embedding; set embedding=0 or hidden")
        if not self.hidden:
            self.require_default("epochs", unless="an encoder, hidden of at least 1")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return sums_plan(adjacency, reading, noise, "hop", self.hops, why="docs/methods/gap.md")

    def counts_in_parts(self) -> bool:
        return True

    def released(self, session: Session, beliefs: Tensor) -> Tensor:
        """[X_1 | ... | X_hops] for X_0 = `beliefs` [n, k]."""
        rows, seen = beliefs, []
        for _ in range(self.hops):
            rows = unit_rows(session.release("hop", partial(heard_rows, rows=rows)))
            seen.append(rows)
        return torch.cat(seen, dim=1)

    def width(self, features: int, classes: int) -> int:
        return self.hops * self._columns(features, classes)

    def _columns(self, features: int, classes: int) -> int:
        """The number of columns of X_0."""
        return self.embedding or (classes if self.hidden else features)

    def _told(self, encoder: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        if self.hidden:
            return embedded(encoder, x)
        rows = unit_rows(x)
        return rows, rows

    def _pretrained(self, session: Session) -> tuple[nn.Module, Scaling]:
        if self.hidden:
            return super()._pretrained(session)
        return nn.Identity(), Scaling.fit(session.public.features(), self.scale, session.run.block)

    def _encoder(self, features: int, classes: int) -> nn.Module:
        if not self.hidden:
            return nn.Identity()
        if self.embedding:
            return Embedder(features, self.hidden, self.embedding, classes)
        return super()._encoder(features, classes)

    def _head(self, features: int, classes: int) -> nn.Module:
        parts = [self._columns(features, classes)] * (self.hops + 1)
        if self.jumping:
            return Jumping(parts, self.head, classes)
        return Perceptron((sum(parts), self.head, classes), dropout=0.2)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, head=4, epochs=2)
        authors = replace(small, hops=2, embedding=5, jumping=True)
        return small, replace(small, hops=3), authors, cls(hidden=0, head=4, hops=2)
