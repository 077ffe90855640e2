"""The two verbs: everything is checked before anything is read, and a seed fixes everything."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings

import graphveil as gv
from bank import accounts, payments
from graphveil.data.graph import Graph
from graphveil.data.sealing import Sealed
from graphveil.errors import GraphveilError, InvalidInput, Overspent, Unsupported
from graphveil.methods import flagship
from graphveil.methods.method import Method
from graphveil.planning import default_delta
from graphveil.privacy import accounting
from graphveil.privacy.ledger import Ledger
from graphveil.vocabulary import Plan, Reading, Unit
from malformed import Attempt, malformed_graphs

QUICK = gv.methods.DpSgd(steps=2)
STEPS_ALONE = gv.methods.DpSgd(steps=2, learning_rate=64.0)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture
def ledger(tmp_path: Path, graph: Graph) -> Ledger:
    made = Ledger(tmp_path / "ledger.sqlite")
    made.open(graph, "node", epsilon=5.0, delta=1e-5)
    return made


def unsplit(graph: Graph) -> Graph:
    none = torch.zeros(graph.num_nodes, dtype=torch.bool)
    return graph.with_split(none, none, none, "none")


GOOD: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "unit": "node", "seed": 0}
BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"epsilon": 0.0}, InvalidInput, "epsilon"),
    ({"epsilon": -1.0}, InvalidInput, "epsilon"),
    ({"epsilon": math.nan}, InvalidInput, "epsilon"),
    ({"epsilon": -math.inf}, InvalidInput, "epsilon"),
    ({"epsilon": "1"}, InvalidInput, "epsilon"),
    ({"epsilon": None}, InvalidInput, "exactly one of"),
    ({"noise": 1.0}, InvalidInput, "exactly one of"),
    ({"epsilon": None, "noise": -1.0}, InvalidInput, "noise"),
    ({"epsilon": None, "noise": math.nan}, InvalidInput, "noise"),
    ({"epsilon": None, "noise": math.inf}, InvalidInput, "noise"),
    ({"epsilon": None, "noise": 1e12}, InvalidInput, "more than can be drawn"),
    ({"delta": 0.0}, InvalidInput, "delta"),
    ({"delta": 1.0}, InvalidInput, "delta"),
    ({"delta": -1e-5}, InvalidInput, "delta"),
    ({"delta": math.nan}, InvalidInput, "delta"),
    ({"unit": "galaxy"}, InvalidInput, "edge, node, features, label"),
    ({"unit": "edge"}, Unsupported, "supports: features, label, node"),
    ({"reading": "hopeful"}, InvalidInput, "published, sound"),
    ({"seed": -1}, InvalidInput, "seed"),
    ({"seed": 1.5}, InvalidInput, "seed"),
    ({"seed": True}, InvalidInput, "seed"),
    ({"seed": "7"}, InvalidInput, "seed"),
    ({"seed": 2**70}, InvalidInput, "seed"),
    ({"seed": -1, "secure": True}, InvalidInput, "seed"),
    ({"seed": 2**70, "secure": True}, InvalidInput, "seed"),
    ({"seed": None, "secure": False}, InvalidInput, "seed"),
    ({"epsilon": 9.0}, Overspent, "budget"),
]


class TestChecks:
    @pytest.mark.parametrize(("change", "error", "words"), BAD, ids=lambda case: str(case)[:40])
    def test_nothing_is_read_or_reserved(
        self,
        graph: Graph,
        ledger: Ledger,
        monkeypatch: pytest.MonkeyPatch,
        change: dict[str, Any],
        error: type[Exception],
        words: str,
    ) -> None:
        def opened(_: Sealed) -> None:
            raise AssertionError("the sealed graph was opened")

        monkeypatch.setattr(Sealed, "opened", opened)
        before = ledger.path.read_bytes()
        with pytest.raises(error, match=words):
            gv.train(graph, QUICK, ledger=ledger, **{**GOOD, **change})
        assert ledger.entries() == []
        assert ledger.path.read_bytes() == before

    @pytest.mark.parametrize(
        ("subject", "method", "error"),
        [
            (lambda graph: unsplit(graph), QUICK, InvalidInput),
            (lambda graph: None, QUICK, InvalidInput),  # noqa: ARG005
            (lambda graph: graph, "dpsdg", InvalidInput),
            (lambda graph: graph, gv.methods.DpSgd, InvalidInput),
            (lambda graph: graph, gv.methods.Mlp(), Unsupported),
            (lambda graph: graph, gv.methods.Gcn(), Unsupported),
            (lambda graph: graph, gv.methods.DpSgd(sampling_rate=1.5), InvalidInput),
        ],
    )
    def test_graphs_and_methods_are_checked(
        self, graph: Graph, ledger: Ledger, subject: Any, method: Any, error: type[Exception]
    ) -> None:
        """A finite epsilon for a method that exposes private data is one of the mistakes."""
        with pytest.raises(error):
            gv.train(subject(graph), method, ledger=ledger, **GOOD)
        assert ledger.entries() == []

    def test_a_path_is_no_ledger(self, graph: Graph) -> None:
        with pytest.raises(InvalidInput, match=r"gv\.Ledger\('ledger\.db'\)"):
            gv.train(graph, QUICK, **{**GOOD, "ledger": "ledger.db"})

    @pytest.mark.parametrize(
        "wrong",
        [
            {"scale": "columns"},
            {"scale": "shifted"},
            {"scale": "x"},
            {"clip": math.nan},
            {"clip": math.inf},
            {"steps": 0},
        ],
    )
    def test_settings_fail_before_a_budget_is_charged(self, wrong: dict[str, Any]) -> None:
        """Column statistics of private features are not free; no bound is no bound."""
        with pytest.raises(InvalidInput):
            gv.methods.DpSgd(**wrong)

    def test_poisson_batches_are_not_sold_as_replacement(self, graph: Graph) -> None:
        for unit in ("features", "label"):
            with pytest.raises(Unsupported, match="sampling_rate=1"):
                gv.train(graph, gv.methods.DpSgd(sampling_rate=0.5), epsilon=1.0, unit=unit, seed=0)

    @settings(max_examples=30, derandomize=True, database=None, deadline=None)
    @given(malformed_graphs())
    def test_malformed_graphs_never_get_this_far(self, attempt: Attempt) -> None:
        with pytest.raises(GraphveilError):
            gv.train(attempt[1](), QUICK, **GOOD)

    def test_a_plan_for_another_unit_is_refused(self, graph: Graph) -> None:
        class Sly(type(QUICK)):  # type: ignore[misc]
            def plan(self, public: Any, adjacency: Any, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
                made: Plan = super().plan(public, gv.Adjacency.of("label"), reading, noise)
                return made

        with pytest.raises(Unsupported, match="planned for"):
            gv.train(graph, Sly(steps=2), **GOOD)


class TestBudget:
    def test_epsilon_is_met_from_below(self, graph: Graph) -> None:
        for unit, reads in (("node", 1.0), ("features", 2.0), ("label", 2.0)):
            release = gv.train(graph, STEPS_ALONE, epsilon=1.0, delta=1e-5, unit=unit, seed=0)
            assert 0.995 <= release.certificate.epsilon <= 1.0
            expected = reads * math.sqrt(2) / release.certificate.provenance.noise
            assert accounting.epsilon(release.certificate.plan, 1e-5) == pytest.approx(
                gaussian_epsilon(expected, 1e-5), rel=1e-6
            ), "replacing a record moves the sum by two clips"

    def test_noise_gives_the_epsilon(self, graph: Graph) -> None:
        release = gv.train(graph, STEPS_ALONE, noise=3.0, delta=1e-5, unit="node", seed=0)
        assert release.certificate.provenance.noise == 3.0
        assert release.certificate.epsilon == pytest.approx(gaussian_epsilon(math.sqrt(2) / 3, 1e-5))

    def test_infinite_epsilon(self, graph: Graph) -> None:
        for method in (QUICK, gv.methods.Mlp(hidden=2, epochs=1), gv.methods.Gcn(hidden=2, epochs=1)):
            release = gv.train(graph, method, epsilon=math.inf, unit="node", seed=0)
            assert release.certificate.epsilon == math.inf

    def test_zero_noise_is_infinite_epsilon(self, graph: Graph) -> None:
        assert gv.train(graph, QUICK, noise=0, unit="node", seed=0).certificate.epsilon == math.inf

    @pytest.mark.parametrize(("nodes", "delta"), [(1, 1e-5), (48, 1e-5), (10_000, 1e-5), (10_001, 1e-6), (10**6, 1e-7)])
    def test_default_delta(self, nodes: int, delta: float) -> None:
        assert default_delta(nodes) == pytest.approx(delta)
        assert default_delta(nodes) <= 1 / (10 * nodes) * (1 + 1e-12)

    def test_default_delta_is_used(self, graph: Graph) -> None:
        assert gv.train(graph, QUICK, epsilon=1.0, unit="node", seed=0).certificate.delta == default_delta(48)


def gaussian_epsilon(mu: float, delta: float) -> float:
    return accounting._gaussian_epsilon(mu, delta)


def states_equal(first: gv.Release, second: gv.Release) -> bool:
    return all(torch.equal(first.state[name], second.state[name]) for name in first.state)


class TestRandomness:
    @pytest.mark.parametrize(
        ("method", "unit"),
        [
            (gv.methods.DpSgd(steps=3, hidden=4, sampling_rate=0.5), "node"),
            (gv.methods.Mlp(hidden=4, epochs=3), "edge"),
            (gv.methods.Gap(hidden=4, head=4, epochs=3), "edge"),
        ],
        ids=str,
    )
    def test_a_seed_fixes_every_bit(self, graph: Graph, method: Method, unit: str) -> None:
        def run(seed: int) -> gv.Release:
            return gv.train(graph, method, epsilon=4.0, unit=unit, seed=seed)

        torch.manual_seed(1)
        first = run(3)
        torch.manual_seed(2)
        assert states_equal(first, run(3)), "the caller's generator leaked in"
        assert not states_equal(first, run(4))

    def test_the_callers_generator_is_left_alone(self, graph: Graph) -> None:
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        gv.train(graph, QUICK, epsilon=1.0, unit="node", seed=0)
        assert torch.equal(torch.rand(3), expected)

    def test_without_a_seed_noise_is_secure_and_never_repeats(self, graph: Graph) -> None:
        first, second = (gv.train(graph, QUICK, epsilon=1.0, unit="node") for _ in range(2))
        assert first.certificate.provenance.secure
        assert first.certificate.provenance.seed is None
        assert "NOT FOR RELEASE" not in first.certificate.card()
        assert not states_equal(first, second)

    def test_secure_with_a_seed_fixes_all_but_the_noise(self, graph: Graph) -> None:
        first, second = (gv.train(graph, QUICK, epsilon=1.0, unit="node", seed=0, secure=True) for _ in range(2))
        assert first.certificate.provenance.secure
        assert not states_equal(first, second)
        plain = gv.methods.Mlp(hidden=4, epochs=3)
        free = [gv.train(graph, plain, epsilon=1.0, unit="edge", seed=0, secure=True) for _ in range(2)]
        assert states_equal(*free), "nothing private is read, so nothing is left to chance"

    def test_seeded_noise_says_so(self, graph: Graph) -> None:
        release = gv.train(graph, QUICK, epsilon=1.0, unit="node", seed=0)
        assert not release.certificate.provenance.secure
        assert "NOT FOR RELEASE" in release.certificate.card()


class TestInfer:
    def test_another_graph_pays_for_itself(self, tmp_path: Path, graph: Graph) -> None:
        other = gv.datasets.load("chain-m")
        books = Ledger(tmp_path / "ledger.sqlite")
        books.open(other, "edge", epsilon=1.5, delta=1e-5)
        release = gv.train(graph, gv.methods.Gap(hidden=4, head=4, epochs=2), epsilon=1.0, unit="edge", seed=0)
        served = gv.infer(release, other, epsilon=1.0, delta=1e-5, seed=1, ledger=books)
        assert served.predict().shape == (other.num_nodes,)
        assert served.certificate.provenance.dataset == "chain-m"
        assert books.account(other).spent == served.certificate.epsilon <= 1.0
        with pytest.raises(Overspent):
            gv.infer(release, other, epsilon=1.4, delta=1e-5, seed=2, ledger=books)

    def test_free_predictions_need_no_verb(self, graph: Graph) -> None:
        release = gv.train(graph, QUICK, epsilon=1.0, unit="node", seed=0)
        with pytest.raises(Unsupported, match="which is free"):
            gv.infer(release, graph, epsilon=1.0)


class TestNames:
    """What meets a release is matched by name: columns in another order and classes that flip were wrong, silently."""

    @pytest.fixture
    def release(self) -> gv.Release:
        here = Graph.from_edges(payments(), accounts()).random_split(seed=0)
        return gv.train(here, gv.methods.Hearsay(), epsilon=4, unit="edge", seed=0)

    @staticmethod
    def next_month(**changes: Any) -> Graph:
        table = accounts(1) | changes
        return Graph.from_edges(payments(1), {name: table[name] for name in table if table[name] is not None})

    def test_columns_in_another_order_give_the_same_predictions(self, release: gv.Release) -> None:
        table = accounts(1)
        backwards = Graph.from_edges(payments(1), {name: table[name] for name in reversed(table)})
        months = (self.next_month().random_split(), backwards.random_split())
        there = [gv.infer(release, month, noise=0.5, seed=1) for month in months]
        assert torch.equal(there[0].predict_proba(), there[1].predict_proba())

    def test_classes_are_known_by_their_names(self, release: gv.Release) -> None:
        """Sorted, "ok" comes first among "ok" and "zweifel", and second among "fraud" and "ok"."""
        there = gv.infer(release, self.next_month().random_split(0.1, 0.1, 0.8), noise=0.1, seed=1)
        assert there.evaluate("test")["accuracy"] > 0.9
        labels = accounts(1)["label"]
        flipped = np.where(labels == "fraud", "zweifel", labels)
        with pytest.raises(InvalidInput, match="the classes 'zweifel', which the model does not know"):
            gv.infer(release, self.next_month(label=flipped).random_split(), noise=0.1, seed=1)

    @pytest.mark.parametrize(
        ("changes", "words"),
        [({"age": None}, "no column 'age'"), ({"income": np.ones(60)}, "'income'; drop them")],
    )
    def test_other_columns_are_refused_and_nothing_is_spent(
        self, release: gv.Release, tmp_path: Path, changes: dict[str, Any], words: str
    ) -> None:
        there, book = self.next_month(**changes), Ledger(tmp_path / "ledger.db")
        book.open(there, "edge", epsilon=2, delta=1e-5)
        with pytest.raises(InvalidInput, match=words):
            gv.infer(release, there, epsilon=1, delta=1e-5, ledger=book)
        assert book.entries() == []

    def test_the_ledger_knows_a_graph_in_the_order_it_was_given(self, release: gv.Release, tmp_path: Path) -> None:
        table, book = accounts(1), Ledger(tmp_path / "ledger.db")
        backwards = Graph.from_edges(payments(1), {name: table[name] for name in reversed(table)})
        book.open(backwards, "edge", epsilon=2, delta=1e-5)
        gv.infer(release, backwards.random_split(), epsilon=1, delta=1e-5, ledger=book)
        assert len(book.entries()) == 1

    @pytest.mark.parametrize(
        "method",
        [
            gv.methods.Hearsay(),
            gv.methods.Hearsay(channel="sums"),
            gv.methods.Gap(epochs=2),
            gv.methods.LpgNet(epochs=2),
            gv.methods.PrivGraph(epochs=2),
            gv.methods.Eclipse(epochs=2),
            gv.methods.ProGap(epochs=2),
        ],
        ids=lambda method: f"{method.name()}",
    )
    @pytest.mark.parametrize("labels", ["none", "one class", "no column"])
    def test_the_next_month_needs_no_labels(self, method: Method, labels: str) -> None:
        here = Graph.from_edges(payments(), accounts()).random_split(seed=0)
        release = gv.train(here, method, noise=1, unit="edge", seed=0)
        table = accounts(1)
        given = {"none": [""] * 60, "one class": ["", "ok"] * 30, "no column": None}[labels]
        nodes = {key: table[key] for key in table if key != "label"} | ({} if given is None else {"label": given})
        there = gv.infer(release, Graph.from_edges(payments(1), nodes, schema=release.schema), noise=1, seed=1)
        found = there.predictions()
        assert found.ids == table["id"].tolist()
        assert set(found.labels) <= {"fraud", "ok"}
        assert there.certificate.provenance.sizes == (60, 2, 2)

    def test_a_graph_without_names_may_be_without_labels_too(self, graph: Graph) -> None:
        release = gv.train(graph, gv.methods.Hearsay(), noise=1, unit="edge", seed=0)
        bare = replace(graph, y=torch.full_like(graph.y, -1), num_classes=0, name="next")
        assert set(gv.infer(release, bare, noise=1, seed=1).predict().tolist()) <= set(range(graph.num_classes))

    def test_more_names_than_a_release_can_keep_are_refused_before_anything_is_spent(self, tmp_path: Path) -> None:
        words = {f"{'w' * 200}{k}": np.ones(60) for k in range(5000)}
        here, book = Graph.from_edges(payments(), accounts() | words).random_split(), Ledger(tmp_path / "ledger.db")
        book.open(here, "edge", epsilon=2, delta=1e-5)
        with pytest.raises(InvalidInput, match="give many features as one two-dimensional column"):
            gv.train(here, gv.methods.Hearsay(), epsilon=1, delta=1e-5, unit="edge", ledger=book)
        assert book.entries() == []
        several = dict(list(words.items())[:4000])
        kept = Graph.from_edges(payments(), accounts() | several).random_split()
        gv.load(gv.train(kept, gv.methods.Mlp(epochs=1), epsilon=1, unit="edge").save(tmp_path / "model"))

    def test_free_predictions_go_by_name_too(self) -> None:
        here = Graph.from_edges(payments(), accounts()).random_split(seed=0)
        release = gv.train(here, gv.methods.Mlp(), epsilon=1, unit="edge", seed=0)
        table = accounts(1)
        backwards = Graph.from_edges(payments(1), {name: table[name] for name in reversed(table)})
        assert torch.equal(release.predict_proba(self.next_month()), release.predict_proba(backwards))
        assert release.evaluate("test", backwards.random_split()) == release.evaluate(
            "test", self.next_month().random_split()
        )

    def test_a_release_without_names_says_that_it_goes_by_position(self) -> None:
        nameless = replace(Graph.from_edges(payments(), accounts()).random_split(seed=0), schema=None, ids=None)
        release = gv.train(nameless, gv.methods.Mlp(), epsilon=1, unit="edge", seed=0)
        with pytest.warns(UserWarning, match="keeps no names of columns"):
            release.predict(self.next_month())

    def test_names_come_back_from_the_folder(self, release: gv.Release, tmp_path: Path) -> None:
        loaded = gv.load(release.save(tmp_path / "model"))
        assert loaded.schema == release.schema
        assert loaded.schema is not None
        assert loaded.schema.classes == ("fraud", "ok")
        assert "acc0-1" not in "".join(
            path.read_bytes().decode(errors="replace") for path in (tmp_path / "model").iterdir()
        )


def test_weights_of_undirected_graphs_are_not_for_directed_ones_and_nothing_is_spent(tmp_path: Path) -> None:
    release = gv.train(gv.datasets.load("chain-s"), gv.methods.Gap(epochs=2), epsilon=1, unit="edge", seed=0)
    chain = gv.datasets.load("chain-m")
    arcs = gv.Graph.from_pyg(chain.to_pyg(), undirected=False, name="arcs")
    ledger = gv.Ledger(tmp_path / "ledger.db")
    ledger.open(arcs, "edge", epsilon=2, delta=1e-5)
    with pytest.raises(InvalidInput, match="trained on an undirected graph, and 'arcs' is not one"):
        gv.infer(release, arcs, epsilon=1, seed=1, ledger=ledger)
    assert ledger.entries() == []


class TestIdsWithoutALabel:
    """They stay in the masks. Where labels are public nobody reads them; elsewhere they add nothing."""

    @pytest.fixture
    def partly(self) -> Graph:
        whole = gv.datasets.load("social")
        y = whole.y.clone()
        y[::5] = -1
        return replace(whole, y=y)

    def test_at_edge_level_they_are_as_if_they_were_in_no_part(self, partly: Graph) -> None:
        dropped = partly.with_split(*(partly.labelled(part) for part in ("train", "val", "test")), partly.split)
        assert partly.split_hash() != dropped.split_hash()
        for method in (gv.methods.Hearsay(), gv.methods.Gap(hidden=4, epochs=3)):
            both = [gv.train(g, method, epsilon=2, delta=1e-5, unit="edge", seed=0) for g in (partly, dropped)]
            assert all(torch.equal(part, both[1].state[name]) for name, part in both[0].state.items())
            assert both[0].certificate.plan == both[1].certificate.plan
            for part in ("train", "val", "test"):
                assert both[0].evaluate(part) == both[1].evaluate(part)

    def test_scores_are_of_labelled_nodes(self, partly: Graph) -> None:
        release = gv.train(partly, QUICK, epsilon=1, delta=1e-5, unit="node", seed=0)
        known = partly.test & (partly.y >= 0)
        hits = (release.predict() == partly.y)[known]
        assert release.evaluate("test")["accuracy"] == float(hits.double().mean())
        bare = replace(partly, y=torch.where(partly.test, -1, partly.y))
        with pytest.raises(InvalidInput, match="no test nodes with a label"):
            release.evaluate("test", bare)

    def test_public_labels_must_be_there(self, partly: Graph, tmp_path: Path) -> None:
        bare = replace(partly, y=torch.where(partly.train, -1, partly.y))
        ledger = Ledger(tmp_path / "ledger.db")
        ledger.open(bare, "edge", epsilon=3.0, delta=1e-5)
        with pytest.raises(InvalidInput, match="no training nodes with a label"):
            gv.train(bare, gv.methods.Mlp(), epsilon=1, delta=1e-5, unit="edge", ledger=ledger)
        assert not ledger.entries()


# --- Without a method, the flagship of the unit. ---


@pytest.mark.parametrize(
    ("unit", "name"), [("edge", "hearsay"), ("label", "probe"), ("features", "probe"), ("node", "whisper")]
)
def test_every_unit_has_one_flagship_and_it_is_the_default(unit: str, name: str) -> None:
    assert flagship(Unit(unit)).name() == name


def test_training_without_a_method_takes_the_flagship() -> None:
    graph = gv.datasets.load("social", split="random", seed=0)
    release = gv.train(graph, unit="node", noise=3.0, seed=0)
    assert release.method == gv.methods.Whisper()
    with pytest.raises(InvalidInput, match="unknown unit"):
        gv.train(graph, unit="nodes", noise=3.0)


def test_a_pyg_data_and_a_name_train_the_same_model(graph: Graph) -> None:
    """Its masks are the split; the certificate speaks of the same data."""
    data = graph.to_pyg()
    by_name = gv.train(data, "mlp", epsilon=1, unit="edge", seed=0)
    by_hand = gv.train(Graph.from_pyg(data), gv.methods.Mlp(), epsilon=1, unit="edge", seed=0)
    assert torch.equal(by_name.predict_proba(), by_hand.predict_proba())
    ours, theirs = by_name.certificate.provenance, by_hand.certificate.provenance
    assert (ours.split_hash, ours.public_digest) == (theirs.split_hash, theirs.public_digest)
    assert ours.split_hash == graph.split_hash()


def test_a_misspelt_name_and_data_without_masks_are_refused_before_anything_is_spent(
    graph: Graph, ledger: Ledger
) -> None:
    data = graph.to_pyg()
    with pytest.raises(InvalidInput, match="did you mean: hearsay"):
        gv.train(data, "hearsey", **GOOD, ledger=ledger)
    data.train_mask[:] = data.val_mask[:] = data.test_mask[:] = False
    with pytest.raises(InvalidInput, match="no train_mask"):
        gv.train(data, "dpsgd", **GOOD, ledger=ledger)
    with pytest.raises(InvalidInput, match="give a graphveil Graph and a method"):
        gv.train("social", "dpsgd", **GOOD, ledger=ledger)  # type: ignore[arg-type]
    assert ledger.entries() == []
