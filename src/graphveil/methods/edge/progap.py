"""ProGAP: progressive aggregation perturbation (Sajadmanesh & Gatica-Perez, WSDM 2024), edge level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn

from graphveil.checks import require_whole
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.methods.edge.parts.edge_method import NO_NODES, EncoderMethod, messages, sums_plan
from graphveil.nn.features import Scaling, unit_rows
from graphveil.nn.jumping import Embedder, Jumping, beliefs, embedded
from graphveil.nn.mlp import predicted, restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State


@dataclass(frozen=True)
class ProGap(EncoderMethod):
    """X_s = unit_rows(A H_{s-1} + N(0, noise^2)) for s = 1..stages; network s learns from [encoder | X_1 | ... | X_s].

    H_0 is what the encoder says of a node, H_s what network s says: unit_rows(P - 1/c) for its class posteriors
    P [n, c], or unit rows of hidden columns. A stage sums once and its sum is kept. Every network has jumping
    knowledge; the last one predicts.
    """

    subtitle = "noisy neighbour sums in stages"
    on_gpu = True

    refuses = NO_NODES

    stages: int = 2
    """Noisy sums, each followed by a network of its own; at least 1."""
    embedding: int = 0
    """Hidden columns of a network (its layer for X_s, as the authors have it) that speak next; 0 takes its class
    posteriors.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "stages", "embedding")
        if self.stages < 1 or self.embedding < 0:
            raise InvalidInput(
                f"progap needs stages of at least 1 and embedding of at least 0, got {self.stages} and {self.embedding}"
            )
        if self.embedding:
            self.require_default("head", unless="embedding=0, which leaves the width of hidden layers open")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return sums_plan(adjacency, reading, noise, "stage", self.stages, why="docs/methods/progap.md")

    def fit(self, session: Session) -> State:
        public = session.public
        encoder, scaling = self._pretrained(session)
        networks: dict[str, Tensor] = {}

        def trained(stage: int, inputs: Tensor) -> Jumping:
            network = self._network(stage, public.num_classes).to(inputs.device)
            self._fit_head(network, inputs, session)
            networks.update(with_prefix(f"stage {stage}.", network.state_dict()))
            return network

        logits = self._progress(session, encoder, scaling, trained)
        return {**with_prefix("encoder.", encoder.state_dict()), **networks, **scaling.state(), "logits": logits}

    def serve(self, session: Session, state: State) -> State:
        features, classes = session.public.num_features, session.public.num_classes
        encoder = restore(self._encoder(features, classes).to(session.public.train.device), state, "encoder.")

        def known(stage: int, inputs: Tensor) -> Jumping:
            network = self._network(stage, classes).to(inputs.device)
            restore(network, state, f"stage {stage}.")
            return network

        return {**state, "logits": self._progress(session, encoder, Scaling.restore(state, self.scale), known)}

    def _progress(
        self, session: Session, encoder: nn.Module, scaling: Scaling, network: Callable[[int, Tensor], Jumping]
    ) -> Tensor:
        """Logits [n, c] after the last stage; `network(s, inputs)` is the trained network of stage s."""
        inputs, rows = embedded(encoder, scaling(session.public.features()))
        logits = inputs
        for stage in range(1, self.stages + 1):
            aggregated = unit_rows(session.release("stage", partial(messages, rows=rows)))
            inputs = torch.cat([inputs, aggregated], dim=1)
            net = network(stage, inputs)
            logits = predicted(net, inputs)
            with torch.no_grad():
                rows = unit_rows(net.towered(inputs)[-1]) if self.embedding else beliefs(logits)
        return logits

    def _encoder(self, features: int, classes: int) -> nn.Module:
        if self.embedding:
            return Embedder(features, self.hidden, self.embedding, classes)
        return super()._encoder(features, classes)

    def _network(self, stage: int, classes: int) -> Jumping:
        """A hidden embedding is a layer of the network, so its layers have that width."""
        return Jumping([self.embedding or classes] * (stage + 1), self.embedding or self.head, classes)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2)
        return replace(small, head=4), replace(small, embedding=5)
