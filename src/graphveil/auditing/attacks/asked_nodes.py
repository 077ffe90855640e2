"""Attack 2 of PrivGNN (Olatunji, Funke & Khosla 2023, appendix C.2): which public nodes were labelled by teachers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from graphveil.auditing.attacks.parts.membership import AttackContext, NodeInference, shadow_judge
from graphveil.auditing.attacks.private_nodes import public_beside, taught
from graphveil.auditing.game import Target
from graphveil.data.arcs import Ids
from graphveil.data.graph import induced
from graphveil.data.splits import Split
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.public_graph.parts.teacher_student import TeacherStudent, drawn
from graphveil.nn.features import Scaling
from graphveil.nn.inductive import inductive
from graphveil.nn.teachers import Known
from graphveil.release.release import Release
from graphveil.vocabulary import UNLABELLED, Adjacency, Floats, Unit


@dataclass(frozen=True)
class AskedNodes(NodeInference):
    """The attacker knows that the released model is a student, and wants the public nodes whose labels it was taught.

    Half of the public nodes are spare. A third of them trains a shadow teacher on true labels; it labels some of the
    rest, as large a share as was asked about in truth, for a shadow student of the same make. The student's posteriors
    train a classifier. Who was asked is drawn by public chance, so this attack is about public nodes; private ones
    would be found through them.
    """

    units = frozenset({Unit.NODE})

    def scene(self, target: Target, seed: int) -> AttackContext:
        if not isinstance(target.method, TeacherStudent):
            raise Unsupported(f"{target.method.name()} asks about no public nodes; use the attack private_nodes")
        public = public_beside(target.graph)
        release = target.release()
        asked = np.zeros(public.num_nodes, dtype=bool)
        asked[who_was_asked(target, release)] = True
        nodes = np.random.default_rng((seed, 0xA2)).permutation(np.flatnonzero((public.y != UNLABELLED).numpy()))
        scored, spare = np.sort(nodes[: len(nodes) // 2]), nodes[len(nodes) // 2 :]
        present, absent = scored[asked[scored]], scored[~asked[scored]]
        if min(len(present), len(absent)) < 2 or len(spare) < 12:
            raise InvalidInput("asked_nodes needs more public nodes, some that were asked about and some that were not")
        posteriors = release.predict_proba(target.graph)
        return AttackContext(target, release, public, posteriors, present, absent, spare, seed)

    def guesses(self, scene: AttackContext) -> Floats:
        method, graph, seed = scene.target.method, scene.graph, scene.seed + 1
        assert isinstance(method, TeacherStudent)
        third = len(scene.spare) // 3
        teaching = induced(graph, Split(scene.spare[:third], how="spare nodes"), f"{graph.name}, teaching")
        taught_graph = induced(graph, Split(scene.spare[third:], how="spare nodes"), f"{graph.name}, taught")
        share = scene.release.certificate.plan.step("label").times / graph.num_nodes
        count = min(max(round(share * taught_graph.num_nodes), 2), taught_graph.num_nodes - 2)
        asked = np.random.default_rng((scene.seed, 0xA3)).permutation(taught_graph.num_nodes)[:count]
        scaling = Scaling.fit(taught_graph.x, method.scale)
        known = Known(scaling(teaching.x), teaching.y, teaching.adj, graph.num_classes)
        rows, ids = scaling(taught_graph.x), np.arange(teaching.num_nodes)
        posteriors = inductive(known, ids, rows, taught_graph.adj, method.recipe(), True, seed)
        labels = posteriors.argmax(dim=1)[torch.from_numpy(asked)]
        posteriors = taught(method, teaching.with_public(taught_graph), asked, labels, taught_graph, seed)
        inside = torch.zeros(taught_graph.num_nodes, dtype=torch.bool)
        inside[torch.from_numpy(asked)] = True
        return shadow_judge(
            posteriors[inside], posteriors[~inside], scene.posteriors[torch.from_numpy(scene.scored)], scene.seed
        )


def who_was_asked(target: Target, release: Release) -> Ids:
    """The public nodes that teachers labelled, int64 [q]: the first thing that is drawn from the target's seed."""
    public = target.graph.seal(Adjacency.of(target.unit, target.graph.undirected))[0]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(target.seed)
        return drawn(public.require_public_graph(), release.certificate.plan.step("label").times)
