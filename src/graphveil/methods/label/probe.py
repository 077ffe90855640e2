"""Probe: a noisy linear probe of public coordinates, and randomised response with it as prior; label, features level.

Our own method. Edges are public, and at label level features too, so whatever can be made of them costs nothing. What
is charged is two looks at the training labels: one coarse, one fine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Self

import torch
from torch import Tensor

from graphveil.checks import quoted, require_whole
from graphveil.codec import OMIT_DEFAULT
from graphveil.data.arcs import Csr
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.methods.class_sums import ClassSums
from graphveil.methods.method import Method
from graphveil.methods.node.whisper import Whisper, learns_alone
from graphveil.methods.own_features import OwnFeatures
from graphveil.nn.aggregate import Operator, Walk
from graphveil.nn.coordinates import (
    Axes,
    Frame,
    averaging,
    both_ways,
    by_columns,
    condensed,
    hop_means,
    look_random,
    room_of_rows,
    scaled,
    scaled_rows,
    scalings,
    smoothed,
    spectral_rows,
)
from graphveil.nn.features import Scaling
from graphveil.nn.mlp import with_prefix
from graphveil.nn.module_checks import require_rows
from graphveil.nn.noisy_labels import corrected, joined, learn_from_answers, most_telling, shared_out
from graphveil.nn.own_network import OwnNetwork, arguments, inputs_of
from graphveil.nn.rows import HStack, RowMap, Rows, Selected, alike, at_a_time, blocks, gram, in_blocks, many, whole
from graphveil.nn.shrinkage import posteriors, shrunk_weights
from graphveil.privacy.session import Session
from graphveil.runtime.compute import HERE, Run
from graphveil.runtime.memory import MemoryEstimate
from graphveil.runtime.progress import Progress
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_WHY = "docs/methods/probe.md"
_MOVED = math.sqrt(2) * (1 + 1e-12)
"""How far a neighbour moves the class sums: one row leaves a column and another enters one."""
_ALONE = 5.5
"""Noise of the sums alone, in units of `noise`: epsilon is about 1 / noise."""
_SHARE = {Unit.LABEL: 0.8, Unit.FEATURES: 0.65}
"""Epsilon of an answer, in units of 1 / noise. At features level the sums alone tell what own features are worth."""
_OWN_FEATURES = Whisper()
"""What learns from private features where they are few for the number of nodes, and links hardly any."""
_WIDTHS = (32, 256)
"""Fewest and most entries of a row, and of its part for own features."""
_IDS_AN_ENTRY = 40
"""Training ids for each of them."""
_HOPS = 3


@dataclass(frozen=True)
class Probe(Method):
    """S = sum over training u of r_u e_{y_u}^T + N(0, std^2); then every training node says its label through noise.

    r_u, of length at most 1, are coordinates of what is public about u: features averaged over hops and eigenvectors
    of the adjacency. Regression on S gives every node a prior; randomised response among each node's likelier classes
    sharpens it where labels are many enough (`worth`), and networks that read coordinates and neighbours' posteriors
    learn from the exact likelihood of the answers. At features level u's own features are private: they take half of
    the square of r_u's length, and a linear map of them completes the scores of nodes outside training. Where they are
    few for the number of training nodes, and links hardly any, `whisper` learns from them alone.
    """

    subtitle = "noisy class sums, then randomised response of labels"
    units = frozenset({Unit.LABEL, Unit.FEATURES})
    on_gpu = True

    width: int = 0
    """Coordinates of the class sums; 0 takes one for every 40 training nodes, at least 32 and at most 256."""
    worth: float = 50.0
    """Clean labels of a class that the answers must be worth before nodes are asked; 0 always asks."""
    network: OwnNetwork | None = field(default=None, metadata=OMIT_DEFAULT)
    """At label level, a module of your own, `OwnNetwork.of`, that reads the public graph and learns from the answers.
    """

    def __post_init__(self) -> None:
        require_whole(self, "width")
        if self.width < 0 or self.worth < 0:
            raise InvalidInput("probe needs width and worth of at least 0")
        if self.network is not None:
            if not isinstance(self.network, OwnNetwork):
                raise InvalidInput(f"network is a module of your own, OwnNetwork.of(Net), got {quoted(self.network)}")
            self.require_default("worth", unless="a network of ours: an own one always asks")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        # Nobody published a claim for it, so both readings are the sound one.
        self._admit(public, adjacency.unit)
        if self._defers(public, adjacency.unit):
            self.require_default("width", "worth", unless="more features or more links: own features are learnt alone")
            return _OWN_FEATURES.plan(public, adjacency, reading, noise)
        assumes = (OUTSIDE_UNPROTECTED,) if adjacency.unit is Unit.FEATURES else ()
        share = _SHARE[adjacency.unit]
        epsilon = self._answers(int(public.train.sum()), public.num_classes, share / noise if noise > 0 else math.inf)
        sums = Gaussian(_ALONE / (1 - share) * noise if epsilon else _ALONE * noise)
        steps = [Step("sums", sums, sums.curve(_MOVED), 1, why=_WHY, assumes=assumes)]
        if epsilon:
            act = PriorResponse(epsilon, public.num_classes)
            steps.append(Step("answers", act, act.curve(1), 1, why=_WHY, assumes=assumes))
        return Plan(adjacency, reading, tuple(steps))

    def room(self, public: Public, block: int | None = None) -> MemoryEstimate:
        """Coordinates of every node, and eight times a number for every node and class."""
        # A hop more at label level, where features are smoothed too.
        width, held, a_row = room_of_rows(public.num_nodes, public.num_features, _HOPS + (public.x is not None))
        a_row += 16 * min(self.width or _WIDTHS[1], width)
        return at_a_time(public.num_nodes, a_row, public.num_nodes * (held + 32 * public.num_classes), block)

    def _admit(self, public: Public, unit: Unit) -> None:
        """Refuse an own network where it could not be used, or gives no row for every node."""
        if self.network is None:
            return
        if unit is not Unit.LABEL:
            raise Unsupported("an own network of probe reads public features; where they are private use ndp or drw")
        require_rows(self.network, public.num_features, public.num_classes)

    def _defers(self, public: Public, unit: Unit) -> bool:
        """Whether private features, learnt alone by noisy gradients, say more than coordinates that are public."""
        return unit is Unit.FEATURES and learns_alone(public)

    def _answers(self, train: int, classes: int, epsilon: float) -> float:
        """Epsilon of an answer, or 0 where answers of so much are worth too little.

        Unbiased answers to k classes are worth n ((e^epsilon - 1) / (e^epsilon + k - 1))^2 clean labels.
        """
        grown = math.expm1(min(epsilon, 700.0))
        asks = self.network is not None
        return epsilon if asks or train * (grown / (grown + classes)) ** 2 >= self.worth * classes else 0.0

    def fit(self, session: Session) -> State:
        public = session.public
        if self._defers(public, session.plan.adjacency.unit):
            return _OWN_FEATURES.fit(session)
        run, known = session.run, _Known.of(public, session.plan.adjacency.unit, session.run)
        places = public.train.nonzero().ravel()
        width = self.width or min(max(len(places) // _IDS_AN_ENTRY, _WIDTHS[0]), _WIDTHS[1])
        rows = Frame.of(whole(Selected(known.around, places)), width, run.block).rows(known.around)
        start, own = self._probed(session, known, rows, width)
        if not any(step.name == "answers" for step in session.plan.steps):
            return {"logits": in_blocks(len(start), lambda part: (start[part] + own[part]).float(), run.block)}
        act = session.plan.act("answers", PriorResponse)

        def likelier(part: slice) -> Tensor:
            return most_telling(start[places[part]].double().exp(), act.epsilon)

        candidates = in_blocks(len(places), likelier, run.block)
        said = session.release("answers", partial(_asked, candidates=candidates))
        heard = torch.zeros_like(start)
        for part in blocks(len(places), run.block):
            heard[places[part]] = act.log_chances(candidates[part], said[part]).to(heard.dtype)
        if self.network is not None:
            return self._taught(self.network, public, start, heard, run.progress)
        beliefs = self._listened(public, known, start, own, heard, run)

        def logits(part: slice) -> Tensor:
            return (beliefs[part] + own[part] + heard[part]).log_softmax(dim=1).float()

        return {"logits": in_blocks(len(start), logits, run.block)}

    def _taught(self, network: OwnNetwork, public: Public, start: Tensor, heard: Tensor, progress: Progress) -> State:
        """An own network that learnt from the answers, and what it, they and the sums say of nodes; heard: as below.

        start: log posteriors [n, c] from the sums, which count as much as makes answers likeliest that it did not see.
        """
        x = public.features()
        arcs = public.arcs().edge_index().to(x.device)
        scaling = Scaling.fit(x, "shifted")
        module = network.module(public.num_features, public.num_classes).to(x.device)
        forward = partial(module, *arguments(inputs_of(module), scaling(x), arcs))
        judges = learn_from_answers(module, forward, heard.float(), public.train.nonzero().ravel(), progress)
        with torch.no_grad():
            beliefs = joined(forward(), start.float(), heard.float(), judges)
        logits = (beliefs + heard).log_softmax(dim=1).float()
        return {**with_prefix("net.", module.state_dict()), **scaling.state(), "logits": logits}

    def _probed(self, session: Session, known: _Known, rows: Rows, width: int) -> tuple[Tensor, Tensor]:
        """Log posteriors [n, c] from public coordinates, and what a node's own features add to them.

        In float64, or in float32 if nodes are many.
        """
        public, block = session.public, session.run.block
        places = public.train.nonzero().ravel()
        private = session.plan.adjacency.unit is Unit.FEATURES
        frame = Frame.of(known.own, width, block) if private else None
        seen = whole(Selected(rows, places))
        query = partial(_class_sums, rows=seen, frame=frame, scaling=known.scaling, block=block)
        released = session.release("sums", query).double()
        sums = released.reshape(-1, public.num_classes) * (math.sqrt(2) if private else 1.0)
        noise = session.plan.act("sums", Gaussian).std * (math.sqrt(2) if private else 1.0)
        kind = torch.float32 if many(public.num_nodes) else torch.float64
        weights = shrunk_weights(sums[: rows.shape[1]], gram(seen, block), noise)
        start = in_blocks(public.num_nodes, lambda part: posteriors(rows[part] @ weights).log().to(kind), block)
        if frame is None or not known.own.shape[0]:
            return start, start.new_zeros(1, 1).expand_as(start)
        outside = (~public.train).nonzero().ravel()
        both = whole(HStack((Selected(rows, outside), RowMap(known.own, frame, frame.width))))
        weights = shrunk_weights(sums, gram(both, block) * (len(places) / len(outside)), noise)
        added = torch.zeros_like(start)
        for part in blocks(len(outside), block) if many(len(outside)) else [slice(None)]:
            ids = outside[part]
            added[ids] = (posteriors(both[part] @ weights).log() - start[ids]).to(kind)
        return start, added

    def _listened(self, public: Public, known: _Known, start: Tensor, own: Tensor, heard: Tensor, run: Run) -> Tensor:
        """Log posteriors [n, c] after networks learnt from the answers; heard: ln Pr[answer | class], 0 elsewhere."""
        places, first = public.train.nonzero().ravel(), start.float()
        answers = in_blocks(len(places), lambda part: heard[places[part]].float(), run.block)
        hearing = _Hearing.of(known, own, run)
        parts = shared_out(len(places), places.device)
        once = corrected(hearing.rows(hearing.around(first, heard)), first, answers, places, parts, run)
        if once.gain <= 0:
            return start
        # What comes back to a node holds its own answer, which networks would learn to repeat. So it hears neighbours
        # who heard nothing of the answers that are left out with its own.
        again = hearing.around(once.beliefs, heard)
        for part in range(int(parts.max()) + 1):
            hidden, silent = places[parts == part], heard.clone()
            silent[hidden] = 0
            told = once.says(hearing.rows(hearing.around(first, silent)))
            again[:, hidden] = hearing.around(told, silent)[:, hidden]
        twice = corrected(hearing.rows(again), first, answers, places, parts, run)
        return (twice if twice.beats(once) else once).beliefs.to(start.dtype)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(), cls(width=3, worth=0.0)


@dataclass(frozen=True, eq=False)
class _Hearing:
    """How nodes hear what others are believed to be: means over neighbours, and what of them comes back."""

    reach: Operator | Walk
    back: Tensor
    coordinates: Rows
    own: Tensor
    block: int | None

    @classmethod
    def of(cls, known: _Known, own: Tensor, run: Run) -> _Hearing:
        """own: what a node's own features add to its log posteriors, [n, c]."""
        return cls(*averaging(known.arcs, run.device), whole(alike(known.around, run.block)), own, run.block)

    def around(self, beliefs: Tensor, heard: Tensor) -> Tensor:
        """Mean posteriors of neighbours and, without what a node told itself, of their neighbours, [2, n, c]."""
        told = in_blocks(len(beliefs), lambda part: self._told(beliefs[part], self.own[part], heard[part]), self.block)
        near = self.reach @ told
        far = self.reach @ near
        far -= self.back * told
        far /= far.sum(dim=1, keepdim=True).clamp(min=1e-3)
        return torch.stack([near, far])

    @staticmethod
    def _told(beliefs: Tensor, own: Tensor, heard: Tensor) -> Tensor:
        return (beliefs + own + heard).softmax(dim=1).float()

    def rows(self, around: Tensor) -> Rows:
        """What networks read: coordinates and what was heard, centred."""
        near, far = around - around.mean(dim=1, keepdim=True)
        return whole(HStack((self.coordinates, alike(near, self.block), alike(far, self.block))))


@dataclass(frozen=True, eq=False)
class _Known:
    """What is public: arcs without direction; `around`, coordinates of every node [n, q]; at features level `own`,
    the scaled features of the nodes outside training [m, d], and how they were scaled.
    """

    arcs: Csr
    around: Rows
    own: Rows
    scaling: tuple[Scaling, ...]

    @classmethod
    def of(cls, public: Public, unit: Unit, run: Run = HERE) -> _Known:
        """Made once for all runs on this graph."""
        return public.cache_public(f"probe {unit}", partial(cls._made, public, unit, run))

    @classmethod
    def _made(cls, public: Public, unit: Unit, run: Run) -> _Known:
        arcs = both_ways(public.arcs())
        x = public.feature_rows() if unit is Unit.LABEL else public.outside_training().x
        scaling = scalings(x, run.block)
        own = scaled_rows(x, scaling)
        sent = condensed(own, run.block) if many(public.num_nodes) else own[:]
        if unit is Unit.FEATURES:
            full = sent.new_zeros(public.num_nodes, sent.shape[1])
            full[~public.train] = sent
        else:
            full = sent
        hops: list[Tensor] = []
        if look_random(full, arcs):
            # Coordinates that say nothing would only take length from those that do.
            shape = full.new_zeros(public.num_nodes, 1)
        elif unit is Unit.FEATURES:
            hops = by_columns(full, _HOPS, lambda some: hop_means(some, ~public.train, arcs, _HOPS))
            shape = spectral_rows(arcs, run)
        else:
            everybody = torch.ones_like(public.train)
            hops = by_columns(full, _HOPS, lambda some: smoothed(some, arcs, _HOPS))
            hops += by_columns(full, 1, lambda some: hop_means(some, everybody, arcs, 1))
            shape = spectral_rows(arcs, run)
        rows = [Axes.leading(each, block=run.block).of(each) for each in ([own, *hops] if unit is Unit.LABEL else hops)]
        return cls(arcs, whole(HStack((*rows, shape))), own, scaling)


def _class_sums(
    sealed: Sealed, rows: Rows, frame: Frame | None, scaling: tuple[Scaling, ...], block: int | None
) -> ClassSums:
    """Query: the training nodes' rows, [m, p], beside those of their own features where a `frame` is given."""
    if frame is not None:
        own = RowMap(OwnFeatures.of(sealed), lambda some: frame(scaled(some, scaling)), frame.width)
        both = HStack((rows, own))
        # Half of the square each: features that change alone move a row by sqrt(2), as a label does.
        rows = RowMap(both, lambda some: some / math.sqrt(2), both.shape[1])
    return ClassSums(rows, sealed.y[sealed.public.train], sealed.public.num_classes, block)


def _asked(sealed: Sealed, candidates: Tensor) -> Choices:
    """Query: the training nodes' labels, each among its candidates."""
    return Choices(sealed.y[sealed.public.train], candidates)
