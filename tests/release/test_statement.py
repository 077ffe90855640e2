"""The sentence that is signed: its odds are met by no attacker, attained by one, and rounded against us."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphveil as gv
from graphveil.data.sealing import OUTSIDE_UNPROTECTED
from graphveil.release.statement import PrivacyStatement, best_guess, shares
from graphveil.vocabulary import Adjacency, Unit

EPSILONS = (0.01, 0.1, 0.5, 1.0, math.log(3), 2.0, 3.0, 4.5, 5.0, 8.0, 12.0)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_the_best_guess_is_that_of_the_worst_mechanism(epsilon: float, delta: float) -> None:
    """Tells all with chance delta, and else answers at random with odds e^epsilon : 1 (Kairouz et al. 2015)."""
    truth = (1 - delta) / (1 + math.exp(-epsilon))
    there = np.array([delta, truth, 1 - delta - truth, 0.0])
    gone = there[::-1]
    right = np.maximum(there, gone).sum() / 2
    assert best_guess(epsilon, delta) == pytest.approx(right, abs=1e-12)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_no_test_on_a_gaussian_release_is_right_more_often(epsilon: float) -> None:
    """Of a release whose (epsilon, delta) is met exactly: the best threshold guesses by half of mu."""
    from statistics import NormalDist

    normal = NormalDist().cdf
    for mu in (0.1, 1.0, 3.0):
        delta = normal(-epsilon / mu + mu / 2) - math.exp(epsilon) * normal(-epsilon / mu - mu / 2)
        assert normal(mu / 2) <= best_guess(epsilon, max(delta, 0.0)) + 1e-12


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_shares_are_rounded_against_us(epsilon: float, delta: float) -> None:
    right, wrong = shares(epsilon, delta)
    assert float(right) + float(wrong) == pytest.approx(100)
    assert float(right) / 100 >= best_guess(epsilon, delta)
    assert float(wrong) > 0
    assert float(wrong) >= 45 * (1 - best_guess(epsilon, delta)), "and no more than needed"


def test_examples() -> None:
    assert shares(2.0, 1e-5) == ("89", "11")
    assert shares(8.0, 1e-5) == ("99.97", "0.03")
    assert shares(0.1, 1e-5) == ("53", "47")
    assert shares(40.0, 1e-5) == ("100", "0")


@pytest.mark.parametrize(
    ("unit", "undirected", "secret"),
    [
        ("edge", True, "whether two people are linked"),
        ("edge", False, "whether one person points to another"),
        ("node", True, "whether the record of a person is in the graph"),
        ("features", True, "which of two records is that of a person"),
        ("label", True, "which of two labels is that of a person"),
    ],
)
def test_the_sentence_names_what_is_hidden_and_the_card_what_is_not(unit: str, undirected: bool, secret: str) -> None:
    promise = PrivacyStatement(Adjacency.of(unit, undirected), 2.0, 1e-5)
    assert promise.sentence.startswith("Whoever sees this release and knows everything else about the graph")
    assert f"guesses {secret}, is right at most 89 times in 100: even odds become at most 89 : 11." in promise.sentence
    opened = " ".join(promise.not_protected)
    for part, words in (("x", "features"), ("edges", "all links, ")):
        assert (words in opened) is (part not in promise.adjacency.private)
    assert "split" in opened


def test_outsiders_and_public_graphs_are_named_open() -> None:
    near = Adjacency.of(Unit.NODE, True)
    promise = PrivacyStatement(near, 1.0, 1e-5, assumes=(OUTSIDE_UNPROTECTED,), public="town, 9 nodes")
    assert "a person in training" in promise.sentence
    assert "in training" in promise.protected
    opened = " ".join(promise.not_protected)
    assert "everybody outside training" in opened
    assert "public graph town, 9 nodes" in opened
    assert "outside training" not in " ".join(PrivacyStatement(near, 1.0, 1e-5).not_protected)


class TestCards:
    """The first line, of real releases."""

    def train(self, method: gv.Method, **given: object) -> gv.Release:
        how = {"epsilon": 2, "delta": 1e-5, "unit": "edge", **given}
        return gv.train(gv.datasets.load("chain-s"), method, **how)  # type: ignore[arg-type]

    def test_a_secret_release(self, tmp_path: Path) -> None:
        release = self.train(gv.methods.Hearsay(folds=2, hidden=4, head=4))
        first, *rest = release.card().splitlines()
        assert first.startswith("Whoever sees this release")
        assert first.endswith("89 : 11.")
        assert any(line.startswith("  unprotected  features, labels and ids") for line in rest)
        assert (release.save(tmp_path / "model") / "card.txt").read_text().startswith(first)

    def test_a_seeded_release_is_not_promised(self) -> None:
        assert self.train(gv.methods.Mlp(epochs=1), seed=0).card().startswith("This release reads nothing private")
        seeded = self.train(gv.methods.Hearsay(folds=2, hidden=4, head=4), seed=0)
        assert seeded.card().startswith("NOT FOR RELEASE, its noise can be subtracted")

    def test_noise_that_delta_alone_pays_for_is_still_said_to_read(self) -> None:
        release = self.train(gv.methods.DpSgd(steps=1), epsilon=None, noise=1e8, unit="node")
        assert release.certificate.epsilon == 0
        assert "is right at most 51 times in 100" in release.card().splitlines()[0]

    def test_what_is_not_private_is_promised_nothing(self) -> None:
        card = self.train(gv.methods.Gcn(epochs=1), epsilon=math.inf).card()
        assert card.startswith("No protection is proven: whoever sees this release may find out for certain whether")

    def test_a_refuted_claim_is_signed_by_what_is_proven(self) -> None:
        release = self.train(gv.methods.Gap(epochs=1), epsilon=1, reading="published")
        right, wrong = shares(release.certificate.sound_epsilon, 1e-5)
        assert f"{right} : {wrong}." in release.card().splitlines()[0]
        assert float(right) > float(shares(release.certificate.epsilon, 1e-5)[0])

    def test_each_dataset_has_its_sentence(self) -> None:
        ours = self.train(gv.methods.Hearsay(folds=2, hidden=4, head=4))
        graph = gv.datasets.load("chain-s")
        there = replace(graph, x=graph.x + 1, y=graph.y.flip(0), name="elsewhere")
        both, first, second = gv.infer(ours, there, epsilon=1, delta=1e-5).card().splitlines()[:3]
        assert "linked in 'elsewhere' and in 'chain-s' alike, is right at most 96 times" in both
        assert "linked in 'elsewhere', is right at most 74 times" in first
        assert "linked in 'chain-s', is right at most 89 times" in second
