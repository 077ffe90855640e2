"""Defects planted in what bounds a release: the telling graphs of the search find each, without any luck."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from neighbours import adjacencies, telling
from test_methods import moves
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.methods.method import METHODS
from graphveil.methods.node import ndp
from graphveil.nn.aggregate import NeighbourSums, clip_factors, clip_rows, neighbour_sum
from graphveil.nn.low_rank import Core, flat
from graphveil.nn.sampling import heterpoisson as sampler
from graphveil.nn.sampling.bounded import cap_out_arcs, silence_hubs
from graphveil.vocabulary import Adjacency, Floats, Reading, Unit

Plant = Callable[[pytest.MonkeyPatch], None]


def shorter_moves(patch: pytest.MonkeyPatch, share: Callable[[Contractive], float]) -> None:
    whole = Contractive.move
    patch.setattr(Contractive, "move", lambda self, undirected: whole(self, undirected) * share(self))


def hubs_that_speak(patch: pytest.MonkeyPatch, speak: Callable[[Csr, Ids, int], Csr]) -> None:
    patch.setattr(ndp, "silence_hubs", speak)


def by_private_degree(act: HeterPoissonSampling, sealed: Sealed) -> Floats:
    """Keep probabilities from the arcs that are there, which a neighbour changes."""
    train = sealed.public.train.numpy()
    heard = np.repeat(train, np.diff(sealed.adj.indptr))
    degrees = np.bincount(sealed.adj.indices[heard], minlength=sealed.adj.num_nodes)
    return np.where(train, sampler.keep_probabilities(degrees, act.multiplier, act.cap), 0.0)


def centres_that_stay(patch: pytest.MonkeyPatch) -> None:
    drawn = sampler.sample
    patch.setattr(sampler, "sample", lambda *given, **how: drawn(*given, **{**how, "drop_centres": False}))


def core_of_rows_at_an_angle(self: Core, clip: float) -> Tensor:
    """Forgets that parallel rows count twice."""
    rows = clip_rows(self.rows.double(), math.sqrt(clip / 1.5 if self.undirected else clip))
    core = rows.T @ neighbour_sum(self.adj, rows)
    return flat(core) if self.undirected else core.ravel()


def sums_by_degree(scale: Callable[[Ids], Floats]) -> Callable[[NeighbourSums, float], Tensor]:
    """Sums that depend on how many are heard."""

    def clipped_sum(self: NeighbourSums, clip: float) -> Tensor:
        sums = neighbour_sum(self.adj, self.rows, clip_factors(self.rows, clip))
        return sums * torch.from_numpy(scale(np.diff(self.adj.indptr)))[:, None]

    return clipped_sum


DEFECTS: dict[str, tuple[str, str, Plant]] = {
    "a move without loops": (
        "caribou",
        "edge",
        lambda patch: shorter_moves(patch, lambda a: 1 / (1 + a.loops / a.tau)),
    ),
    "a move a tenth too short": ("caribou", "edge", lambda patch: shorter_moves(patch, lambda _: 0.9)),
    "arcs capped unstably": (
        "ndp",
        "node",
        lambda patch: hubs_that_speak(patch, lambda arcs, _, cap: cap_out_arcs(arcs, cap, 0)),
    ),
    "a cap that is one too large": (
        "ndp",
        "node",
        lambda patch: hubs_that_speak(patch, lambda arcs, degrees, cap: silence_hubs(arcs, degrees, cap + 1)),
    ),
    "hubs by arcs that are there": (
        "ndp",
        "node",
        lambda patch: hubs_that_speak(
            patch,
            lambda arcs, _, cap: silence_hubs(arcs, np.bincount(arcs.indices, minlength=arcs.num_nodes), cap),
        ),
    ),
    "neighbours kept by private degree": (
        "heterpoisson",
        "node",
        lambda patch: patch.setattr(HeterPoissonSampling, "_keep", by_private_degree),
    ),
    "centres that stay elsewhere": ("heterpoisson", "node", centres_that_stay),
    "a core for rows at an angle": (
        "eclipse",
        "edge",
        lambda patch: patch.setattr(Core, "clipped_sum", core_of_rows_at_an_angle),
    ),
    "sums stretched from degree 2": (
        "gap",
        "edge",
        lambda patch: patch.setattr(
            NeighbourSums, "clipped_sum", sums_by_degree(lambda heard: np.where(heard > 1, 1.02, 1.0))
        ),
    ),
    "sums of hubs halved": (
        "gap",
        "edge",
        lambda patch: patch.setattr(
            NeighbourSums, "clipped_sum", sums_by_degree(lambda heard: np.where(heard > 5, 0.5, 1.0))
        ),
    ),
}


@pytest.mark.parametrize("defect", DEFECTS)
def test_telling_graphs_find_a_planted_defect(defect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, unit, plant = DEFECTS[defect]
    method, adjacency = METHODS.find(name).specimens()[0], Adjacency.of(unit)
    assert max(moves(method, adjacency, Reading.SOUND, 0, 0)) <= 1 + 1e-6
    plant(monkeypatch)
    assert max(moves(method, adjacency, Reading.SOUND, 0, 0)) > 1.01


@pytest.mark.parametrize("adjacency", adjacencies(frozenset(Unit)), ids=str)
def test_telling_pairs_are_neighbours(adjacency: Adjacency) -> None:
    """They differ in one edge, or in what one node is, and everybody else is the same."""
    pairs = telling(adjacency)
    assert len({name for name, _, _ in pairs}) > 6
    for _, here, there in pairs:
        changed = (here.x != there.x).any(dim=1) | (here.y != there.y)
        links = np.argwhere(here.links != there.links)
        if adjacency.unit is Unit.EDGE:
            assert not bool(changed.any())
            assert len(links) == (2 if adjacency.undirected else 1)
            continue
        assert int(changed.sum()) == 1
        node = int(changed.nonzero())
        assert all(node in pair for pair in links.tolist())
        assert adjacency.unit is Unit.NODE or not len(links)
    roles = pairs[0][1].graph()
    assert all(bool(mask.any()) for mask in (roles.train, roles.val, roles.test))
