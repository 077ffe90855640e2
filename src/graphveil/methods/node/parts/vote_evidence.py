"""What outsiders heard: noisy votes of training nodes as coordinates of a row, and as evidence about a class."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphveil.data.sealing import Sealed
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Marks, Tally
from graphveil.methods.node.parts.vote_weights import (
    ToldLabels,
    links_to_outsiders,
    one_hot,
    single_votes,
    spread_votes,
)
from graphveil.nn.aggregate import linked_sum
from graphveil.nn.shrinkage import shrunk_weights
from graphveil.vocabulary import Mechanism

_LENGTH = 0.5
"""Of what neighbours were told, where it is free of noise, beside 1 for coordinates."""
_DOUBT = 2.0
"""A row of what was told counts for as much as its votes, and half of it if they are this many deviations of noise."""
_MAX_COUNTED = 30
"""Votes up to which the likelihood of a row is exact."""


@dataclass(frozen=True, eq=False)
class VoteEvidence:
    """Z [m, c] as `telling` released it, beside the links among outsiders [m, m].

    noise: its standard deviation; expected: votes of an outsider [m, 1], from the number of its links; worth: what a
    vote counts for [m, 1]; near: (what outsiders heard, what those linked to them heard) [m, 2 c]; factors: [2 c].
    """

    links: sp.csr_array
    told: Tensor
    telling: Mechanism
    noise: float
    expected: Tensor
    worth: Tensor
    near: Tensor
    factors: Tensor

    @classmethod
    def of(cls, links: sp.csr_array, told: Tensor, telling: Mechanism) -> VoteEvidence:
        """From the graph of outsiders and Z."""
        noise = _deviation(telling)
        linked = torch.from_numpy(np.diff(links.indptr) + 1.0).to(told.device)[:, None]
        expected = _expected(linked, told)
        worth = 1 / (expected + _DOUBT * noise + 1e-6)
        usual = _prior_shares(told)
        heard = (told - expected * usual) * worth
        # Votes that say nothing differ from one another too: as counts of them do, and by the noise.
        size = 1.0 if isinstance(telling, Tally) else float(linked.mean()) ** -0.5
        drawn = torch.randn(told.shape, dtype=told.dtype, device="cpu").to(told.device)
        chance = (noise**2 + expected * usual * size).sqrt() * worth * drawn
        near, blind = (_two_hops(links, part) for part in (heard, chance))
        energies, lost = (_energies(mean_of_linked(links, part)) for part in (near, blind))
        factors = _LENGTH * (1 - lost / energies).clamp(min=0) / energies.sqrt()
        return cls(links, told, telling, noise, expected, worth, near, factors.repeat_interleave(told.shape[1]))

    def outsiders(self, part: slice) -> Tensor:
        """What the outsiders linked to each of some outsiders heard, [b, 2 c]."""
        return mean_of_linked(self.links[part], self.near) * self.factors

    def trained(self, sealed: Sealed) -> Callable[[slice], Tensor]:
        """What the outsiders linked to some training nodes heard, [b, 2 c], each row of its own record: for a query."""
        links, told = sealed.derived("whisper links", links_to_outsiders), told_by(sealed, self.telling)
        spoken = np.asarray(told.votes @ self.worth.cpu().numpy())

        def of(part: slice) -> Tensor:
            # What a node told itself it does not hear: those outside training have no such part either.
            own = torch.from_numpy(spoken[part] * one_hot(told.labels[part], told.classes))
            own /= torch.from_numpy(np.maximum(np.diff(links[part].indptr), 1))[:, None]
            heard = mean_of_linked(links[part], self.near)
            heard[:, : told.classes] -= own.to(heard.device)
            return heard * self.factors

        return of

    def posterior(self, beliefs: Tensor, passed_on: bool) -> Tensor:
        """Scores of the outsiders, [m, c], from log posteriors [m, c] without Z, and Z."""
        shares = self._shares(beliefs.exp())
        scores = beliefs + self._evidence(beliefs.exp(), shares)
        if not passed_on:
            return scores
        # Few neighbours say little of the same; where they are many, rows have heard them all.
        told = (scores.softmax(dim=1) @ (shares / shares.sum(dim=1, keepdim=True) / _prior_shares(self.told)).T).log()
        linked = torch.from_numpy(np.diff(self.links.indptr)).to(scores.device)[:, None]
        return scores + mean_of_linked(self.links, told) * linked / (linked + 1)

    def _shares(self, beliefs: Tensor) -> Tensor:
        """Votes for class j at a node of class k, over those expected there, [c, c]: regression of Z on the beliefs.

        Of whole votes, the shares of the classes: how many there are says more of the node's links than of its class.
        """
        usual = _prior_shares(self.told)
        weighed, more = beliefs * self.expected, self.told - self.expected * usual
        # Regression takes what is to be explained for shares of one; under noise votes deviate by more.
        size = max(float(more.square().mean().sqrt()), 1.0)
        shares = (usual + size * shrunk_weights(weighed.T @ (more / size), weighed.T @ weighed, 0.0)).clamp(min=1e-3)
        return shares / shares.sum(dim=1, keepdim=True) if isinstance(self.telling, Tally) else shares

    def _evidence(self, beliefs: Tensor, shares: Tensor) -> Tensor:
        """ln of the likelihood of outsiders' rows of Z for every class, up to a constant, [m, c]."""
        logs = self._gaussian(beliefs, shares)
        if isinstance(self.telling, Tally):
            few = (self.told.amax(dim=1) < _MAX_COUNTED) & (self.expected[:, 0] < _MAX_COUNTED)
            logs[few] = counted(self.told[few], self.expected[few], shares, self.telling.scale)
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


def told_by(sealed: Sealed, telling: Mechanism) -> ToldLabels:
    """What every training node tells to the outsiders it is linked to."""
    votes = single_votes if isinstance(telling, Tally) else spread_votes
    links = sealed.derived("whisper links", links_to_outsiders)
    return ToldLabels(votes(links), sealed.y[sealed.public.train].cpu(), sealed.public.num_classes)


def vote_query(sealed: Sealed, telling: Mechanism) -> ToldLabels | Marks:
    """Query: what they tell, as `telling` takes it."""
    told = told_by(sealed, telling)
    return told.marks() if isinstance(telling, Tally) else told


def counted(told: Tensor, expected: Tensor, shares: Tensor, scale: float) -> Tensor:
    """ln sum over i of Poisson(i; expected * share[k, j]) e^(-|told - i| / scale), summed over j, [m, c].

    told: noisy whole numbers [m, c]; expected: [m, 1]; shares: [c, c].
    """
    numbers = torch.arange(_MAX_COUNTED + 10, dtype=torch.float64, device=told.device)
    expected = expected.clamp(min=1e-6)
    rates = numbers * expected.log() - torch.lgamma(numbers + 1)
    logs = torch.zeros_like(told)
    for column, share in zip(told.T, shares.T, strict=True):
        terms = rates - (column[:, None] - numbers).abs() / scale
        top = terms.amax(dim=1, keepdim=True)
        logs += ((terms - top).exp() @ (share ** numbers[:, None])).clamp(min=1e-300).log() - expected * share
    return logs


def mean_of_linked(links: sp.csr_array, values: Tensor) -> Tensor:
    """Mean over linked outsiders, [k, q]; 0 for who has none. links: [k, m]; values: [m, q]."""
    totals = linked_sum(links.indptr, links.indices, values)
    return totals / torch.from_numpy(np.maximum(np.diff(links.indptr), 1)).to(values.device)[:, None]


@dataclass(frozen=True, eq=False)
class LinkedMeans:
    """`mean_of_linked` as `Rows`, [k, q]."""

    links: sp.csr_array
    values: Tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """(k, q)."""
        return self.links.shape[0], self.values.shape[1]

    def __getitem__(self, which: Tensor | slice) -> Tensor:
        return mean_of_linked(self.links[which if isinstance(which, slice) else which.cpu().numpy()], self.values)


def _expected(linked: Tensor, told: Tensor) -> Tensor:
    """Votes of each outsider, [m, 1], as a straight line of its links by regression of all votes on them.

    Between a line through the origin and a level one: where links are a matter of chance, who has many among outsiders
    has no more elsewhere.
    """
    votes, above = told.sum(dim=1, keepdim=True), linked - linked.mean()
    usual = votes.mean().clamp(min=0)
    slope = (above * votes).mean() / above.square().mean().clamp(min=1e-9)
    return usual + torch.minimum(slope.clamp(min=0), usual / linked.mean()) * above


def _deviation(act: Mechanism) -> float:
    """Standard deviation of the noise in a cell."""
    if isinstance(act, Tally):
        odds = math.exp(-1 / act.scale)
        return math.sqrt(2 * odds) / (1 - odds)
    assert isinstance(act, Gaussian)
    return act.std


def _two_hops(links: sp.csr_array, values: Tensor) -> Tensor:
    return torch.cat([values, mean_of_linked(links, values)], dim=1)


def _energies(blocks: Tensor) -> Tensor:
    """Mean squares of the rows of either half, [2]."""
    return blocks.square().sum(dim=0).view(2, -1).sum(dim=1) / max(len(blocks), 1) + 1e-12


def _prior_shares(told: Tensor) -> Tensor:
    """Shares of the classes among all votes, [c]."""
    totals = told.sum(dim=0).clamp(min=1e-3)
    return totals / totals.sum()
