"""Degree-aware Poisson sampling of subgraphs (HeterPoisson; Xiang, Wang & Wang, S&P 2024): act and curves.

Each training id is central with probability q; an in-neighbour j of a central node joins its subgraph with probability
p_j = min(p_max, M / out-degree of j in the fixed public population); a node that is central anywhere in the batch is
removed from every other subgraph. Every subgraph's gradient is clipped, all are added, noise follows.

Sound claim U2 (docs/methods/heterpoisson.md): let z be the differing node, D its out-degree, p its keep probability.
Reveal c ~ Bin(D, q), the number of z's out-neighbours that are central, and nothing else. Without z the sum is one
Gaussian; with z it is q N(1/2) + (1-q) sum_k Bin(k; c, p) N(k) in units of two clips. D is the adversary's to choose,
the same in every step of a run: the cost is the worst D's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Self

import numba
import numpy as np
from scipy.special import ndtr
from scipy.stats import binom

from graphveil.checks import require_cost
from graphveil.data.arcs import Ids
from graphveil.errors import InvalidInput
from graphveil.mechanisms.additive import Additive
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve, gaussian_delta
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.shared_curves import require_rate
from graphveil.mechanisms.sml import Sml, SmlCurve
from graphveil.nn.sampling import heterpoisson as sampler
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.vocabulary import Curve, Floats, Mechanism, Query, SealedGraph, Source

if TYPE_CHECKING:
    from torch import Tensor

_NEGLIGIBLE = 1e-20
"""Probability that is charged as if the unit were exposed; far below any delta."""
_REACH = 9.6
"""Standard deviations beyond which a Gaussian tail is negligible."""
_SPACING = 0.04
"""Distance of the points at which a curve is exact; between them a chord bounds it from above."""
_MAX_POINTS = 20_000
"""With hardly any noise the points lie further apart, rather than filling the memory."""
_MIN_NOISE = 2.0**-16
"""Below this nothing finite is claimed: a single use tells, and the points lie too far apart to see where."""
_MAX_CELLS = 1 << 26
"""Points of one curve, of all groups of c, at most: a few times half a gigabyte."""
_BLOCK = 1 << 25
"""So many are computed at a time."""
_MIN_DENSITY = 1e-280
"""Points where the mixture is thinner are left out: quotients of what underflows mean nothing."""
_LARGEST = 700.0
"""e to this power still fits a double; where it would not, a chord gives way to its left end, which is higher."""
_STRETCH = 1.5
"""Out-degrees within this factor share one bound at first."""
_FINE = 64
"""Parts of an interval of out-degrees; a part is bounded by its largest degree and its largest keep probability."""
_UNLIKELY = 1e-4
"""Chances that an attacker does not think of."""
_GOLDEN = (5**0.5 - 1) / 2
"""Multiples of it, modulo 1, are as even as coins and depend on the pair alone."""
_PARTS = 2000
"""Parts of all out-degrees where k is revealed: those up to about 200 stand alone."""
_LEVELS: Floats = np.linspace(-8.0, 8.0, 128)
"""Normal quantiles that cut c into groups where many out-degrees are covered at once."""


@dataclass(frozen=True)
class HeterPoissonCurve(Curve):
    """U2 for every out-degree in [low, high]; `noise` in units of two clips.

    `overlap`: nodes that are central elsewhere are NOT removed, so that a central z moves k + 1/2 instead of 1/2.
    """

    noise: float
    rate: float
    multiplier: float
    cap: float
    low: int
    high: int
    overlap: bool = False

    def __post_init__(self) -> None:
        require_rate(self.rate)
        require_cost(self.noise, "noise")
        if not (0 <= self.low <= self.high and self.multiplier > 0 and 0 < self.cap <= 1):
            raise InvalidInput(f"impossible out-degrees {self.low}..{self.high} or keep probabilities")
        centres = _within(self.high * self.rate)
        kept = _within(self.rate * min(self.multiplier, self.high * self.cap))
        points = _MAX_POINTS if self.infinite else min((kept / self.noise + 2 * _REACH) / _SPACING, _MAX_POINTS)
        if max(centres * kept, centres * points, 2 * kept * points) > _MAX_CELLS and not self.infinite:
            raise InvalidInput(
                f"batches of {self.high * self.rate:,.0f} subgraphs with noise {self.noise:.3g} take too much memory "
                "to charge; use smaller batches or more noise"
            )

    @property
    def infinite(self) -> bool:
        return self.noise < _MIN_NOISE

    def keep(self, degree: int) -> float:
        """Probability that a central out-neighbour of a node with out-degree `degree` keeps it."""
        return min(self.cap, self.multiplier / max(degree, 1))

    @property
    def alike(self) -> int:
        """The largest out-degree that keeps with probability `cap`: it stands for all smaller ones."""
        return min(self.high, math.floor(self.multiplier / self.cap))

    def refine(self) -> tuple[HeterPoissonCurve, ...]:
        """The out-degree that stands for all that keep alike and intervals of larger ones; then their halves."""
        if self.low == self.high:
            return ()
        if self.low <= self.alike:
            return replace(self, low=self.alike, high=self.alike), *_ladder(self, self.alike + 1)
        middle = (self.low + self.high) // 2
        return replace(self, high=middle), replace(self, low=middle + 1)

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats]:
        """Both directions; where the degrees keep differently, the largest of the parts' curves at every epsilon."""
        if self.low < self.high and self.low <= self.alike:
            sides = [part.deltas(epsilons) for part in self.refine()]
            return np.max([side[0] for side in sides], axis=0), np.max([side[1] for side in sides], axis=0)
        order = np.argsort(epsilons)
        at, found = epsilons[order], np.empty((2, len(epsilons)))
        for side, points in zip(found, _sides(self), strict=True):
            total = np.full(len(at), 2 * _NEGLIGIBLE)
            _add_chords(*points, at, np.exp(np.minimum(at, _LARGEST)), total)
            side[order] = np.clip(total, 0.0, 1.0)
        return found[0], found[1]

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(3.0, 0.2, 1.0, 1.0, 1, 1), cls(4.0, 0.1, 1.0, 1.0, 30, 33), cls(5.0, 0.2, 2.0, 0.5, 4, 4, True)


def _ladder(curve: HeterPoissonCurve, low: int) -> list[HeterPoissonCurve]:
    """[low, high] cut into intervals that grow with the degree."""
    found = []
    while low <= curve.high:
        high = min(curve.high, max(low, int(low * _STRETCH)))
        found.append(replace(curve, low=low, high=high))
        low = high + 1
    return found


Points = tuple[Floats, Ids, Floats, Floats]
"""Of every group of c side by side: its chance [g], where its points start [g + 1], their epsilons, ascending, and the
hockey-stick divergence at each."""


@lru_cache(maxsize=32)
def _sides(curve: HeterPoissonCurve) -> tuple[Points, Points]:
    """The exact points of the curve given each group of c, in both directions.

    P = N(0, 1) without z and Q = sum_i w_i N(s_i, 1) with it. log(Q/P)(x) = log sum_i w_i e^{e_i}, where
    e_i = s_i x - s_i^2/2, increases in x, so hockey-stick sets are half-lines: at every x, with l = log(Q/P)(x),
        H_{e^l}(Q || P)   = sum_i w_i delta_G(e_i; s_i)
        H_{e^-l}(P || Q)  = e^-l sum_i w_i e^{e_i} delta_G(-e_i; s_i).
    """
    chances, survival = _chances(replace(curve, noise=1.0, overlap=False))
    kept = survival[:, :-1] - survival[:, 1:]
    moves, x, density, up, down = _table(curve.noise, kept.shape[1])
    # moves are 0, 1/2, 1, 3/2, ...: whole ones when z is not central, else 1/2 or, with overlaps, k + 1/2.
    weights = np.zeros((len(kept), len(moves)))
    weights[:, ::2] = (1 - curve.rate) * kept
    if curve.overlap:
        weights[:, 1::2] = curve.rate * kept
    else:
        weights[:, 1] = curve.rate
    density_down = density * down
    there, back = [], []
    for some in np.split(weights, range(_BLOCK // len(x) + 1, len(weights), _BLOCK // len(x) + 1)):
        total = some @ density
        remove, add = some @ up, (some @ density_down) / np.maximum(total, _MIN_DENSITY)
        for row in range(len(some)):
            # Beyond the last move that can happen there is nothing to see; far from every move the density underflows.
            reach = moves[np.flatnonzero(some[row])[-1]] + _REACH
            seen = np.flatnonzero((x <= reach) & (total[row] > _MIN_DENSITY))
            loss = np.maximum.accumulate(x[seen] ** 2 / 2 + np.log(total[row, seen]))
            # Points closer than this differ by rounding alone; a longer chord is still above the curve.
            apart = np.diff(np.floor(loss * 1e8), prepend=-np.inf) > 0
            loss, seen = loss[apart], seen[apart]
            there.append((loss, remove[row, seen]))
            back.append((-loss[::-1], add[row, seen][::-1]))
    starts = np.cumsum([0, *(len(loss) for loss, _ in there)])
    return _joined(chances, starts, there), _joined(chances, starts, back)


def _joined(chances: Floats, starts: Ids, groups: list[tuple[Floats, Floats]]) -> Points:
    losses, divergences = zip(*groups, strict=True)
    return chances, starts, np.concatenate(losses), np.concatenate(divergences)


@lru_cache(maxsize=32)
def _chances(curve: HeterPoissonCurve) -> tuple[Floats, Floats]:
    """What of a curve does not depend on its noise, so that a calibration computes it once."""
    return _one_degree(curve) if curve.low == curve.high else _many_degrees(curve)


def _one_degree(curve: HeterPoissonCurve) -> tuple[Floats, Floats]:
    """Chances of c = 0, 1, ... [g] and P(k >= 0, 1, ... | c) [g, k + 1]."""
    count = np.arange(_last(curve.high, curve.rate) + 1)
    kept = np.arange(_last(int(count[-1]), curve.keep(curve.low)) + 2)
    survival = binom.sf(kept - 1, count[:, None], curve.keep(curve.low))
    survival[:, -1] = 0.0
    return binom.pmf(count, curve.high, curve.rate), survival


def _many_degrees(curve: HeterPoissonCurve) -> tuple[Floats, Floats]:
    """The same for groups of equal quantiles of c, and the largest P(k >= ...) that any degree of the interval has."""
    # A node that points nowhere moves less than one that points somewhere: 1 stands for 0.
    edges = np.unique(np.geomspace(max(curve.low, 1), curve.high + 1, _FINE + 1).round().astype(int))
    lows, highs = edges[:-1], edges[1:] - 1
    tails = np.append(ndtr(-_LEVELS), 0.0)
    counts = np.array([_quantiles(int(high), curve.rate, tails) for high in highs])
    keeps = np.array([curve.keep(int(low)) for low in lows])
    most = max(_last(int(count), float(keep)) for count, keep in zip(counts[:, -1], keeps, strict=True))
    survival = binom.sf(np.arange(most + 2) - 1, counts[:, :, None], keeps[:, None, None]).max(axis=0)
    survival[:, -1] = 0.0
    return np.diff(np.append(tails[::-1], 1.0))[::-1], survival


def _quantiles(degree: int, rate: float, tails: Floats) -> Floats:
    """The least c that Bin(degree, rate) exceeds with probability at most each of `tails`, of which the last is 0."""
    count = binom.isf(tails[:-1], degree, rate)
    # The library's inverse may stop one short of its own survival function.
    count = count + (binom.sf(count, degree, rate) > tails[:-1])
    return np.append(count, _last(degree, rate))


def _within(mean: float) -> float:
    """A binomial number of this mean is larger with negligible probability."""
    return mean + 12 * math.sqrt(mean) + 40


def _last(count: int, chance: float) -> int:
    """The least k that Bin(count, chance) exceeds with negligible probability (scipy's isf gives up near 1)."""
    reach = min(count, int(_within(count * chance)))
    beyond = binom.sf(np.arange(reach + 1), count, chance) <= _NEGLIGIBLE
    return int(np.argmax(beyond)) if beyond.any() else count


@lru_cache(maxsize=16)
def _table(noise: float, most: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """What `_sides` adds up: moves s [m] = 0, 1/2, ..., most - 1/2 over noise; points x [j]; with e = s x - s^2/2

    e^{e - x^2/2}, delta_G(e; s) and delta_G(-e; s), each [m, j].
    """
    moves = np.arange(2 * most) / 2 / noise
    spacing = max(_SPACING, (moves[-1] + 2 * _REACH) / _MAX_POINTS)
    x = np.arange(-_REACH, moves[-1] + _REACH + spacing, spacing)
    loss = moves[:, None] * x - (moves**2 / 2)[:, None]
    up, down = (
        np.stack([gaussian_delta(side, float(move)) for side, move in zip(sign * loss, moves, strict=True)])
        for sign in (1, -1)
    )
    return moves, x, np.exp(-((x - moves[:, None]) ** 2) / 2), up, down


@numba.njit(cache=True, nogil=True)
def _add_chords(chances: Any, starts: Any, nodes: Any, values: Any, epsilons: Any, t: Any, total: Any) -> None:
    """Add to `total` an upper bound on every group's curve, which is exact at `nodes` and convex in t = e^epsilon.

    Left of the nodes the chord starts at (t, delta) = (0, 1); right of them the curve only falls. epsilons: ascending.
    """
    for group in range(len(chances)):
        at, height = nodes[starts[group] : starts[group + 1]], values[starts[group] : starts[group + 1]]
        ends, place = np.exp(np.minimum(at, _LARGEST)), 0
        for i in range(len(epsilons)):
            while place + 1 < len(at) and epsilons[i] >= at[place + 1]:
                place += 1
            bound = height[place]
            if epsilons[i] < at[0]:
                bound = 1 - (1 - height[0]) * np.exp(epsilons[i] - at[0])
            elif place + 1 < len(at) and at[place + 1] < _LARGEST and ends[place] < ends[place + 1]:
                share = (t[i] - ends[place]) / (ends[place + 1] - ends[place])
                bound += min(max(share, 0.0), 1.0) * (height[place + 1] - height[place])
            total[i] += chances[group] * bound


def revealed_curve(base: type[SmlCurve] | type[GaussianCurve], curve: HeterPoissonCurve) -> RevealedMixture:
    """U1: reveal k itself. Looser than U2, and true for any noise that is charged by `base`.

    delta(e) = q delta(e; 1/2) + (1-q) sum_k P(k) delta(e; k), moves in units of two clips; k ~ Bin(D, q p), and for
    several out-degrees the least k that exceeds all of theirs in distribution: no single D is the worst at every e.
    """
    kept = _occurrences(replace(curve, noise=1.0))
    central = kept if curve.overlap else np.array([1.0])
    moves = np.concatenate([np.arange(len(kept)), np.arange(len(central)) + 0.5])
    weights = np.concatenate([(1 - curve.rate) * kept, curve.rate * central])
    scaled = moves / curve.noise if curve.noise else np.where(moves > 0, np.inf, 0.0)
    return RevealedMixture(tuple((weights / weights.sum()).tolist()), tuple(base(float(move)) for move in scaled))


@lru_cache(maxsize=64)
def _occurrences(curve: HeterPoissonCurve) -> Floats:
    """P(k = 0, 1, ...) where P(k >= j) is the largest that any out-degree of the curve has [k]."""
    if curve.high == 0:
        return np.array([1.0])
    edges = np.unique(np.geomspace(max(curve.low, 1), curve.high + 1, _PARTS + 1).round().astype(int))
    lows, highs = edges[:-1], edges[1:] - 1
    chances = curve.rate * np.minimum(curve.cap, curve.multiplier / lows)
    mean = float((highs * chances).max())
    most = min(curve.high, int(mean + 12 * math.sqrt(mean) + 40))
    survival = binom.sf(np.arange(most + 1) - 1, highs[:, None], chances[:, None]).max(axis=0)
    survival = survival[survival > _NEGLIGIBLE]
    return np.asarray(survival - np.append(survival[1:], 0.0))


@dataclass(frozen=True)
class HeterPoissonSampling(Mechanism):
    """Query: `query(sealed, batch: Subgraphs) -> what inner expects`. Samples, then hands over to `inner`.

    Samples among the training ids of a public population of which `population` train; the out-degrees are the public
    ones. `overlap` leaves nodes that are central elsewhere where they are, which costs more.
    """

    least_moved = 2.0

    inner: Gaussian | Sml
    rate: float
    multiplier: float
    cap: float
    population: int
    overlap: bool = False
    induced: bool = False

    def __post_init__(self) -> None:
        require_rate(self.rate)

    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        train = sealed.public.train.nonzero().flatten()
        centres = train[source.coins(len(train), self.rate)].cpu().numpy()
        draws = source.uniform(sampler.draws_needed(sealed.adj, centres))
        return self.inner.apply(sealed, partial(query, batch=self.batch(sealed, centres, draws)), source)

    def batch(self, sealed: SealedGraph, centres: Ids, draws: Floats) -> Subgraphs:
        """The subgraphs of these centres, int64 [k], for one uniform draw per in-arc of theirs."""
        keep = sealed.derived(f"keep probabilities {self.multiplier!r} {self.cap!r}", self._keep)
        alone = not self.overlap
        return sampler.sample(sealed.adj, centres, keep, draws, drop_centres=alone, induced=self.induced)

    def _keep(self, sealed: SealedGraph) -> Floats:
        """p of every id, float64 [n]. Only training ids are ever sampled: the others have no part in training."""
        public = sealed.public
        return np.where(
            public.train.cpu().numpy(), sampler.keep_probabilities(public.out_degrees(), self.multiplier, self.cap), 0.0
        )

    def evidence(
        self,
        here: SealedGraph,
        there: SealedGraph,
        query: Query,
        answer: Tensor,
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        blanked = ((here.y >= 0) & (there.y < 0)).any()
        first, second = (here, there) if blanked else (there, here)
        base, moves = self.moves(first, second, query)
        log_ratio = log_mixture(self.inner, answer.double() - base, moves)
        return log_ratio if blanked else -log_ratio

    def moves(self, here: SealedGraph, there: SealedGraph, query: Query) -> tuple[Tensor, list[tuple[float, Tensor]]]:
        """For audits: the mean sum without the node that is blank in `there`, and how it moves the sum, by chance.

        The other nodes' coins are not known, and what they add is taken as its mean. Central, the node adds a gradient;
        kept by k of its out-neighbours it changes k of theirs, k ~ Bin(D, rate keep), by the mean of such changes.
        """
        train = there.public.train.nonzero().flatten().numpy()
        base = self.rate * self._bounded(there, query, train, self._likely(there))
        gone = ((here.y >= 0) & (there.y < 0) & here.public.train).nonzero().flatten().numpy()
        if len(gone) != 1:
            return base, []
        node = int(gone[0])
        moves = [(self.rate, self._bounded(here, query, gone, self._likely(here)))]
        hears = np.unique(here.adj.targets()[here.adj.indices == node])
        listeners = hears[here.public.train.numpy()[hears]]
        if len(listeners):
            surely = self._likely(here).copy()
            surely[node] = 1.0
            change = self._bounded(here, query, listeners, surely) - self._bounded(there, query, listeners, surely)
            kept = binom.pmf(np.arange(len(listeners) + 1), len(listeners), self.rate * self._keep(here)[node])
            often = [k for k in range(1, len(kept)) if kept[k] > _UNLIKELY]
            moves += [((1 - self.rate) * float(kept[k]), k / len(listeners) * change) for k in often]
        return base, moves

    def _likely(self, sealed: SealedGraph) -> Floats:
        """The chance that an id stays in a subgraph: kept, and not central itself."""
        return self._keep(sealed) * (1.0 if self.overlap else 1 - self.rate)

    def _bounded(self, sealed: SealedGraph, query: Query, centres: Ids, keep: Floats) -> Tensor:
        """The clipped sum of all these centres, int64 [k], under coins that depend on the pair of ids alone."""
        adj, size = sealed.adj, sealed.public.num_nodes
        degrees = adj.indptr[centres + 1] - adj.indptr[centres]
        arcs = np.arange(degrees.sum()) + np.repeat(adj.indptr[centres] - np.cumsum(degrees) + degrees, degrees)
        coins = np.modf((np.repeat(centres, degrees) * float(size) + adj.indices[arcs] + 1) * _GOLDEN)[0]
        batch = sampler.sample(adj, centres, keep, coins, drop_centres=False, induced=self.induced)
        return self.inner.bounded(sealed, partial(query, batch=batch)).double()

    def curve(self, sensitivity: float) -> Curve:
        """`sensitivity` in clips of one replaced subgraph: 2. Claims measure noise in that unit."""
        if sensitivity != 2:
            raise InvalidInput(f"a node replaces gradients within its subgraphs: sensitivity 2, got {sensitivity}")
        noise = self.inner.std / sensitivity
        curve = HeterPoissonCurve(noise, self.rate, self.multiplier, self.cap, 0, self.population - 1, self.overlap)
        return revealed_curve(SmlCurve, curve) if isinstance(self.inner, Sml) else curve

    @classmethod
    def kind(cls) -> str:
        """As files have it from the first version on, when the method and its sampling had one name."""
        return "HeterPoisson"

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(Gaussian(6.0, clip=0.5), 0.2, 1.0, 1.0, 50),)


def log_mixture(inner: Additive, rest: Tensor, moves: list[tuple[float, Tensor]]) -> float:
    """For audits: ln (1 - sum w + sum w f(rest - move) / f(rest)) for the density f of the noise and chances w."""
    stays = 1 - sum(weight for weight, _ in moves)
    logs = [math.log(weight) + inner.log_ratio(rest, move) for weight, move in moves]
    return float(np.logaddexp.reduce([math.log(stays) if stays > 0 else -math.inf, *logs]))
