"""HeterPoisson end to end: what one node moves for given coins, what is planned, what is read in prediction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch, coupled_batch, subgraph_move

import graphveil as gv
from blocks_of import all_links
from coupled import dressed, every_small_sketch, graph_of, nodes_to_change, random_sketches, thirds
from graphveil.auditing.game import Pair
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import PUBLIC_DEGREES, Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling as Act
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.sml import Sml
from graphveil.mechanisms.theorem_two import TheoremTwo
from graphveil.methods.method import Method
from graphveil.methods.node.heterpoisson import HeterPoisson, _thinned
from graphveil.methods.node.paircounts import PairCounts, _Counts, _pairs
from graphveil.nn.features import by_record
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import SubgraphGradients, gradients
from graphveil.nn.subgraph_model import start
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Query, Reading

NODE = Adjacency.of("node")
GCN = HeterPoisson(network="gcn", hidden=2, multiplier=2.0, clip=1e-2)
VARIANTS = {
    "gcn": GCN,
    "sage": replace(GCN, network="sage", p_max=0.7),
    "gin": replace(GCN, network="gin", noise_law="sml"),
    "gcn two layers": replace(GCN, layers=2),
    "sage two layers": replace(GCN, network="sage", layers=2, multiplier=1.0),
    "gin two layers": replace(GCN, network="gin", layers=2),
    "overlap": replace(GCN, overlap=True),
    "overlap two layers": replace(GCN, network="sage", layers=2, overlap=True),
    "pairs": PairCounts(multiplier=2.0),
}
variants = pytest.mark.parametrize("method", VARIANTS.values(), ids=VARIANTS)


def everyone_trains(sketch: Sketch) -> Graph:
    graph = graph_of(sketch)
    nobody = torch.zeros_like(graph.train)
    return replace(graph, train=~nobody, val=nobody, test=nobody)


def asked(method: HeterPoisson | PairCounts, public: Public, coins: int) -> tuple[Act, Query]:
    """The subgraph step's act, and its query at random weights."""
    step = method.plan(public, NODE, Reading.SOUND, 1.0).steps[-1]
    act = step.act
    assert isinstance(act, Act)
    assert step.claim == act.curve(2)
    if isinstance(method, PairCounts):
        return act, partial(_pairs, classes=2)
    model = method.model(3, 2)
    weights = start(model, torch.Generator().manual_seed(coins))
    return act, partial(method.gradients, weights=weights)


def moves(
    method: HeterPoisson | PairCounts,
    sketch: Sketch,
    coins: int,
    query: Query | None = None,
    overlap: bool | None = None,
) -> list[float]:
    """How far blanking a node moves the sum, as a share of what is charged for the same coins."""
    graph = everyone_trains(sketch) if coins % 2 else graph_of(sketch)
    public, sealed = graph.seal(Adjacency.of("node", sketch.undirected))
    act, own = asked(method, public, coins)
    return [
        subgraph_move(act, query or own, sealed, sketch.blanked(node).sealed(public), coins, overlap)
        for node in nodes_to_change(sketch, coins)
    ]


def directed_sketches(share: int, shares: int) -> Iterator[Sketch]:
    """Every directed graph of three nodes, a few of four."""
    for nodes, every in ((3, 1), (4, 16)):
        for code, links in enumerate(all_links(nodes)):
            if code % every == 0 and code // every % shares == share:
                yield dressed(links, undirected=False, seed=code)


@thirds
@variants
def test_one_node_moves_what_is_charged_on_every_small_graph(method: HeterPoisson | PairCounts, third: int) -> None:
    share, shares = 3 * list(VARIANTS.values()).index(method) + third, 3 * len(VARIANTS)
    for coins, sketch in enumerate(every_small_sketch(share, shares)):
        assert max(moves(method, sketch, coins)) <= 1 + 1e-6
    for coins, sketch in enumerate(directed_sketches(share, shares)):
        assert max(moves(method, sketch, coins)) <= 1 + 1e-6


@variants
def test_one_node_moves_what_is_charged_on_random_graphs(method: HeterPoisson | PairCounts) -> None:
    worst = max(max(moves(method, sketch, coins)) for coins, sketch in enumerate(random_sketches(20)))
    assert 0.9 < worst <= 1 + 1e-6


# --- The same search finds what would be wrong. ---


def test_overlapping_centres_need_their_own_claim() -> None:
    """Without the overlap rule a node moves its own subgraph and those that kept it: found, not told."""
    worst = 0.0
    for coins, sketch in enumerate(every_small_sketch(0, 9)):
        worst = max(worst, *moves(VARIANTS["overlap"], sketch, coins, overlap=False))
    assert worst > 2


def zeroed(sealed: Sealed, batch: Subgraphs, method: HeterPoisson | PairCounts, coins: int) -> SubgraphGradients:
    """The authors' overlap rule: nodes that are central elsewhere stay where they are, with zero features."""
    model = method.model(3, 2)
    weights = start(model, torch.Generator().manual_seed(coins))
    x = method.scaled(sealed.rows(batch.nodes))
    peripheral = np.ones(len(batch.nodes), dtype=bool)
    peripheral[batch.ptr[:-1]] = False
    x[torch.from_numpy(peripheral & np.isin(batch.nodes, batch.centres))] = 0.0
    return gradients(model, weights, batch, x, sealed.y[torch.from_numpy(batch.centres)])


@pytest.mark.parametrize("network", ["gcn", "sage"])
def test_zeroing_central_nodes_is_not_removing_them(network: str) -> None:
    """A node of zeros still moves the normalisers of its neighbours, so that a central node moves more than itself."""
    method, worst = replace(GCN, network=network, overlap=True), 0.0
    for coins, sketch in enumerate(every_small_sketch(0, 9)):
        query = partial(zeroed, method=method, coins=coins)
        worst = max(worst, *moves(method, sketch, coins, query, overlap=False))
    assert worst > 1.1


def test_degrees_of_the_present_arcs_would_move_more() -> None:
    """Keep probabilities must come from the public population: the blanked node changes its in-neighbours' degrees."""
    worst = 0.0
    for coins, sketch in enumerate(random_sketches(30)):
        public, sealed = everyone_trains(sketch).seal(Adjacency.of("node", sketch.undirected))
        act, query = asked(replace(GCN, multiplier=1.0), public, coins)
        for node in range(len(sketch.y)):
            blanked = sketch.blanked(node)
            present = replace(public, degrees=np.bincount(blanked.adj().indices, minlength=len(sketch.y)))
            worst = max(worst, subgraph_move(act, query, sealed, blanked.sealed(present), coins))
    assert worst > 1.5


# --- What the queries are. ---


@variants
def test_only_training_nodes_are_sampled(method: HeterPoisson | PairCounts) -> None:
    for coins, sketch in enumerate(random_sketches(10)):
        public, sealed = graph_of(sketch).seal(Adjacency.of("node", sketch.undirected))
        act, _ = asked(method, public, coins)
        with sealed.opened():
            batch = coupled_batch(act, sealed, coins)
        assert public.train.numpy()[batch.nodes].all()


def test_training_draws_at_the_planned_rates() -> None:
    """Centres at q, and an arc into a centre at q (1 - q) keep: those that are central elsewhere are gone."""
    sketch = next(iter(random_sketches(1)))
    public, sealed = everyone_trains(sketch).seal(NODE)
    act, _ = asked(replace(GCN, multiplier=1.0, p_max=0.8), public, 0)
    seen, rounds = np.zeros(len(sketch.y)), 3000

    def note(_: Sealed, batch: Subgraphs) -> _Counts:
        others = np.delete(batch.nodes, batch.ptr[:-1])
        np.add.at(seen, others, 1)
        return _Counts(torch.full((batch.count,), -1), torch.zeros(batch.count, 3, dtype=torch.float64))

    source = Seeded(4)
    with sealed.opened():
        for _ in range(rounds):
            act.apply(sealed, note, source)
    degrees = public.out_degrees()
    keep = np.where(degrees > 0, np.minimum(0.8, 1.0 / np.maximum(degrees, 1)), 0.0)
    mean = act.rate * (1 - act.rate) * keep * degrees
    assert np.abs(seen / rounds - mean).max() < 5 * np.sqrt(2 / rounds)


# --- The population: degrees counted where ids are blank tell who is blank. ---


def hub_and_pairs(pairs: int) -> Graph:
    """Node 0 beside pairs of partners, each of whom points to it and to one another; everybody trains."""
    leaves = np.arange(1, 2 * pairs + 1)
    partners, hub = leaves + 2 * (leaves % 2) - 1, np.zeros_like(leaves)
    sources, targets = np.concatenate([leaves, leaves, hub]), np.concatenate([partners, hub, leaves])
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((len(leaves) + 1, 4)).astype(np.float32))
    y, none = torch.arange(len(x)) // 2 % 2, torch.zeros(len(x), dtype=torch.bool)
    adj = Csr.from_edge_index(sources, targets, len(x))
    return Graph(x, adj, y, 2, True, none, none, none, "hub", "none").random_split(1.0, 0.0, 0.0)


def without_hub(graph: Graph) -> Graph:
    """The neighbour in which node 0 is blank, dealt out anew."""
    pair = Pair.without_node(graph, 0)
    return replace(graph, x=pair.x, y=pair.y, adj=pair.adj).random_split(1.0, 0.0, 0.0)


def pairs_released(graph: Graph) -> list[float]:
    """How many pairs of labels twelve releases at epsilon 2 tell of."""
    train = partial(gv.train, graph, PairCounts(), epsilon=2.0, delta=1e-5, unit="node")
    return sorted(float(train(seed=seed).state["pairs.counts"].sum()) for seed in range(12))


def test_a_hub_is_not_told_from_its_absence() -> None:
    """With the hub a partner is heard half as often, if degrees are counted: 12 of 12 runs told both graphs apart."""
    here = hub_and_pairs(500)
    there, degrees = without_hub(here), np.bincount(here.adj.indices)
    false = [pairs_released(graph.with_every_id_present()) for graph in (here, there)]
    assert max(false[0]) < min(false[1]), "the attack, where blank ids are said to be present"
    stated = [pairs_released(graph.with_degrees(degrees)) for graph in (here, there)]
    assert min(stated[1]) < np.mean(stated[0]) < max(stated[1])
    assert min(stated[0]) < np.mean(stated[1]) < max(stated[0])
    # Every id is there in the first graph, so both statements are true of it and lead to the same release.
    assert stated[0] == false[0]


@variants
def test_stated_degrees_show_the_same_with_and_without_a_node(method: HeterPoisson | PairCounts) -> None:
    here = hub_and_pairs(20)
    both = [graph.with_degrees(np.bincount(here.adj.indices)) for graph in (here, without_hub(here))]
    plans, chances = [], []
    for graph in both:
        public, sealed = graph.seal(NODE)
        act, _ = asked(method, public, 0)
        plans.append(method.plan(public, NODE, Reading.SOUND, 2.0))
        chances.append(act._keep(sealed))
    assert plans[0] == plans[1]
    assert np.array_equal(chances[0], chances[1])
    assert chances[0][0] == min(method.p_max, method.multiplier / 40)


@pytest.mark.parametrize("method", [PairCounts(), HeterPoisson(network="sage", hidden=2, epochs=0.5)])
def test_undeclared_populations_are_refused_before_anything_is_charged(method: Method, tmp_path: Path) -> None:
    graph, ledger = hub_and_pairs(20), gv.Ledger(tmp_path / "ledger.db")
    ledger.open(graph, "node", epsilon=100.0, delta=1e-2)
    train = partial(gv.train, method=method, noise=9.0, delta=1e-5, unit="node", ledger=ledger)
    with pytest.raises(InvalidInput, match=r"with_degrees\(degrees\).*--every-id-present"):
        train(graph)
    assert not ledger.entries()
    cards = [train(said).certificate.card() for said in (graph.with_every_id_present(), graph.with_degrees(40))]
    assert f"{PUBLIC_DEGREES}: counted in this graph, in which every id is present" in cards[0]
    assert f"{PUBLIC_DEGREES}: bounds stated by the data holder" in cards[1]


def test_looser_bounds_move_no_further() -> None:
    """Bounds above the degrees keep fewer neighbours, and the curve of every degree below covers them."""
    for coins, sketch in enumerate(random_sketches(10)):
        graph = everyone_trains(sketch).with_degrees(20)
        public, sealed = graph.seal(Adjacency.of("node", sketch.undirected))
        act, query = asked(GCN, public, coins)
        for node in nodes_to_change(sketch, coins):
            assert subgraph_move(act, query, sealed, sketch.blanked(node).sealed(public), coins) <= 1 + 1e-6
        with sealed.opened():
            assert np.allclose(act._keep(sealed), 2.0 / 20)


# --- Plans. ---


def test_plans() -> None:
    public = Public.blank(10_000, 7, 3, num_train=8_000)
    method = HeterPoisson(network="gcn", multiplier=2, p_max=0.5, layers=2)
    (step,) = method.plan(public, NODE, Reading.SOUND, 3.0).steps
    # Noise is in units of two clips, the rate in shares of all ids, the out-degree below the training ids.
    assert step.act == Act(Gaussian(6.0, 0.5), 0.4096, 2.0, 0.5, 8_000, overlap=False, induced=True)
    assert step.claim == HeterPoissonCurve(3.0, 0.4096, 2.0, 0.5, 0, 7_999)
    assert step.times == 22
    assert step.assumes == (PUBLIC_DEGREES,)
    assert method.plan(public, NODE, Reading.PUBLISHED, 3.0).steps == (step,)
    assert method.rate(Public.blank(100, 7, 3)) == 0.5


def test_sml_is_refuted_as_published() -> None:
    public = Public.blank(2000, 7, 3)
    method = HeterPoisson(network="gin", noise_law="sml", batch=200, epochs=0.2)
    published, sound = (method.plan(public, NODE, reading, 20.0) for reading in (Reading.PUBLISHED, Reading.SOUND))
    act = sound.steps[0].act
    assert isinstance(act, Act)
    assert isinstance(act.inner, Sml)
    assert "one dimension" in published.refuted[0]
    assert not sound.refuted
    assert isinstance(published.steps[0].claim, TheoremTwo)
    assert isinstance(sound.steps[0].claim, RevealedMixture)


def test_overlap_costs_more() -> None:
    public = Public.blank(300, 7, 3)
    spent = [
        accounting.epsilon(HeterPoisson(network="gcn", overlap=each).plan(public, NODE, Reading.SOUND, 3.0), 1e-5)
        for each in (False, True)
    ]
    assert spent[0] < spent[1]


def test_training_needs_public_degrees() -> None:
    graph = gv.datasets.load("chain-s")
    bare = replace(graph.seal(NODE)[0], degrees=None)
    sealed = Sealed(graph.x, graph.y, graph.adj, bare)
    with pytest.raises(gv.PrivateAccess, match="out-degrees"), sealed.opened():
        asked(GCN, bare, 0)[0].batch(sealed, np.array([0]), np.empty(0))


@pytest.mark.parametrize(
    "wrong",
    [
        {"network": "gat"}, {"layers": 3}, {"layers": 1.5}, {"hidden": 0}, {"batch": 0}, {"multiplier": 0.0},
        {"p_max": 0.0}, {"p_max": 1.1}, {"epochs": 0.0}, {"clip": -1.0}, {"learning_rate": 0.0},
        {"row_length": 0.0}, {"scale": "columns"}, {"noise_law": "laplace"}, {"test_neighbours": -1},
        {"activation": "tanh"}, {"network": "pairs"},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        HeterPoisson(**{"network": "gcn", **wrong})


@pytest.mark.parametrize("unit", ["edge", "features", "label"])
def test_other_units_are_refused(unit: str) -> None:
    with pytest.raises(gv.Unsupported, match="does not protect"):
        gv.train(gv.datasets.load("chain-s"), GCN, epsilon=1, unit=unit, seed=0)


# --- Prediction. ---


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("social", split="random", seed=0)


@pytest.mark.parametrize("method", [PairCounts(), HeterPoisson(network="sage", hidden=8, batch=300, epochs=1.0)])
def test_predictions_hear_neighbours_outside_training_only(method: HeterPoisson | PairCounts, graph: gv.Graph) -> None:
    release = gv.train(graph, method, noise=3.0, unit="node", seed=0)
    arcs, train = graph.adj.edge_index().numpy(), graph.train.numpy()
    outside = ~train[arcs[0]] & ~train[arcs[1]]
    # Training nodes shout, change their class, and lose every arc.
    loud = replace(
        graph,
        x=torch.where(graph.train[:, None], graph.x.roll(1, dims=1) * 100, graph.x),
        y=torch.where(graph.train, (graph.y + 1) % graph.num_classes, graph.y),
        adj=Csr.from_edge_index(arcs[0][outside], arcs[1][outside], graph.num_nodes),
    )
    told, told_loud = release.predict_proba(), release.predict_proba(loud)
    assert torch.equal(told[~graph.train], told_loud[~graph.train])
    told_alone = release.predict_proba(replace(graph, adj=Csr.empty(graph.num_nodes)))
    assert not torch.allclose(told[~graph.train], told_alone[~graph.train], atol=1e-3), "nobody is heard"
    assert torch.allclose(told[graph.train], told_alone[graph.train], atol=1e-6)


@pytest.mark.parametrize(
    ("method", "least"), [(PairCounts(), 0.6), (HeterPoisson(network="sage", batch=600, hidden=16), 0.5)]
)
def test_it_learns(method: Method, least: float, graph: gv.Graph) -> None:
    """Four classes: chance is a quarter."""
    release = gv.train(graph, method, noise=2.0, delta=1e-5, unit="node", seed=0)
    assert release.evaluate("test")["accuracy"] > least


def test_training_stops_when_the_budget_is_spent(graph: gv.Graph) -> None:
    method = HeterPoisson(network="sage", hidden=4, batch=400, epochs=1.0)
    public, sealed = graph.seal(NODE)
    session = Session(public, sealed, method.plan(public, NODE, Reading.SOUND, 2.0), Seeded(0))
    method.fit(session)
    assert session.left("gradient") == 0


def arcs_of(heard: Csr) -> set[tuple[int, int]]:
    return set(zip(heard.indices.tolist(), heard.targets().tolist(), strict=True))


def test_thinned() -> None:
    rng = np.random.default_rng(0)
    links = (rng.random((60, 60)) < 0.4) & ~np.eye(60, dtype=bool)
    heard = Csr.from_edge_index(*np.nonzero(links.T), 60)  # type: ignore[call-arg]
    degrees = np.diff(heard.indptr)
    few = _thinned(heard, 5)
    assert np.array_equal(np.diff(few.indptr), np.minimum(degrees, 5))
    assert arcs_of(few) < arcs_of(heard)
    assert arcs_of(few) == arcs_of(_thinned(heard, 5))
    assert arcs_of(_thinned(heard, 0)) == arcs_of(heard)
    assert arcs_of(_thinned(heard, int(degrees.max()))) == arcs_of(heard)
    # Not always the first ones of a row.
    assert np.mean([few.indices[few.indptr[i]] == heard.indices[heard.indptr[i]] for i in range(60)]) < 0.5


@pytest.mark.parametrize("method", [PairCounts(), HeterPoisson(network="sage", hidden=8, epochs=2.0)])
def test_another_graph_is_predicted_from_all_its_nodes(method: Method) -> None:
    """The inductive setting: no node of the other graph has trained, so every arc of it may be heard."""
    graph = gv.datasets.load("social")
    release = gv.train(graph, method, noise=1.0, unit="node", seed=0)
    nobody = torch.zeros_like(graph.train)
    other = replace(graph, name="elsewhere", train=nobody, val=nobody, test=nobody)
    heard = release.predict_proba(other)
    deaf = replace(other, adj=Csr.empty(other.num_nodes))
    assert not torch.allclose(heard, release.predict_proba(deaf), atol=1e-3)
    first = int(np.flatnonzero(np.diff(other.adj.indptr))[0])
    moved = replace(other, x=other.x.index_fill(0, torch.from_numpy(other.adj.indices[:1]), 9.0))
    assert not torch.equal(heard[first], release.predict_proba(moved)[first])


def test_one_subgraph_s_size_does_not_round_another_s_gradient() -> None:
    """Pairs of opposite features: first-layer sums cancel, and rounding alone would decide on relu's side of zero."""
    pairs, width = 300, 128
    generator = torch.Generator().manual_seed(2)
    one = torch.nn.functional.normalize(torch.randn(width, generator=generator), dim=0)
    x = torch.stack([one, -one] * pairs + [torch.randn(width, generator=generator), one])
    z, nodes = 2 * pairs, 2 * pairs + 2
    sources, targets = np.arange(z), np.arange(z) ^ 1
    with_z = Csr.from_edge_index(np.append(sources, [z, 0]), np.append(targets, [0, z]), nodes)
    y = torch.arange(nodes) % 2
    y[3] = 2
    train = torch.arange(nodes) < nodes - 1
    graph = Graph(x, with_z, y, 3, True, train, torch.zeros_like(train), ~train, "kink", "given")
    public, sealed = graph.with_every_id_present().seal(NODE)
    x_without, y_without = x.clone(), y.clone()
    x_without[z], y_without[z] = 0.0, -1
    without = Sealed(x_without, y_without, Csr.from_edge_index(sources, targets, nodes), public)
    centres = np.arange(0, z, 2)
    for network in ("sage", "gcn", "gin"):
        method = HeterPoisson(network=network, layers=2, hidden=7, batch=nodes, scale="rows")
        act = method.plan(public, NODE, Reading.SOUND, 1.0).steps[0].act
        assert isinstance(act, Act)
        query = partial(method.gradients, weights=start(method.model(width, 3), torch.Generator().manual_seed(0)))
        totals = []
        for side in (sealed, without):
            with side.opened():
                kept = np.zeros(int(np.diff(side.adj.indptr)[centres].sum()))
                totals.append(query(side, batch=act.batch(side, centres, kept)).clipped_sum(method.clip))
        assert float((totals[0] - totals[1]).norm()) <= 2 * method.clip * (1 + 1e-6)
    with pytest.raises(Unsupported, match="elu"):
        HeterPoisson(network="sage", layers=2, activation="relu").plan(public, NODE, Reading.SOUND, 1.0)


@pytest.mark.parametrize("scale", ["rows", "centred"])
def test_scaling_a_record_ignores_the_others_to_the_last_bit(scale: str) -> None:
    for width in (3, 128, 767):
        x = torch.randn(3000, width, generator=torch.Generator().manual_seed(0))
        whole = by_record(x, scale)
        for first, last in ((1, 3000), (0, 2), (7, 1030), (2999, 3000)):
            assert torch.equal(by_record(x[first:last].clone(), scale), whole[first:last])
