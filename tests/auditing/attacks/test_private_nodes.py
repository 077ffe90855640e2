"""Attack 1 of PrivGNN on small graphs: it finds the nodes of a network trained on them, and none that only taught."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphveil import methods
from graphveil.auditing.attacks.confidence import Confidence
from graphveil.auditing.attacks.parts.membership import answers
from graphveil.auditing.attacks.private_nodes import PrivateNodes, side_by_side
from graphveil.auditing.game import Target
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Unit
from memorised import SAGE, strangers

CHANCE = 4 * (161 / (12 * 80 * 80)) ** 0.5
"""Four deviations of the AUC of coins, for 80 against 80."""


def test_wins_against_a_network_trained_on_private_nodes() -> None:
    target = Target(strangers(), SAGE, Unit.NODE, noise=0.0)
    scene = PrivateNodes().scene(target, 0)
    assert PrivateNodes().on(scene).auc() > 0.65
    assert Confidence().on(scene).auc() > 0.65


def test_is_at_chance_against_a_network_of_other_nodes() -> None:
    scene = PrivateNodes().scene(Target(strangers(), SAGE, Unit.NODE, noise=0.0), 0)
    release = Target(strangers(1), SAGE, Unit.NODE, noise=0.0).release()
    unaware = replace(scene, release=release, posteriors=answers(release, scene.graph, 5))
    assert abs(PrivateNodes().on(unaware).auc() - 0.5) < CHANCE


@pytest.mark.parametrize("method", [methods.PrivGnn(queries=60, width=8), methods.Census(width=8)])
def test_is_at_chance_against_little_epsilon(method: methods.Census) -> None:
    scores = PrivateNodes().scores(Target(strangers(), method, Unit.NODE, epsilon=0.1), 0)
    assert abs(scores.auc() - 0.5) < CHANCE


def test_both_graphs_stand_side_by_side() -> None:
    graph = strangers()
    assert graph.public_graph is not None
    both = side_by_side(graph, graph.public_graph)
    assert torch.equal(both.x, torch.cat([graph.x, graph.public_graph.x]))
    first = np.arange(both.num_nodes) < graph.num_nodes
    assert (both.adj.within(first).indices == graph.adj.indices).all()
    assert (both.adj.within(~first).indices == graph.public_graph.adj.indices).all()
    assert both.adj.num_arcs == graph.adj.num_arcs + graph.public_graph.adj.num_arcs
    assert int(both.train.sum()) == int(graph.train.sum())


def test_scored_and_spare_nodes_are_disjoint() -> None:
    scene = PrivateNodes().scene(Target(strangers(), methods.Census(width=3), Unit.NODE, noise=1.0), 0)
    groups = (scene.present, scene.absent, scene.spare)
    assert len(np.unique(np.concatenate(groups))) == sum(map(len, groups))
    assert scene.present.max() < 80 <= min(scene.absent.min(), scene.spare.min())


def test_a_graph_alone_is_refused() -> None:
    with pytest.raises(InvalidInput, match="no public graph"):
        PrivateNodes().scores(Target(replace(strangers(), public_graph=None), SAGE, Unit.NODE, noise=0.0), 0)
