"""The baselines of PrivGNN's paper, on a small pair of graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import one_hot

from graphveil.nn.features import unit_rows
from graphveil.nn.sage_teacher import SageRecipe
from graphveil.nn.student import SageStudent, sage_logits
from graphveil.privacy.noise import Seeded
from privgnn_baselines import ablation, all_labels, baselines, found_or_made, network, oracle, side_by_side
from privgnn_table import LAMBDAS, Remembered
from two_graphs import pair


def test_baselines_learn_and_the_oracle_tells_less_with_more_noise() -> None:
    found = dict(baselines(pair(), "rows", 80, 0, SageRecipe(hidden=16, epochs=40)))
    assert list(found) == ["B1", "B2", "B3", *(f"B4 {strength}" for strength in LAMBDAS)]
    assert min(found[name] for name in ("B1", "B2", "B3")) > 0.8
    assert found["B4 0.1"] < found["B4 1.0"] <= found["B2"]


def test_with_true_labels_the_network_is_the_student() -> None:
    public = pair().public_graph
    assert public is not None
    x, ids = unit_rows(public.x), public.train.nonzero().flatten().numpy()
    labels = public.y[public.train]
    found = network(x, public.adj, ids, one_hot(labels, 3).float(), SageRecipe(hidden=8, epochs=20), 3)
    torch.manual_seed(3)
    student = SageStudent(hidden=8, epochs=20)
    logits = sage_logits(student, student.fit(x, public.adj, ids, labels, 3), x, public.adj)
    # Biases below batch normalisation have no gradient but rounding, which Adam makes as large as any other.
    assert float((found - logits).abs().max()) < 0.05 * float(logits.abs().max())


def test_two_graphs_side_by_side_share_no_arc() -> None:
    graph = pair()
    assert graph.public_graph is not None
    joint = side_by_side(graph.adj, graph.public_graph.adj)
    ours = np.arange(joint.num_nodes) < graph.num_nodes
    for part, inside in ((graph.adj, ours), (graph.public_graph.adj, ~ours)):
        kept = joint.within(inside)
        assert np.array_equal(kept.indptr, part.indptr)
        assert np.array_equal(kept.indices, part.indices)
    assert joint.num_arcs == graph.adj.num_arcs + graph.public_graph.adj.num_arcs


def test_the_oracle_gives_soft_labels() -> None:
    labels = torch.arange(200) % 2
    told = oracle(labels, 2, 0.2, Seeded(0))
    sums = told.sum(dim=1)
    assert bool((told >= 0).all())
    assert bool(((sums - 1).abs() < 1e-6).logical_or(sums == 0).all())
    # Both entries negative: about 0.5 * 0.5 e^-0.2 = 0.2 of the rows say nothing.
    assert 20 < int((sums == 0).sum()) < 65
    assert torch.allclose(oracle(labels, 2, 1e9, Seeded(0)), one_hot(labels, 2).float(), atol=1e-6)


def test_what_the_oracle_reveals_of_all_labels() -> None:
    assert 0.19 < all_labels(0.1, 1) <= 0.2
    assert all_labels(0.1, 1000) < 100 < 500 < all_labels(1.0, 1000) < 2000


@pytest.mark.parametrize("single", [True, False])
def test_ablations_are_listed_with_what_is_claimed_and_provable(single: bool) -> None:
    rows = ablation(pair(), "rows", 4, 0, single)
    assert list(rows) == [str(strength) for strength in LAMBDAS]
    assert all(0 <= row["accuracy"] <= 1 for row in rows.values())
    assert rows["1.0"]["provable"] > rows["0.1"]["provable"] > 0
    assert not Remembered.kept


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    place = tmp_path / "new" / "run.json"
    assert found_or_made(place, lambda: {"a": 1}) == {"a": 1}
    assert found_or_made(place, lambda: {"a": 2}) == {"a": 1}
