"""The noisy argmax over the simplex: its law, its exact cost, and that no two points cost more than two vertices."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations
from typing import Any, cast

import numpy as np
import pytest
import torch
from mpmath.ctx_mp import MPContext
from scipy.stats import chisquare
from torch import Tensor

from argmax_law import laplace_argmax
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.dominating_pair import DominatingPair
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.noisy_max import _ROUNDING, LaplaceMax, NoisyMax, laplace_epsilon, onto_simplex
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.poisson import Poisson, SampledOnce
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.vocabulary import Floats

NOTHING = cast(Sealed, None)
RUNS = 40_000
SOURCES = [lambda: Seeded(11), Secure]


def laplace_law(point: Floats, gap: float) -> Floats:
    return laplace_argmax(gap * point)


def gumbel_law(point: Floats, gap: float) -> Floats:
    weights = np.exp(gap * point)
    return np.asarray(weights / weights.sum())


@pytest.mark.parametrize("make", SOURCES, ids=["seeded", "secure"])
@pytest.mark.parametrize(("act", "law"), [(NoisyMax(0.7, 4), gumbel_law), (LaplaceMax(0.7, 4), laplace_law)])
def test_every_class_is_named_as_often_as_it_should(
    act: NoisyMax | LaplaceMax, law: Callable[[Floats, float], Floats], make: Callable[[], Stream]
) -> None:
    point = np.array([0.55, 0.3, 0.15, 0.0])
    rows = torch.from_numpy(point).expand(RUNS, 4)
    counts = np.bincount(act.apply_many(NOTHING, lambda _: rows, make(), RUNS).numpy(), minlength=4)
    assert chisquare(counts, RUNS * law(point, 1 / 0.7)).pvalue > 1e-6
    quieter = law(point, 1.3 / 0.7)
    assert chisquare(counts, RUNS * quieter).pvalue < 1e-6, "the test would not notice less noise"


@pytest.mark.parametrize(("classes", "gap", "epsilon"), [(10, 0.2, 0.2239), (4, 1.0, 1.1040), (2, 1.0, 0.9648)])
def test_laplace_epsilon_is_the_ratio_at_two_vertices(classes: int, gap: float, epsilon: float) -> None:
    found = laplace_epsilon(classes, gap)
    assert found == pytest.approx(epsilon, abs=5e-5)
    vertex = laplace_law(np.eye(classes)[0], gap)
    exact = math.log(vertex[0] / vertex[1])
    assert found == pytest.approx(exact, rel=1e-8)
    assert found >= exact * (1 - 1e-12), "rounded down"


@pytest.mark.parametrize(("classes", "gap"), [(2, 0.5), (3, 0.1), (5, 2.0), (40, 6.0), (1024, 1.0)])
def test_laplace_epsilon_is_rounded_up(classes: int, gap: float) -> None:
    """Against thirty digits: above the truth by 1e-9 of itself, less what quadrature errs."""
    exact, f, below = _in_thirty_digits()
    cuts = [-60, 0, gap / 2, gap, gap + 5, gap + 60]
    truth = exact.quad(lambda x: f(x - gap) * below(x) ** (classes - 1), cuts)
    lie = exact.quad(lambda x: f(x) * below(x) ** (classes - 2) * below(x - gap), cuts)
    above = laplace_epsilon(classes, gap) / exact.log(truth / lie) - 1
    assert 0.9e-9 < above < 1.1e-9


def _in_thirty_digits() -> tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]:
    """Arithmetic, and the standard Laplace density and distribution in it."""
    exact = MPContext()
    exact.dps = 30
    return exact, lambda x: exact.exp(-abs(x)) / 2, lambda x: exact.exp(x) / 2 if x < 0 else 1 - exact.exp(-x) / 2


def test_two_classes_have_a_closed_form() -> None:
    """Pr[L - L' < g] = 1 - e^-g (2 + g)/4."""
    for gap in (1e-3, 0.5, 3.0, 20.0, 32.0):
        lie = math.exp(-gap) * (2 + gap) / 4
        assert laplace_epsilon(2, gap) == pytest.approx(math.log((1 - lie) / lie), rel=1e-8)


def divergence(first: Floats, second: Floats, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize(("kind", "law"), [(NoisyMax, gumbel_law), (LaplaceMax, laplace_law)])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_no_two_points_differ_more_than_two_vertices(
    kind: type[Any], law: Callable[[Floats, float], Floats], classes: int
) -> None:
    """At every order, and two vertices do attain the claim."""
    gap, rng = 1.3, np.random.default_rng(classes)
    claim = cast(DominatingPair, kind(1 / gap, classes).curve(1))
    epsilons = np.linspace(-1.5, 1.5, 13)
    allowed = claim.deltas(epsilons)[0]
    ends = [law(vertex, gap) for vertex in np.eye(classes)[:2]]
    points = [rng.dirichlet(np.full(classes, rng.choice([0.05, 0.5, 3.0]))) for _ in range(12)]
    laws = [*ends, *(law(point, gap) for point in points)]
    for epsilon, most in zip(epsilons, allowed, strict=True):
        worst = max(divergence(a, b, epsilon) for a, b in combinations(laws, 2))
        worst = max(worst, max(divergence(b, a, epsilon) for a, b in combinations(laws, 2)))
        assert worst <= most + 1e-12
        assert divergence(*ends, epsilon) == pytest.approx(most, abs=2 * _ROUNDING)  # type: ignore[call-arg]


def test_rare_classes_keep_their_chance() -> None:
    """A class with chance 1e-9 is neither impossible nor twice as likely: inversion starts with the least."""
    act = NoisyMax(1 / 20, 3)
    chances = gumbel_law(np.array([1.0, 0.0, 0.0]), 20.0)
    rows = torch.tensor([[1.0, 0.0, 0.0]]).double()
    for draw, named in (
        (chances[1] * 0.999, 1),
        (chances[1] * 1.001, 2),
        (2 * chances[1] * 0.999, 2),
        (2 * chances[1] * 1.001, 0),
        (1e-300, 1),
        (1 - 2.0**-53, 0),
    ):
        assert int(act.answer(rows, np.array([[draw]]))) == named


def test_without_noise_the_largest_is_named() -> None:
    rows = torch.tensor([[0.2, 0.5, 0.3], [0.9, 0.0, 0.1]])
    for kind in (NoisyMax, LaplaceMax):
        assert kind(0.0, 3).apply_many(NOTHING, lambda _: rows, Seeded(0), 2).tolist() == [1, 0]
        assert kind(0.0, 3).curve(1).infinite
        assert kind(1 / 33, 3).curve(1).infinite
        assert not kind(1 / 32, 3).curve(1).infinite


def test_rows_are_put_onto_the_simplex() -> None:
    rows = torch.tensor([[math.nan, 2.0, 2.0], [-1.0, math.inf, 0.0], [3e38, 3e38, 0.0], [0.0, 0.0, 0.0]])
    third = [1 / 3] * 3
    assert onto_simplex(rows).tolist() == [[0, 0.5, 0.5], third, [0.5, 0.5, 0], third]
    assert onto_simplex(torch.tensor([[1e300, 1e308]]).double()).sum() == 1


def teach(sealed: Sealed, batches: list[Tensor]) -> Tensor:  # noqa: ARG001
    """A row that says how many records were drawn, and which came first."""
    return torch.stack([torch.tensor([1.0, len(batch) / 20, float(batch.sum()) / 400]) for batch in batches])


def batched(act: Poisson, parts: list[int], source: Stream) -> list[int]:
    return [int(label) for part in parts for label in act.apply_many(NOTHING, teach, source, part)]


@pytest.mark.parametrize("inner", [NoisyMax(0.3, 3), LaplaceMax(0.3, 3)])
def test_labels_do_not_depend_on_which_uses_share_a_call(inner: NoisyMax | LaplaceMax) -> None:
    act = Poisson(inner, 0.4, 20)
    whole = batched(act, [24], Seeded(5))
    assert len(set(whole)) > 1
    for parts in ([1] * 24, [7, 17], [12, 11, 1]):
        assert batched(act, parts, Seeded(5)) == whole


def test_uses_are_sampled_apart_or_once() -> None:
    seen: list[list[int]] = []

    def note(_: Sealed, batches: list[Tensor]) -> Tensor:
        seen.extend(batch.tolist() for batch in batches)
        return torch.ones(len(batches), 2)

    Poisson(NoisyMax(1.0, 2), 0.5, 30).apply_many(NOTHING, note, Seeded(0), 8)
    assert len({tuple(batch) for batch in seen}) == 8
    once: list[list[int]] = []

    def note_one(_: Sealed, batch: Tensor) -> Tensor:
        once.append(batch.tolist())
        return torch.ones(8, 2)

    act = SampledOnce(NoisyMax(1.0, 2), 0.5, 30)
    assert len(act.apply_many(NOTHING, note_one, Seeded(0), 8)) == 8
    assert len(once) == 1
    assert act.curve(1) == act.inner.curve(1), "sampling once must not be charged as if it were anew for every use"


@pytest.mark.parametrize("act", [NoisyMax(1.0, 2), NoisyVotes(1.0, 2), SampledOnce(NoisyMax(1.0, 2), 0.5, 9)], ids=str)
def test_more_rows_than_uses_are_refused(act: NoisyMax) -> None:
    def rows(_: Sealed, batch: Tensor | None = None) -> Tensor:  # noqa: ARG001
        return torch.ones(3, 2)

    for uses in (1, 2, 4):
        with pytest.raises(InvalidInput, match="for each"):
            act.apply_many(NOTHING, rows, Seeded(0), uses)
    with pytest.raises(InvalidInput, match="for each"):
        act.apply(NOTHING, rows, Seeded(0))


def test_other_mechanisms_answer_one_use_at_a_time() -> None:
    for act in (Gaussian(1.0), Poisson(Gaussian(1.0), 0.5, 9)):
        with pytest.raises(Unsupported, match="one use at a time"):
            act.apply_many(NOTHING, lambda _: pytest.fail("private data were read"), Seeded(0), 2)


def test_bad_arguments_are_refused() -> None:
    for kind in (NoisyMax, LaplaceMax):
        for scale, classes in ((-1.0, 3), (math.nan, 3), (1.0, 1), (1.0, 2000)):
            with pytest.raises(InvalidInput):
                kind(scale, classes)
        with pytest.raises(InvalidInput):
            kind(1.0, 3).curve(2)
        with pytest.raises(InvalidInput, match="rows"):
            kind(1.0, 3).apply(NOTHING, lambda _: torch.ones(1, 4), Seeded(0))


@pytest.mark.parametrize("strength", [24.0, 28.0, 31.95739348370927])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_rare_lies_keep_their_digits(strength: float, classes: int) -> None:
    """Two vertices lose exactly `strength`: the claim must not lose less, however rare a lie is."""
    claim = NoisyMax(1 / strength, classes).curve(1)
    odds = math.exp(-strength)
    truth = 1 / (1 + (classes - 1) * odds)
    exact = truth * -math.expm1(-0.004)
    found = claim.deltas(np.array([strength - 0.004]))
    assert found is not None
    assert found[0][0] >= exact * (1 - 1e-9)


def test_without_noise_nothing_is_protected_and_nothing_breaks() -> None:
    for kind in (NoisyMax, LaplaceMax):
        assert kind(0.0, 3).epsilon() == math.inf
        assert kind(0.0, 3).curve(1).infinite
