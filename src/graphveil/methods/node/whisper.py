"""Whisper: noisy gradients on what outsiders show of a node, and labels told to linked outsiders; node, features level.

Our own method. Nodes outside training are not protected: their features and the edges among them are read freely. Each
training node acts on its own record alone, so nothing is assumed about degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from itertools import count
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.method import Method
from graphveil.methods.node.parts.prior import Gains, class_counts, log_shares
from graphveil.methods.node.parts.vote_evidence import LinkedMeans, VoteEvidence, mean_of_linked, vote_query
from graphveil.methods.node.parts.vote_weights import links_to_outsiders
from graphveil.methods.own_features import OwnFeatures
from graphveil.nn.beliefs import propagate
from graphveil.nn.clipping import ExampleGradients
from graphveil.nn.coordinates import (
    Axes,
    alike_if_linked,
    averaging,
    both_ways,
    condensed,
    look_random,
    quantile,
    room_of_rows,
    scaled,
    scaled_rows,
    scalings,
    spectral_rows,
)
from graphveil.nn.features import Scaling
from graphveil.nn.rows import HStack, RowMap, Rows, at_a_time, in_blocks, many, summed
from graphveil.privacy.session import Session
from graphveil.runtime.compute import HERE, Run
from graphveil.runtime.memory import MemoryEstimate
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Reading, Relation, State, Step, Unit

_WHY = "docs/methods/whisper.md"
_SHARES = {"counts": 0.04, "labels": 0.3, "gradient": 0.6, "check": 0.06}
"""Of the budget, as 1 / variance in units of what one Gaussian release would have."""
_CLIP = 0.1
_WIDTHS = (128, 512)
"""Fewest and most entries of a row, and of its part for own features."""
_WIDTH_OF_MANY = 256
"""The most where training nodes are so many that their rows are the largest thing in memory."""
_IDS_AN_ENTRY = 22
_IDS_AN_OWN_ENTRY = 40
"""Training ids for each of them."""
_LARGEST_RATE = 256.0
_NOISE_OF_WEIGHTS = 1.3
"""Standard deviation of the noise that steps add up to in a weight; rates are chosen for it."""
_WHOLE = 0.8
"""Share of the rows that keep their length."""
_LENGTH = 1.4
"""Of the longest rows."""
_BIAS = 0.1
"""One more entry of every row. Clipped gradients of a large class outweigh those of a small one, and need a place where
that is learnt for all rows at once; the counts alone make a poor prior for them."""
_FAR_LENGTH = 0.5
"""Of features two hops away, beside 1 for those of a hop."""
_FEW_LINKS = 5.0
"""Links an outsider has to others on average, below which each training node votes once."""
_HARDLY_ANY_LINKS = 2.0
_IDS_A_FEATURE = 20
_ALIKE = 0.8
"""Below so many links, from so many training ids for each feature, and from such a chance that linked nodes are more
alike than others, own features are learnt alone: one model for a node's features and those of linked nodes, whose
beliefs are propagated, then says more than means and votes."""
_ROUNDS = 3
"""Of messages, where beliefs are propagated among outsiders."""
_REACH = 4.0
"""A Gaussian release of noise s costs about this over s."""
_HEARD = 0.1
"""Reach for each class from which spread votes tell more than the gradients that they take budget from."""
_HEARD_WHOLE = 1.3
"""The same of single votes under geometric noise: so much more."""
_SPOKEN = (0.8, -0.6)
"""Epsilon of a single vote: this share of the reach, and this beside it."""


@dataclass(frozen=True)
class Whisper(Method):
    """Z[v] = sum over training u of votes[u, v] e_{y_u} + noise, for every v outside training.

    u votes 1 / sqrt(d_u) to each of the d_u nodes outside training that it is linked to or, where such links are few,
    1 to one of them. Softmax regression by noisy gradients reads r_u: u's own features, and means
    over u's linked outsiders of their features, of their place in the graph of outsiders and of their Z less u's own
    part. An outsider's posterior is that of the regression times the likelihood of its own row of Z. One more count
    asks training nodes whether the regression serves them better than naming the largest class. Where noise is too high
    for so many classes nobody votes, and posteriors are propagated along the links among outsiders.
    """

    subtitle = "noisy gradients over neighbours outside the training set"
    units = frozenset({Unit.NODE, Unit.FEATURES})
    revision = 3
    on_gpu = True

    steps: int = 100
    """Noisy gradient steps, at least 1."""

    def __post_init__(self) -> None:
        require_whole(self, "steps")
        if self.steps < 1:
            raise InvalidInput("whisper needs at least one step")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        # Nobody published a claim for it, so both readings are the sound one.
        replaced = adjacency.relation is Relation.REPLACE
        telling, noise = _telling(public, noise, replaced)
        shares = {name: share for name, share in _SHARES.items() if name != "labels" or telling is Votes.SPREAD}
        whole = sum(shares.values())
        acts: dict[str, tuple[Mechanism, int]] = {}
        for name, share in _SHARES.items():
            if name in shares:
                times, clip = (self.steps, _CLIP) if name == "gradient" else (1, 1.0)
                acts[name] = Gaussian(noise * math.sqrt(times * whole / share), clip), times
            elif isinstance(telling, Tally):
                acts[name] = telling, 1
        moved = 2.0 if replaced else 1.0
        steps = [
            Step(name, act, act.curve(moved), times, _WHY, (OUTSIDE_UNPROTECTED,))
            for name, (act, times) in acts.items()
        ]
        return Plan(adjacency, reading, tuple(steps))

    def room(self, public: Public, block: int | None = None) -> MemoryEstimate:
        """Rows of the training nodes, coordinates of the outsiders, and a few numbers of every one and class."""
        train, classes = int(public.train.sum()), public.num_classes
        outside = public.num_nodes - train
        width, held, a_row = room_of_rows(outside, public.num_features, 1)
        entries = min(_width(public, _IDS_AN_ENTRY), width) + 2 * classes + 1
        rows = train * entries * (2 if many(train) else 8)
        outsiders = outside * (held + 4 * public.num_features + 4 * width + 96 * classes)
        return at_a_time(train, a_row + 24 * entries, rows + outsiders + 8 * public.num_nodes * classes, block)

    def fit(self, session: Session) -> State:
        public, counting = session.public, session.plan.act("counts", Gaussian)
        prior = log_shares(session.release("counts", class_counts).double(), counting.std)
        known, block = _Known.of(public, session.run), session.run.block
        view = _View.of(known, _heard(session, known), block)
        weights = self._descended(session, view, prior)
        logits = prior.expand(public.num_nodes, -1).clone()
        gain = session.release("check", partial(_better, view=view, weights=weights, prior=prior))
        # More than noise alone would often show.
        if float(gain) > session.plan.act("check", Gaussian).std:
            outside = public.outside_training().nodes

            def belief(part: slice) -> Tensor:
                return (prior + view.outsiders(part) @ weights).log_softmax(dim=1)

            beliefs = in_blocks(len(outside), belief, block)
            logits[torch.from_numpy(outside).to(logits.device)] = view.posterior(beliefs, prior)
        return {"logits": in_blocks(len(logits), lambda part: logits[part].log_softmax(dim=1).float(), block)}

    def _descended(self, session: Session, view: _View, prior: Tensor) -> Tensor:
        """Weights [p, c] after noisy steps of full gradients, each node's clipped."""
        size, act = max(int(session.public.train.sum()), 1), session.plan.act("gradient", Gaussian)
        # Steps add up to noise of rate * steps^(1/2) * std / size in a weight.
        spread = act.std * math.sqrt(self.steps)
        rate = min(_LARGEST_RATE * 100 / self.steps, _NOISE_OF_WEIGHTS * size / spread if spread else math.inf)
        weights = prior.new_zeros(view.width, len(prior), dtype=torch.float64)
        for _ in session.run.progress.track(range(self.steps), "private gradient steps"):
            query = partial(_gradients, view=view, weights=weights, prior=prior)
            total = session.release("gradient", query).double().reshape(weights.shape)
            weights = weights - rate * total / (_CLIP * size)
        return weights

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(steps=3),)


class Votes(Enum):
    """How labels are told, where it is not by one whole vote of everybody: a `Tally`."""

    SPREAD = "spread"
    NONE = "none"


@dataclass(frozen=True, eq=False)
class _Known:
    """What outsiders show: links among them [m, m], scaled features [m, d] and coordinates `near` [m, q].

    tell: whether links look as if they said something.
    """

    arcs: Csr
    links: sp.csr_array
    x: Rows
    near: Tensor
    scaling: tuple[Scaling, ...]
    own: Axes
    joint: Axes
    tell: bool

    @classmethod
    def of(cls, public: Public, run: Run = HERE) -> _Known:
        """Made once for all runs on this graph."""
        return public.cache_public("whisper", partial(cls._made, public, run))

    @classmethod
    def _made(cls, public: Public, run: Run) -> _Known:
        outside = public.outside_training()
        scaling = scalings(outside.x, run.block)
        x, arcs = scaled_rows(outside.x, scaling), both_ways(outside.adj)
        links = sp.csr_array(arcs.to_scipy().astype(np.float64))
        near, alone = outside.x.new_zeros(x.shape[0], 0), learns_alone(public)
        own = Axes.leading(x, _width(public, 1 if alone else _IDS_AN_OWN_ENTRY), block=run.block)
        tell = not look_random(x, arcs)
        if tell and not alone:
            # What says nothing would only take length from own features.
            near = _shown(x, own, arcs, links, run)
        rows = HStack((own.of(x), LinkedMeans(links, near)))
        precise = RowMap(rows, lambda some: some.double(), rows.shape[1])
        joint = Axes.leading(precise, _width(public, 1 if alone else _IDS_AN_ENTRY), block=run.block)
        return cls(arcs, links, x, near, scaling, own, joint, tell)

    def coordinates(self, x: Tensor, links: sp.csr_array) -> Tensor:
        """Of nodes with scaled features x [k, d] and links to outsiders [k, m], float64 [k, p]. Row by row."""
        return self.joint(torch.cat([self.own(x), mean_of_linked(links, self.near)], dim=1).double())

    def propagated(self, beliefs: Tensor, prior: Tensor) -> Tensor:
        """Scores of the outsiders, [m, c], after messages along their links; beliefs: log posteriors [m, c].

        How classes are linked is counted by beliefs that heard no message, once: iterated, it drifts.
        """
        if not self.tell:
            return beliefs
        chances = beliefs.exp().cpu().numpy()
        # No pair of classes is taken to be rarer than one pair.
        pairs = np.maximum(chances.T @ (self.links @ chances), 1.0)
        shares, own = prior.exp().cpu().numpy(), beliefs.cpu().numpy()
        return torch.from_numpy(propagate(own, self.arcs, pairs / pairs.sum(), shares, _ROUNDS)).to(beliefs.device)


def _shown(x: Rows, own: Axes, arcs: Csr, links: sp.csr_array, run: Run) -> Tensor:
    """What outsiders show to whom they are linked: features, those of linked outsiders, and places, [m, q]."""
    if many(x.shape[0]):
        sent, (reach, _) = condensed(x, run.block), averaging(arcs, run.device)
        far = reach @ sent
        parts = (sent, Axes.leading(far, block=run.block).of(far), spectral_rows(arcs, run))
        shown = HStack((parts[0], RowMap(parts[1], lambda some: some * _FAR_LENGTH, parts[1].shape[1]), parts[2]))
        return in_blocks(x.shape[0], lambda part: shown[part].float(), run.block)
    far = mean_of_linked(links, x[:])
    return torch.cat([own(x[:]), Axes.leading(far)(far) * _FAR_LENGTH, spectral_rows(arcs, run)], dim=1)


@dataclass(frozen=True, eq=False)
class _View:
    """What a node sees: coordinates beside what its linked outsiders heard, if labels were told.

    cut: length; block: rows at a time; number: no two views of a process share it, so that rows which were derived for
    one are not taken for another's.
    """

    known: _Known
    heard: VoteEvidence | None
    cut: float
    block: int | None = None
    number: int = field(default_factory=partial(next, count()))

    @classmethod
    def of(cls, known: _Known, heard: VoteEvidence | None, block: int | None = None) -> _View:
        """With the length that most rows of outsiders have."""
        whole = cls(known, heard, 1.0, block)

        def length(part: slice) -> Tensor:
            found: Tensor = torch.linalg.vector_norm(whole.outsiders(part), dim=1)
            return found

        lengths = in_blocks(known.x.shape[0], length, block)
        return replace(whole, cut=max(quantile(lengths, _WHOLE), 1e-6) if len(lengths) else 1.0)

    @property
    def width(self) -> int:
        """Entries of a row."""
        return self.known.joint.axes.shape[1] + (0 if self.heard is None else len(self.heard.factors)) + 1

    def outsiders(self, part: slice) -> Tensor:
        """Rows of some nodes outside training, [b, p]."""
        known = self.known
        own = known.coordinates(known.x[part], known.links[part])
        return self._rows(own, None if self.heard is None else self.heard.outsiders(part))

    def trained(self, sealed: Sealed) -> Tensor:
        """Rows of the training nodes, [t, p], each a function of its own record: for a query. Many are of 16 bits."""
        return sealed.derived(f"whisper rows {self.number}", self._trained)

    def _trained(self, sealed: Sealed) -> Tensor:
        links, x = sealed.derived("whisper links", links_to_outsiders), OwnFeatures.of(sealed)
        heard = None if self.heard is None else self.heard.trained(sealed)
        kind = torch.float16 if many(x.shape[0]) else torch.float64

        def of(part: slice) -> Tensor:
            own = self.known.coordinates(scaled(x[part], self.known.scaling), links[part])
            return self._rows(own, None if heard is None else heard(part)).to(kind)

        return in_blocks(x.shape[0], of, self.block)

    def _rows(self, coordinates: Tensor, heard: Tensor | None) -> Tensor:
        rows = coordinates if heard is None else torch.cat([coordinates, heard], dim=1)
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return torch.cat([rows * (_LENGTH / lengths.clamp(min=self.cut)), torch.full_like(lengths, _BIAS)], dim=1)

    def posterior(self, beliefs: Tensor, prior: Tensor) -> Tensor:
        """Scores of the nodes outside training, [m, c], from the regression's log posteriors [m, c]."""
        known = self.known
        if self.heard is None:
            return known.propagated(beliefs, prior)
        return self.heard.posterior(beliefs, known.tell and _mean_links(known.arcs) < _FEW_LINKS)


def _heard(session: Session, known: _Known) -> VoteEvidence | None:
    """What outsiders were told, if labels are told at all."""
    if not any(step.name == "labels" for step in session.plan.steps):
        return None
    telling = session.plan.step("labels").act
    told = session.release("labels", partial(vote_query, telling=telling)).double().to(session.public.train.device)
    return VoteEvidence.of(known.links, told.reshape(-1, session.public.num_classes), telling)


def _width(public: Public, ids: int) -> int:
    """An entry for every `ids` training ids, within bounds."""
    least, most = _WIDTHS
    count = int(public.train.sum())
    return min(max(count // ids, least), _WIDTH_OF_MANY if many(count) else most)


def _telling(public: Public, noise: float, replaced: bool) -> tuple[Votes | Tally, float]:
    """How labels are told, and the noise that is then left to all Gaussian releases together.

    From sizes alone nobody knows how many links there are, and votes spread.
    """
    if public.outside is None or noise == 0:
        return Votes.SPREAD, noise
    reach, few = _REACH / noise, _mean_links(both_ways(public.outside_training().adj)) < _FEW_LINKS
    # A replaced record is worth two that come or go.
    worth = reach * (2 if replaced else 1)
    if worth < _HEARD * public.num_classes + (_HEARD_WHOLE if few else 0) or learns_alone(public):
        return Votes.NONE, noise
    if not few or replaced:
        return Votes.SPREAD, noise
    share, beside = _SPOKEN
    spoken = share * reach + beside
    return Tally(1 / spoken), _REACH / (reach - spoken)


def learns_alone(public: Public) -> bool:
    """Whether own features are the whole row: ids are many for each, they tell who is linked, and links are hardly any.

    Judged by nodes outside training; from sizes alone nobody knows.
    """
    if public.outside is None or int(public.train.sum()) < _IDS_A_FEATURE * public.num_features:
        return False
    return public.cache_public("whisper learns alone", partial(_own_features_tell, public))


def _own_features_tell(public: Public) -> bool:
    outside = public.outside_training()
    arcs = both_ways(outside.adj)
    if _mean_links(arcs) >= _HARDLY_ANY_LINKS:
        return False
    return alike_if_linked(scaled_rows(outside.x, scalings(outside.x)), arcs) >= _ALIKE


def _mean_links(arcs: Csr) -> float:
    return arcs.num_arcs / max(arcs.num_nodes, 1)


@dataclass(frozen=True, eq=False)
class _Gradients:
    """Cross-entropy gradients of the training nodes, as `Contributions`; one without a label adds nothing.

    rows: [t, p]; labels: int64 [t].
    """

    rows: Tensor
    labels: Tensor
    weights: Tensor
    prior: Tensor
    block: int | None = None

    def clipped_sum(self, clip: float) -> Tensor:
        """As a vector [p c], each node's no longer than `clip`."""
        return summed(len(self.rows), lambda part: self._of(part).clipped_sum(clip), self.block)

    def _of(self, part: slice) -> ExampleGradients:
        rows, labels = self.rows[part].to(self.weights.dtype), self.labels[part]
        signals = (self.prior + rows @ self.weights).softmax(dim=1)
        there = labels >= 0
        signals[there, labels[there]] -= 1
        return ExampleGradients((rows,), (signals * there[:, None],))


def _gradients(sealed: Sealed, view: _View, weights: Tensor, prior: Tensor) -> _Gradients:
    """Query: gradients at these weights."""
    return _Gradients(view.trained(sealed), sealed.y[sealed.public.train], weights, prior, view.block)


def _better(sealed: Sealed, view: _View, weights: Tensor, prior: Tensor) -> Gains:
    """Query: how many more training nodes the regression serves than naming the largest class does."""
    rows = view.trained(sealed)
    named = in_blocks(
        len(rows), lambda part: (prior + rows[part].to(weights.dtype) @ weights).argmax(dim=1, keepdim=True), view.block
    )
    return Gains(named, prior.argmax(), sealed.y[sealed.public.train])
