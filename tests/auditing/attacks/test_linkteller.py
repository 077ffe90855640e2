"""LinkTeller sees edges wherever a server computes on submitted features, and nothing where none is computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphveil import methods
from graphveil.auditing.attacks.linkteller import Interface, LinkTeller, _server
from graphveil.auditing.game import Target
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.method import METHODS, Method
from graphveil.vocabulary import Unit
from joined import attacked, unrelated

STACKS = [methods.Gcn(epochs=60), methods.Sage(epochs=60), methods.Gin(epochs=60, hidden=16)]
# Hearsay serves a graph with the networks of all folds, so that its own nodes get other answers than in training.
REPEATING = [
    kind
    for name, kind in METHODS.ours().items()
    if Unit.EDGE in kind.units and name != "hearsay" and not kind.needs_public
]


@pytest.mark.parametrize("method", STACKS, ids=lambda method: method.name())
@pytest.mark.parametrize("natural", [False, True])
def test_it_wins_against_networks_without_privacy(method: Method, natural: bool) -> None:
    scores = LinkTeller(sample=100, natural=natural).scores(attacked(method), 0)
    assert scores.auc() > 0.9
    assert {name: group.auc() > 0.85 for name, group in scores.by_degree().items()} == {"low": True, "high": True}


@pytest.mark.parametrize("interface", Interface)
def test_it_is_blind_where_no_edge_is_read(interface: Interface) -> None:
    scores = LinkTeller(sample=100, interface=interface).scores(attacked(methods.Mlp(epochs=20)), 0)
    assert scores.auc() == 0.5
    assert not np.concatenate([scores.present, scores.absent]).any()


@pytest.mark.parametrize(("method", "epsilon"), [(methods.Gcn(epochs=5), math.inf), (methods.Gap(epochs=5), 4.0)])
def test_a_release_of_ours_has_nothing_to_be_asked(method: Method, epsilon: float) -> None:
    assert LinkTeller(sample=50, interface="served").scores(attacked(method, epsilon), 0).auc() == 0.5


@pytest.mark.parametrize("method", STACKS, ids=lambda method: method.name())
def test_many_queries_at_once_say_what_one_by_one_say(method: Method) -> None:
    target = attacked(method)
    release = target.release()
    server = _server(target, release, Interface.RERUN, 0)
    assert server.most > 3
    nodes, rows = np.array([5, 0, 7]), target.graph.x[torch.tensor([1, 2, 3])]
    together = server.answers(nodes, rows)
    # No noise is drawn for these, so that asking anew is the slow way to the same answers.
    alone = _server(target, release, Interface.ANEW, 0)
    one_by_one = torch.cat([alone.answers(nodes[i : i + 1], rows[i : i + 1]) for i in range(3)])
    torch.testing.assert_close(together, one_by_one, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(server.before, release.predict_proba().log(), atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", REPEATING, ids=lambda kind: kind.name())
def test_a_rerun_repeats_the_noise_of_the_training(kind: type[Method]) -> None:
    target = Target(unrelated(40), kind.specimens()[0], Unit.EDGE, noise=0.5, seed=3)
    release = target.release()
    before = _server(target, release, Interface.RERUN, 0).before
    torch.testing.assert_close(before, release.predict_proba().log(), atol=1e-4, rtol=1e-4)


def test_reused_noise_hides_no_edge_and_fresh_noise_does() -> None:
    target = attacked(methods.Gap(epochs=60), epsilon=2.0)
    release = target.release()
    rerun, anew = (LinkTeller(100, interface=how).judged(target, release, 0).auc() for how in ("rerun", "anew"))
    assert rerun > 0.75
    assert abs(anew - 0.5) < 0.15


def test_private_features_cannot_be_submitted() -> None:
    target = Target(unrelated(40), methods.Gcn(hidden=4, epochs=2), Unit.NODE, epsilon=math.inf)
    with pytest.raises(Unsupported, match="public"):
        LinkTeller(10).scores(target, 0)


def test_settings_are_checked() -> None:
    for wrong in ({"interface": "telepathy"}, {"share": 0.0}, {"share": math.nan}, {"sample": 1}):
        with pytest.raises(InvalidInput):
            LinkTeller(**wrong)
    assert set(LinkTeller().floors()) == {"features alone", "mlp posteriors"}
