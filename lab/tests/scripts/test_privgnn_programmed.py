"""PrivGNN as programmed: networks side by side, noise on logarithms, and what a canary certifies."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import privgnn_programmed as programmed
from graphveil.privacy.noise import Seeded
from privgnn_programmed import Networks, SideBySide
from two_graphs import pair

SMALL = Networks(2, 20, "rows")


def test_batch_normalisation_is_torchs() -> None:
    torch.manual_seed(0)
    net, plain = SideBySide(2, 3, 4, 2), torch.nn.BatchNorm1d(programmed.HIDDEN)
    rows = torch.randn(2, 7, programmed.HIDDEN)
    assert torch.allclose(net._normal(0, rows, slice(None))[1], plain(rows[1]), atol=1e-5)
    assert torch.allclose(net.eval()._normal(0, rows[1:], slice(1, 2))[0], plain.eval()(rows[1]), atol=1e-5)


def test_networks_side_by_side_hear_their_own_nodes_alone() -> None:
    graph = pair()
    chosen = [np.arange(5), np.arange(3, 8)]
    mean = programmed.dense_mean(graph.adj, chosen, "cpu")
    every = programmed.sparse_mean(graph.adj.within(np.arange(graph.num_nodes) < 5), "cpu")
    rows = torch.randn(2, 5, 3)
    assert torch.allclose(mean(rows)[0], every(rows[:1])[0], atol=1e-6)
    changed = rows.clone()
    changed[1] += 1
    assert torch.equal(mean(changed)[0], mean(rows)[0])


def test_noise_on_logarithms_is_drowned_by_a_sure_teacher() -> None:
    sure = np.log(np.tile([1 - 2e-20, 1e-20, 1e-20], (1000, 1)))
    right = {
        kind: float((programmed.noisy_labels(sure, kind, 0.2, Seeded(0)) == 0).double().mean())
        for kind in programmed.KINDS
    }
    assert right["logarithms"] > 0.99
    assert right["probabilities"] < 0.5


def test_shares_of_teachers_make_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programmed.gv.datasets, "load", lambda *_, **__: pair())
    monkeypatch.setattr(programmed, "NETWORKS", {"paper": SMALL})
    monkeypatch.setattr(programmed, "TURN", 4)
    given = (tmp_path, "computers", "paper", 0, 12)
    assert programmed.measure(*given, "1/2", "cpu") == programmed.measure(*given, "2/2", "cpu") == {}
    before = {file.name: file.stat().st_mtime_ns for file in tmp_path.iterdir()}
    run = programmed.measure(*given, "1/1", "cpu")
    assert len(before) == 3
    assert all((tmp_path / name).stat().st_mtime_ns == when for name, when in before.items())
    assert 0 <= run["logarithms"]["1.0"]["accuracy"] <= 1
    assert run["reach"]["largest"] >= run["reach"]["median"] > 0
    audited = {"lambda": 0.1, "queries": 1, "claimed": 0.1, "certified": 2.0, "proven": 3.0}
    assert programmed.accuracy_table([run]).endswith("| printed, Amazon |  |  | student | 40 | 64 | 80 | 82 | 83 |")
    assert programmed.audit_table([audited]).endswith("| 0.1 | 1 | 0.10 | 2.00 | 3.0 | refuted |")
    assert "| paper | 1 |" in programmed.reach_table([run])


def test_printed_budgets_are_what_is_claimed() -> None:
    assert [round(programmed.claimed(strength, 1000), 1) for strength in (0.1, 0.2)] == [3.9, 8.5]


def test_a_canary_is_told_beyond_the_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programmed, "RESTARTS", 3)
    monkeypatch.setattr(programmed, "NETWORKS", {"program": SMALL})
    found = programmed.canary_answers(Networks(2, 100, "none"), nodes=100)
    assert found["sampled"].shape == (3, 10)
    assert (found["sampled"][:, 1] - found["without"][:, 1]).min() > 2
    counts = [programmed.counted(found, present, 1.0, 20, 500, Seeded(present)) for present in (False, True)]
    assert counts[1].mean() > counts[0].mean() + 1
    rows = programmed.audit(500, [1])
    assert [row["lambda"] for row in rows] == list(programmed.LAMBDAS)


def test_what_is_proven_follows_from_the_tails_of_the_noise() -> None:
    noise = np.random.default_rng(0).laplace(size=(2, 200_000))
    assert programmed.beaten(np.array(2.0)) == pytest.approx(math.log((noise[0] - noise[1] >= 2).mean()), abs=0.05)
    apart = np.full((2, 10), -100.0)
    without, sampled = apart.copy(), apart.copy()
    without[:, 0], sampled[:, 1] = 0.0, 0.0
    found = {"without": without, "sampled": sampled}
    likely = math.log(programmed.RATE - programmed.DELTA)
    assert programmed.proven(found, 1.0, 1) == pytest.approx(likely + 100 - math.log(102 / 4), abs=1e-6)
    assert programmed.proven({"without": apart, "sampled": apart}, 1.0, 1) == 0.0
