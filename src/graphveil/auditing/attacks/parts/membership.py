"""What attacks on nodes share: the attacked model, what it says of whom, and the classifier that shadow models train.

The setting is TSTF (Olatunji et al. 2021): a model trained on a subgraph is asked about the full graph, and the
attacker knows all nodes, labels and edges of the full graph, but not who was in the subgraph.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import ATTACKS, Inference, Target
from graphveil.data.arcs import Ids
from graphveil.data.graph import Graph, induced
from graphveil.data.splits import Split
from graphveil.errors import InvalidInput
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron
from graphveil.release.release import Release
from graphveil.run import infer
from graphveil.runtime.compute import Compute
from graphveil.vocabulary import UNLABELLED, Floats, Unit

_SMALLEST_CHANCE = 1e-30
"""Probabilities below this are raised to it before a logarithm is taken."""
_OTHER = 1 << 40
"""Added to a seed, so that predictions have other noise than the training that may have had the same seed."""


@dataclass(frozen=True, eq=False)
class AttackContext:
    """A trained model and what it says of every node of a graph that the attacker knows.

    posteriors: float32 [n, c]; present, absent: who is scored, int64 [k] and [l]: those the model learnt from and
    those it did not; spare: int64 [m], nodes that are not scored, for the attacker's own use.
    """

    target: Target
    release: Release
    graph: Graph
    posteriors: Tensor
    present: Ids
    absent: Ids
    spare: Ids
    seed: int

    @classmethod
    def of(cls, target: Target, seed: int) -> AttackContext:
        """TSTF: the model is trained on the subgraph of the training nodes, with their validation nodes if any.

        As many training nodes as nodes outside training and validation are scored; at least half of the latter are
        spare.
        """
        graph = target.graph
        labelled = (graph.y != UNLABELLED).numpy()
        inside, checked = graph.train.numpy(), graph.val.numpy()
        members = np.flatnonzero(labelled & inside)
        rng = np.random.default_rng((seed, 0x5CE7))
        outside = rng.permutation(np.flatnonzero(labelled & ~inside & ~checked))
        scored = min(len(members), len(outside) // 2)
        if scored < 2:
            raise InvalidInput(
                f"{graph.name!r} has {len(members)} training nodes and {len(outside)} labelled nodes outside training "
                "and validation; a membership attack needs at least 2 and 4"
            )
        present, absent, spare = rng.choice(members, scored, replace=False), outside[:scored], outside[scored:]
        release = target.on(part(graph, members, np.flatnonzero(checked)), target.seed).release()
        posteriors = answers(release, graph, seed)
        return cls(target, release, graph, posteriors, np.sort(present), np.sort(absent), spare, seed)

    @property
    def scored(self) -> Ids:
        """Those who were there and then those who were not, int64 [k + l]."""
        return np.concatenate([self.present, self.absent])

    def settled(self) -> Target:
        """The recipe with the very noise of the attacked model, for training sets of the same size."""
        spent = self.release.certificate
        return replace(self.target, epsilon=None, noise=spent.provenance.noise, delta=spent.delta)

    def scores(self, guesses: Floats) -> Scores:
        """Guesses about `scored`, float64 [k + l], with everybody's degree in the graph."""
        degrees = self.graph.adj.in_degrees()
        here, there = np.split(guesses, [len(self.present)])
        return Scores(here, there, degrees[self.present], degrees[self.absent])


@dataclass(frozen=True)
class NodeInference(Inference):
    """Whether a node was among those that a model learnt from."""

    units = frozenset({Unit.NODE, Unit.FEATURES, Unit.LABEL})

    def scene(self, target: Target, seed: int) -> AttackContext:
        """The attacked model and who is scored."""
        return AttackContext.of(target, seed)

    @abstractmethod
    def guesses(self, scene: AttackContext) -> Floats:
        """A score for everybody in `scene.scored`, float64 [k + l]; larger: was there."""

    def on(self, scene: AttackContext) -> Scores:
        """The scores of a scene that is there already, so that several attackers share a model."""
        return scene.scores(self.guesses(scene))

    def scores(self, target: Target, seed: int) -> Scores:
        return self.on(self.scene(target, seed))

    def floors(self) -> dict[str, Inference]:
        known = {"confidence threshold": "confidence", "features alone": "features_alone"}
        kinds: dict[str, Any] = ATTACKS.ours()
        return {said: kinds[name](self.name()) for said, name in known.items()}


@dataclass(frozen=True)
class Floor(NodeInference):
    """Judges whom another attack on nodes judges, named in `judges`, with less than that attack has."""

    judges: str = "gmia"

    def __post_init__(self) -> None:
        if self.judges not in _scenes():
            raise InvalidInput(f"unknown attack {self.judges!r}; use one of: {', '.join(sorted(_scenes()))}")

    def scene(self, target: Target, seed: int) -> AttackContext:
        return _scenes()[self.judges].scene(target, seed)

    def floors(self) -> dict[str, Inference]:
        return {}


def _scenes() -> dict[str, NodeInference]:
    """The attacks on nodes by name, but for floors."""
    kinds = ATTACKS.ours().items()
    return {name: kind() for name, kind in kinds if issubclass(kind, NodeInference) and not issubclass(kind, Floor)}


def part(graph: Graph, train: Ids, val: Ids) -> Graph:
    """The subgraph of some training and validation nodes, int64 [k] each, beside the same public graph.

    It is of the attacker's making, so every node of it is there.
    """
    made = induced(graph, Split(train, val, how=f"a part of {graph.split}"), graph.name)
    return replace(made.with_every_id_present(), public_graph=graph.public_graph)


def answers(release: Release, graph: Graph, seed: int) -> Tensor:
    """What a released model says of every node of a graph that the asker knows, float32 [n, c].

    Nobody is marked as a training node there, for a model that leaves training nodes out would tell who they are. A
    method that predicts from private edges releases predictions for the graph under the plan of its training.
    """
    if release.method.reads.stored:
        spent = release.certificate
        noise, other = spent.provenance.noise, seed + _OTHER
        quiet = Compute(quiet=True)
        return infer(release, graph, noise=noise, delta=spent.delta, seed=other, compute=quiet).predict_proba()
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    copy = replace(
        graph, train=none, val=none, test=none, name=f"{graph.name} as the asker knows it", public_graph=None
    )
    return release.predict_proba(copy)


def confidence(posteriors: Tensor, y: Tensor) -> Floats:
    """log p_y - log(1 - p_y), float64 [k]: of posteriors [k, c] and true classes int64 [k] (Carlini et al. 2022)."""
    chances = posteriors.double()
    own = chances.gather(1, y[:, None]).flatten()
    # The others are added up: 1 - p_y would lose all digits of a certain model.
    others = chances.scatter(1, y[:, None], 0.0).sum(dim=1)
    return (own.clamp(min=_SMALLEST_CHANCE).log() - others.clamp(min=_SMALLEST_CHANCE).log()).numpy()


def shadow_judge(inside: Tensor, outside: Tensor, posteriors: Tensor, seed: int, hidden: int = 16) -> Floats:
    """How much likelier posteriors [k, c] are a member's, float64 [k], as two dense layers learn from a shadow model.

    inside, outside: its posteriors of nodes it learnt from and did not learn from. All are sorted, largest first.
    """
    seen = torch.cat([_sorted_logs(inside), _sorted_logs(outside)])
    member = torch.cat([torch.ones(len(inside)), torch.zeros(len(outside))]).long()
    mean, deviation = seen.mean(dim=0), seen.std(dim=0).clamp(min=1e-6)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = Perceptron((seen.shape[1], hidden, 2))
        every = torch.ones(len(seen), dtype=torch.bool)
        fit_rows(net, (seen - mean) / deviation, member, every, ~every, Recipe())
        with torch.no_grad():
            logits: Tensor = net((_sorted_logs(posteriors) - mean) / deviation)
    guesses: Floats = (logits[:, 1] - logits[:, 0]).double().numpy()
    return guesses


def _sorted_logs(posteriors: Tensor) -> Tensor:
    return posteriors.sort(dim=1, descending=True).values.clamp(min=_SMALLEST_CHANCE).log()
