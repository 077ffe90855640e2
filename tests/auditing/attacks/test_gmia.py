"""G-MIA and the floors beside it, on small graphs: they win against a model that learnt by heart, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from graphveil import methods
from graphveil.auditing.attacks.confidence import Confidence
from graphveil.auditing.attacks.features_alone import FeaturesAlone
from graphveil.auditing.attacks.gmia import Gmia, shadow_parts
from graphveil.auditing.attacks.parts.membership import AttackContext, answers, confidence, part, shadow_judge
from graphveil.auditing.game import Target
from graphveil.data.graph import induced
from graphveil.data.splits import Split
from graphveil.errors import InvalidInput
from graphveil.vocabulary import Unit
from memorised import heart, never_seen


def test_wins_against_a_model_that_learnt_by_heart() -> None:
    target = heart()
    scene = AttackContext.of(target, 0)
    assert Gmia().on(scene).auc() > 0.65
    assert Confidence().on(scene).auc() > 0.65


def test_is_at_chance_against_a_model_that_never_saw_the_nodes() -> None:
    scene = never_seen(AttackContext.of(heart(), 0))
    found = [attack.on(scene).auc() for attack in (Gmia(), Confidence(), FeaturesAlone())]
    # Four deviations of the AUC of coins, for 60 against 60.
    assert np.allclose(found, 0.5, atol=4 * (121 / (12 * 60 * 60)) ** 0.5)


def test_the_floor_that_never_asks_the_model_is_at_chance() -> None:
    assert abs(FeaturesAlone().on(AttackContext.of(heart(), 0)).auc() - 0.5) < 0.22


def test_who_is_scored_and_who_is_spare_are_disjoint() -> None:
    target = heart()
    scene = AttackContext.of(target, 3)
    inside, checked, outside = shadow_parts(scene)
    groups = (scene.present, scene.absent, inside, outside)
    assert len(np.unique(np.concatenate(groups))) == sum(map(len, groups))
    assert target.graph.train[torch.from_numpy(scene.present)].all()
    assert not target.graph.train[torch.from_numpy(np.concatenate(groups[1:]))].any()
    assert len(checked) == 0
    assert len(scene.present) == len(scene.absent)


def test_a_shadow_has_validation_nodes_if_the_target_has() -> None:
    graph = heart().graph.random_split(0.4, 0.2, 0.4, seed=1)
    scene = AttackContext.of(Target(graph, methods.Mlp(epochs=2), Unit.NODE, noise=0.0), 0)
    inside, checked, outside = shadow_parts(scene)
    assert len(checked) == round(len(outside) / 3)
    assert len(inside) + len(checked) == len(outside)
    assert not graph.val[torch.from_numpy(scene.scored)].any()


def test_scores_know_the_degrees_of_the_full_graph() -> None:
    scene = AttackContext.of(heart(), 0)
    scores = Confidence().on(scene)
    assert scores.present_degrees is not None
    assert (scores.present_degrees == scene.graph.adj.in_degrees()[scene.present]).all()
    assert set(scores.by_degree()) == {"low", "high"}


def test_every_kind_of_prediction_can_be_asked_for() -> None:
    graph = heart().graph
    public = induced(graph, Split(np.arange(0, graph.num_nodes, 2), how="test"), "public")
    for method in (
        methods.Gcn(hidden=4, epochs=2),
        methods.Mlp(hidden=4, epochs=2),
        methods.HeterPoisson(network="sage", hidden=4, batch=3, epochs=1.0),
        methods.Census(width=3),
    ):
        whole = graph.with_public(public) if method.needs_public else graph
        release = Target(whole, method, Unit.NODE, noise=1.0).on(part(whole, np.arange(40), np.arange(0)), 0).release()
        told = answers(release, whole, 1)
        assert told.shape == (graph.num_nodes, 3)
        assert torch.allclose(told.sum(dim=1), torch.ones(graph.num_nodes))


def test_the_answers_do_not_say_who_trained() -> None:
    graph = heart().graph
    target = Target(graph, methods.HeterPoisson(network="sage", hidden=4, batch=3, epochs=1.0), Unit.NODE, noise=1.0)
    release = target.release()
    other = graph.random_split(0.3, 0.0, 0.5, seed=9)
    assert torch.equal(answers(release, graph, 1), answers(release, other, 1))


def test_confidence_keeps_its_digits() -> None:
    told = torch.tensor([[1 - 1e-9, 1e-9], [1e-20, 1.0], [0.25, 0.75]], dtype=torch.float64)
    found = confidence(told, torch.tensor([0, 0, 1]))
    assert np.allclose(found, np.log([1e9, 1e-20, 3.0]), rtol=1e-6)


def test_the_judge_learns_what_members_look_like() -> None:
    torch.manual_seed(0)
    inside, outside = torch.randn(200, 3).mul(3).softmax(dim=1), torch.randn(200, 3).mul(0.3).softmax(dim=1)
    told = shadow_judge(inside[:100], outside[:100], torch.cat([inside[100:], outside[100:]]), 0)
    assert (told[:100] > 0).mean() > 0.8
    assert (told[100:] < 0).mean() > 0.8


def test_nobody_without_a_label_is_scored() -> None:
    target = heart()
    y = target.graph.y.clone()
    y[::4] = -1
    scene = AttackContext.of(replace(target, graph=replace(target.graph, y=y)), 0)
    assert bool((y[scene.scored] >= 0).all())
    assert np.isfinite(Gmia().on(scene).auc())


def test_attackers_parts_are_whole() -> None:
    """An attacker knows the nodes of her shadows, so methods with public degrees can be attacked."""
    graph = replace(heart().graph, every_id_present=False)
    shadow = part(graph, np.arange(20), np.arange(0))
    assert shadow.every_id_present
    assert bool(shadow.train.all())


def test_a_graph_without_outsiders_is_refused() -> None:
    graph = heart().graph
    nobody = torch.zeros(graph.num_nodes, dtype=torch.bool)
    everybody = graph.with_split(~nobody, nobody, nobody, "all train")
    with pytest.raises(InvalidInput, match="outside training"):
        Gmia().scores(Target(everybody, methods.Mlp(), Unit.NODE, noise=0.0), 0)


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(InvalidInput, match="hidden"):
        Gmia(hidden=0)
    with pytest.raises(InvalidInput, match="unknown attack"):
        Confidence("nobody")
