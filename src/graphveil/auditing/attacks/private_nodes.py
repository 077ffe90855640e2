"""Attack 1 of PrivGNN (Olatunji, Funke & Khosla 2023, appendix C.1): which nodes are private ones, which are public."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.attacks.parts.membership import AttackContext, NodeInference, answers, shadow_judge
from graphveil.auditing.game import Target
from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph, induced
from graphveil.data.splits import Split
from graphveil.errors import InvalidInput
from graphveil.methods.public_graph.parts.teacher_student import TeacherStudent
from graphveil.vocabulary import UNLABELLED, Adjacency, Floats, Unit


@dataclass(frozen=True)
class PrivateNodes(NodeInference):
    """The attacker knows the released model's architecture, not how it was taught, and holds both graphs unmarked.

    Half of the public nodes are spare: on their true labels she trains a shadow of the same architecture, whose
    posteriors train a classifier. Everybody is asked about in one graph that holds both, without an edge between them.
    """

    units = frozenset({Unit.NODE})

    def scene(self, target: Target, seed: int) -> AttackContext:
        both = side_by_side(target.graph, public_beside(target.graph))
        members = np.flatnonzero(both.labelled("train").numpy())
        strangers = np.flatnonzero((both.y != UNLABELLED).numpy())
        rng = np.random.default_rng((seed, 0xA1))
        strangers = rng.permutation(strangers[strangers >= target.graph.num_nodes])
        scored = min(len(members), len(strangers) // 2)
        if scored < 2:
            raise InvalidInput("private_nodes needs at least 2 private training nodes and 4 labelled public nodes")
        present = np.sort(rng.choice(members, scored, replace=False))
        release = target.release()
        posteriors = answers(release, both, seed)
        return AttackContext(
            target, release, both, posteriors, present, np.sort(strangers[:scored]), strangers[scored:], seed
        )

    def guesses(self, scene: AttackContext) -> Floats:
        size = min(int(scene.graph.train.sum()), len(scene.spare) // 2)
        inside, outside = scene.spare[:size], scene.spare[size : 2 * size]
        own = induced(scene.graph, Split(inside, test=outside, how="spare nodes"), f"{scene.graph.name}, spare")
        posteriors = _shadow(scene, inside, outside, own)
        return shadow_judge(
            posteriors[own.train], posteriors[own.test], scene.posteriors[torch.from_numpy(scene.scored)], scene.seed
        )


def _shadow(scene: AttackContext, inside: Ids, outside: Ids, own: Graph) -> Tensor:
    """Posteriors of the nodes of `own`, [m, c], by a model of the attacked one's architecture that learnt `inside`."""
    target, seed = scene.target, scene.seed + 1
    first = induced(scene.graph, Split(inside, how="spare nodes"), f"{own.name}, first half")
    if isinstance(target.method, TeacherStudent):
        # Not how it was taught, so on true labels; the graph it learns from is all members.
        return taught(target.method, replace(first, public_graph=first), np.arange(first.num_nodes), first.y, own, seed)
    if target.method.needs_public:
        second = induced(scene.graph, Split(outside, how="spare nodes"), f"{own.name}, second half")
        first = first.with_public(second)
    return answers(target.on(first, seed).release(), own, seed)


def taught(method: TeacherStudent, pair: Graph, asked: Ids, labels: Tensor, graph: Graph, seed: int) -> Tensor:
    """What the method's student says of a graph, [m, c], having learnt some labels of the graph beside `pair`.

    asked: int64 [k], nodes of that graph; labels: int64 [k].
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        state = method.learn(pair.seal(Adjacency.of(Unit.NODE, pair.undirected))[0], asked, labels, 1.0)
        return method.logits(state, graph.x, graph.adj).softmax(dim=1)


def public_beside(graph: Graph) -> Graph:
    """The public graph beside a private one, or a clear error."""
    if graph.public_graph is None:
        raise InvalidInput(f"there is no public graph beside {graph.name!r}; give it with graph.with_public(public)")
    return graph.public_graph


def side_by_side(first: Graph, second: Graph) -> Graph:
    """Both graphs as one, without an edge between them: the nodes of the first come first, and only they train."""
    indptr = np.concatenate([first.adj.indptr, first.adj.num_arcs + second.adj.indptr[1:]])
    adj = Csr(indptr, np.concatenate([first.adj.indices, first.num_nodes + second.adj.indices]))
    none = torch.zeros(first.num_nodes + second.num_nodes, dtype=torch.bool)
    train = none.clone()
    train[: first.num_nodes] = first.train
    return Graph(
        x=torch.cat([first.x, second.x]),
        adj=adj,
        y=torch.cat([first.y, second.y]),
        num_classes=first.num_classes,
        undirected=first.undirected,
        train=train,
        val=none,
        test=none,
        name=f"{first.name} and {second.name}",
        split=first.split,
        every_id_present=True,
    )
