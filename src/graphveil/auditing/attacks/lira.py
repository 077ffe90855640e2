"""LiRA (Carlini et al. 2022): for every node, how likely the model's confidence is if it was in, and if it was out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch

from graphveil.auditing.attacks.parts.membership import AttackContext, NodeInference, answers, confidence, part
from graphveil.auditing.game import Target
from graphveil.checks import require_whole
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import each
from graphveil.vocabulary import Floats


@dataclass(frozen=True)
class Lira(NodeInference):
    """log N(s; mean_in, var_in) - log N(s; mean_out, var_out), s: the confidence in the node's true class.

    The online attack with `shadows` models: each learns from a random half of the scored nodes and the next one from
    the other half, together with the training nodes that are not scored. So training sets are as large as the attacked
    one's, and every scored node is in half of them. Means are a node's own; variances are shared by all nodes, as the
    paper advises for few models (section VI-A).
    """

    shadows: int = 16

    def __post_init__(self) -> None:
        require_whole(self, "shadows")
        if self.shadows < 2 or self.shadows % 2:
            raise InvalidInput(f"lira needs an even number of shadows, at least 2, got {self.shadows}")

    def guesses(self, scene: AttackContext) -> Floats:
        drawn = self._halves(scene)
        known = np.setdiff1d(np.flatnonzero(scene.graph.labelled("train").numpy()), scene.present)
        items = [
            (np.sort(np.concatenate([known, scene.scored[half]])), scene.seed + 1 + place)
            for place, half in enumerate(drawn)
        ]
        target = scene.settled()
        with target.compute.opened() as run:
            shared = replace(target, compute=Compute(quiet=True)), scene.scored
            said = np.stack(each(run.engine, _shadow, shared, items, "shadow models", run.progress))
        rows = torch.from_numpy(scene.scored)
        return likelihood_ratio(confidence(scene.posteriors[rows], scene.graph.y[rows]), said, drawn)

    def _halves(self, scene: AttackContext) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        """Whom each shadow learns from, bool [shadows, k + l]: complementary pairs."""
        rng = np.random.default_rng((scene.seed, 0x117A))
        count, size = len(scene.scored), len(scene.present)
        drawn = np.zeros((self.shadows, count), dtype=bool)
        for first in range(0, self.shadows, 2):
            drawn[first, rng.permutation(count)[:size]] = True
            drawn[first + 1] = ~drawn[first]
        return drawn


def likelihood_ratio(seen: Floats, said: Floats, inside: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> Floats:
    """The score, float64 [k], of confidences seen [k], with those of shadows said [m, k] and who was in them [m, k]."""
    log_ratio = np.zeros(len(seen))
    for sign, chosen in ((1.0, inside), (-1.0, ~inside)):
        mean = (said * chosen).sum(axis=0) / chosen.sum(axis=0)
        # One degree of freedom goes into every node's mean.
        spread = ((said - mean) ** 2 * chosen).sum() / max(chosen.sum() - len(seen), 1)
        variance = max(float(spread), 1e-12)
        log_ratio -= sign * ((seen - mean) ** 2 / variance + np.log(variance)) / 2
    return log_ratio


def _shadow(shared: tuple[Target, Ids], item: tuple[Ids, int]) -> Floats:
    """Confidences of the scored nodes, float64 [k], by a model trained on the given ones."""
    (target, scored), (train, seed) = shared, item
    graph, rows = target.graph, torch.from_numpy(scored)
    model = target.on(part(graph, train, np.flatnonzero(graph.val.numpy())), seed).release()
    return confidence(answers(model, graph, seed)[rows], graph.y[rows])
