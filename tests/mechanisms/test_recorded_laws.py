"""What every mechanism asks of its source, and where its answers turn, against what its claim charges.

Samples show half the noise; a recording shows a noise that is three per cent too small. A mechanism without an entry in
`LAWS` fails: see docs/extend.md.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest
import torch
from torch import Tensor

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.categorical import Answering
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.mechanisms.contractive import Contractive, convergence
from graphveil.mechanisms.described import mechanisms
from graphveil.mechanisms.dominating_pair import DominatingPair, PureCurve
from graphveil.mechanisms.fixed_size import FixedSize, FixedSizeCurve
from graphveil.mechanisms.flipped_edges import Asked, FlippedEdges
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.geometric_count import Marks, Tally
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve, HeterPoissonSampling
from graphveil.mechanisms.laplace import Laplace, LaplaceCurve
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax, laplace_epsilon
from graphveil.mechanisms.noisy_votes import NoisyVotes, TwoLaplaceCurve
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.poisson import Poisson, PoissonCurve, SampledOnce
from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.mechanisms.singular_values import SingularValues
from graphveil.mechanisms.sml import Sml, SmlCurve
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.mechanisms.top_pairs import Ranked, TopPairs
from graphveil.mechanisms.unprotected import Exposed
from graphveil.nn.aggregate import NeighbourSums, clip_rows
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.noise import Stream
from graphveil.vocabulary import Curve, Mechanism
from recording import Call, Recording, turning_point

NOTHING = cast(Sealed, None)
CLOSE = 1e-9
PAIR = Csr.from_edge_index(np.array([0, 1]), np.array([1, 0]), 2)


class Rows:
    """Contributions given as a matrix [m, d]."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def clipped_sum(self, clip: float) -> Tensor:
        return clip_rows(self.rows.double(), clip).sum(dim=0)


def alike(found: list[Call], wanted: list[Call]) -> bool:
    """The same verbs with the same numbers, to nine digits."""
    return [call.verb for call in found] == [call.verb for call in wanted] and all(
        one.numbers == pytest.approx(other.numbers, rel=CLOSE) for one, other in zip(found, wanted, strict=True)
    )


# --- Sums: the noise is what the claim divides the sensitivity by, and its unit is the clip. ---


def noise_of(act: Mechanism, claim: Curve, sensitivity: float, luck: float = 0.0) -> list[Call]:
    """What a noisy sum must ask for, from its claim alone. `luck`: the uniform that spreads SML noise."""
    if isinstance(act, Gaussian) and isinstance(claim, GaussianCurve):
        return [Call("add_gaussian", (sensitivity / claim.mu * act.clip, act.clip))]
    if isinstance(act, Laplace) and isinstance(claim, LaplaceCurve):
        return [Call("add_laplace", (sensitivity / claim.epsilon * act.clip, act.clip))]
    assert isinstance(act, Sml)
    assert isinstance(claim, SmlCurve)
    spread = math.sqrt(-math.log(luck))
    return [
        Call("uniform", (1,)),
        Call("add_gaussian", (spread * sensitivity / claim.ratio * act.clip, act.clip)),
    ]


def contributions(act: Mechanism, *shape: int) -> Any:
    rows = torch.full(shape, 1e3)
    return rows if isinstance(act, Laplace) else Rows(rows)


def law_of_sums(act: Mechanism) -> None:
    for sensitivity in (1.0, 1.5, 2.0):
        source = Recording(uniform=[np.array([0.3])] if isinstance(act, Sml) else [])
        out = act.apply(NOTHING, lambda _: contributions(act, 3, 2), source)
        assert alike(source.calls, noise_of(act, act.curve(sensitivity), sensitivity, luck=0.3))
    # Without noise three contributions of one clip each are seen, in the norm that is charged.
    assert isinstance(act, Gaussian | Laplace | Sml)
    length = float(torch.linalg.vector_norm(out.double(), ord=1 if isinstance(act, Laplace) else 2))
    assert length == pytest.approx(3 * act.clip, rel=1e-6)


def law_of_hops(act: Mechanism) -> None:
    assert isinstance(act, Contractive)
    source = Recording()
    act.apply(NOTHING, lambda _: NeighbourSums(PAIR, torch.ones(2, 3)), source)
    for sensitivity in (0.2, 1.0):
        claim = act.curve(sensitivity)
        std = sensitivity * math.sqrt(convergence(act.lipschitz, act.hops)) / claim.mu
        (unit,) = {call.numbers[1] for call in source.calls}
        assert alike(source.calls, [Call("add_gaussian", (std, unit))] * act.hops)
    # A grid g pays 2 g sqrt(size) / unit of itself for every hop. Due per hop, as shares of the least move: three
    # g sqrt(size) for the sum, its float64 error and the state, and 32 g sqrt(size) / std for the state's float32.
    least = act.move(undirected=False)
    assert 2 / unit >= (3 + 32 / act.std) / least * (1 - CLOSE)
    assert 2 / unit <= (3 + 32 / act.std) / least * (1 + CLOSE), "more than is due"


# --- Samplers: the coins are those of the claim, and what follows is the law of what they stand before. ---


def law_of_poisson(act: Mechanism) -> None:
    assert isinstance(act, Poisson)
    claim = act.curve(1)
    assert isinstance(claim, PoissonCurve)
    coins = Call("coins", (act.population, claim.rate))
    if isinstance(act.inner, Answering):
        rows = torch.eye(cast(Any, act.inner).classes)[:1]
        source = Recording()
        act.apply_many(NOTHING, lambda _, batches: rows.repeat(len(batches), 1), source, 3)
        assert alike(source.calls, [coins, *drawn_by(act.inner)] * 3)
        LAWS[type(act.inner)](act.inner)
        assert claim.base == act.inner.curve(1)
        return
    for sensitivity in (1.0, 2.0):
        source, claim = Recording(), act.curve(sensitivity)
        assert isinstance(claim, PoissonCurve)
        act.apply(NOTHING, lambda _, batch: contributions(act.inner, len(batch), 1), source)
        assert alike(source.calls, [coins, *noise_of(act.inner, claim.base, sensitivity)])


def law_of_one_sample(act: Mechanism) -> None:
    """All uses share the coins, so that they are charged nothing less than without them."""
    assert isinstance(act, SampledOnce)
    assert isinstance(act.inner, NoisyMax)
    source = Recording()
    act.apply_many(NOTHING, lambda _, batch: torch.ones(3, cast(NoisyMax, act.inner).classes), source, 3)  # noqa: ARG005
    assert alike(source.calls, [Call("coins", (act.population, act.rate)), *drawn_by(act.inner) * 3])
    assert act.curve(1) == act.inner.curve(1)
    LAWS[NoisyMax](act.inner)


def drawn_by(act: Mechanism) -> list[Call]:
    """What a use of a mechanism that answers row by row draws."""
    source = Recording()
    assert isinstance(act, Answering)
    act.draw(source)
    return source.calls


def law_of_fixed_size(act: Mechanism) -> None:
    assert isinstance(act, FixedSize)
    source, claim, seen = Recording(), act.curve(2), []
    assert isinstance(claim, FixedSizeCurve)
    act.apply(NOTHING, lambda _, batch: seen.append(batch) or contributions(act.inner, len(batch), 1), source)
    size = len(seen[0])
    assert claim.rate == pytest.approx(size / act.population, rel=CLOSE)
    assert alike(source.calls, [Call("choose", (act.population, size)), *noise_of(act.inner, claim.base, 2)])
    assert int(seen[0].max()) < act.population


def law_of_subgraphs(act: Mechanism) -> None:
    assert isinstance(act, HeterPoissonSampling)
    claim, inner = act.curve(2), act.inner
    assert isinstance(claim, HeterPoissonCurve)
    assert claim.overlap == act.overlap
    assert (claim.low, claim.high) == (0, act.population - 1), "any out-degree may be the adversary's"
    for degree in (1, 2, act.population - 1):
        # Node 0 hears node 1, which points at `degree` training ids of the population.
        n = act.population
        public = replace(Public.blank(n, 1, 2, num_train=n), degrees=np.where(np.arange(n) == 1, degree, 0))
        adj = Csr.from_edge_index(np.array([1]), np.array([0]), n)
        sealed = Sealed(torch.zeros(n, 1), torch.zeros(n, dtype=torch.int64), adj, public)
        first = torch.arange(n) == 0

        def kept(draw: float, sealed: Sealed = sealed, first: Tensor = first) -> tuple[bool, list[Call]]:
            held: list[Subgraphs] = []
            source = Recording(coins=[first], uniform=[np.array([draw])])
            with sealed.opened():
                act.apply(sealed, lambda _, batch: held.append(batch) or contributions(inner, batch.count, 1), source)
            return 1 in held[0].nodes, source.calls

        noise = noise_of(inner, GaussianCurve(1 / claim.noise), 2)
        wanted = [Call("coins", (n, claim.rate)), Call("uniform", (1,)), *noise]
        assert alike(kept(0.5)[1], wanted)
        if claim.keep(degree) < 1:
            found = turning_point(lambda draw, kept=kept: not kept(draw)[0], 0.0, 1.0)
            assert found == pytest.approx(claim.keep(degree), rel=CLOSE)
        else:
            assert kept(1 - 2.0**-53)[0]


# --- Answers: they turn where the draws outweigh what a neighbour can change, and the claim charges that point. ---


def law_of_noisy_max(act: Mechanism) -> None:
    assert isinstance(act, NoisyMax)
    claim = act.curve(1)
    assert isinstance(claim, DominatingPair)
    rows = torch.eye(act.classes)[:1]

    def truthful(draw: float) -> bool:
        source = Recording(uniform=[np.array([draw])])
        out = act.apply(NOTHING, lambda _: rows, source)
        assert source.calls == [Call("uniform", (1,))]
        return int(out[0]) == 0

    lies = turning_point(truthful, 0.0, 1.0)
    told = math.log((1 - lies) / (lies / (act.classes - 1)))
    charged = math.log(claim.present[0] / claim.present[1])
    assert told == pytest.approx(1 / act.scale, rel=CLOSE)
    # docs/methods/privgnn.md: double precision adds 2^-20 at most.
    assert charged - told == pytest.approx(2.0**-20, rel=1e-3)
    # Of two answers that are lies neither is likelier.
    if act.classes == 3:
        middle = turning_point(lambda draw: favours(act, rows, draw) != favours(act, rows, 1e-9), 0.0, lies)
        assert middle == pytest.approx(lies / 2, rel=CLOSE)


def favours(act: NoisyMax, rows: Tensor, draw: float) -> int:
    return int(act.apply(NOTHING, lambda _: rows, Recording(uniform=[np.array([draw])]))[0])


def law_of_laplace_max(act: Mechanism) -> None:
    assert isinstance(act, LaplaceMax)
    gap = turns_at(act, torch.eye(act.classes)[:1], "laplace", act.classes)
    claim = act.curve(1)
    assert isinstance(claim, DominatingPair)
    charged = math.log(claim.present[0] / claim.present[1])
    # The chances of exact arithmetic, and 2^-20 for that of doubles.
    assert charged - laplace_epsilon(act.classes, round(gap, 12)) == pytest.approx(2.0**-20, rel=1e-3)


def law_of_votes(act: Mechanism) -> None:
    assert isinstance(act, NoisyVotes)
    verb = "normal" if act.gaussian else "laplace"
    gap = turns_at(act, torch.zeros(1, 1, dtype=torch.int64), verb, act.classes)
    claim = act.curve(1)
    # A voter who changes sides moves two counts by one. Rounding: docs/methods/pate.md.
    if act.gaussian:
        assert isinstance(claim, GaussianCurve)
        added = claim.mu - math.sqrt(2) * gap
        assert added == pytest.approx(math.sqrt(2) * gap * 2.0**-20 + 2.0**-30, rel=1e-3)
    else:
        assert isinstance(claim, TwoLaplaceCurve)
        assert claim.epsilon - gap == pytest.approx(2.0**-20, rel=1e-3)


def turns_at(act: Answering, rows: Tensor, verb: str, width: int) -> float:
    """How much a draw must favour class 1 before the answer of a row that is all for class 0 turns to it."""

    def turned(draw: float) -> bool:
        draws = np.zeros(width)
        draws[1] = draw
        source = Recording(**{verb: [draws]})
        out = act.apply(NOTHING, lambda _: rows, source)
        assert source.calls == [Call(verb, (width,))]
        return int(out[0]) == 1

    return turning_point(turned, 0.0, 64.0)


def law_of_settling(act: Mechanism) -> None:
    assert isinstance(act, Settling)

    def moved(draw: float, width: int = 3) -> bool:
        """Node 0 hears node 1, which lives in community 0; nobody else is heard."""
        adj = Csr.from_edge_index(np.array([1]), np.array([0]), 2)
        asked = Unsettled(adj, np.zeros(2, np.int64), np.zeros((2, width)), np.arange(2))
        noise = np.zeros((2, width))
        noise[0, 1] = draw
        source = Recording(gumbel=[noise.ravel()])
        out = act.apply(NOTHING, lambda _: asked, source)
        assert source.calls == [Call("gumbel", (2 * width,))]
        return int(out[0]) == 1

    heard = turning_point(moved, 0.0, 64.0)
    # Once for an arc, twice for an edge; docs/methods/privgraph.md: rounding adds 2^-24 at most.
    for sensitivity in (1, 2):
        added = act.curve(sensitivity).epsilon - sensitivity * heard
        assert added == pytest.approx(2.0**-24, rel=1e-3)


def law_of_top_pairs(act: Mechanism) -> None:
    assert isinstance(act, TopPairs)
    adj, nodes = Csr.from_edge_index(np.array([0, 1]), np.array([1, 0]), 20), 20
    edges = 1 if act.undirected else 2
    others = nodes * (nodes - 1) // (2 if act.undirected else 1) - edges
    half, side = 0.3, 0.2
    # The largest of the others is exceeded with the chance 1 - e^(-e / others), e exponential and here -ln(half / 2).
    rival = -math.log(2 * -math.expm1(math.log(half / 2) / others))

    def named(draw: float) -> bool:
        scores = np.full(edges, -50.0)
        scores[0] = draw
        source = Recording(laplace=[scores], uniform=[np.array([half]), np.array([side])])
        out = act.apply(NOTHING, lambda _: Ranked(adj, 1), source)
        verbs = [Call("laplace", (edges,)), Call("uniform", (1,)), Call("uniform", (1,))]
        assert source.calls[:3] == verbs
        strangers = source.calls[3:]
        assert [call.verb for call in strangers] == ["subset"]
        assert strangers[0].numbers[0] == others
        return strangers[0].numbers[1] == 0 and sorted(out[:, 0].tolist()) == [0, 1]

    lead = rival - turning_point(named, rival - 40, rival)
    # docs/methods/lapgraph.md: rounding adds 2^-14 at most.
    assert lead == pytest.approx(1 / act.scale, rel=1e-9)
    assert act.curve(1).epsilon - lead == pytest.approx(2.0**-14, rel=1e-3)


def law_of_flipped_edges(act: Mechanism) -> None:
    assert isinstance(act, FlippedEdges)
    claim = act.curve(1)
    assert isinstance(claim, PureCurve)
    arcs = np.array([[0, 1], [1, 2], [3, 4]])
    both = np.concatenate([arcs, arcs[:, ::-1]])
    adj = Csr.from_edge_index(*both.T.copy(), 5)  # type: ignore[call-arg]
    for share in (1.0, 0.3):
        source = Recording()
        act.apply(NOTHING, lambda _, share=share: Asked(adj, share), source)
        lies, truths = ({call.numbers[1] for call in source.calls if call.verb == verb} for verb in ("skips", "coins"))
        (add,), (keep,) = lies, truths
        assert [call.numbers[0] for call in source.calls if call.verb == "coins"] == [3 if act.undirected else 6]
        assert {call.verb for call in source.calls} == {"skips", "coins"}
        told = max(math.log(keep / add), math.log1p(-add) - math.log1p(-keep))
        assert keep + add == pytest.approx(share, rel=CLOSE)
        assert told == pytest.approx(math.log(keep / add), rel=CLOSE)
        # docs/methods/sage_rr.md: double precision adds 2^-18 at most.
        assert claim.epsilon - told == pytest.approx(2.0**-18, rel=1e-3)
    two = act.curve(2)
    assert isinstance(two, DominatingPair)
    assert math.log(two.present[0] / two.absent[0]) == pytest.approx(2 * claim.epsilon, rel=CLOSE)


def law_of_responses_with_a_prior(act: Mechanism) -> None:
    """Of c categories all but the first are candidates: k of them."""
    assert isinstance(act, PriorResponse)
    size = act.categories - 1
    candidates = (torch.arange(act.categories) > 0).expand(12 * size * (size - 1), -1)
    count = len(candidates)
    draws = (np.arange(2 * count) % count + 0.5) / count
    lying = Recording(coins=[torch.arange(count) < 0], uniform=[draws])
    out = act.apply(NOTHING, lambda _: Choices(torch.full((count,), 1), candidates), lying)
    truth = math.exp(act.epsilon) / (math.exp(act.epsilon) + size - 1)
    assert alike(lying.calls, [Call("coins", (count, truth)), Call("uniform", (2 * count,))])
    # All lie: every other candidate equally often, the truth and what is no candidate never.
    assert torch.bincount(out, minlength=act.categories).tolist() == [0, 0] + [count // (size - 1)] * (size - 1)
    nobodys = Recording(coins=[torch.arange(count) >= 0], uniform=[draws])
    out = act.apply(NOTHING, lambda _: Choices(torch.arange(count) % 2 - 1, candidates), nobodys)
    assert alike(nobodys.calls, lying.calls), "who has no candidate of its own throws the same coins"
    assert torch.bincount(out, minlength=act.categories).tolist() == [0] + [count // size] * size
    honest = Recording(coins=[torch.arange(count) >= 0], uniform=[draws])
    assert act.apply(NOTHING, lambda _: Choices(torch.full((count,), 2), candidates), honest).unique().tolist() == [2]
    law_of_claimed_responses(act)


def law_of_claimed_responses(act: PriorResponse) -> None:
    assert 2.0**-52 * math.exp(act.epsilon) <= act.curve(1).epsilon - act.epsilon <= 1e-6 * act.epsilon
    assert replace(act, epsilon=32.5).curve(1).infinite, "beyond, lies are too rare for a double"


def law_of_stages(act: Mechanism) -> None:
    """Two stages: the first among all, the second among the first two classes; each record speaks once."""
    assert isinstance(act, StagedResponse)
    heard: list[list[int]] = []

    def candidates(said: Tensor) -> Tensor:
        heard.append(said.tolist())
        return (torch.arange(act.categories) < 2).expand(4, -1) | (said < 0).all()

    truths, stage, all_honest = torch.tensor([2, 1, 0, 1]), torch.tensor([0, 1, 0, 1]), torch.ones(2) > 0
    source = Recording(coins=[all_honest, all_honest])
    out = act.apply(NOTHING, lambda _: Stages(truths, stage, candidates), source)
    grown = math.exp(act.epsilon)
    coins = [Call("coins", (2, grown / (grown + others))) for others in (act.categories - 1, 1)]
    assert alike(source.calls, [coins[0], Call("uniform", (4,)), coins[1], Call("uniform", (4,))])
    assert heard == [[-1, -1, -1, -1], [2, -1, 0, -1]], "what leads to candidates was said before"
    assert torch.equal(out[:, 0], truths)
    assert out[:, 1:].sum(dim=1).tolist() == [act.categories, 2, act.categories, 2]
    law_of_claimed_responses(act)


def law_of_bits(act: Mechanism) -> None:
    """Whoever has x says 1 if its uniform lies below (1 + x (e^epsilon - 1) / (e^epsilon + 1)) / 2."""
    assert isinstance(act, OneBit)
    truth = 1 / (1 + math.exp(-act.epsilon))
    x = torch.tensor([-1.0, 1.0, 0.0, 0.5, -1e9, 1e9, math.nan])
    expected = np.array([1 - truth, truth, 0.5, 0.5 + (truth - 0.5) / 2, 1 - truth, truth, 0.5])
    for shift, said in ((-1e-12, 1), (1e-12, -1)):
        source = Recording(uniform=[expected + shift])
        assert act.apply(NOTHING, lambda _: x, source).tolist() == [said] * 7
        assert alike(source.calls, [Call("uniform", (7,))])
    claim = act.curve(1)
    assert isinstance(claim, DominatingPair)
    charged = math.log(claim.present[0] / claim.present[1])
    assert 2.0**-52 * math.exp(act.epsilon) * (1 - 1e-6) - 1e-14 <= charged - act.epsilon <= 1e-6 * act.epsilon
    assert len(claim.present) == 2
    assert replace(act, epsilon=32.5).curve(1).infinite, "beyond, lies are too rare for a double"


def law_of_responses(act: Mechanism) -> None:
    assert isinstance(act, RandomisedResponse)
    claim = act.curve(1)
    answers = 12 * (act.categories - 1)
    truth = act.categories - 1
    draws = (np.arange(answers) + 0.5) / answers
    source = Recording(coins=[torch.arange(answers) < 0], uniform=[draws])
    out = act.apply(NOTHING, lambda _: torch.full((answers,), truth), source)
    assert alike(source.calls, [Call("coins", (answers, claim.present[0])), Call("uniform", (answers,))])  # type: ignore[attr-defined]
    # All lie: every other answer equally often, the truth never.
    assert torch.bincount(out, minlength=act.categories).tolist() == [12] * (act.categories - 1) + [0]
    honest = act.apply(
        NOTHING, lambda _: torch.arange(act.categories), Recording(coins=[torch.ones(act.categories) > 0])
    )
    assert honest.tolist() == list(range(act.categories))
    # Of k answers k - 1 are lies, each as likely; a coin is off by 2^-53, which is a larger share of a rarer lie.
    assert isinstance(claim, DominatingPair)
    assert 1 - claim.present[0] == pytest.approx((act.categories - 1) * claim.present[1], rel=1e-6)
    charged = math.log(claim.present[0] / claim.present[1])
    assert charged == pytest.approx(act.epsilon, rel=1e-6)
    assert charged - act.epsilon >= 2.0**-52 * math.exp(act.epsilon) * (1 - 1e-6) - 1e-14
    assert replace(act, epsilon=32.5).curve(1).infinite, "beyond, lies are too rare for a double"


def law_of_tallies(act: Mechanism) -> None:
    """Two geometric numbers, whose binary digits are coins of odds e^(-2^j / scale): what a mark is charged."""
    assert isinstance(act, Tally)
    source = Recording()
    act.apply(NOTHING, lambda _: Marks(np.zeros((1, 5), np.int64), 4), source)
    digits = len(source.calls) // 2
    # docs/methods/lpgnet.md: rounding adds 2^-40 to every mark at most.
    charged = act.curve(1).epsilon / act.marks - 2.0**-40
    rates = [1 / (1 + math.exp(min(2**digit * charged, 700.0))) for digit in range(digits)]
    assert alike(source.calls, [Call("coins", (4, rate)) for rate in rates] * 2)
    assert (2**digits - 1) * charged >= 64, "the noise ends too early"
    assert act.curve(1).epsilon / act.marks - 1 / act.scale == pytest.approx(2.0**-40, rel=1e-3)
    silent = Recording(coins=[torch.zeros(4, dtype=torch.bool)] * (2 * digits))
    out = act.apply(NOTHING, lambda _: Marks(np.zeros((1, 5), np.int64), 4), silent)
    assert out.tolist() == [act.marks, 0, 0, 0], "of a contribution only its first marks count"


# --- What protects nothing. ---


def law_of_exposure(act: Mechanism) -> None:
    source = Recording()
    rows = torch.tensor([1.0, 2.0])
    assert torch.equal(act.apply(NOTHING, lambda _: rows, source), rows)
    assert not source.calls
    assert act.curve(1).infinite


def law_of_singular_values(act: Mechanism) -> None:
    assert isinstance(act, SingularValues)
    source = Recording()
    act.apply(NOTHING, lambda _: PAIR, source)
    assert alike(source.calls, [Call("add_gaussian", (act.std, 1.0))])
    assert act.curve(1).infinite


LAWS: dict[type[Mechanism], Callable[[Mechanism], None]] = {
    Contractive: law_of_hops,
    Exposed: law_of_exposure,
    FixedSize: law_of_fixed_size,
    FlippedEdges: law_of_flipped_edges,
    Gaussian: law_of_sums,
    HeterPoissonSampling: law_of_subgraphs,
    Laplace: law_of_sums,
    LaplaceMax: law_of_laplace_max,
    NoisyMax: law_of_noisy_max,
    NoisyVotes: law_of_votes,
    OneBit: law_of_bits,
    Poisson: law_of_poisson,
    PriorResponse: law_of_responses_with_a_prior,
    RandomisedResponse: law_of_responses,
    SampledOnce: law_of_one_sample,
    Settling: law_of_settling,
    SingularValues: law_of_singular_values,
    Sml: law_of_sums,
    StagedResponse: law_of_stages,
    Tally: law_of_tallies,
    TopPairs: law_of_top_pairs,
}

OTHERS: list[Mechanism] = [
    Gaussian(0.7, clip=3.0),
    Laplace(0.4, clip=0.2),
    Sml(0.6, clip=2.0),
    Poisson(Gaussian(2.0, clip=0.1), 1.0, 7),
    FixedSize(Gaussian(0.5, clip=2.0), 3, 7),
    HeterPoissonSampling(Gaussian(1.0, clip=2.0), 0.6, 2.0, 0.5, 9, overlap=True),
    NoisyMax(0.2, 3),
    LaplaceMax(0.3, 4),
    NoisyVotes(4.0, 5),
    NoisyVotes(0.5, 3, gaussian=True),
    Settling(0.25),
    TopPairs(0.3),
    FlippedEdges(3.0),
    RandomisedResponse(2.0, categories=3),
    RandomisedResponse(20.0, categories=3),
    OneBit(20.0),
    Tally(0.1),
    Tally(50.0, marks=2),
    Contractive(4.0, 2, lipschitz=0.9, alpha=0.5, tau=3.0),
]


def test_every_mechanism_has_a_law() -> None:
    missing = sorted(name for name, kind in mechanisms().items() if kind not in LAWS)
    assert not missing, f"say in LAWS what these ask of their source: {missing}"


@pytest.mark.parametrize("act", [one for kind in mechanisms().values() for one in kind.specimens()] + OTHERS, ids=str)
def test_a_mechanism_draws_what_its_claim_charges(act: Mechanism) -> None:
    LAWS[type(act)](act)


def test_a_recording_knows_every_verb() -> None:
    """A verb that is not recorded would let a mechanism draw unseen."""
    verbs = {name for name, item in inspect.getmembers(Stream, inspect.isfunction) if not name.startswith("_")}
    assert verbs <= set(vars(Recording))
