"""Whisper: noisy gradients on what outsiders show of a node, and labels told to linked outsiders; node level.

Our own method. Nodes outside training are not protected: their features and the edges among them are read freely. Each
training node acts on its own record alone, so nothing is assumed about degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Self

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.core import (
    Adjacency,
    InvalidInput,
    Mechanism,
    Plan,
    Reading,
    Relation,
    State,
    Step,
    Unit,
    require_whole,
)
from graphveil.graph.sealing import OUTSIDERS, Public, Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.tally import Marks, Tally
from graphveil.methods.bases.method import Method
from graphveil.methods.parts.prior import Gains, class_counts, log_shares
from graphveil.methods.parts.spread import ToldLabels, links_to_outsiders, one_hot, single_votes, spread_votes
from graphveil.nn.clipping import ExampleGradients
from graphveil.nn.coordinates import Axes, both_ways, look_random, scaled, scalings, spectral_rows
from graphveil.nn.features import Scaling
from graphveil.nn.shrinkage import shrunk_weights
from graphveil.privacy.session import Session
from graphveil.runtime.progress import track

_WHY = "docs/methods/whisper.md"
_SHARES = {"counts": 0.04, "labels": 0.3, "gradient": 0.6, "check": 0.06}
"""Of the budget, as 1 / variance in units of what one Gaussian release would have."""
_CLIP = 0.1
_WIDTHS = (128, 512)
"""Fewest and most entries of a row, and of its part for own features."""
_IDS_AN_ENTRY = 22
_IDS_AN_OWN_ENTRY = 40
"""Training ids for each of them."""
_LARGEST_RATE = 64.0
_NOISE_OF_WEIGHTS = 1.3
"""Standard deviation of the noise that steps add up to in a weight; rates are chosen for it."""
_WHOLE = 0.8
"""Share of the rows that keep their length."""
_LENGTH = 1.4
"""Of the longest rows."""
_TOLD_LENGTH = 0.5
"""Of what neighbours were told, where it is free of noise, beside 1 for coordinates."""
_FAR_LENGTH = 0.5
"""Of features two hops away, beside 1 for those of a hop."""
_DOUBT = 2.0
"""A row of what was told counts for as much as its votes, and half of it if they are this many deviations of noise."""
_FEW_LINKS = 5.0
"""Links an outsider has to others on average, below which each training node votes once, and votes are passed on."""
_REACH = 4.0
"""A Gaussian release of noise s costs about this over s."""
_RICH = 2.6
"""Reach from which a single vote under geometric noise tells more than spread ones under Gaussian noise."""
_SPOKEN = (0.8, -0.6)
"""Epsilon of a single vote: this share of the reach, and this beside it."""
_MOST_COUNTED = 30
"""Votes up to which the likelihood of a row is exact."""


@dataclass(frozen=True)
class Whisper(Method):
    """Z[v] = sum over training u of votes[u, v] e_{y_u} + noise, for every v outside training.

    u votes 1 / sqrt(d_u) to each of the d_u nodes outside training that it is linked to or, where such links are few
    and noise is low, 1 to one of them. Softmax regression by noisy gradients reads r_u: u's own features, and means
    over u's linked outsiders of their features, of their place in the graph of outsiders and of their Z less u's own
    part. An outsider's posterior is that of the regression times the likelihood of its own row of Z. One more count
    asks training nodes whether the regression serves them better than naming the largest class.
    """

    units = frozenset({Unit.NODE})
    leads = units

    steps: int = 100
    """Noisy gradient steps, at least 1."""

    def __post_init__(self) -> None:
        require_whole(self, "steps")
        if self.steps < 1:
            raise InvalidInput("whisper needs at least one step")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        # Nobody published a claim for it, so both readings are the sound one.
        replaced = adjacency.relation is Relation.REPLACE
        single, noise = (None, noise) if replaced else _single_vote(public, noise)
        acts: dict[str, tuple[Mechanism, int]] = {}
        whole = 1.0 if single is None else 1.0 - _SHARES["labels"]
        for name, share in _SHARES.items():
            times, clip = (self.steps, _CLIP) if name == "gradient" else (1, 1.0)
            acts[name] = Gaussian(noise * math.sqrt(times * whole / share), clip), times
        if single is not None:
            acts["labels"] = single, 1
        moved = 2.0 if replaced else 1.0
        steps = [Step(name, act, act.curve(moved), times, _WHY, (OUTSIDERS,)) for name, (act, times) in acts.items()]
        return Plan(adjacency, reading, tuple(steps))

    def fit(self, session: Session) -> State:
        public, counting = session.public, session.plan.act("counts", Gaussian)
        prior = log_shares(session.release("counts", class_counts).double(), counting.std)
        telling = session.plan.step("labels").act
        told = session.release("labels", partial(_labels, telling=telling)).double()
        view = _View.of(_Known.of(public), told.reshape(-1, public.num_classes), telling)
        weights = self._descended(session, view, prior)
        logits = prior.expand(public.num_nodes, -1).clone()
        gain = session.release("check", partial(_better, view=view, weights=weights, prior=prior))
        if float(gain) > 0:
            beliefs = (prior + view.outsiders() @ weights).log_softmax(dim=1)
            logits[torch.from_numpy(public.outside_training().nodes)] = view.posterior(beliefs)
        return {"logits": logits.log_softmax(dim=1).float()}

    def _descended(self, session: Session, view: _View, prior: Tensor) -> Tensor:
        """Weights [p, c] after noisy steps of full gradients, each node's clipped."""
        size, act = max(int(session.public.train.sum()), 1), session.plan.act("gradient", Gaussian)
        # Steps add up to noise of rate * steps^(1/2) * std / size in a weight.
        spread = act.std * math.sqrt(self.steps)
        rate = min(_LARGEST_RATE * 100 / self.steps, _NOISE_OF_WEIGHTS * size / spread if spread else math.inf)
        weights = torch.zeros(view.width, len(prior), dtype=torch.float64)
        for _ in track(range(self.steps), "private gradient steps"):
            query = partial(_gradients, view=view, weights=weights, prior=prior)
            total = session.release("gradient", query).double().reshape(weights.shape)
            weights = weights - rate * total / (_CLIP * size)
        return weights

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(steps=3),)


@dataclass(frozen=True, eq=False)
class _Known:
    """What outsiders show: links among them [m, m], scaled features [m, d] and coordinates `near` [m, q].

    passed_on: whether what a node heard is passed on to those linked to it.
    """

    links: sp.csr_array
    x: Tensor
    near: Tensor
    scaling: tuple[Scaling, ...]
    own: Axes
    joint: Axes
    passed_on: bool

    @classmethod
    def of(cls, public: Public) -> _Known:
        """Made once for all runs on this graph."""
        return public.cache_public("whisper", partial(cls._made, public))

    @classmethod
    def _made(cls, public: Public) -> _Known:
        outside = public.outside_training()
        scaling = scalings(outside.x)
        x, arcs = scaled(outside.x, scaling), both_ways(outside.adj)
        links = sp.csr_array(arcs.to_scipy().astype(np.float64))
        own, near, passed_on = Axes.leading(x, _width(public, _IDS_AN_OWN_ENTRY)), x.new_zeros(len(x), 0), False
        if not look_random(x, arcs):
            # What says nothing would only take length from own features.
            passed_on = _has_few_links(public)
            far = _mean(links, x)
            near = torch.cat([own(x), Axes.leading(far)(far) * _FAR_LENGTH, spectral_rows(arcs)], dim=1)
        rows = torch.cat([own(x), _mean(links, near)], dim=1)
        return cls(links, x, near, scaling, own, Axes.leading(rows.double(), _width(public, _IDS_AN_ENTRY)), passed_on)

    def coordinates(self, x: Tensor, links: sp.csr_array) -> Tensor:
        """Of nodes with scaled features x [k, d] and links to outsiders [k, m], float64 [k, p]. Row by row."""
        return self.joint(torch.cat([self.own(x), _mean(links, self.near)], dim=1).double())


@dataclass(frozen=True, eq=False)
class _View:
    """What a node sees once labels were told: coordinates beside means of what its linked outsiders heard.

    told: Z, [m, c]; telling: what made it; noise: its standard deviation; expected: votes of an outsider [m, 1], from
    the number of its links; worth: what a vote counts for [m, 1]; near: (what outsiders heard, what those linked to
    them heard) [m, 2 c]; factors: [2 c]; cut: length; number: no two views of a process share it, so that rows which
    were derived for one are not taken for another's.
    """

    known: _Known
    told: Tensor
    telling: Mechanism
    noise: float
    expected: Tensor
    worth: Tensor
    near: Tensor
    factors: Tensor
    cut: float
    number: int = field(default_factory=partial(next, count()))

    @classmethod
    def of(cls, known: _Known, told: Tensor, telling: Mechanism) -> _View:
        """From the graph of outsiders and Z as `telling` released it."""
        noise = _deviation(telling)
        linked = torch.from_numpy(np.diff(known.links.indptr) + 1.0)[:, None]
        expected = linked / linked.mean() * (told.sum() / max(len(told), 1)).clamp(min=0)
        worth = 1 / (expected + _DOUBT * noise + 1e-6)
        usual = _prior_shares(told)
        heard = (told - expected * usual) * worth
        # Votes that say nothing differ from one another too: as counts of them do, and by the noise.
        size = 1.0 if isinstance(telling, Tally) else float(linked.mean()) ** -0.5
        chance = (noise**2 + expected * usual * size).sqrt() * worth * torch.randn_like(told)
        near, blind = (_two_hops(known.links, part) for part in (heard, chance))
        energies, lost = (_energies(_mean(known.links, part)) for part in (near, blind))
        factors = _TOLD_LENGTH * (1 - lost / energies).clamp(min=0) / energies.sqrt()
        whole = cls(known, told, telling, noise, expected, worth, near, factors.repeat_interleave(told.shape[1]), 1.0)
        lengths = torch.linalg.vector_norm(whole.outsiders(), dim=1)
        return replace(whole, cut=max(float(lengths.quantile(_WHOLE)), 1e-6) if len(told) else 1.0)

    @property
    def width(self) -> int:
        """Entries of a row."""
        return self.known.joint.axes.shape[1] + len(self.factors)

    def outsiders(self) -> Tensor:
        """Rows of the nodes outside training, [m, p]."""
        return self._rows(self.known.coordinates(self.known.x, self.known.links), _mean(self.known.links, self.near))

    def trained(self, sealed: Sealed) -> Tensor:
        """Rows of the training nodes, [t, p], each a function of its own record: for a query."""
        return sealed.derived(f"whisper rows {self.number}", self._trained)

    def _trained(self, sealed: Sealed) -> Tensor:
        train = sealed.public.train
        links, told = sealed.derived("whisper links", links_to_outsiders), _told(sealed, self.telling)
        # What a node told itself it does not hear: those outside training have no such part either.
        own = torch.from_numpy(np.asarray(told.votes @ self.worth.numpy()) * one_hot(told.labels, told.classes))
        heard = _mean(links, self.near)
        heard[:, : told.classes] -= own / torch.from_numpy(np.maximum(np.diff(links.indptr), 1))[:, None]
        return self._rows(self.known.coordinates(scaled(sealed.x[train], self.known.scaling), links), heard)

    def _rows(self, coordinates: Tensor, heard: Tensor) -> Tensor:
        rows = torch.cat([coordinates, heard * self.factors], dim=1)
        lengths: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return rows * (_LENGTH / lengths.clamp(min=self.cut))

    def posterior(self, beliefs: Tensor) -> Tensor:
        """Scores of the nodes outside training, [m, c], from the regression's log posteriors [m, c] and Z."""
        shares = self._shares(beliefs.exp())
        scores = beliefs + self._evidence(beliefs.exp(), shares)
        if not self.known.passed_on:
            return scores
        # Few neighbours say little of the same; where they are many, rows have heard them all.
        told = (scores.softmax(dim=1) @ (shares / shares.sum(dim=1, keepdim=True) / _prior_shares(self.told)).T).log()
        linked = torch.from_numpy(np.diff(self.known.links.indptr))[:, None]
        return scores + _mean(self.known.links, told) * linked / (linked + 1)

    def _shares(self, beliefs: Tensor) -> Tensor:
        """Votes for class j at a node of class k, over those expected there, [c, c]: regression of Z on the beliefs."""
        usual = _prior_shares(self.told)
        weighed = beliefs * self.expected
        shifts = shrunk_weights(weighed.T @ (self.told - self.expected * usual), weighed.T @ weighed, 0.0)
        return (usual + shifts).clamp(min=1e-3)

    def _evidence(self, beliefs: Tensor, shares: Tensor) -> Tensor:
        """ln of the likelihood of outsiders' rows of Z for every class, up to a constant, [m, c]."""
        logs = self._gaussian(beliefs, shares)
        if isinstance(self.telling, Tally):
            few = (self.told.amax(dim=1) < _MOST_COUNTED) & (self.expected[:, 0] < _MOST_COUNTED)
            logs[few] = _counted(self.told[few], self.expected[few], shares, self.telling.scale)
        return logs

    def _gaussian(self, beliefs: Tensor, shares: Tensor) -> Tensor:
        """Votes for class j have mean expected * share[k, j] and a variance in proportion beside that of the noise."""
        fitted = (beliefs * self.expected) @ shares
        rest = ((self.told - fitted).square() - self.noise**2).sum() / fitted.sum().clamp(min=1e-9)
        logs = []
        for share in shares:
            mean = self.expected * share
            variance = self.noise**2 + rest.clamp(min=0.05) * mean + 1e-9
            logs.append(-((self.told - mean).square() / variance + variance.log()).sum(dim=1) / 2)
        return torch.stack(logs, dim=1)


def _width(public: Public, ids: int) -> int:
    """An entry for every `ids` training ids, within bounds."""
    least, most = _WIDTHS
    return min(max(int(public.train.sum()) // ids, least), most)


def _single_vote(public: Public, noise: float) -> tuple[Tally | None, float]:
    """What tells labels if nodes vote once, and the noise that is then left to all Gaussian releases together."""
    if noise == 0 or noise > _REACH / _RICH or not _has_few_links(public):
        return None, noise
    share, beside = _SPOKEN
    spoken = share * _REACH / noise + beside
    return Tally(1 / spoken), _REACH / (_REACH / noise - spoken)


def _has_few_links(public: Public) -> bool:
    """Whether nodes outside training have few links to one another; from sizes alone nobody knows, and votes spread."""
    if public.outside is None:
        return False
    adj = both_ways(public.outside_training().adj)
    return adj.num_arcs < _FEW_LINKS * adj.num_nodes


def _deviation(act: Mechanism) -> float:
    """Standard deviation of the noise in a cell."""
    if isinstance(act, Tally):
        odds = math.exp(-1 / act.scale)
        return math.sqrt(2 * odds) / (1 - odds)
    assert isinstance(act, Gaussian)
    return act.std


def _counted(told: Tensor, expected: Tensor, shares: Tensor, scale: float) -> Tensor:
    """ln sum over i of Poisson(i; expected * share[k, j]) e^(-|told - i| / scale), summed over j, [m, c].

    told: noisy whole numbers [m, c]; expected: [m, 1]; shares: [c, c].
    """
    numbers, expected = torch.arange(_MOST_COUNTED + 10, dtype=torch.float64), expected.clamp(min=1e-6)
    rates = numbers * expected.log() - torch.lgamma(numbers + 1)
    logs = torch.zeros_like(told)
    for column, share in zip(told.T, shares.T, strict=True):
        terms = rates - (column[:, None] - numbers).abs() / scale
        top = terms.amax(dim=1, keepdim=True)
        logs += ((terms - top).exp() @ (share ** numbers[:, None])).clamp(min=1e-300).log() - expected * share
    return logs


def _mean(links: sp.csr_array, values: Tensor) -> Tensor:
    """Mean over linked outsiders, [k, q]; 0 for who has none. links: [k, m]; values: [m, q]."""
    totals = torch.from_numpy(np.asarray(links @ values.double().numpy()))
    return totals / torch.from_numpy(np.maximum(np.diff(links.indptr), 1))[:, None]


def _two_hops(links: sp.csr_array, values: Tensor) -> Tensor:
    return torch.cat([values, _mean(links, values)], dim=1)


def _energies(blocks: Tensor) -> Tensor:
    """Mean squares of the rows of either half, [2]."""
    return blocks.square().sum(dim=0).view(2, -1).sum(dim=1) / max(len(blocks), 1) + 1e-12


def _prior_shares(told: Tensor) -> Tensor:
    """Shares of the classes among all votes, [c]."""
    totals = told.sum(dim=0).clamp(min=1e-3)
    return totals / totals.sum()


def _told(sealed: Sealed, telling: Mechanism) -> ToldLabels:
    """What every training node tells to the outsiders it is linked to."""
    votes = single_votes if isinstance(telling, Tally) else spread_votes
    links = sealed.derived("whisper links", links_to_outsiders)
    return ToldLabels(votes(links), sealed.y[sealed.public.train], sealed.public.num_classes)


def _labels(sealed: Sealed, telling: Mechanism) -> ToldLabels | Marks:
    """Query: what they tell, as `telling` takes it."""
    told = _told(sealed, telling)
    return told.marks() if isinstance(telling, Tally) else told


def _gradients(sealed: Sealed, view: _View, weights: Tensor, prior: Tensor) -> ExampleGradients:
    """Query: cross-entropy gradients of the training nodes; one without a label adds nothing."""
    rows, labels = view.trained(sealed), sealed.y[sealed.public.train]
    signals = (prior + rows @ weights).softmax(dim=1)
    there = labels >= 0
    signals[there, labels[there]] -= 1
    return ExampleGradients((rows,), (signals * there[:, None],))


def _better(sealed: Sealed, view: _View, weights: Tensor, prior: Tensor) -> Gains:
    """Query: how many more training nodes the regression serves than naming the largest class does."""
    named = (prior + view.trained(sealed) @ weights).argmax(dim=1, keepdim=True)
    return Gains(named, prior.argmax(), sealed.y[sealed.public.train])
