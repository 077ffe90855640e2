"""A made-up graph of any size: valid, as dense and as telling as asked for, and the same however it is cut."""

from __future__ import annotations

import pytest
import torch

from graphveil.data.datasets import planted as module
from graphveil.data.datasets.planted import planted
from graphveil.errors import InvalidInput


def test_it_has_what_was_asked_for() -> None:
    graph = planted(12_000, 60_000, 6, 10, seed=3)
    assert graph.sizes == (12_000, 10, 6)
    assert abs(graph.num_edges / 60_000 - 1) < 0.02
    assert graph.adj.is_symmetric()
    assert not graph.adj.has_loops()
    sources, targets = graph.adj.edge_index()
    assert 0.7 < float((graph.y[sources] == graph.y[targets]).double().mean()) < 0.9
    assert len(set(graph.adj.in_degrees().tolist())) > 5
    assert abs(float(graph.train.double().mean()) - 0.75) < 0.02
    assert abs(float(graph.x.std()) - 1) < 0.1


def test_a_seed_is_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = planted(3_000, 9_000, 3, 4, seed=1)
    assert whole.fingerprint() != planted(3_000, 9_000, 3, 4, seed=2).fingerprint()
    monkeypatch.setattr(module, "_BLOCK", 100)
    assert planted(3_000, 9_000, 3, 4, seed=1).fingerprint() == whole.fingerprint()


def test_short_features_are_those_rounded() -> None:
    full, short = (planted(600, 900, 3, 4, dtype=kind) for kind in (torch.float32, torch.bfloat16))
    assert torch.equal(full.x.to(torch.bfloat16), short.x)


def test_what_cannot_be_made_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too few"):
        planted(10, 100, 2, 3)
