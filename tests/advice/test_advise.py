"""Advice: a ranking, what it costs, what it rests on, and when to spend nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.advice.advise import Advice, Expected, Forecast, Metric, _recommended
from graphveil.data.datasets.synthetic import social
from graphveil.errors import InvalidInput
from graphveil.report import advice_picture

ACCURACY = Metric.ACCURACY
SIZES = gv.Public.blank(3000, 8, 3)
QUICK: dict[str, Any] = {"epsilons": [4, 1], "seeds": 1, "limit": 150}


@pytest.fixture(scope="module")
def advice() -> Advice:
    return gv.advise(SIZES, unit="edge", methods=["gap", "hearsay"], homophily=0.9, **QUICK)


def test_methods_are_ranked_beside_references(advice: Advice) -> None:
    assert [one.method for one in advice.methods] == ["hearsay", "gap"]
    assert [row["method"] for row in advice.table] == [
        *("hearsay", "gap", "mlp (no budget)", "gcn (not private)", "largest class")
    ]
    assert list(advice.table[0]) == ["method", "ε = 1", "ε = 4"]
    assert advice.recommended == "hearsay"
    assert advice.methods[0].expected[-1].accuracy > advice.references[0].expected[0].accuracy + 0.1


def test_noise_is_that_of_the_full_size_and_odds_are_rounded_against_us(advice: Advice) -> None:
    made = gv.methods.Gap()
    gap = next(one for one in advice.methods if one.method == "gap")
    for point in gap.expected:
        plan = made.plan(SIZES, gv.Adjacency.of("edge"), gv.Reading.SOUND, point.noise)
        assert 0.99 * point.epsilon < gv.accounting.epsilon(plan, advice.delta) <= point.epsilon
    assert advice.odds == ("74 : 26", "99 : 1")
    assert [row["even odds become"] for row in advice.prices] == list(advice.odds)


def test_it_says_what_it_rests_on(advice: Advice) -> None:
    said = " ".join(advice.assumes)
    assert "yours were not counted: 10 a node (a default" in said
    assert "labels are made up" in said
    assert "150 of 3,000 nodes" in said
    assert advice.lower.homophily == pytest.approx(0.45)
    assert advice.what_if.startswith("with homophily 0.45, at epsilon 4: hearsay ")
    assert [name for name, _ in advice.lower.scores] == ["hearsay", "mlp", "gcn"]


def test_all_of_it_is_plain(advice: Advice) -> None:
    told = json.loads(advice.to_json())
    assert told["methods"][0]["expected"][0]["epsilon"] == 1
    assert told["references"][1]["expected"][0]["epsilon"] == "inf"
    assert told["odds"] == list(advice.odds)
    page = advice._repr_html_()
    assert page.count("<tr>") == 6
    assert "ε = 4" in page


def test_the_picture_stands_alone(advice: Advice) -> None:
    from xml.etree import ElementTree

    drawn = advice_picture(advice)
    root = ElementTree.fromstring(drawn)
    assert root.tag.endswith("svg")
    titles = [each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert {title.split("\n")[0] for title in titles if "\n" in title} == {
        "hearsay",
        "gap",
        "mlp",
        "gcn",
        "largest class",
    }
    assert 'href="http' not in drawn
    assert 'id="m0"' in drawn


def forecast(name: str, epsilon: float, *accuracies: float) -> Forecast:
    points = [Expected(epsilon * 2**step, 1.0, *[a] * 6) for step, a in enumerate(accuracies)]
    return Forecast(name, tuple(points))


def test_the_smallest_epsilon_that_keeps_most_of_the_gain_is_recommended() -> None:
    best, free = forecast("hearsay", 1, 0.73, 0.78, 0.80), forecast("mlp", 0, 0.70)
    assert _recommended(best, free, 0.5, ACCURACY)["epsilon"] == 2
    costly = forecast("mlp", float("inf"), 0.70)
    assert _recommended(best, costly, 0.5, ACCURACY)["epsilon"] == 1


def test_where_nothing_is_gained_nothing_is_recommended() -> None:
    best = forecast("hearsay", 1, 0.705, 0.708)
    found = _recommended(best, forecast("mlp", 0, 0.70), 0.5, ACCURACY)
    assert (found["recommended"], found["epsilon"]) == (None, None)
    assert "spend nothing yet" in found["why"]
    assert "mlp, which reads no edge" in found["why"]
    assert "largest class" in _recommended(best, forecast("mlp", 0, 0.6), 0.71, ACCURACY)["why"]


@pytest.mark.parametrize(
    ("given", "needle"),
    [
        ({"unit": "edges"}, "unknown unit 'edges'"),
        ({"unit": "edge", "epsilons": []}, "epsilons must be different numbers"),
        ({"unit": "edge", "epsilons": [1, 1.0]}, "epsilons must be different numbers"),
        ({"unit": "edge", "epsilons": [0]}, "above 0"),
        ({"unit": "edge", "epsilons": [float("inf")]}, "finite"),
        ({"unit": "edge", "epsilons": 2}, "epsilons must be a list"),
        ({"unit": "edge", "delta": 2}, "delta must lie"),
        ({"unit": "edge", "limit": 3}, "limit must be a whole number of at least 20"),
        ({"unit": "edge", "seeds": 0}, "seeds must be"),
        ({"unit": "edge", "methods": []}, "list of names or methods"),
        ({"unit": "edge", "methods": "hearsay"}, "list of names or methods"),
        ({"unit": "edge", "methods": ["hearsy"]}, "did you mean: hearsay"),
        ({"unit": "edge", "methods": ["gap", gv.methods.Gap(hops=1)]}, "named twice"),
        ({"unit": "edge", "methods": ["dpsgd"]}, "dpsgd cannot be tried: dpsgd does not protect 'edge'"),
        ({"unit": "node", "methods": ["census"]}, "learns from a public graph"),
        ({"unit": "edge", "methods": ["gcn"]}, "protects nobody"),
    ],
)
def test_bad_questions_are_refused(given: dict[str, Any], needle: str) -> None:
    with pytest.raises(gv.GraphveilError, match=needle):
        gv.advise(SIZES, **given)


def test_what_is_public_needs_no_assumption() -> None:
    graph = social(num_nodes=60).random_split()
    for unit, assumed, part in (
        ("edge", {"largest_class": 0.5}, "labels"),
        ("edge", {"spread": 1.0}, "features"),
        ("label", {"mean_degree": 3.0}, "edges"),
    ):
        with pytest.raises(gv.InvalidInput, match=f"{part} are public here"):
            gv.advise(graph, unit=unit, **assumed)  # type: ignore[arg-type]


@pytest.mark.parametrize("facts", [5000, "cora", None])
def test_facts_are_a_graph_or_sizes(facts: Any) -> None:
    with pytest.raises(gv.InvalidInput, match="give a graphveil Graph, or sizes"):
        gv.advise(facts, unit="edge")


def test_a_graph_without_a_split_is_refused() -> None:
    with pytest.raises(gv.InvalidInput, match="split the graph"):
        gv.advise(social(num_nodes=60), unit="edge")
    everybody = social(num_nodes=60).random_split(1.0, 0.0, 0.0)
    with pytest.raises(gv.InvalidInput, match="split the graph"):
        gv.advise(everybody, unit="edge")


def test_unequal_classes_are_compared_by_auc_with_weights_that_are_not() -> None:
    """Naming the largest class is 90 per cent right: accuracy would tell no method from another."""
    rng, sizes = np.random.default_rng(0), gv.Public.blank(600, 6, 2)
    rare = rng.random(600) < 0.1
    x = torch.from_numpy(rng.normal(size=(600, 6)) + 0.8 * rare[:, None]).float()
    known = replace(sizes, x=x, y=torch.from_numpy(rare).long(), test=~sizes.train)
    asked: dict[str, Any] = {"unit": "edge", "epsilons": [4.0], "seeds": 1, "limit": 600}
    advice = gv.advise(known, methods=["hearsay"], **asked)
    assert (advice.metric, advice.lazy, advice.balanced) == ("auc", 0.5, True)
    assert advice.methods[0].expected[0].balanced_accuracy > 0.7
    assert "AUC is compared (--metric)" in advice.assumes[0]
    assert "test AUC, %" in advice_picture(advice)
    plain = gv.advise(known, methods=[gv.methods.Hearsay()], metric="accuracy", **asked)
    assert plain.lazy == plain.largest_class >= 0.8
    assert not plain.balanced, "a method that is given is tried as it is"
    with pytest.raises(InvalidInput, match="metric"):
        gv.advise(known, unit="edge", metric="f2")
