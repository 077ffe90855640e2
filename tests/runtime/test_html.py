"""What notebooks show: facts as a table, text for text, and a release in one line."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphveil as gv
from graphveil.errors import MissingExtra

EVIL = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def release() -> gv.Release:
    graph = replace(gv.datasets.load("chain-s"), name=EVIL)
    return gv.train(graph, gv.methods.Hearsay(folds=2, hidden=4, head=4), epsilon=2, delta=1e-5, unit="edge", seed=0)


def test_objects_show_themselves_and_escape_names(release: gv.Release, tmp_path: Path) -> None:
    graph = replace(gv.datasets.load("chain-s"), name=EVIL)
    ledger = gv.Ledger(tmp_path / "ledger.db")
    assert "<td>" not in ledger._repr_html_(), "there is no file yet"
    ledger.open(graph, "edge", epsilon=4, delta=1e-5)
    for thing, said in (
        (graph, "undirected edges"),
        (ledger, "4.000"),
        (release.certificate, "even odds become at most 89 : 11"),
        (release, "reads released state only"),
    ):
        shown = thing._repr_html_()
        assert said in shown
        assert "<script>" not in shown
        assert "&lt;script&gt;" in shown
    for thing in (release, release.certificate):
        assert "NOT FOR RELEASE" in thing._repr_html_()


def test_a_release_is_one_line(release: gv.Release) -> None:
    assert len(repr(release)) < 200
    assert "\n" not in repr(release)
    assert "epsilon 2.0000 at delta 1e-05" in repr(release)
    assert repr(gv.Ledger("missing.db")) == "Ledger('missing.db')"


def test_a_plot_needs_matplotlib_and_says_so(release: gv.Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(MissingExtra, match="graphveil card --format html"):
        release.plot()


def test_a_plot_shows_what_the_attacker_can_reach(release: gv.Release) -> None:
    """The corners of the bound, on axes of its own or on those that were given."""
    pytest.importorskip("matplotlib").use("agg")
    import matplotlib.pyplot as plt

    for axes in (release.plot(), release.plot(plt.subplots()[1])):
        xs, ys = map(np.asarray, axes.lines[0].get_data())
        assert (xs[1], ys[1]) == pytest.approx((0.1192, 0.8808), abs=1e-3)
        assert "hearsay" in axes.get_title()
        plt.close(axes.figure)
