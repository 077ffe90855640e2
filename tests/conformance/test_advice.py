"""Advice keeps to the contract of a plan: it sees what is public, and other private data gets the same."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from neighbours import Sketch
from test_methods import with_other_private_parts

import graphveil as gv
from graphveil import methods
from graphveil.data.graph import Graph
from graphveil.errors import PrivateAccess
from graphveil.methods.method import Method
from graphveil.vocabulary import Adjacency, Unit

ADJACENCIES = [Adjacency.of(unit) for unit in Unit] + [Adjacency.of("edge", undirected=False)]
SMALL: dict[str, Any] = {"epsilons": [1.0], "seeds": 1, "limit": 24}


def flagship(unit: Unit) -> Method:
    return methods.flagship(unit).specimens()[0]


def sketch(adjacency: Adjacency) -> Sketch:
    return Sketch.random(np.random.default_rng(0), adjacency.undirected, nodes=30)


class Tripwire:
    """In the place of a private tensor: its first dimension is public, and whoever reads more is caught."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape

    def __getattr__(self, name: str) -> Any:
        raise PrivateAccess(f"{name} of a private part was read")

    def __len__(self) -> int:
        return self.shape[0]


def wired(graph: Graph, adjacency: Adjacency) -> Graph:
    """The same graph, whose private parts must not be touched."""
    made = copy.copy(graph)
    for part, name in (("x", "x"), ("y", "y"), ("edges", "adj")):
        if part in adjacency.private:
            object.__setattr__(made, name, Tripwire(tuple(graph.x.shape)))
    # With every id present, degrees are public and sealing counts them.
    object.__setattr__(made, "every_id_present", False)
    return made


@pytest.mark.parametrize("adjacency", ADJACENCIES, ids=str)
def test_other_private_data_gets_the_same_advice_unread(adjacency: Adjacency) -> None:
    one = sketch(adjacency)
    other = with_other_private_parts(one, adjacency).graph()
    assert one.graph().fingerprint() != other.fingerprint()
    first, second = (
        gv.advise(each, unit=adjacency.unit, methods=[flagship(adjacency.unit)], **SMALL)
        for each in (one.graph(), wired(other, adjacency))
    )
    assert first == second
    assert first.tried_on == 24


@pytest.mark.parametrize(("unit", "stepped_on"), [("edge", "label"), ("label", "edge"), ("features", "edge")])
def test_the_wires_catch_whoever_reads(unit: str, stepped_on: str) -> None:
    graph = wired(sketch(Adjacency.of(unit)).graph(), Adjacency.of(unit))
    with pytest.raises(PrivateAccess, match="of a private part was read"):
        gv.advise(graph, unit=stepped_on, methods=[flagship(Unit(stepped_on))], **SMALL)


def test_the_first_try_of_every_method_reads_nothing_private_either() -> None:
    adjacency = Adjacency.of("label")
    found = gv.advise(wired(sketch(adjacency).graph(), adjacency), unit="label", **SMALL)
    named = [one.method for one in found.methods]
    assert "probe" in named
    assert len(named) <= 3
    assert {"mlp", "gcn", "best"}.isdisjoint({*named, *(name for name, _ in found.left_out)})
