"""Algorithm 5 of HeterPoisson: a projection on the canary cannot see what the whole vector tells."""

from __future__ import annotations

import numpy as np
import pytest
from neighbours import Sketch

import graphveil as gv
from graphveil.auditing.attacks.gradient_canary import GradientCanary, projected
from graphveil.auditing.bounds import Scores
from graphveil.auditing.game import Game, Pair, everything
from graphveil.vocabulary import Adjacency, Reading

NODE = Adjacency.of("node")


def played(method: gv.Method, noise: float, runs: int, reading: Reading = Reading.SOUND) -> tuple[Scores, Scores]:
    """The same runs on a graph, seen whole and in projection."""
    graph = Sketch.random(np.random.default_rng(1), undirected=True, nodes=9).graph()
    pair: Pair = GradientCanary().pairs(graph, NODE, 0)[0]
    plan = method.plan(pair.worlds(NODE)[0], NODE, reading, noise)
    whole, along = (Game(pair, method, plan, weigh=weigh).play(runs, 0) for weigh in (everything, projected))
    return whole, along


def test_along_one_direction_gaussian_noise_tells_all_it_tells() -> None:
    whole, along = played(gv.methods.DpSgd(steps=2), 2.0, 5)
    assert along.present == pytest.approx(whole.present, rel=1e-6)
    assert along.absent == pytest.approx(whole.absent, rel=1e-6)
    sampled = played(gv.methods.DpSgd(steps=2, sampling_rate=0.5), 2.0, 5)
    assert sampled[1].present == pytest.approx(sampled[0].present, rel=1e-6)


def test_on_a_graph_the_vector_tells_more_too() -> None:
    method = gv.methods.HeterPoisson(network="sage", hidden=16, batch=4, epochs=0.5, noise_law="sml")
    whole, along = played(method, 0.25, 60, Reading.PUBLISHED)
    assert whole.auc() > along.auc()
