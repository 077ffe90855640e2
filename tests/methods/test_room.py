"""A run that cannot fit is refused before its budget is reserved, and says what to lower."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.sealing import Public
from graphveil.errors import Unsupported
from graphveil.methods.method import Method
from graphveil.nn import rows
from graphveil.privacy.ledger import Ledger
from graphveil.runtime import memory

CASES = [
    pytest.param(gv.methods.Hearsay(), "edge", "the block", id="hearsay"),
    pytest.param(gv.methods.Probe(), "label", "the block", id="probe-label"),
    pytest.param(gv.methods.Probe(), "features", "the block", id="probe-features"),
    pytest.param(gv.methods.Whisper(), "node", "the block", id="whisper"),
    pytest.param(gv.methods.HeterPoisson(), "node", "batch", id="heterpoisson"),
]


@pytest.mark.parametrize(("method", "unit", "lower"), CASES)
def test_what_cannot_fit_is_refused_before_the_budget_is_reserved(
    method: Method, unit: str, lower: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = social(num_nodes=400).random_split(seed=0).with_every_id_present()
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.open(graph, unit, epsilon=4.0, delta=1e-5)
    monkeypatch.setattr(rows, "WHOLE", 100)
    monkeypatch.setattr(rows, "BLOCK", 200)
    public, _ = graph.seal(gv.Adjacency.of(unit))
    needed = method.room(public)
    monkeypatch.setattr(memory, "_free", lambda _: needed.size - 1)
    with pytest.raises(Unsupported, match=f"400 nodes take .*lower {lower}"):
        gv.train(graph, method, epsilon=1, delta=1e-5, unit=unit, seed=0, ledger=ledger)
    assert ledger.entries() == []
    # What it asks for is enough.
    if lower == "the block":
        assert method.room(public, needed.rows - 1).size < needed.size


@pytest.mark.parametrize(("method", "unit", "lower"), CASES)
def test_room_grows_with_the_graph_and_a_gpu_works_on_more_at_a_time(method: Method, unit: str, lower: str) -> None:
    del unit
    small, large = (method.room(Public.blank(nodes, 64, 8)) for nodes in (10**6, 10**7))
    assert large.held == pytest.approx(10 * small.held, rel=0.01)
    assert small.rows > 0
    if lower == "the block":
        assert method.room(Public.blank(10**7, 64, 8), 1 << 20).rows == 1 << 20
