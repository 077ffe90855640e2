"""Eclipse (Tang, Niu, Avestimehr & Annavaram 2024): a low-rank view of the graph, edge level.

As published the singular vectors leave without noise, which protects nothing. The default sees the graph through PUBLIC
vectors instead: only the small core in between is private, and one edge hardly moves it. What a core cannot hold, how
many links each single node has, is released beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from typing import Annotated, Self

import torch
from torch import Tensor, nn

from graphveil.checks import parse, require_delta, require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.dominating_pair import DominatingPair
from graphveil.mechanisms.flipped_edges import counted
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.singular_values import SingularValues
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.methods.edge.parts.released_graph import ReleasedGraph, graph_of
from graphveil.nn.basis import Basis, fitted, restored
from graphveil.nn.features import Scaling, one_scale
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.low_rank import Core, Degrees, EdgeCount, largest_pairs, unflat
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Curve, Plan, Reading, State, Step

_WHY = "docs/methods/eclipse.md"
_SINGULAR = "singular"
_BASES = (*Basis, _SINGULAR)
_OWN, _CORE, _DEGREES = "own.", "core.", "degrees."
"""Perceptrons, by the prefix of their weights."""

_SHARED_VECTORS = "neighbouring graphs have the same singular vectors (section 5.1)"
_VECTORS_TELL = (
    "the singular vectors are released without noise and differ between neighbours: a node without edges has a row of "
    "zeros, so the presence of its only edge is read off with certainty"
)
_CLASSICAL = (
    "sqrt(2 ln(1.25/delta))/epsilon is not proven for epsilon above 1, which the singular values are given here"
)

_MOVE = math.sqrt(2)
"""Lemma 1: how far the singular values move, if the vectors are shared."""

_LEFT_OVER = 0.99
"""Of delta, so that the accountant's rounding has room: noise grows by 0.05 % for it."""

_MIXES = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)
"""Weights of the core's word and of the degrees' beside the features' own, of which validation chooses."""

_NEARLY = 0.005
"""Weights whose validation accuracy is this close to the best are as good: all of them are averaged."""


class Use(StrEnum):
    """What the low-rank view is for: something to read, or a graph."""

    HEAD = "head"
    GRAPH = "graph"


@dataclass(frozen=True)
class Eclipse(ReleasedGraph):
    """C = Q^T A Q + noise for public unit rows Q [n, rank]; a head reads Q C, or a network the largest of Q C Q^T.

    Beside the core a share of mu^2 buys every node's noisy degree for a head, or the number of edges for a network.
    Algorithm 1 as printed has the budget 1 / noise: a share for the number of edges, the rest for singular values.
    """

    subtitle = "noisy low-rank view of the adjacency matrix"
    on_gpu = False

    basis: Annotated[str, _BASES] = "features"
    """Where Q comes from, see `nn.basis.Basis`; singular: Algorithm 1 as printed, which only PUBLISHED charges."""
    rank: int = 64
    """Columns of Q, or singular values, at least 1."""
    use: Annotated[str, Use] = "head"
    """head: perceptrons read Q C and degrees; graph: the largest of Q C Q^T are the edges that `network` trains on."""
    degree_share: float = 0.25
    """Of mu^2, what use=head spends on every node's noisy degree, strictly between 0 and 1."""
    count_share: float = 0.01
    """Of mu^2 (of the budget with basis=singular), what use=graph spends on the number of edges, strictly between 0
    and 1.
    """
    printed_delta: float = 1e-5
    """The delta at which Theorem 1 sets the noise of the singular values, strictly between 0 and 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "rank")
        if self.rank < 1:
            raise InvalidInput(f"eclipse needs rank of at least 1, got {self.rank}")
        for share in (self.degree_share, self.count_share):
            if not 0 < share < 1:
                raise InvalidInput(f"degree_share and count_share must lie strictly between 0 and 1, got {share}")
        require_delta(self.printed_delta)
        use = parse(Use, self.use, "use")
        if self.basis not in _BASES:
            raise InvalidInput(f"unknown basis {self.basis!r}; use one of: {', '.join(_BASES)}")
        if self.basis == _SINGULAR and use is not Use.GRAPH:
            raise InvalidInput('basis="singular" is read as a graph: pass use="graph"')
        self._require_readers()

    def _require_readers(self) -> None:
        """Settings of what is neither asked nor trained would change nothing."""
        if self.use == Use.HEAD:
            self.require_default("network", "count_share", unless="use=graph")
        else:
            self.require_default("degree_share", unless="use=head")
        if self.basis != _SINGULAR:
            self.require_default("printed_delta", unless="basis=singular")
        if self.basis == Basis.POSTERIORS:
            self.require_default("rank", unless="another basis: posteriors have a column for every class")

    # --- What is asked. ---

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        self.admit(public)
        if self.basis == _SINGULAR:
            return Plan(adjacency, reading, self._published(adjacency, reading, noise))
        # Nobody published a claim for a public basis, so both readings are the sound one.
        name, share = ("degrees", self.degree_share) if self.use == Use.HEAD else ("count", self.count_share)
        beside, core = Gaussian(noise / share**0.5), Gaussian(noise / (1 - share) ** 0.5)
        steps = (Step(name, beside, beside.curve(1), 1, why=_WHY), Step("core", core, core.curve(1), 1, why=_WHY))
        return Plan(adjacency, reading, steps)

    def _published(self, adjacency: Adjacency, reading: Reading, noise: float) -> tuple[Step, ...]:
        """Algorithm 1 and Theorem 1."""
        if not adjacency.undirected:
            raise Unsupported('Algorithm 1 is for undirected graphs; use a public basis, e.g. basis="features"')
        count = Laplace(scale=noise / self.count_share)
        whole = 1 / noise if noise > 0 else math.inf
        budget, delta = (1 - self.count_share) * whole, _LEFT_OVER * self.printed_delta
        act = SingularValues(_MOVE * math.sqrt(2 * math.log(1.25 / delta)) / budget, self.rank)
        counted_step = Step("count", count, count.curve(1), 1, why=_WHY)
        if reading is Reading.SOUND:
            return counted_step, Step("values", act, act.curve(_MOVE), 1, why=_WHY)
        refuted = f"{_VECTORS_TELL}; and {_CLASSICAL}" if budget > 1 else _VECTORS_TELL
        claim = approximate(budget, delta)
        return counted_step, Step("values", act, claim, 1, why=_WHY, assumes=(_SHARED_VECTORS,), refuted=refuted)

    # --- As a graph. ---

    def require_graph(self) -> None:
        super().require_graph()
        if self.use != Use.GRAPH:
            raise Unsupported(f'eclipse with use="{self.use}" releases a core and no graph; pass use="graph"')

    def arcs(self, session: Session) -> Csr:
        """The largest entries of the released low-rank matrix, as many as the noisy number of edges."""
        public, undirected = session.public, session.plan.adjacency.undirected
        if self.basis == _SINGULAR:
            edges = float(session.release("count", partial(counted, undirected=True)))
            released = session.release("values", _arcs)
            left, right = released[: public.num_nodes] * released[-1], released[public.num_nodes : -1]
        else:
            x = Scaling.fit(public.features(), self.scale)(public.features())
            rows = fitted(x, public, Basis(self.basis), self.rank, self.scale, session.run).rows(x)
            edges = float(session.release("count", partial(_edge_count, undirected=undirected)))
            left, right = rows.double() @ self._released(session, rows), rows.double()
        pairs = largest_pairs(left, right, math.floor(edges), undirected)
        return graph_of(pairs, public.num_nodes, undirected)

    def _released(self, session: Session, rows: Tensor) -> Tensor:
        """The noisy core C, float64 [p, p]."""
        undirected, width = session.plan.adjacency.undirected, rows.shape[1]
        released = session.release("core", partial(_core, rows=rows, undirected=undirected)).double()
        return unflat(released, width) if undirected else released.reshape(width, width)

    # --- As what a head reads. ---

    def fit(self, session: Session) -> State:
        if self.use == Use.GRAPH:
            return super().fit(session)
        public = session.public
        scaling = Scaling.fit(public.features(), self.scale)
        x, y = scaling(public.features()), public.labels()
        basis = fitted(x, public, Basis(self.basis), self.rank, self.scale, session.run)
        inputs = self._inputs(session, x, basis.rows(x))
        recipe = Recipe(self.epochs, self.learning_rate, self.weight_decay, 20, self.class_weight)
        nets = self._nets(inputs, public.num_classes)
        for name, net in nets.items():
            fit_rows(net, inputs[name], y, public.train, public.val, recipe, session.run.progress)
        words = _words(nets, inputs)
        mix = _best_mix(words, y, public.val)
        weights = {
            key: value for name, net in nets.items() for key, value in with_prefix(name, net.state_dict()).items()
        }
        return {**weights, **basis.state(), **scaling.state(), "mix": mix, "logits": _mixed(words, mix)}

    def serve(self, session: Session, state: State) -> State:
        if self.use == Use.GRAPH:
            return super().serve(session, state)
        public = session.public
        x = Scaling.restore(state, self.scale)(public.features())
        rows = restored(state, public).rows(x)
        inputs = self._inputs(session, x, rows)
        nets = self._nets(inputs, public.num_classes)
        words = _words({name: restore(net, state, name) for name, net in nets.items()}, inputs)
        return {**state, "logits": _mixed(words, state["mix"])}

    def _inputs(self, session: Session, x: Tensor, rows: Tensor) -> dict[str, Tensor]:
        """What each perceptron reads, float32 [n, *], from scaled features x [n, d] and Q = rows [n, p].

        Q C on one common scale; [Q C | Q C^T] if directed, for those who link to a node as well; the logs of degrees.
        """
        undirected = session.plan.adjacency.undirected
        act = session.plan.act("degrees", Gaussian)
        degrees = session.release("degrees", partial(_degrees, undirected=undirected)).double()
        core = self._released(session, rows)
        if not undirected:
            core = torch.cat([core, core.T], dim=1)
        # Below two standard deviations the log of a degree would be the log of noise.
        logs = (degrees.clamp(min=0) + 1 + 2 * act.std).log()[:, None]
        core_rows = one_scale(rows.double() @ core).float()
        return {_OWN: x, _CORE: core_rows, _DEGREES: one_scale(logs - logs.mean()).float()}

    def _nets(self, inputs: dict[str, Tensor], classes: int) -> dict[str, Perceptron]:
        """A perceptron for each input."""

        def net(name: str, hidden: int, dropout: float, input_dropout: float = 0.0) -> Perceptron:
            sizes = (inputs[name].shape[1], *[hidden] * (self.layers - 1), classes)
            return Perceptron(sizes, dropout, input_dropout)

        own = net(_OWN, 2 * self.hidden, self.dropout, input_dropout=0.2)
        return {_OWN: own, _CORE: net(_CORE, self.hidden, 0.2), _DEGREES: net(_DEGREES, self.hidden, 0.2)}

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2)
        ranked = replace(small, rank=3)
        return (
            ranked,
            replace(ranked, basis="random", use="graph", network="sage"),
            replace(small, basis="posteriors"),
            replace(ranked, basis="singular", use="graph"),
        )


def approximate(epsilon: float, delta: float) -> Curve:
    """(epsilon, delta)-DP and no more: the pair that dominates every such mechanism (Kairouz et al. 2015)."""
    if math.isinf(epsilon):
        return ExposedCurve()
    # Not 1 - delta - truth: the digits of a rare lie would be lost.
    odds = math.exp(-epsilon)
    truth, lie = (1 - delta) / (1 + odds), (1 - delta) * odds / (1 + odds)
    return DominatingPair((delta, truth, lie, 0.0), (0.0, lie, truth, delta))


def _words(nets: Mapping[str, nn.Module], inputs: dict[str, Tensor]) -> Tensor:
    """Log posteriors of every perceptron, [3, n, c]."""
    return torch.stack([predicted(net, inputs[name]).log_softmax(dim=1) for name, net in nets.items()])


def _mixed(words: Tensor, mix: Tensor) -> Tensor:
    """The features' own word and the others times their weights `mix` [2], [n, c]."""
    return torch.einsum("k,knc->nc", torch.cat([torch.ones(1), mix]), words)


def _best_mix(words: Tensor, y: Tensor, val: Tensor) -> Tensor:
    """The mean of the weights [2] with nearly the best validation accuracy; ones without validation nodes."""
    if not bool(val.any()):
        return torch.ones(2)
    grid = torch.cartesian_prod(torch.tensor(_MIXES), torch.tensor(_MIXES))
    validated = words[:, val]
    right = torch.stack([(_mixed(validated, mix).argmax(dim=1) == y[val]).double().mean() for mix in grid])
    return grid[right >= right.max() - _NEARLY].mean(dim=0)


def _arcs(sealed: Sealed) -> Csr:
    """Query: the private arcs."""
    return sealed.adj


def _core(sealed: Sealed, rows: Tensor, undirected: bool) -> Core:
    """Query: the core of the private graph in the public `rows` [n, p]."""
    return Core(sealed.adj, rows, undirected)


def _degrees(sealed: Sealed, undirected: bool) -> Degrees:
    """Query: how many links every node has."""
    return Degrees(sealed.adj, undirected)


def _edge_count(sealed: Sealed, undirected: bool) -> EdgeCount:
    """Query: how many edges there are."""
    return EdgeCount(sealed.adj, undirected)
