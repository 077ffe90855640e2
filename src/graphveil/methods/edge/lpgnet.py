"""LPGNet: link private graph networks (Kolluri, Baluta, Hooi & Saxena, CCS 2022), edge level."""

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
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge.parts.counts import cluster_degrees, log_counts
from graphveil.methods.edge.parts.edge_method import NO_NODES, EncoderMethod
from graphveil.nn.features import Scaling, standard
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step


@dataclass(frozen=True)
class LpgNet(EncoderMethod):
    """D_l = cluster degrees + noise for l = 1..levels; network l learns from [log P_0 | D_1 | log P_1 | ... | D_l].

    P_0 [n, c] are the class posteriors of an encoder on public features, P_l those of network l. A node's cluster at
    level l is its likeliest class under P_{l-1}; D_l [n, c] counts every node's neighbours in each cluster, with
    two-sided geometric noise of scale `noise`. The last network predicts. Only the counts read edges.
    """

    subtitle = "noisy counts of neighbours' clusters, in stacked levels"
    on_gpu = True

    refuses = NO_NODES

    levels: int = 1
    """Networks, one after the other, each with noisy counts of its own; at least 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "levels")
        if self.levels < 1:
            raise InvalidInput(f"lpgnet needs levels of at least 1, got {self.levels}")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        # An undirected edge is counted at both of its ends. The authors charge that too: both readings agree.
        act = Tally(noise, marks=2 if adjacency.undirected else 1)
        return Plan(adjacency, reading, (Step("counts", act, act.curve(1), self.levels, why="docs/methods/lpgnet.md"),))

    def counts_in_parts(self) -> bool:
        return True

    def fit(self, session: Session) -> State:
        public = session.public
        encoder, scaling = self._pretrained(session)
        networks: dict[str, Tensor] = {}

        def trained(level: int, inputs: Tensor) -> nn.Module:
            network = self._network(level, public.num_classes).to(inputs.device)
            self._fit_head(network, inputs, session)
            networks.update(with_prefix(f"level {level}.", network.state_dict()))
            return network

        logits = self._stacked(session, encoder, scaling, trained)
        return {**with_prefix("encoder.", encoder.state_dict()), **networks, **scaling.state(), "logits": logits}

    def serve(self, session: Session, state: State) -> State:
        features, classes = session.public.num_features, session.public.num_classes
        encoder = restore(self._encoder(features, classes).to(session.public.train.device), state, "encoder.")

        def known(level: int, inputs: Tensor) -> nn.Module:
            return restore(self._network(level, classes).to(inputs.device), state, f"level {level}.")

        return {**state, "logits": self._stacked(session, encoder, Scaling.restore(state, self.scale), known)}

    def _stacked(
        self, session: Session, encoder: nn.Module, scaling: Scaling, network: Callable[[int, Tensor], nn.Module]
    ) -> Tensor:
        """Log posteriors [n, c] after the last level; `network(l, inputs)` is the trained network of level l."""
        scores = predicted(encoder, scaling(session.public.features())).log_softmax(dim=1)
        act = session.plan.act("counts", Tally)
        seen: list[Tensor] = []
        for level in range(1, self.levels + 1):
            query = partial(cluster_degrees, clusters=scores.argmax(dim=1), count=scores.shape[1])
            counts = session.release("counts", query).reshape(scores.shape)
            seen += [standard(scores), log_counts(counts, act.scale)]
            inputs = torch.cat(seen, dim=1)
            scores = predicted(network(level, inputs), inputs).log_softmax(dim=1)
        return scores

    def _network(self, level: int, classes: int) -> Perceptron:
        """Silencing input columns at times did better on validation where labels are few."""
        return Perceptron((2 * level * classes, self.head, classes), dropout=0.2, input_dropout=0.3)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, head=4, epochs=2)
        return small, replace(small, levels=2)
