"""Users' own modules in the methods: a refused one costs nothing, one node moves what it may, and releases load."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch

import graphveil as gv
from coupled import graph_of, nodes_to_change, random_sketches, summed
from graphveil import plugins
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.methods.method import Method
from graphveil.methods.node.parts.subgraph_method import OwnWeights
from graphveil.nn.own_gradients import OwnModel
from graphveil.nn.sampling.bounded import neighbourhoods
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit
from own_modules import FRIENDLY, HOSTILE, Branching, Gat, Grumpy, Hoarder, Mixer, PooledGcn, RowsOnly, SageAttention

of = gv.OwnNetwork.of
SUBGRAPHS: dict[str, tuple[Method, str]] = {
    "heterpoisson": (gv.methods.HeterPoisson(network=of(Gat), batch=8, epochs=0.1), "node"),
    "ndp": (gv.methods.Ndp(network=of(Gat), batch=8, steps=2), "node"),
    "drw": (gv.methods.Drw(network=of(Gat), batch=8, steps=2), "features"),
}
by_subgraphs = pytest.mark.parametrize(("method", "unit"), SUBGRAPHS.values(), ids=SUBGRAPHS)


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("social")


def trained(graph: gv.Graph, method: Method, unit: str, **more: Any) -> gv.Release:
    return gv.train(graph, method, noise=1.0, delta=1e-5, unit=unit, **{"seed": 0, **more})


shared = cache(trained)
"""For tests that only read a release."""


# --- Nothing is charged for what is refused. ---


@by_subgraphs
@pytest.mark.parametrize("make", HOSTILE)
def test_a_refused_module_costs_nothing(method: Any, unit: str, make: Any, graph: gv.Graph, tmp_path: Path) -> None:
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(graph, unit, epsilon=1e6, delta=1e-3)
    before = (tmp_path / "ledger.db").read_bytes()
    with pytest.raises(Unsupported, match="GraphNorm"):
        trained(graph, replace(method, network=of(make)), unit, ledger=ledger)
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_rows_are_needed_where_the_whole_graph_is_read(graph: gv.Graph) -> None:
    for method, unit in (
        (gv.methods.Probe(network=of(PooledGcn)), "label"),
        (gv.methods.EdgeRand(network=of(PooledGcn)), "edge"),
    ):
        with pytest.raises(InvalidInput, match="for every node"):
            trained(graph, method, unit)
    with pytest.raises(InvalidInput, match="no arcs"):
        trained(graph, gv.methods.Hearsay(network=of(Gat)), "edge")
    with pytest.raises(Unsupported, match="ndp or drw"):
        trained(graph, gv.methods.Probe(network=of(Gat)), "features")


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (gv.methods.Ndp, {"hidden": 5}),
        (gv.methods.Drw, {"activation": "elu"}),
        (gv.methods.HeterPoisson, {"layers": 3}),
        (gv.methods.EdgeRand, {"layers": 3}),
        (gv.methods.LapGraph, {"dropout": 0.1}),
        (gv.methods.Probe, {"worth": 1.0}),
        (gv.methods.Hearsay, {"head": 3}),
    ],
)
def test_settings_that_an_own_network_would_not_read_are_refused(kind: Any, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        kind(network=of(RowsOnly), **given)


def test_only_networks_are_own() -> None:
    for made in (
        lambda: gv.methods.Probe(network="gcn"),
        lambda: gv.methods.Ndp(network=Gat),
        lambda: gv.methods.Ndp(scale=of(Gat)),
    ):  # type: ignore[arg-type]
        with pytest.raises(InvalidInput):
            made()


# --- How far one node moves a sum. ---


def worst_move(method: Any, sketch: Sketch, unit: Unit, coins: int) -> float:
    """The largest move as a share of two clips for every drawn subgraph that holds the node; and none without one."""
    adjacency = Adjacency.of(unit, sketch.undirected)
    public, sealed = graph_of(sketch).seal(adjacency)
    act = method.plan(public, adjacency, Reading.SOUND, 1.0).steps[0].act
    assert isinstance(act, FixedSize)
    torch.manual_seed(coins)
    model = OwnModel.of(method.network.module(3, 2))
    query = partial(method._query, weights=OwnWeights(model, model.start(), coins))
    here = summed(act, sealed, query, coins)
    with sealed.opened():
        blocks = neighbourhoods(method._capped(sealed), np.flatnonzero(public.train.numpy()), method.layers)
    drawn = blocks.take(Seeded(coins).choose(act.population, act.size).numpy())
    worst = 0.0
    for node in nodes_to_change(sketch, coins):
        other = (
            sketch.blanked(node)
            if unit is Unit.NODE
            else sketch.replaced(node, -30 * sketch.x[node], 1 - int(sketch.y[node]))
        )
        there = summed(act, Sealed(other.x, other.y, other.adj(), public), query, coins)
        moved, held = float((here - there).norm()) / method.clip, int((drawn.nodes == node).sum())
        assert held or moved == 0.0
        worst = max(worst, moved / max(2 * held, 1))
    return worst


@pytest.mark.parametrize("unit", [Unit.FEATURES, Unit.NODE])
@pytest.mark.parametrize("make", [*FRIENDLY.values(), Grumpy, Hoarder])
def test_one_node_moves_only_the_subgraphs_that_hold_it(make: Any, unit: Unit) -> None:
    method = gv.methods.Ndp(network=of(make), steps=2, batch=3, cap=2, clip=1e-2)
    worst = max(worst_move(method, sketch, unit, coins) for coins, sketch in enumerate(random_sketches(4, 8)))
    assert 0.2 < worst <= 1 + 1e-6


# --- What is released, and how it comes back. ---


@by_subgraphs
def test_releases_carry_the_module_s_names_and_come_back_with_its_class(
    method: Any, unit: str, graph: gv.Graph, tmp_path: Path
) -> None:
    release = shared(graph, method, unit)
    names = set(Gat(graph.num_features, graph.num_classes).state_dict())
    assert set(release.state) == names | {"graphveil.classes"}
    assert "own_modules:Gat" in release.card()
    assert "no evidence" in release.card()
    assert torch.equal(trained(graph, method, unit).state["first.bias"], release.state["first.bias"])
    folder = release.save(tmp_path / "release")
    read = gv.verify(folder, graph)
    assert read.card() == release.card()
    with pytest.raises(InvalidInput, match=r"gv\.load\(folder, network=Net\)"):
        read.predict(graph)
    loaded = gv.load(folder, network=Gat)
    assert loaded.method == release.method
    assert torch.equal(loaded.predict_proba(graph), release.predict_proba())
    with pytest.raises(gv.Tampered, match="weights are not those"):
        gv.load(folder, network=Mixer)


@pytest.mark.parametrize(
    ("method", "unit", "make", "epsilon", "accuracy"),
    [
        # A tenth of the answers lie at this epsilon; the network is right about nearly all that it could learn.
        (gv.methods.Probe(network=of(Gat, hidden=8)), "label", Gat, 3, 0.85),
        (gv.methods.LapGraph(network=of(Mixer), epochs=30), "edge", Mixer, 8, 0.5),
        (gv.methods.Hearsay(network=of(RowsOnly)), "edge", RowsOnly, 8, 0.5),
    ],
)
def test_public_and_released_graphs_take_any_module(
    method: Any, unit: str, make: Any, epsilon: float, accuracy: float, graph: gv.Graph, tmp_path: Path
) -> None:
    release = gv.train(graph, method, epsilon=epsilon, delta=1e-5, unit=unit, seed=0)
    assert release.evaluate("test")["accuracy"] > accuracy
    folder = release.save(tmp_path / "release")
    assert torch.equal(gv.load(folder, network=make).predict(), release.predict())
    assert torch.equal(gv.load(folder).predict(), release.predict()), "what was released needs no code"


@by_subgraphs
def test_the_line_on_own_code_cannot_be_cut(method: Any, unit: str, graph: gv.Graph, tmp_path: Path) -> None:
    """Neither from the plan nor, where there are two, from the sound one; and no graph is needed to see it."""
    release = shared(graph, method, unit)

    def cut(plan: Plan) -> Plan:
        kept = [tuple(item for item in step.assumes if "own code" not in item) for step in plan.steps]
        steps = (replace(step, assumes=items) for step, items in zip(plan.steps, kept, strict=True))
        return replace(plan, steps=tuple(steps))

    honest = release.certificate
    both = {"plan": cut(honest.plan), "sound": honest.sound and cut(honest.sound)}
    for number, plans in enumerate([both, {"sound": cut(honest.sound or honest.plan)}]):
        folder = replace(release, certificate=replace(honest, **plans)).save(tmp_path / f"forged {number}")
        for read in (gv.load, gv.verify):
            with pytest.raises(gv.Tampered, match=r"does not say: the network own_modules:Gat"):
                read(folder)


@pytest.mark.parametrize(
    ("networks", "given"),
    [
        ((of(Gat), "gcn"), Gat),
        ((of(Gat, hidden=2), of(Gat, hidden=4)), Gat),
        ((of(Gat), of(Mixer)), {"own_modules:Gat": Gat, "own_modules:Mixer": Mixer}),
    ],
)
def test_a_choice_among_own_networks_is_loaded_with_them(
    networks: tuple[Any, ...], given: Any, graph: gv.Graph, tmp_path: Path
) -> None:
    method = gv.methods.Best(tuple(gv.methods.LapGraph(network=one, epochs=5) for one in networks))
    release = trained(graph, method, "edge")
    folder = release.save(tmp_path / "release")
    assert torch.equal(gv.load(folder).predict(), release.predict()), "what was released needs no code"
    read = gv.load(folder, network=given)
    assert all(own.make is not None for own in read.method.networks())
    assert torch.equal(read.predict(), release.predict())
    here, there = (gv.infer(one, graph, noise=1.0, delta=1e-5, seed=1) for one in (read, release))
    assert torch.equal(here.predict(), there.predict())


def test_a_network_without_its_code_costs_nothing(graph: gv.Graph, tmp_path: Path) -> None:
    """Whether the method is trained again or serves another graph, alone or among the candidates of a choice."""
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(graph, "edge", epsilon=1e6, delta=1e-3)
    before = (tmp_path / "ledger.db").read_bytes()
    own = gv.methods.LapGraph(network=of(Gat), epochs=2)
    for place, method in enumerate((own, gv.methods.Best((own, replace(own, epochs=3))))):
        read = gv.load(trained(graph, method, "edge").save(tmp_path / str(place)))
        for run in (
            lambda read=read: trained(graph, read.method, "edge", ledger=ledger),
            lambda read=read: gv.infer(read, graph, noise=1.0, delta=1e-5, seed=1, ledger=ledger),
        ):
            with pytest.raises(InvalidInput, match=r"own_modules:Gat is somebody's own"):
                run()
    assert (tmp_path / "ledger.db").read_bytes() == before


def test_networks_are_given_by_the_names_that_a_release_has(graph: gv.Graph, tmp_path: Path) -> None:
    candidates = tuple(gv.methods.LapGraph(network=of(make), epochs=2) for make in (Gat, Mixer))
    folder = trained(graph, gv.methods.Best(candidates), "edge").save(tmp_path / "release")
    with pytest.raises(InvalidInput, match=r"own_modules:Gat, own_modules:Mixer: give network="):
        gv.load(folder, network=Gat)
    with pytest.raises(InvalidInput, match=r"no network 'own_modules:RowsOnly'"):
        gv.load(folder, network={"own_modules:RowsOnly": RowsOnly})


def test_code_is_found_where_it_is_installed_and_nowhere_else(
    graph: gv.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    method, unit = SUBGRAPHS["drw"]
    folder = shared(graph, method, unit).save(tmp_path / "release")
    entry = plugins.Registered("gat", "own_modules:Gat", "mine 1.0")
    monkeypatch.setattr(plugins, "registered", lambda group: [entry] if group == "graphveil.networks" else [])
    assert gv.load(folder).predict(graph).shape == (graph.num_nodes,)
    with pytest.raises(InvalidInput, match="no network of somebody's own"):
        gv.load(gv.train(graph, "mlp", noise=0, unit="edge").save(tmp_path / "other"), network=Gat)


def test_what_private_data_does_to_a_module_ends_no_run(graph: gv.Graph) -> None:
    """An error that a record raises counts zero: neither its words nor that it happened leave."""
    loud = replace(graph, x=graph.x * 1e4)
    for make in (Grumpy, Hoarder, Branching):
        release = trained(loud, gv.methods.Drw(network=of(make), scale="none", batch=8, steps=2), "features")
        assert all(part.isfinite().all() for part in release.state.values())
    assert (
        not trained(loud, gv.methods.Drw(network=of(Hoarder), scale="none", batch=8, steps=2), "features")
        .state["loot"]
        .any()
    )


def test_pooling_networks_learn(graph: gv.Graph) -> None:
    for make in (PooledGcn, SageAttention):
        found = trained(
            graph, gv.methods.Drw(network=of(make, hidden=16), batch=128, steps=40, learning_rate=0.05), "features"
        )
        assert found.evaluate("test")["accuracy"] > 0.4
