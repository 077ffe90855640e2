"""Figures of perturbed message passing that the accountant must meet within half a per cent."""

from __future__ import annotations

import math

import pytest

import graphveil as gv
from graphveil.data.sealing import Public
from graphveil.mechanisms.contractive import Contractive, convergence
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.edge.caribou import printed_move
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Plan, Reading
from plans import plan_of


def about(value: float) -> object:
    return pytest.approx(value, rel=5e-3)


@pytest.mark.parametrize(("contraction", "hops", "cost"), [(0.5, 5, 2.81818), (0.8, 20, 8.79484)])
def test_convergence(contraction: float, hops: int, cost: float) -> None:
    assert convergence(contraction, hops) == pytest.approx(cost, abs=5e-6)


@pytest.mark.parametrize(("tau", "loops", "move"), [(1.0, 1.0, 1.41421), (10.0, 1.0, 0.141421), (2.0, 0.0, 0.47140)])
def test_moves(tau: float, loops: float, move: float) -> None:
    act = Contractive(1.0, 1, lipschitz=0.5, alpha=0.9, tau=tau, loops=loops)
    assert act.move(undirected=True) == about(0.45 * move)


@pytest.mark.parametrize(("epsilon", "sigma"), [(1, 4.1082), (2, 2.1956), (4, 1.1906), (8, 0.661)])
def test_caribou_noise(epsilon: float, sigma: float) -> None:
    method = gv.methods.Caribou(hops=10, lipschitz=0.5, alpha=0.9, tau=1.0, loops=1.0)

    def plan(noise: float) -> Plan:
        return method.plan(Public.blank(100, 5, 3), Adjacency.of("edge"), Reading.SOUND, noise)

    found = accounting.calibrate(plan, epsilon, 1e-5).noise
    assert found == about(sigma)
    assert found >= sigma * (1 - 1e-3)


def test_printed_equation_six() -> None:
    act = Contractive(1.0, 1, lipschitz=0.5, alpha=0.9)
    assert printed_move(act, 1) == about(0.45 * 0.9714)
    assert printed_move(act, 10) == about(0.45 * 0.1885)
    assert act.move(undirected=True) / printed_move(act, 1) == about(1.456)


@pytest.mark.parametrize(("claimed", "true"), [(1, 1.51), (8, 12.7)])
def test_what_printed_noise_is_worth_on_an_isolated_edge(claimed: float, true: float) -> None:
    act = Contractive(1.0, 1)
    noise = accounting.calibrate(lambda std: plan_of((Gaussian(std).curve(1), 1)), claimed, 1e-5).noise
    ratio = act.move(undirected=True) / printed_move(act, 1)
    assert accounting.epsilon(plan_of((Gaussian(noise / ratio).curve(1), 1)), 1e-5) == about(true)
    assert math.isclose(ratio, 1.4558, rel_tol=1e-3)
