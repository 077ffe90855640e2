"""The page of a run and its card say what the certificate and the scores say, and need nothing from outside."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil.cli import app
from graphveil.codec import rounded
from graphveil.errors import InvalidInput
from graphveil.report import Bar, card_page, demonstrate, summary


def test_demonstration_writes_release_and_page(tmp_path: Path) -> None:
    said = demonstrate(tmp_path)
    page = (tmp_path / "summary.html").read_text()
    release = gv.load(tmp_path / "release")
    assert release.certificate.epsilon <= 2
    assert release.certificate.provenance.secure
    assert rounded(release.certificate.epsilon) in page
    assert "one undirected edge added or removed" in page
    for label in ("GCN, not private", "MLP, no edges", "hearsay, private edges"):
        assert label in said
        assert label in page
    assert not re.findall(r'(src|href)="(?!#)|<script', page)
    assert len(page) < 20_000


def test_refutation_and_seed_are_on_the_page() -> None:
    graph = gv.datasets.load("chain-s")
    method = gv.methods.Gap(epochs=1)
    release = gv.train(graph, method, epsilon=1, delta=1e-5, unit="edge", reading="published", seed=0)
    page = summary(release, [Bar("gap <b>", 0.5, release.certificate.epsilon)])
    assert "refuted" in page
    assert rounded(release.certificate.sound_epsilon, infinite="infinite") in page
    assert "Not for release" in page
    assert "gap &lt;b&gt;" in page
    assert "statistics of private labels" not in page
    assert "statistics of private labels" in summary(release, [Bar("gap", 0.5, 1.0)], scores_are_private=True)
    assert "there is no score" in summary(release, [])


def test_scores_by_class_baselines_and_meaning_are_on_the_page() -> None:
    graph = gv.datasets.load("chain-s")
    release = gv.train(graph, gv.methods.Hearsay(folds=2, hidden=4, head=4), epsilon=2, delta=1e-5, unit="edge")
    scores = release.evaluate("test")
    page = summary(release, [Bar("hearsay", scores["accuracy"], 2.0)], scores=scores)
    for said in ("the largest class, always", "By class", "What was taken for what", "89 : 11", "not protected"):
        assert said in page
    assert f"Balanced accuracy {100 * scores['balanced_accuracy']:.1f}" in page
    # One line of the table is the release's own, although its epsilon is a little below 2.
    assert page.count('class="own"') == 1
    assert page.count('<th scope="row">2</th>') == 1
    lazy = {**scores, "names_one_class": True}
    assert "names one class only" in summary(release, [Bar("hearsay", 0.5, 2.0)], scores=lazy)
    assert "balanced accuracy, the mean recall" not in page
    most = {**scores, "largest_class": 0.95}
    unequal = summary(release, [Bar.of("hearsay", scores, 2.0)], scores=most)
    assert "One class has 95.0 % of these nodes, so bars show balanced accuracy" in unequal
    assert "Balanced test accuracy of each method" in unequal
    assert release.certificate.statements[0].sentence in card_page(release)
    assert "By class" not in card_page(release), "a card may be given away"


def trained(tmp_path: Path, *words: str, epsilon: str = "1") -> Any:
    common = ["train", "mlp", "chain-s", "--epsilon", epsilon, "--epochs", "1", "--seed", "0", "--quiet"]
    return CliRunner().invoke(app, [*common, *words, "--out", str(tmp_path / "release")])


@pytest.mark.parametrize(("unit", "private"), [("edge", False), ("node", True)])
def test_a_training_run_offers_its_page(tmp_path: Path, unit: str, private: bool) -> None:
    page = tmp_path / "page.html"
    words = ["--unit", unit, "--summary", str(page)]
    # Nodes: a perceptron without noise has epsilon infinity.
    result = trained(tmp_path, *words, epsilon="inf" if private else "1")
    assert result.exit_code == 0, (result.output, result.exception)
    assert ("statistics of private labels" in page.read_text()) is private
    assert not list((tmp_path / "release").glob("*.html"))


def test_the_page_does_not_go_into_the_release(tmp_path: Path) -> None:
    result = trained(tmp_path, "--unit", "edge", "--summary", str(tmp_path / "release" / "page.html"))
    assert isinstance(result.exception, InvalidInput)
    assert "elsewhere" in str(result.exception)
    assert not (tmp_path / "release").exists()
