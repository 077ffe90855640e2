"""False claims in court: no bound exceeds what is known to be true, and it comes near where the truth is finite."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from graphveil.auditing.bounds import Scores, clopper_pearson, gaussian_epsilon, rank_test
from graphveil.mechanisms.noisy_max import laplace_epsilon
from graphveil.mechanisms.sml import SmlCurve
from graphveil.runtime.engine import one_thread
from graphveil_lab.court.case import Case
from graphveil_lab.court.cases import blank_degrees, forgotten_parent
from graphveil_lab.court.cases.caribou_theorem_four import CaribouTheoremFour
from graphveil_lab.court.cases.dpar_lists import DparLists
from graphveil_lab.court.cases.eclipse_vectors import EclipseVectors
from graphveil_lab.court.cases.forgotten_parent import ForgottenParent
from graphveil_lab.court.cases.gap_node_level import GapNodeLevel
from graphveil_lab.court.cases.gap_one_row import GapOneRow
from graphveil_lab.court.cases.privgnn_argmax import PrivGnnArgmax
from graphveil_lab.court.cases.privgnn_posterior import PrivGnnPosterior
from graphveil_lab.court.cases.rate_times_epsilon import RateTimesEpsilon
from graphveil_lab.court.cases.shuffled_batches import ShuffledBatches
from graphveil_lab.court.cases.sml_lemma_one import SmlLemmaOne
from graphveil_lab.court.cases.unstable_capping import UnstableCapping

CONFIDENCE = 1 - 1e-6


def sml_epsilon(delta: float) -> float:
    """Where 1 - exp(-(sqrt(e^2 + 1) - e) / 2), of a move of one clip at sigma = sqrt(2), is delta."""
    gap = -2 * math.log1p(-delta)
    return (1 - gap**2) / (2 * gap)


TRUTHS: list[tuple[Case, float]] = [
    (GapOneRow(), gaussian_epsilon(math.sqrt(2), 0.3)),
    (GapNodeLevel(), gaussian_epsilon(math.sqrt(21), 0.05)),
    (PrivGnnPosterior(), 2.0),
    (PrivGnnArgmax(), laplace_epsilon(4, 1.0)),
    (RateTimesEpsilon(), math.log(1 + 0.1 * math.expm1(4))),
    (ShuffledBatches(), gaussian_epsilon(2.5, 0.05)),
    (SmlLemmaOne(), sml_epsilon(0.01)),
    (DparLists(), gaussian_epsilon(23.7, 0.05)),
]


@pytest.mark.parametrize(("case", "truth"), TRUTHS, ids=[case.name for case, _ in TRUTHS])
def test_a_bound_lies_between_the_claim_and_the_truth(case: Case, truth: float) -> None:
    with one_thread():
        scores = case.play(case.quick, seed=5)
    assert case.claimed() < truth
    assert lower(case, scores) <= truth


@pytest.mark.parametrize(("case", "truth"), TRUTHS[2:5], ids=[case.name for case, _ in TRUTHS[2:5]])
def test_with_many_runs_it_is_nearly_the_truth(case: Case, truth: float) -> None:
    assert lower(case, case.play(300_000, seed=6)) > 0.9 * truth


def lower(case: Case, scores: Scores) -> float:
    if case.threshold is None:
        return rank_test(scores, case.delta, CONFIDENCE)
    return clopper_pearson(scores, case.delta, CONFIDENCE, case.threshold)


def test_the_scale_of_sml_noise_is_known_in_many_dimensions() -> None:
    assert SmlCurve(1 / math.sqrt(2)).deltas(np.array([sml_epsilon(0.01)]))[0][0] == pytest.approx(0.01)


def test_theorem_four_is_refuted_by_a_move_1456_thousandths_of_the_printed_one() -> None:
    case = CaribouTheoremFour()
    with one_thread():
        scores = case.play(500, seed=7)
    # The score is Gaussian, with a gap of mu standard deviations between the worlds.
    mu = (scores.present.mean() - scores.absent.mean()) / scores.absent.std()
    assert mu == pytest.approx(1.456, abs=0.25)


def test_an_edge_is_read_off_published_vectors_with_certainty() -> None:
    with one_thread():
        scores = EclipseVectors().play(20, seed=8)
    assert scores.present.min() > 0 > scores.absent.max()


def test_a_hub_silences_half_of_all_centres() -> None:
    scores = UnstableCapping().play(200, seed=9)
    assert scores.present.mean() - scores.absent.mean() == pytest.approx(50, abs=3)


def test_a_node_turns_every_row_that_lists_it() -> None:
    """Twenty rows turn from sqrt(1/2) along one axis to a clip along another, and the node's own row goes."""
    scores = DparLists().play(20, seed=10)
    # Log-likelihood ratios of a Gaussian that moves by mu standard deviations are mu^2 apart.
    mu = math.sqrt(scores.present.mean() - scores.absent.mean())
    assert mu == pytest.approx(math.hypot(19, 20 * math.sqrt(0.5)), rel=0.02)


def test_the_library_charges_the_parent_that_the_claim_forgets() -> None:
    case, graph = ForgottenParent(), forgotten_parent._pair().graph
    served = forgotten_parent._served(forgotten_parent._trained(graph), graph, 1).certificate
    assert served.plan_epsilon == pytest.approx(case.claimed())
    assert case.claimed() <= 0.1
    assert served.epsilon == math.inf
    assert [line.releases for line in served.guarantees] == [2]


def test_stated_degrees_tell_nothing_of_who_is_blank() -> None:
    """The attack of the case, on a plan with public bounds that hold with and without the hub."""
    pair = blank_degrees._pair()
    stated = pair.graph.with_degrees(pair.graph.adj.in_degrees())
    absent = replace(stated, x=pair.x, y=pair.y, adj=pair.adj)
    with one_thread():
        worlds = [-blank_degrees._pairs_told(graph, np.arange(30)) for graph in (stated, absent)]
    assert abs(worlds[0].mean() - worlds[1].mean()) < worlds[0].std() + worlds[1].std()
    assert rank_test(Scores(*worlds), 0.05, CONFIDENCE) == 0.0
