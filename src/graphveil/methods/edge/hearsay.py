"""Hearsay: every node hears, through noise, what its neighbours are; edge level.

Our own method. Features and labels are public at edge level, so the budget buys one low-dimensional release about the
most telling public facts: every node's neighbours counted by class, by the true label where it is known, and by a
belief that never saw the label elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from itertools import accumulate
from typing import Annotated, Self

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from graphveil.checks import parse, quoted, require_whole
from graphveil.codec import OMIT_DEFAULT
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.mechanisms.flipped_edges import FlippedEdges, asked, row_starts
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge.parts.counts import cluster_degrees, logs_of
from graphveil.methods.edge.parts.edge_method import NO_NODES, heard_rows, sums_plan
from graphveil.methods.edge.parts.released_graph import graph_of
from graphveil.methods.method import Method
from graphveil.nn.aggregate import neighbour_sum
from graphveil.nn.cross_fit import Folds, cross_fitted
from graphveil.nn.features import Scale, Scaling, centred, standard
from graphveil.nn.fit import ClassWeight, Sweeps, fit_in_batches
from graphveil.nn.kernel_vote import labels_of_alike
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.nn.module_checks import require_rows
from graphveil.nn.own_network import OwnNetwork
from graphveil.nn.rows import HStack, RowMap, Rows, alike, at_a_time, held, in_blocks
from graphveil.nn.shared_class_head import ByClass
from graphveil.privacy.session import Session
from graphveil.runtime.memory import MemoryEstimate
from graphveil.streams.journal import Evidence
from graphveil.streams.period import PeriodSession
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_WHY = "docs/methods/hearsay.md"
_GROUPS = 4
"""Parts of every class that are counted apart where beliefs are poor."""
_POOR = 0.6
"""Share of the training nodes whose belief is right, below which beliefs are poor."""
_LITTLE_NOISE = 0.6
"""Up to this noise a count in four parts still tells."""
_COMPARED = (1_000, 20_000)
"""Training nodes, at least, and nodes, at most, that are compared with one another: few say little, many take long."""
_FEW = 50
"""Training nodes for each column that a head reads, below which it is linear and mostly the same for every class."""
_MEAN_DEGREE = 64
"""Arcs that a node of a released graph has on average at most; beyond, a share of the answers is kept."""


class Channel(StrEnum):
    """What carries the messages. COUNTS: neighbours counted by their likeliest class with geometric noise, one release
    a hop; pure epsilon. SUMS: sums with Gaussian noise, one release a hop: more noise at the same (epsilon, delta), and
    a better guarantee at smaller epsilons of its curve. PAIRS: every pair of nodes says whether it is an edge through
    randomised response, once for all hops, pure epsilon too; good where n e^-epsilon is small: few nodes, or large
    epsilon.
    """

    COUNTS = "counts"
    SUMS = "sums"
    PAIRS = "pairs"


@dataclass(frozen=True)
class Hearsay(Method):
    """Z = neighbours by class + geometric noise; a head reads [log beliefs | Z], and its posteriors speak next.

    Z [n, c] counts every node's neighbours by their label if they train and by their likeliest class otherwise, with
    two-sided geometric noise, Pr[k] proportional to e^(-|k|/noise). With `channel` = "sums" Z = A M + N(0, noise^2):
    row j of M [n, c + 1] is node j's label or belief m_j, less 1/c, beside a constant whose sum counts neighbours:
    sqrt((1 - degree)/(1 - 1/c)) (m_j - 1/c) | sqrt(degree), of length at most 1. With "pairs" Z = B M for a graph B
    released by randomised response with epsilon 1/noise for every pair.

    Where few nodes train for each column that it reads, the head is linear, mostly with one weight a block of columns.
    Where beliefs are poor and counts nearly exact, classes are counted in four parts each, by the node's id: the head
    also reads which labels training nodes with alike counts have.
    """

    subtitle = "noisy counts of neighbours' classes"
    units = frozenset({Unit.EDGE})
    on_gpu = True
    reads_short = True
    refuses = NO_NODES

    hops: int = 1
    """How often nodes hear their neighbours, at least 1."""
    channel: Annotated[str, Channel] = "counts"
    """What carries the messages. counts: geometric noise, pure epsilon; sums: Gaussian noise; pairs: randomised
    response, once for all hops.
    """
    degree: float = 0.05
    """Share in [0, 1) of a message of sums or pairs that counts neighbours; the rest tells their classes."""
    folds: int = 5
    """Parts of the training nodes, at least 2: a node's belief comes from perceptrons that did not see its part."""
    hidden: int = 128
    """Width of those perceptrons' hidden layer, at least 1."""
    head: int = 64
    """Width of the hidden layer of every hop's head, at least 1. Where it is left as it is and few nodes train for each
    column that a head reads, heads are linear instead.
    """
    scale: Annotated[str, Scale] = "shifted"
    """How public features are scaled before perceptrons read them."""
    class_weight: Annotated[str, ClassWeight] = field(default="equal", metadata=OMIT_DEFAULT)
    """What nodes count in training. equal: all alike; balanced: more in rare classes, so that every class counts alike.
    """
    network: OwnNetwork | None = field(default=None, metadata=OMIT_DEFAULT)
    """A module of your own, `OwnNetwork.of`, as the head of every hop: forward(x) reads rows of what nodes believe and
    hear, and gives a row of scores for each.
    """

    def __post_init__(self) -> None:
        require_whole(self, "hops", "folds", "hidden", "head")
        if self.network is not None:
            if not isinstance(self.network, OwnNetwork):
                raise InvalidInput(f"network is a module of your own, OwnNetwork.of(Net), got {quoted(self.network)}")
            self.require_default("head", unless="a head of ours: an own one has settings of its own")
        if min(self.hops, self.hidden, self.head) < 1:
            raise InvalidInput("hearsay needs hops, hidden and head of at least 1")
        if self.folds < 2:
            raise InvalidInput(f"hearsay needs folds of at least 2, got {self.folds}: a node's own label must stay out")
        if not 0 <= self.degree < 1:
            raise InvalidInput(f"degree is a share of a message in [0, 1), got {self.degree!r}")
        parse(Scale, self.scale, "scale")
        parse(ClassWeight, self.class_weight, "class_weight")
        if parse(Channel, self.channel, "channel") is Channel.COUNTS:
            self.require_default("degree", unless="channel=sums or channel=pairs")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        # Nobody published a claim for it, so both readings are the sound one.
        if self.network is not None:
            require_rows(self.network, public.num_classes + 1, public.num_classes, rows_alone=True)
        if self.channel == Channel.COUNTS:
            tally = Tally(noise, marks=2 if adjacency.undirected else 1)
            return Plan(adjacency, reading, (Step("hop", tally, tally.curve(1), self.hops, why=_WHY),))
        if self.channel == Channel.SUMS:
            return replace(sums_plan(adjacency, Reading.SOUND, noise, "hop", self.hops, why=_WHY), reading=reading)
        act = FlippedEdges(1 / noise if noise > 0 else math.inf, adjacency.undirected)
        return Plan(adjacency, reading, (Step("pairs", act, act.curve(1), 1, why=_WHY),))

    def room(self, public: Public, block: int | None = None) -> MemoryEstimate:
        """Beliefs and scores, and counts as whole numbers and as floats: 20 bytes for every node and class.

        Of a block features, as they are, scaled and on the way, and what all perceptrons make of them.
        """
        a_row = 4 * (3 * public.num_features + self.hidden + 2 * self.folds * public.num_classes)
        return at_a_time(public.num_nodes, a_row, 20 * public.num_nodes * public.num_classes, block)

    def counts_in_parts(self) -> bool:
        return self.channel != Channel.PAIRS

    def counts_once(self) -> bool:
        return self.channel == Channel.COUNTS and self.hops == 1

    def fit(self, session: Session) -> State:
        public, run = session.public, session.run
        scaling = Scaling.fit(public.feature_rows(), self.scale, run.block)
        x = held(scaling.rows(public.feature_rows()), run)
        folds = cross_fitted(x, public, self.scale, self.folds, self.hidden, self.class_weight, run)
        train, weights = public.train.nonzero().ravel(), dict(folds.state())
        beliefs = folds.log_beliefs(x, run.block)
        groups = self._groups(session, beliefs)

        def trained(hop: int, inputs: HStack) -> nn.Module:
            few = self._chosen_head() and len(train) < _FEW * inputs.shape[1]
            head = _by_class(inputs, public.num_classes) if few else self._head(inputs.shape[1], public.num_classes)
            head, decay = head.to(run.device), 0.1 if few else 1e-4
            sweeps = Sweeps(15, learning_rate=1e-2, weight_decay=decay, class_weight=self.class_weight)
            fit_in_batches(head, held(inputs, run), public.labels(), train, sweeps, run.progress)
            weights.update(with_prefix(f"head.{hop}.", head.state_dict()))
            return head

        streamed = isinstance(session, PeriodSession)
        logits = self._listened(session, beliefs, groups, streamed, trained)
        if groups > 1:
            weights["groups"] = torch.tensor(groups, device=run.device)
        if streamed:
            weights["streamed"] = torch.tensor(1, device=run.device)
        return {**weights, **scaling.state(), "logits": logits}

    def serve(self, session: Session, state: State) -> State:
        public, run = session.public, session.run
        x = held(Scaling.restore(state, self.scale).rows(public.feature_rows()), run)

        def known(hop: int, inputs: HStack) -> nn.Module:
            few, classes = f"head.{hop}.shares" in state and self._chosen_head(), public.num_classes
            head = _by_class(inputs, classes) if few else self._head(inputs.shape[1], classes)
            return restore(head.to(run.device), state, f"head.{hop}.")

        beliefs = Folds.restore(state, public).log_beliefs(x, run.block)
        groups = int(state["groups"]) if "groups" in state else 1
        return {**state, "logits": self._listened(session, beliefs, groups, "streamed" in state, known)}

    def _groups(self, session: Session, beliefs: Tensor) -> int:
        """In how many parts a class is counted: a choice by the noise, sizes, features and labels, all public."""
        public, (least, most) = session.public, _COMPARED
        train, right = public.train, beliefs.argmax(dim=1) == public.labels()
        # In a stream ids modulo anything would have to stay what they were.
        enough = int(train.sum()) >= least and public.num_nodes <= most and not isinstance(session, PeriodSession)
        if self.channel != Channel.COUNTS or not enough or float(right[train].double().mean()) >= _POOR:
            return 1
        return _GROUPS if session.plan.act("hop", Tally).scale <= _LITTLE_NOISE else 1

    def _listened(
        self, session: Session, beliefs: Tensor, groups: int, streamed: bool, head: Callable[[int, HStack], nn.Module]
    ) -> Tensor:
        """Log posteriors [n, c] after the last hop; `head(hop, inputs)` is the trained head of a hop.

        streamed: the head is that of a growing graph, and reads how much noise a row carries.
        """
        classes, hear, block = beliefs.shape[1], self._channel(session, groups, streamed), session.run.block
        inputs = HStack((alike(RowMap(beliefs, centred, classes), block),))
        for hop in range(self.hops):
            inputs = HStack((*inputs.parts, *hear(beliefs)))
            beliefs = _log_posteriors(head(hop, inputs), inputs, block)
        return beliefs

    def _channel(self, session: Session, groups: int, streamed: bool) -> Callable[[Tensor], tuple[Rows, ...]]:
        """From what is believed of every node, log posteriors [n, c], to what it hears: matrices side by side."""
        if self.channel == Channel.COUNTS:
            return partial(_evidence, session) if streamed else partial(_counted, session, groups)
        told, block = partial(told_by, session.public), session.run.block
        if self.channel == Channel.SUMS:

            def summed(beliefs: Tensor) -> tuple[Rows, ...]:
                return (alike(session.release("hop", partial(heard_rows, rows=self.said(told(beliefs)))), block),)

            return summed
        act, nodes = session.plan.act("pairs", FlippedEdges), session.public.num_nodes
        pairs = int(row_starts(nodes, act.undirected)[-1])
        arcs = _MEAN_DEGREE * nodes / (2 if act.undirected else 1)
        answers = session.release("pairs", partial(asked, share=act.share(pairs, 0.0, arcs)))
        graph = graph_of(answers, nodes, act.undirected)
        return lambda beliefs: (alike(neighbour_sum(graph, self.said(told(beliefs))).float(), block),)

    def said(self, beliefs: Tensor) -> Tensor:
        """M of sums and pairs: what nodes tell, [n, c + 1], rows no longer than 1; beliefs: [n, c], in the simplex."""
        nodes, classes = beliefs.shape
        # A single class tells nothing, whatever its length.
        stretch = ((1 - self.degree) / (1 - 1 / max(classes, 2))) ** 0.5
        counts = beliefs.new_full((nodes, 1), self.degree**0.5)
        return torch.cat([stretch * (beliefs - 1 / classes), counts], dim=1)

    def _chosen_head(self) -> bool:
        """Whether nobody asked for a head of their own, by its module or by its width."""
        return self.network is None and self.head == Hearsay.head

    def _head(self, width: int, classes: int) -> nn.Module:
        if self.network is not None:
            return self.network.module(width, classes)
        return Perceptron((width, self.head, classes), dropout=0.2)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(folds=2, hidden=4, head=4)
        twice = replace(small, hops=2)
        return small, twice, replace(twice, channel="sums", degree=0.0), replace(twice, channel="pairs")


def _by_class(inputs: HStack, classes: int) -> ByClass:
    """The head of few labels: the first columns of every matrix that has one for each class are a block."""
    widths = [part.shape[1] for part in inputs.parts]
    starts = tuple(start for start, width in zip(accumulate([0, *widths]), widths, strict=False) if width >= classes)
    return ByClass(sum(widths), classes, starts)


def _log_posteriors(head: nn.Module, inputs: Rows, block: int | None) -> Tensor:
    """What a trained head makes of rows [n, k], [n, c]."""
    return in_blocks(inputs.shape[0], lambda part: predicted(head, inputs[part]).log_softmax(dim=1), block)


def told_by(public: Public, beliefs: Tensor, part: slice = slice(None)) -> Tensor:
    """What every node is, as far as is known: its label if it trains, else its belief, [n, c]; beliefs: logarithms.

    part: of these nodes only, [m, c].
    """
    told, train = beliefs[part].exp(), public.train[part]
    told[train] = one_hot(public.labels()[part][train], public.num_classes).to(told.dtype)
    return told


def _evidence(session: Session, beliefs: Tensor) -> tuple[Rows, ...]:
    """Counts that add up over the periods of a growing graph: as in `_counted`, and what noise rows carry, [n, 1].

    A row that was refreshed r times carries noise of r times the variance. On another graph (`serve`) r is 1.
    """
    (nodes, classes), block = beliefs.shape, session.run.block
    said = in_blocks(nodes, lambda part: told_by(session.public, beliefs, part).argmax(dim=1), block)
    if isinstance(session, PeriodSession):
        told = session.count("hop", said, classes)
    else:
        counts = session.release("hop", partial(cluster_degrees, clusters=said, count=classes))
        told = Evidence(counts.reshape(nodes, classes), torch.ones_like(said))
    roots, scale = told.refreshes[:, None].float().sqrt(), session.plan.act("hop", Tally).scale
    rows = torch.cat([told.counts.float(), scale * roots], dim=1)
    return (
        alike(RowMap(rows, lambda some: centred(some[:, :-1]), classes), block),
        alike(RowMap(rows, lambda some: some[:, :-1].sum(dim=1, keepdim=True), 1), block),
        alike(RowMap(rows, lambda some: centred(logs_of(some[:, :-1], some[:, -1:])), classes), block),
        roots,
    )


def _counted(session: Session, groups: int, beliefs: Tensor) -> tuple[Rows, ...]:
    """Noisy counts of neighbours by class as they are, [n, c], their total, [n, 1], and their logarithms, [n, c].

    With groups > 1 a node says its class and its id modulo groups, and labels of alike nodes are heard, [n, c] more.
    """
    (nodes, classes), block = beliefs.shape, session.run.block
    named = in_blocks(nodes, lambda part: told_by(session.public, beliefs, part).argmax(dim=1), block)
    said = named * groups + torch.arange(nodes, device=named.device) % groups
    query = partial(cluster_degrees, clusters=said, count=classes * groups)
    parts = session.release("hop", query).reshape(nodes, classes, groups).float()
    scale, counts = session.plan.act("hop", Tally).scale, parts.sum(dim=2) if groups > 1 else parts[:, :, 0]
    spread = scale * math.sqrt(groups)
    heard = [
        alike(RowMap(counts, centred, classes), block),
        alike(RowMap(counts, lambda some: some.sum(dim=1, keepdim=True), 1), block),
        alike(RowMap(counts, lambda some: centred(logs_of(some, spread)), classes), block),
    ]
    if groups > 1:
        rows, public = torch.log(1 + scale + parts.clamp(min=0)).flatten(1), session.public
        rows = rows - rows.mean(dim=0)
        heard.append(standard(labels_of_alike(rows, public.labels(), public.train, classes)))
    return tuple(heard)
