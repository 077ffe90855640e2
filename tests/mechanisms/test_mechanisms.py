"""The privacy claim of every mechanism, put to the test on samples of what it releases.

Two neighbouring inputs at the declared sensitivity, many releases of each, and the largest
Pr[S | one] - e^epsilon Pr[S | other] over half-lines S of the best test statistic. By the DKW inequality it
exceeds the true hockey-stick divergence by more than the margin once in a million runs.

Samples see half the noise, whatever the reason. A few per cent are seen where laws are read off: test_recorded_laws.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import binom
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.described import mechanisms
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.flipped_edges import Asked, FlippedEdges
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Marks, Tally
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve, HeterPoissonSampling
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.poisson import Poisson, SampledOnce
from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.mechanisms.sml import Sml
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.mechanisms.top_pairs import Ranked, TopPairs
from graphveil.nn.aggregate import NeighbourSums, clip_rows
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Curve, Floats, Mechanism

NOTHING = cast(Sealed, None)
some = pytest.mark.parametrize(
    "runs", [pytest.param(3_000, id="quick"), pytest.param(8_000, id="long", marks=pytest.mark.slow)]
)
EPSILONS = (0.0, 0.3, 1.0)
MECHANISMS = [one for kind in mechanisms().values() for one in kind.specimens()]


@dataclass(frozen=True, eq=False)
class Rows:
    """Contributions given as a matrix [m, d]."""

    rows: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        return clip_rows(self.rows.double(), clip).sum(dim=0)


@dataclass(frozen=True)
class World:
    """How to release `runs` values of the test statistic for the unit present and absent."""

    present: Callable[[int, Stream], Floats]
    absent: Callable[[int, Stream], Floats]
    claim: Curve


def world_of(act: Mechanism) -> World | None:
    """Neighbouring inputs for a mechanism, at a sensitivity that makes the claim neither trivial nor hopeless."""
    if isinstance(act, Gaussian | Laplace | Sml):
        moved = max(1, round(act.scale if isinstance(act, Laplace) else act.std))
        wrap = _same if isinstance(act, Laplace) else Rows
        # Contributions far longer than the clip: the mechanism itself must bound them.
        rows = torch.full((moved, 1), 1e3 * act.clip)
        none = torch.zeros(1, 1)
        return World(_repeated(act, lambda _: wrap(rows)), _repeated(act, lambda _: wrap(none)), act.curve(moved))
    if isinstance(act, StagedResponse):
        return World(_told(act, 0), _told(act, 1), act.curve(1))
    if isinstance(act, OneBit):
        return World(_bits(act, 1e3), _bits(act, -1e3), act.curve(1))
    if isinstance(act, PriorResponse):
        return World(_said(act, 0), _said(act, 1), act.curve(1))
    if isinstance(act, RandomisedResponse):
        return World(_answers(act, 0), _answers(act, 1), act.curve(1))
    if isinstance(act, FlippedEdges):
        return World(_yeses(act, True), _yeses(act, False), act.curve(1))
    if isinstance(act, TopPairs):
        return World(_named(act, True), _named(act, False), act.curve(1))
    if isinstance(act, NoisyMax | LaplaceMax):
        return World(_favoured(act, 0), _favoured(act, 1), act.curve(1))
    if isinstance(act, NoisyVotes):
        return World(_elected(act, 0), _elected(act, 1), act.curve(1))
    if isinstance(act, SampledOnce):
        return World(_taught(act, 0), _taught(act, 1), act.curve(1))
    if isinstance(act, Poisson) and isinstance(act.inner, NoisyMax):
        return World(_taught(act, 0), _taught(act, 1), act.curve(1))
    if isinstance(act, Tally):
        return World(_marked(act, True), _marked(act, False), act.curve(1))
    if isinstance(act, Settling):
        return World(_settled(act, True), _settled(act, False), act.curve(2))
    if isinstance(act, Poisson) and isinstance(act.inner, Gaussian | Laplace):
        wrap = Rows if isinstance(act.inner, Gaussian) else _same
        return World(
            _repeated(act, partial(_sampled, act.population, 1e3, wrap)),
            _repeated(act, partial(_sampled, act.population, 0.0, wrap)),
            act.curve(1),
        )
    if isinstance(act, FixedSize) and isinstance(act.inner, Gaussian):
        return World(
            _repeated(act, partial(_sampled, act.population, 1e3, Rows)),
            _repeated(act, partial(_sampled, act.population, -1e3, Rows)),
            act.curve(2),
        )
    if isinstance(act, HeterPoissonSampling) and isinstance(act.inner, Gaussian):
        return star(act, out_degree=max(1, round(act.multiplier / act.cap)))
    if isinstance(act, Contractive):
        # Without the mean, pairs of nodes that share no edge run independently: one graph holds all runs.
        pairs = replace(act, alpha=1.0)
        return World(_joined(pairs, True), _joined(pairs, False), pairs.curve(pairs.move(undirected=True)))
    return None


def star(act: HeterPoissonSampling, out_degree: int) -> World:
    """Node 0 points at 1 .. out_degree: what they release tells whether it is there; the others release nothing.

    A central node that kept node 0 is turned round, so that it moves two clips. Node 0 itself speaks along another
    axis, so that it does not hide among them. The statistic is the likelihood ratio of what is released.
    """
    claim = act.curve(2)
    assert isinstance(claim, HeterPoissonCurve)
    public = replace(
        Public.blank(act.population, 1, 2, num_train=act.population),
        degrees=np.where(np.arange(act.population) == 0, out_degree, 0),
    )
    arcs = Csr.from_edge_index(np.zeros(out_degree, np.int64), np.arange(1, out_degree + 1), act.population)
    labels = torch.zeros(act.population, dtype=torch.int64)
    absent = torch.where(torch.arange(act.population) == 0, -1, labels)
    worlds = [
        Sealed(torch.zeros(act.population, 1), y, adj, public)
        for y, adj in ((labels, arcs), (absent, Csr.empty(act.population)))
    ]
    with_hub, without_hub = (_released_ratios(act, sealed, claim, out_degree) for sealed in worlds)
    return World(with_hub, without_hub, replace(claim, low=out_degree, high=out_degree))


def _hub_rows(sealed: Sealed, batch: Subgraphs, out_degree: int) -> Rows:
    centres = torch.from_numpy(batch.centres)
    holds = torch.from_numpy(np.diff(batch.ptr) > 1)
    rows = torch.zeros(len(centres), 2)
    rows[:, 0] = torch.where((centres >= 1) & (centres <= out_degree), torch.where(holds, 1e3, -1e3), 0.0)
    rows[:, 1] = torch.where((centres == 0) & (sealed.y[centres] >= 0), 1e3, 0.0)
    return Rows(rows)


def _released_ratios(
    act: HeterPoissonSampling, sealed: Sealed, claim: HeterPoissonCurve, out_degree: int
) -> Callable[[int, Stream], Floats]:
    def draw(runs: int, source: Stream) -> Floats:
        query = partial(_hub_rows, out_degree=out_degree)
        with sealed.opened():
            seen = np.stack([act.apply(sealed, query, source).double().numpy() for _ in range(runs)])
        return _hub_ratio(seen / act.inner.clip, claim, out_degree)

    return draw


def _hub_ratio(seen: Floats, claim: HeterPoissonCurve, out_degree: int) -> Floats:
    """Log-likelihood of releases [runs, 2] with the hub over that without it, in clips."""
    present, absent = np.zeros(len(seen)), np.zeros(len(seen))

    def density(first: float, second: float) -> Floats:
        squares = (seen[:, 0] - first) ** 2 + (seen[:, 1] - second) ** 2
        return np.asarray(np.exp(-squares / (8 * claim.noise**2)))

    for count, chance in enumerate(binom.pmf(np.arange(out_degree + 1), out_degree, claim.rate)):
        absent += chance * density(-count, 0)
        for kept, share in enumerate(binom.pmf(np.arange(count + 1), count, claim.keep(out_degree))):
            present += chance * share * (1 - claim.rate) * density(2 * kept - count, 0)
            moved = 2 * kept - count if claim.overlap else -count
            present += chance * share * claim.rate * density(moved, 1)
    return np.asarray(np.log(np.maximum(present, 1e-300)) - np.log(np.maximum(absent, 1e-300)))


def _joined(act: Contractive, present: bool) -> Callable[[int, Stream], Floats]:
    """Pairs of nodes that differ, all of them joined by an edge or none; the statistic is the difference of a pair."""

    def draw(runs: int, source: Stream) -> Floats:
        ids = np.arange(2 * runs)
        adj = Csr.from_edge_index(ids, ids ^ 1, len(ids)) if present else Csr.empty(len(ids))
        rows = torch.tensor([[1e3], [-1e3]]).repeat(runs, 1)
        out = act.apply(NOTHING, lambda _: NeighbourSums(adj, rows), source).double()
        return (out[1::2, 0] - out[::2, 0]).numpy()

    return draw


def _same(rows: Tensor) -> Tensor:
    return rows


def _sampled(population: int, value: float, wrap: Callable[[Tensor], Any], _: Sealed, batch: Tensor) -> Any:
    """Only record 0 contributes."""
    rows = torch.zeros(population, 1)
    rows[0] = value
    return wrap(rows[batch])


def _repeated(act: Mechanism, query: Callable[..., Any]) -> Callable[[int, Stream], Floats]:
    def draw(runs: int, source: Stream) -> Floats:
        return np.array([act.apply(NOTHING, query, source).item() for _ in range(runs)])

    return draw


def _said(act: PriorResponse, truth: int) -> Callable[[int, Stream], Floats]:
    """The same with the first two categories as candidates, which is the case that attains the claim."""

    def draw(runs: int, source: Stream) -> Floats:
        candidates = (torch.arange(act.categories) < 2).expand(runs, -1)
        out = act.apply(NOTHING, lambda _: Choices(torch.full((runs,), truth), candidates), source)
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def _told(act: StagedResponse, truth: int) -> Callable[[int, Stream], Floats]:
    """Half of the records are asked first, among all; the others among the first two categories, as in `_said`."""

    def draw(runs: int, source: Stream) -> Floats:
        stage = torch.arange(2 * runs) % 2
        few = torch.arange(act.categories) < 2
        asked = Stages(torch.full((2 * runs,), truth), stage, lambda said: few.expand(2 * runs, -1) | (said < 0).all())
        out = act.apply(NOTHING, lambda _: asked, source)[1::2, 0]
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def _bits(act: OneBit, value: float) -> Callable[[int, Stream], Floats]:
    """Values far beyond the range: the mechanism itself must cut them."""

    def draw(runs: int, source: Stream) -> Floats:
        return act.apply(NOTHING, lambda _: torch.full((runs,), value), source).double().numpy()

    return draw


def _answers(act: RandomisedResponse, truth: int) -> Callable[[int, Stream], Floats]:
    """+1 where the answer speaks for world 0, -1 where it speaks for world 1."""

    def draw(runs: int, source: Stream) -> Floats:
        out = act.apply(NOTHING, lambda _: torch.full((runs,), truth), source)
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def _yeses(act: FlippedEdges, present: bool) -> Callable[[int, Stream], Floats]:
    """Two nodes, joined or not; +1 where the pair (0, 1) says yes, else -1. Every yes is kept."""
    arcs = np.array([[0, 1], [1, 0]][: 2 if act.undirected else 1])
    adj = Csr.from_edge_index(arcs[:, 0], arcs[:, 1], 2) if present else Csr.empty(2)

    def draw(runs: int, source: Stream) -> Floats:
        said = (act.apply(NOTHING, lambda _: Asked(adj), source) for _ in range(runs))
        return np.array([1.0 if [0, 1] in out.T.tolist() else -1.0 for out in said])

    return draw


def _named(act: TopPairs, present: bool) -> Callable[[int, Stream], Floats]:
    """Twenty nodes, of which 0 and 1 are joined or not; +1 where the pair (0, 1) is among the ten named, else -1."""
    arcs = np.array([[0, 1], [1, 0]][: 2 if act.undirected else 1])
    adj = Csr.from_edge_index(arcs[:, 0], arcs[:, 1], 20) if present else Csr.empty(20)

    def draw(runs: int, source: Stream) -> Floats:
        said = (act.apply(NOTHING, lambda _: Ranked(adj, 10), source) for _ in range(runs))
        return np.array([1.0 if [0, 1] in out.T.tolist() else -1.0 for out in said])

    return draw


def _marked(act: Tally, present: bool) -> Callable[[int, Stream], Floats]:
    """A contribution, or none, leaves more marks in a cell than it may. Cells are independent: each is a run."""

    def draw(runs: int, source: Stream) -> Floats:
        cells = np.repeat(np.arange(runs if present else 0)[:, None], act.marks + 5, axis=1)
        return act.apply(NOTHING, lambda _: Marks(cells, runs), source).double().numpy()

    return draw


def _settled(act: Settling, present: bool) -> Callable[[int, Stream], Floats]:
    """Pairs of nodes in one of eight communities, joined or not: how often a node of the pair settles in that one.

    Pairs share no edge with others, so one graph holds all runs.
    """

    def draw(runs: int, source: Stream) -> Floats:
        ids = np.arange(2 * runs)
        adj = Csr.from_edge_index(ids, ids ^ 1, len(ids)) if present else Csr.empty(len(ids))
        asked = Unsettled(adj, np.zeros(len(ids), np.int64), np.zeros((len(ids), 8)), ids)
        out = act.apply(NOTHING, lambda _: asked, source).reshape(runs, 2)
        return (out == 0).sum(dim=1).double().numpy() + ((out[:, 0] == out[:, 1]) & (out[:, 0] > 0)).double().numpy()

    return draw


def _favoured(act: NoisyMax | LaplaceMax, winner: int) -> Callable[[int, Stream], Floats]:
    """Rows are one vertex or another; +1 where class 0 is named, -1 where class 1 is."""

    def draw(runs: int, source: Stream) -> Floats:
        rows = torch.zeros(runs, act.classes)
        rows[:, winner] = 1.0
        out = act.apply_many(NOTHING, lambda _: rows, source, runs)
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def _elected(act: NoisyVotes, side: int) -> Callable[[int, Stream], Floats]:
    """Three voters, of whom one changes sides."""

    def draw(runs: int, source: Stream) -> Floats:
        votes = torch.tensor([0, 1, side]).repeat(runs, 1)
        out = act.apply_many(NOTHING, lambda _: votes, source, runs)
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def _taught(act: Poisson, winner: int) -> Callable[[int, Stream], Floats]:
    """Record 0, if it is sampled, turns the row from vertex 1 to `winner`."""
    vertices = torch.eye(cast(NoisyMax, act.inner).classes)

    def row(_: Sealed, batch: Tensor) -> Tensor:
        return vertices[winner if 0 in batch else 1][None]

    def rows(sealed: Sealed, batches: list[Tensor]) -> Tensor:
        return torch.cat([row(sealed, batch) for batch in batches])

    def draw(runs: int, source: Stream) -> Floats:
        if isinstance(act, SampledOnce):
            out = torch.cat([act.apply(NOTHING, row, source) for _ in range(runs)])
        else:
            out = act.apply_many(NOTHING, rows, source, runs)
        return ((out == 0).double() - (out == 1).double()).numpy()

    return draw


def divergence(first: Floats, second: Floats, epsilon: float) -> float:
    """Largest Pr[first in S] - e^epsilon Pr[second in S] over half-lines S of either side."""
    cuts = np.unique(np.concatenate([first, second]))
    found = 0.0
    for sign in (1.0, -1.0):
        here, there = np.sort(sign * first), np.sort(sign * second)
        at = np.sort(sign * cuts)
        above = [1 - np.searchsorted(side, at, side="left") / len(side) for side in (here, there)]
        found = max(found, float((above[0] - math.exp(epsilon) * above[1]).max()))
    return found


def margin(runs: int, epsilon: float) -> float:
    """DKW at one in a million for either sample."""
    return (1 + math.exp(epsilon)) * math.sqrt(math.log(4e6) / (2 * runs))


def affordable(act: Mechanism, runs: int) -> int:
    """Where one release holds all runs, more of them cost nothing."""
    cheap = RandomisedResponse | PriorResponse | OneBit | Tally | Settling | Contractive
    return 8_000 if isinstance(act, cheap) else runs


def excesses(world: World, claim: Curve, source: Stream, runs: int) -> list[float]:
    """By how many margins the measured divergence lies above (or, negative, below) the claim."""
    return excesses_of(world.present(runs, source), world.absent(runs, source), claim)


def excesses_of(present: Floats, absent: Floats, claim: Curve) -> list[float]:
    """The same for values of the statistic, equally many in either world."""
    both = claim.deltas(np.array(EPSILONS))
    assert both is not None
    found = []
    for place, epsilon in enumerate(EPSILONS):
        for deltas, (first, second) in zip(both, ((present, absent), (absent, present)), strict=True):
            gap = divergence(first, second, epsilon) - float(deltas[place])
            found.append(gap / margin(len(present), epsilon))
    return found


@some
@pytest.mark.parametrize("act", MECHANISMS, ids=str)
def test_releases_differ_no_more_than_claimed(act: Mechanism, runs: int) -> None:
    world = world_of(act)
    if world is None:
        assert act.curve(1.0).infinite, "say in world_of how neighbours of this mechanism look"
        return
    assert max(excesses(world, world.claim, Seeded(1), affordable(act, runs))) <= 1


def quieter(act: Mechanism) -> Mechanism:
    """The same mechanism with half its noise."""
    if isinstance(act, Gaussian):
        return replace(act, std=act.std / 2)
    if isinstance(act, Laplace | NoisyMax | LaplaceMax | Tally):
        return replace(act, scale=act.scale / 2)
    assert isinstance(act, RandomisedResponse | PriorResponse | OneBit | FlippedEdges)
    return replace(act, epsilon=act.epsilon * 2)


PLAIN = [
    Gaussian(1.0),
    Gaussian(4.0, clip=0.5),
    Laplace(1.0),
    Laplace(10.0, clip=2.0),
    NoisyMax(1.0, 2),
    NoisyMax(0.5, 5),
    LaplaceMax(1.0, 2),
    LaplaceMax(0.5, 5),
    RandomisedResponse(1.0),
    RandomisedResponse(1.0, categories=4),
    PriorResponse(1.0, categories=4),
    StagedResponse(1.0, categories=4),
    OneBit(1.0),
    FlippedEdges(1.0),
    Tally(1.0),
    Tally(3.0),
]


@some
@pytest.mark.parametrize("act", PLAIN, ids=str)
@pytest.mark.parametrize(
    "make", [pytest.param(lambda: Seeded(2), id="seeded"), pytest.param(Secure, id="secure", marks=pytest.mark.slow)]
)
def test_claims_are_tight_and_half_the_noise_is_noticed(act: Mechanism, make: Callable[[], Stream], runs: int) -> None:
    world = world_of(act)
    assert world is not None
    found = excesses(world, world.claim, make(), affordable(act, runs))
    assert max(found) <= 1
    assert min(found) >= -1, "the test does not reach the claim: it has no power"
    mutated = world_of(quieter(act))
    assert mutated is not None
    moved = world.claim if not isinstance(act, Gaussian | Laplace) else _claim_at_same_distance(act, quieter(act))
    assert max(excesses(mutated, moved, make(), affordable(act, runs))) > 1, "half the noise went unnoticed"


def _claim_at_same_distance(act: Gaussian | Laplace, mutant: Mechanism) -> Curve:
    """What the loud mechanism claims for the inputs that the quiet one was run on."""
    assert isinstance(mutant, Gaussian | Laplace)
    return act.curve(max(1, round(mutant.std if isinstance(mutant, Gaussian) else mutant.scale)))


@some
@pytest.mark.parametrize("act", [Poisson(Gaussian(0.5), 0.5, 10), FixedSize(Gaussian(1.0), 5, 10)], ids=str)
def test_sampling_claims_notice_a_wrong_rate(act: Poisson | FixedSize, runs: int) -> None:
    world = world_of(act)
    assert world is not None
    found = excesses(world, world.claim, Seeded(3), runs)
    assert max(found) <= 1
    # No single pair of inputs attains the fixed-size curve in both directions at once.
    assert min(found) >= (-1 if isinstance(act, Poisson) else -2)
    rarer = replace(act, rate=0.25) if isinstance(act, Poisson) else replace(act, size=2)
    assert max(excesses(world, rarer.curve(2 if isinstance(act, FixedSize) else 1), Seeded(4), runs)) > 1


STARS = [
    (HeterPoissonSampling(Gaussian(0.4, clip=0.5), 0.5, 1.0, 1.0, 8), 1),
    (HeterPoissonSampling(Gaussian(0.4, clip=2.0), 0.5, 2.0, 0.5, 8), 5),
    (HeterPoissonSampling(Gaussian(0.4), 0.5, 2.0, 1.0, 8, overlap=True), 3),
]


@some
@pytest.mark.parametrize(("act", "out_degree"), STARS)
def test_subgraph_claims_are_tight_and_notice_mutations(act: HeterPoissonSampling, out_degree: int, runs: int) -> None:
    world = star(act, out_degree)
    claim = cast(HeterPoissonCurve, world.claim)
    drawn = world.present(runs, Seeded(5)), world.absent(runs, Seeded(6))
    found = excesses_of(*drawn, claim)
    assert max(found) <= 1
    # The claim reveals how many neighbours are central; here several of them can hide that.
    assert min(found) >= (-1 if out_degree == 1 else -2), "the test does not reach the claim: it has no power"
    rarer = replace(claim, rate=claim.rate / 2)
    seldom = replace(claim, cap=claim.keep(out_degree) / 10)
    louder = replace(claim, noise=claim.noise * 4)
    for mutant in (rarer, seldom, louder):
        assert max(excesses_of(*drawn, mutant)) > 1, f"{mutant} went unnoticed"


@some
def test_overlapping_centres_are_not_covered_by_the_cheaper_claim(runs: int) -> None:
    """A hub that is central AND kept by the only node it points at moves three clips, not one."""
    world = star(HeterPoissonSampling(Gaussian(1.0), 0.9, 1.0, 1.0, 3, overlap=True), out_degree=1)
    claim = cast(HeterPoissonCurve, world.claim)
    drawn = world.present(runs, Seeded(7)), world.absent(runs, Seeded(8))
    assert max(excesses_of(*drawn, claim)) <= 1
    assert max(excesses_of(*drawn, replace(claim, overlap=False))) > 1


def test_randomised_response_lies_evenly() -> None:
    act = RandomisedResponse(0.7, categories=5)
    out = act.apply(NOTHING, lambda _: torch.full((200_000,), 3), Seeded(5))
    shares = torch.bincount(out, minlength=5) / len(out)
    lie = (1 - act.truth) / 4
    assert shares.tolist() == pytest.approx([lie, lie, lie, act.truth, lie], abs=6 * math.sqrt(0.25 / len(out)))
    assert act.truth / lie == pytest.approx(math.exp(0.7))


def test_what_was_said_has_the_chance_that_is_told() -> None:
    """Every truth, among three of four candidates or none of them: shares of answers against `log_chances`."""
    act, runs = PriorResponse(0.7, categories=4), 100_000
    candidates = torch.tensor([True, False, True, True]).expand(runs, -1)
    for truth in range(-1, 4):
        out = act.apply(NOTHING, lambda _, truth=truth: Choices(torch.full((runs,), truth), candidates), Seeded(5))
        shares = torch.bincount(out, minlength=4) / runs
        told = [act.log_chances(candidates[:1], torch.tensor([said]))[0].exp() for said in (0, 2, 3)]
        # A label that is missing is like one that is no candidate.
        expected = [float(chances[truth if truth >= 0 else 1]) for chances in told]
        assert shares[[0, 2, 3]].tolist() == pytest.approx(expected, abs=6 * math.sqrt(0.25 / runs))
        assert sum(expected) == pytest.approx(1)


def test_noisy_max_is_the_exponential_mechanism() -> None:
    act = NoisyMax(0.5, 3)
    simplex = torch.tensor([0.6, 0.3, 0.1])
    out = act.apply_many(NOTHING, lambda _: simplex.expand(200_000, 3), Seeded(6), 200_000)
    shares = torch.bincount(out, minlength=3) / len(out)
    weights = torch.exp(simplex / 0.5)
    assert shares.tolist() == pytest.approx((weights / weights.sum()).tolist(), abs=6 * math.sqrt(0.25 / len(out)))


@pytest.mark.parametrize(
    "act", [Gaussian(0.0), Laplace(0.0), NoisyMax(0.0, 3), LaplaceMax(0.0, 3), NoisyVotes(0.0, 3), Sml(0.0)], ids=str
)
def test_no_noise_costs_everything(act: Mechanism) -> None:
    assert act.curve(1).infinite


@pytest.mark.parametrize(
    "act",
    [
        Gaussian(1.0),
        Laplace(1.0),
        NoisyMax(1.0, 3),
        LaplaceMax(1.0, 3),
        NoisyVotes(1.0, 3),
        RandomisedResponse(1.0),
        PriorResponse(1.0, categories=2),
        OneBit(1.0),
        FlippedEdges(1.0),
        Sml(1.0),
    ],
    ids=str,
)
@pytest.mark.parametrize("sensitivity", [0.5, 0.0, -1.0, math.nan])
def test_sensitivities_below_one_contribution_are_refused(act: Mechanism, sensitivity: float) -> None:
    with pytest.raises(InvalidInput):
        act.curve(sensitivity)


def test_samplers_draw_every_record_at_their_rate() -> None:
    seen = torch.zeros(20)

    def note(_: Sealed, batch: Tensor) -> Rows:
        seen[batch] += 1
        return Rows(torch.zeros(len(batch), 1))

    source = Seeded(8)
    for _ in range(4000):
        Poisson(Gaussian(1.0), 0.3, 20).apply(NOTHING, note, source)
    assert (seen / 4000 - 0.3).abs().max() < 6 * math.sqrt(0.21 / 4000)
    seen.zero_()
    for _ in range(4000):
        FixedSize(Gaussian(1.0), 6, 20).apply(NOTHING, note, source)
    assert seen.sum() == 4000 * 6
    assert (seen / 4000 - 0.3).abs().max() < 6 * math.sqrt(0.21 / 4000)
