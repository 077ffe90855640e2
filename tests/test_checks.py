"""What the vocabulary says to people and to JSON."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphveil.checks import require_seed
from graphveil.codec import plain, rounded
from graphveil.errors import InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.vocabulary import Adjacency, Relation

EPSILONS = st.floats(0, 1e6)
PLACES = st.integers(0, 4)


@given(EPSILONS, PLACES)
def test_an_upper_bound_is_never_shown_below_itself(epsilon: float, places: int) -> None:
    shown = float(rounded(epsilon, places=places))
    dust = 1e-9 + epsilon * 1e-15
    assert -dust <= shown - epsilon <= 10.0**-places + dust


@given(EPSILONS, PLACES)
def test_a_lower_bound_is_never_shown_above_itself(epsilon: float, places: int) -> None:
    shown = float(rounded(epsilon, up=False, places=places))
    dust = epsilon * 1e-15
    assert -dust <= epsilon - shown <= 10.0**-places + dust


@pytest.mark.parametrize(
    ("epsilon", "up", "said"),
    [
        (2.0, True, "2.000"),
        (2.0, False, "2.000"),
        (2.0000000000000004, True, "2.000"),
        (1.00001, True, "1.001"),
        (1.9999, False, "1.999"),
        (1.9999999999999, False, "1.999"),
        (0.0, True, "0.000"),
        (math.inf, True, "inf"),
        (math.inf, False, "inf"),
    ],
    ids=["whole up", "whole down", "dust up", "up", "down", "dust down", "nothing", "infinite up", "infinite down"],
)
def test_rounding(epsilon: float, up: bool, said: str) -> None:
    assert rounded(epsilon, up) == said


def test_an_infinite_epsilon_has_the_word_of_whoever_asks() -> None:
    assert rounded(math.inf, infinite="no protection") == "no protection"
    assert rounded(1.23456, places=4, infinite="no protection") == "1.2346"


def test_infinity_is_a_word_in_json_at_any_depth() -> None:
    act = Gaussian(1.5)
    value = {"epsilon": math.inf, "parts": [1.0, (math.inf, None)], "named": {"lower": math.inf}, "act": act}
    said = {"epsilon": "inf", "parts": [1.0, ["inf", None]], "named": {"lower": "inf"}, "act": act.describe()}
    assert plain(value) == said
    assert json.loads(json.dumps(plain(value), allow_nan=False)) == said


@pytest.mark.parametrize("seed", [-1, True, False, 1.0, "1", None], ids=repr)
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidInput, match="a seed must be a whole number of at least 0"):
        require_seed(seed)


@pytest.mark.parametrize("seed", [0, 2**80], ids=["least", "large"])
def test_a_seed_may_be_any_of_them(seed: int) -> None:
    assert require_seed(seed) == seed


@pytest.mark.parametrize(
    ("unit", "relation"),
    [
        ("edge", Relation.ADD_REMOVE),
        ("node", Relation.ADD_REMOVE),
        ("features", Relation.REPLACE),
        ("label", Relation.REPLACE),
    ],
)
def test_units_that_may_be_absent_are_added_or_removed_and_the_others_replaced(unit: str, relation: Relation) -> None:
    assert Adjacency.of(unit).relation is relation
