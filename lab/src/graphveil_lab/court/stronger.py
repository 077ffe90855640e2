"""Settings and pairs of graphs on which a method's worst case is nearly attained: a specimen alone may be far from it.

A claim that is far from attained cannot be told from one of half the noise. What attains it, in short: gradients that
are all clipped, weights that stay what they are, a node that turns every gradient it is read by, teachers that learnt
enough to change their vote. Any subclass of the types below is heard so, without being listed.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import torch
from torch import Tensor

from graphveil.auditing.game import Pair
from graphveil.auditing.stream_game import small_graph
from graphveil.data.graph import Graph
from graphveil.methods.edge.caribou import Caribou
from graphveil.methods.method import Method
from graphveil.methods.node.heterpoisson import HeterPoisson
from graphveil.methods.node.ndp import Ndp
from graphveil.methods.node.paircounts import PairCounts
from graphveil.methods.node.parts.subgraph_method import SubgraphMethod
from graphveil.methods.public_graph.parts.teacher_student import TeacherStudent
from graphveil.methods.public_graph.pate import Pate
from graphveil.methods.public_graph.privgnn import PrivGnn
from graphveil.nn.own_network import OwnNetwork
from graphveil.nn.subgraph_model import start
from graphveil.vocabulary import Unit

_STILL = 1e-6
"""A learning rate with which weights stay what the attacker knows them to be."""
_CLIP = 1e-3
"""Every gradient is longer."""
_FAR, _NEAR = 1e4, 1e2
"""Lengths of a node that outweighs its neighbours, and of a neighbour that outweighs the constants of a network."""
_SHORT = 1e-2
"""Of what a network sees of a node: it is then not sure of a label, and gradients are long."""
_LINE = torch.tensor([0.3, 0.1, -0.1, -0.3])
"""Features of a class; those of the other are its opposite. So short that no network is sure of a label."""


@singledispatch
def stronger(method: Method) -> Method:
    """The method with settings that come nearer to its worst case."""
    return method


@stronger.register
def _(method: SubgraphMethod) -> Method:
    still = replace(method, clip=_CLIP, scale="none", learning_rate=_STILL)
    if isinstance(still, Ndp):
        return replace(still, cap=2)  # all of a triangle
    return replace(still, multiplier=2.0) if isinstance(still, HeterPoisson) else still


@stronger.register
def _(method: TeacherStudent) -> Method:
    if not method.network_teachers:
        return method
    learnt = replace(method, epochs=20, learning_rate=0.2, dropout=0.0)
    if isinstance(learnt, Pate):
        return replace(learnt, voters=1, queries=6)
    if isinstance(learnt, PrivGnn):
        return replace(learnt, rate=1.0) if learnt.single else replace(learnt, neighbours=1, rate=0.6)
    return learnt


@stronger.register
def _(method: Caribou) -> Method:
    if method.hops > 1:
        return replace(method, lipschitz=0.25, beta=0.75)  # later hops shrink what the first has moved, and cost less
    return replace(method, epochs=20) if method.start == "posteriors" else method


@stronger.register
def _(method: PairCounts) -> Method:
    return replace(method, learning_rate=_STILL)


@singledispatch
def strong_pairs(method: Method, unit: Unit) -> tuple[Pair, ...]:  # noqa: ARG001
    """Pairs that take the place of the first ones of a unit."""
    return ()


@strong_pairs.register
def _(method: SubgraphMethod, unit: Unit) -> tuple[Pair, ...]:
    graph = _triangle(method)
    if unit is Unit.NODE:
        return (replace(Pair.without_node(graph, 0), what="a node between two others"),)
    if unit is Unit.FEATURES:
        return replace(Pair.with_other(graph, 0, -graph.x[0], 0), what="what a node is"), _label_among_alike()
    return ()


@strong_pairs.register
def _(method: TeacherStudent, unit: Unit) -> tuple[Pair, ...]:  # noqa: ARG001
    if unit is not Unit.NODE:
        return ()
    return (replace(Pair.without_node(_alone(), 0), what="the only node of its class"),)


@strong_pairs.register
def _(method: Caribou, unit: Unit) -> tuple[Pair, ...]:
    """Two classes: a belief is then one of two opposite rows, however firm it is."""
    if unit is not Unit.EDGE or method.start != "posteriors":
        return ()
    y = torch.arange(12) % 2
    graph = small_graph([(0, 1), *((node, node + 1) for node in range(2, 11))], _sides(y == 0), y)
    return (replace(Pair.without_edge(graph, 0, 1), what="the only edge of two nodes"),)


def _triangle(method: SubgraphMethod) -> Graph:
    """Three nodes of one class, of which the first turns the gradients of all: it is far, and no first weight sees it.

    So it moves no activation, only the gradient of these weights, which the neighbours pull the other way.
    """
    weights = _first_weights(method)
    seen, unseen = _SHORT * weights.sum(dim=1), torch.linalg.svd(weights.T)[2][-1]
    x = torch.stack([_FAR * unseen, seen - _NEAR * unseen, seen - _NEAR * unseen]).float()
    return replace(small_graph([(0, 1), (1, 2), (0, 2)], x, torch.zeros(3, dtype=torch.long)), num_classes=2)


def _first_weights(method: SubgraphMethod) -> Tensor:
    """With which a game starts, float64 [d, h], more features than units: it seeds public chance with 0."""
    if isinstance(method.network, OwnNetwork):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            parts = method.network.module(len(_LINE), 2).parameters()
        return next(part.detach().double().T for part in parts if part.dim() == 2)
    return start(method.model(method.hidden + 1, 2), torch.Generator().manual_seed(0))[0].double()


def _label_among_alike() -> Pair:
    """A label of two classes turns a gradient whatever the network; all others are what it is turned to.

    Of every two nodes that are joined one trains: it is the root of a walk.
    """
    y = torch.zeros(8, dtype=torch.long)
    y[0] = 1
    train = torch.arange(8) % 2 == 0
    graph = small_graph([(node, node + 1) for node in range(0, 8, 2)], _sides(torch.ones(8, dtype=torch.bool)), y)
    split = graph.with_split(train, torch.zeros_like(train), ~train, "every second node")
    return replace(Pair.with_other(split, 0, split.x[0], 0), what="the label of a node")


def _alone() -> Graph:
    """Of ten nodes one is like those that are asked about, and of another class than the rest."""
    first = torch.arange(10) == 0
    return small_graph([], _sides(first), first.long()).with_public(_asked())


def _asked() -> Graph:
    """Two public rings of opposite features, of which one may be asked about."""
    ring = [(node, (node + 1) % 6) for node in range(6)]
    first = torch.arange(12) < 6
    graph = small_graph([*ring, *((a + 6, b + 6) for a, b in ring)], _sides(first), first.long())
    split = graph.with_split(first, torch.zeros_like(first), ~first, "one ring")
    return replace(split, name="strangers")


def _sides(first: Tensor) -> Tensor:
    """Features of the nodes of one class, bool [n], and their opposite for the others, [n, d]."""
    return torch.where(first[:, None], _LINE, -_LINE)
