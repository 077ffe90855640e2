"""LinkTeller (Wu, Long, Zhang & Li, S&P 2022): who is influenced by whose features?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.attacks.parts.pairs import EdgeInference
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Target
from graphveil.checks import parse
from graphveil.data.arcs import Ids
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.graph_network import GraphNetwork
from graphveil.methods.method import Method
from graphveil.nn.aggregate import Operator
from graphveil.nn.features import Scaling
from graphveil.nn.mlp import restore
from graphveil.nn.own_network import OwnNetwork
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.release.release import Release

_ROOM = 1 << 24
"""Hidden values of all queries of one forward pass."""


_SMALLEST_CHANCE = 1e-30
"""Probabilities below this are raised to it before a logarithm is taken."""


class Interface(StrEnum):
    """What the attacker may ask. Only the first is what a release of ours answers.

    SERVED: predictions as a user of the release gets them. RERUN: the server computes the forward pass on submitted
    features with the same noise each time. ANEW: with fresh noise for every query.
    """

    SERVED = "served"
    RERUN = "rerun"
    ANEW = "anew"


@dataclass(frozen=True)
class LinkTeller(EdgeInference):
    """score(v, u) = |l_u(x with x_v + share (x_w - x_v)) - l_u(x)|_2: the influence of v on u (Algorithm 1).

    l: log posteriors [n, c], which do not saturate; w: a random other node. The paper stretches x_v by 1 + share, which
    a server that scales rows to length 1 would not even notice; `share` of the way to other features is seen by all.
    """

    interface: str = "rerun"
    share: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        parse(Interface, self.interface, "interface")
        if not 0 < self.share <= 1:
            raise InvalidInput(f"share must lie above 0 and be at most 1, got {self.share!r}")

    def scores(self, target: Target, seed: int) -> Scores:
        return self.judged(target, target.release(), seed)

    def judged(self, target: Target, release: Release, seed: int) -> Scores:
        """`scores` of a model that is there already. One query for every source of a pair."""
        pairs = self.pairs(target.graph, seed)
        asked, place = np.unique(pairs.nodes[:, 0], return_inverse=True)
        x = target.graph.x
        others = np.random.default_rng((seed, 0x1C)).integers(1, len(x), len(asked))
        rows = torch.lerp(x[asked], x[(asked + others) % len(x)], self.share)
        server = _server(target, release, Interface(self.interface), seed)
        influence = np.empty(len(place))
        for first in range(0, len(asked), server.most):
            part = slice(first, first + server.most)
            here = (place >= first) & (place < first + server.most)
            changes = server.answers(asked[part], rows[part]) - server.before
            influence[here] = changes.norm(dim=2).numpy()[place[here] - first, pairs.nodes[here, 1]]
        return pairs.scores(influence)


@dataclass(frozen=True, eq=False)
class _Server:
    """Answers up to `most` queries at a time: answers(nodes [b], rows [b, d]) are log posteriors, [b, n, c].

    Query i asks for everybody's when node nodes[i] has features rows[i]; `before`: without a change, [n, c].
    """

    before: Tensor
    answers: Callable[[Ids, Tensor], Tensor]
    most: int = 1


def _server(target: Target, release: Release, interface: Interface, seed: int) -> _Server:
    """The server behind an interface."""
    if interface is Interface.SERVED:
        # Released predictions are what they are, whatever features are submitted.
        fixed = release.method.reads.stored
        ask = (lambda _: None) if fixed else (lambda x: replace(target.graph, x=x))
        return _one_by_one(target, lambda x, _: _logs(release.predict_proba(ask(x))))
    method, state, plan = release.method, release.state, release.certificate.plan
    if type(method).serve is Method.serve:
        # It reads nothing but a node's own features: the same as served.
        return _server(target, release, Interface.SERVED, seed)
    if "x" in plan.adjacency.private:
        raise Unsupported("features can be submitted only where they are public; train the target with unit='edge'")
    if (
        interface is Interface.RERUN
        and isinstance(method, GraphNetwork)
        and not isinstance(getattr(method, "network", None), OwnNetwork)  # no stack of our layers
        and any(key.startswith("net.") for key in state)
    ):
        return _at_once(target, release, method)

    def rerun(x: Tensor, query: int) -> Tensor:
        fresh = np.random.SeedSequence((seed, query)).generate_state(1, np.uint64)
        drawn = target.seed if interface is Interface.RERUN else int(fresh[0] >> np.uint64(1))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(target.seed)
            return method.serve(_session(target, release, x, drawn), state)["logits"].log_softmax(dim=1)

    return _one_by_one(target, rerun)


def _session(target: Target, release: Release, x: Tensor, seed: int) -> Session:
    """A session on the attacked graph with submitted features x [n, d]."""
    plan, graph = release.certificate.plan, target.graph
    public = replace(graph.seal(plan.adjacency)[0], x=x, _cached={})
    return Session(public, Sealed(x, graph.y, graph.adj, public), plan, Seeded(seed))


def _one_by_one(target: Target, ask: Callable[[Tensor, int], Tensor]) -> _Server:
    """One forward pass for each query; ask(features [n, d], number of the query) -> log posteriors [n, c]."""

    def answers(nodes: Ids, rows: Tensor) -> Tensor:
        x = target.graph.x.clone()
        x[nodes] = rows
        return ask(x, 1 + int(nodes[0]))[None]

    return _Server(ask(target.graph.x, 0), answers)


def _logs(posteriors: Tensor) -> Tensor:
    return posteriors.clamp(min=_SMALLEST_CHANCE).log()


def _at_once(target: Target, release: Release, method: GraphNetwork) -> _Server:
    """Many queries in one forward pass of a stack of layers, on the graph that the release was trained on."""
    scaling = Scaling.restore(release.state, method.scale)
    x = scaling(target.graph.x)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(target.seed)
        operator = method.operator(method.arcs(_session(target, release, target.graph.x, target.seed)))
    stack = restore(method.network_of(x.shape[1], target.graph.num_classes), release.state, "net.")

    def answers(nodes: Ids, rows: Tensor) -> Tensor:
        with torch.no_grad():
            scores: Tensor = stack(_Copies(x, nodes, scaling(rows)), _Blocks(operator))
        return scores.log_softmax(dim=1).reshape(len(nodes), len(x), -1)

    with torch.no_grad():
        before = stack(x, operator).log_softmax(dim=1)
    return _Server(before, answers, max(_ROOM // (len(x) * max(method.hidden, before.shape[1])), 1))


@dataclass(frozen=True, eq=False)
class _Copies:
    """b copies of x [n, d], one below the other; in copy i row nodes[i] is rows[i].

    A dense layer multiplies what is common once: every stack begins with one.
    """

    x: Tensor
    nodes: Ids
    rows: Tensor

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Tensor:
        if function is not torch.nn.functional.linear:
            raise Unsupported(f"a stack of layers must begin with dense ones, not with {function.__name__}")
        copies, *weights = args
        common = function(copies.x, *weights)
        out = common.repeat(len(copies.nodes), 1)
        out[np.arange(len(copies.nodes)) * len(common) + copies.nodes] = function(copies.rows, *weights)
        return out


@dataclass(frozen=True, eq=False)
class _Blocks:
    """The same sparse product for every copy."""

    operator: Operator

    def __matmul__(self, rows: Tensor) -> Tensor:
        return torch.cat([self.operator @ block for block in torch.split(rows, self.operator.columns)])
