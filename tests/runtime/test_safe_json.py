"""Files of strangers: plain values in bounded time and memory, or `Tampered`; and nothing that acts on a terminal."""

from __future__ import annotations

import hashlib
import json
import math
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch

import graphveil as gv
from graphveil.checks import escaped, require_printable
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.mechanisms import described as described_plans
from graphveil.mechanisms.described import curves, rebuild_plan
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.heterpoisson import HeterPoissonCurve
from graphveil.mechanisms.poisson import PoissonCurve
from graphveil.mechanisms.renyi import MomentsCurve
from graphveil.mechanisms.revealed_mixture import RevealedMixture
from graphveil.mechanisms.unprotected import Exposed
from graphveil.privacy import accounting
from graphveil.release.certificate import Certificate
from graphveil.runtime.safe_json import MAX_TEXT, plain_json, require_agreement
from graphveil.vocabulary import Adjacency, Curve, Plan, Reading, Step

TRICKS = [
    "\x1b[2J",
    "line\nline",
    "tab\t",
    "\r",
    "\x00",
    "\x7f",
    "\x9b2J",
    "\u202e",
    "\u200b",
    "\u2028",
    "\ud800",
    "\ufeff",
]


class TestJson:
    @pytest.mark.parametrize(
        "text",
        [
            "[" * 100_000,
            '{"a":' * 100_000,
            "[" * 100 + "]" * 100,
            "9" * 5000,
            "9" * 21,
            "-" + "9" * 40,
            "1e400",
            "-1e400",
            "NaN",
            "Infinity",
            "-Infinity",
            '{"a": 1, "a": 2}',
            '{"x": {"a": 1, "b": 2, "a": 1}}',
            b"\xff\xfe",
            b'"\xed\xa0\x80"',
            "",
            "{",
            "\ufeff{}",
            "1 2",
            " " * (MAX_TEXT + 1),
            *(json.dumps({"name": trick}) for trick in TRICKS),
            *(json.dumps({trick: 1}) for trick in TRICKS),
        ],
        ids=range(20 + 2 * len(TRICKS)),
    )
    def test_what_is_not_plain_is_refused(self, text: str | bytes) -> None:
        with pytest.raises(Tampered):
            plain_json(text)

    def test_the_largest_file_takes_bounded_memory(self) -> None:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        plain_json("[" + "[]," * (MAX_TEXT // 3 - 2) + "[]]")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6  # KB

    def test_plain_values_pass(self) -> None:
        value = {"a": [1, -2.5, True, None, "Zoë's graph, 図"], "b": {"c": 2**63, "d": "inf"}}
        assert plain_json(json.dumps(value)) == value
        assert plain_json(json.dumps(value).encode()) == value

    @pytest.mark.parametrize(
        ("stated", "made"),
        [(1, True), (1, 1.0), (1.0, 1), ("1", 1), ([1], [1, 2]), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), (0.1, 0.11)],
    )
    def test_python_takes_for_equal_what_a_file_does_not(self, stated: Any, made: Any) -> None:
        with pytest.raises(Tampered):
            require_agreement({"x": stated}, {"x": made}, "the file")

    def test_computed_numbers_may_differ_in_their_last_digits(self) -> None:
        require_agreement({"x": [1.0, "inf", None]}, {"x": (1.0 + 1e-9, "inf", None)}, "the file")


class TestNames:
    @pytest.mark.parametrize("trick", TRICKS)
    def test_a_name_is_one_line_of_printable_characters(self, trick: str) -> None:
        with pytest.raises(InvalidInput, match="printable") as refused:
            require_printable(f"social{trick}", "a name")
        assert str(refused.value).isprintable()
        assert escaped(f"social{trick}").isprintable()
        assert escaped("Zoë's graph, 図") == "Zoë's graph, 図"

    def test_names_are_text(self) -> None:
        with pytest.raises(InvalidInput, match="must be text"):
            require_printable(3, "a name")

    @pytest.mark.parametrize("trick", ["\x1b[2J", "\n  guarantee   epsilon 0.0001 at delta 1e-05"])
    def test_no_graph_has_another(self, trick: str, tmp_path: Path) -> None:
        graph = gv.datasets.load("chain-s")
        edges, nodes = tmp_path / "edges.csv", tmp_path / "nodes.csv"
        edges.write_text("source,target\na,b\n")
        nodes.write_text("id,label,x\na,0,1\nb,1,2\n")
        none = torch.zeros(graph.num_nodes, dtype=torch.bool)
        for make in (
            lambda: gv.Graph.from_edges(edges, nodes, name=f"social{trick}"),
            lambda: gv.Graph.from_pyg(graph.to_pyg(), name=f"social{trick}"),
            lambda: graph.with_split(graph.train, none, none, f"mine{trick}"),
        ):
            with pytest.raises(InvalidInput, match="printable"):
                make()


def forge(folder: Path, change: Callable[[dict[str, Any]], object], name: str = "release.json") -> Path:
    """Change a JSON file and make the manifest agree with it."""
    body = json.loads((folder / name).read_text())
    change(body)
    (folder / name).write_text(json.dumps(body, indent=2))
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))
    return folder


@pytest.fixture(scope="module")
def release() -> gv.Release:
    graph = gv.datasets.load("chain-s")
    return gv.train(graph, gv.methods.Gap(hidden=4, head=4, epochs=2), epsilon=1.0, delta=1e-5, unit="edge", seed=0)


@pytest.fixture
def folder(release: gv.Release, tmp_path: Path) -> Path:
    return release.save(tmp_path / "model")


def certificate_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["certificate"]
    return found


def step_of(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["certificate"]["plan"]["steps"][0]
    return found


class TestForgeries:
    @pytest.mark.parametrize("trick", ["\x1b[2J", "\n  guarantee   epsilon 0.0001 at delta 1e-05", "\u202e"])
    @pytest.mark.parametrize("field", ["dataset", "split", "source", "created", "version", "public", "ledger_entry"])
    def test_words_about_the_data(self, folder: Path, trick: str, field: str) -> None:
        """Also where the card says the same: a forger makes it agree."""
        forge(folder, lambda body: certificate_of(body)["provenance"].update({field: f"social{trick}"}))
        with pytest.raises(Tampered, match="printable"):
            gv.load(folder)

    @pytest.mark.parametrize("field", ["name", "why", "refuted", "assumes"])
    def test_words_of_a_step(self, folder: Path, field: str) -> None:
        words: Any = ["a\x1b[2J"] if field == "assumes" else "a\x1b[2J"
        described = gv.load(folder).certificate.plan.describe()
        forge(folder, lambda body: step_of(body).update({field: words}))
        with pytest.raises(Tampered, match="printable"):
            gv.load(folder)
        described["steps"][0][field] = words
        with pytest.raises(Tampered, match="printable"):
            rebuild_plan(described)

    @pytest.mark.parametrize(
        "change",
        [
            lambda body: step_of(body).update(times=1.0),
            lambda body: step_of(body).update(times=True),
            lambda body: step_of(body).update(times="1"),
            lambda body: step_of(body).update(times=10**12),
            lambda body: step_of(body).update(name=3),
            lambda body: step_of(body).update(assumes="words"),
            lambda body: step_of(body).update(extra=1),
            lambda body: step_of(body)["act"].update(std=True),
            lambda body: step_of(body)["act"].update(std="1"),
            lambda body: step_of(body)["act"].update(clip=[1.0]),
            lambda body: step_of(body)["claim"].update(mu="inf"),
            lambda body: step_of(body).update(
                claim={"kind": "PoissonCurve", "base": step_of(body)["claim"], "rate": 2}
            ),
            lambda body: certificate_of(body)["plan"]["adjacency"].update(undirected=1),
            lambda body: certificate_of(body)["plan"]["adjacency"].update(undirected="yes"),
            lambda body: certificate_of(body)["plan"].update(steps=[step_of(body)] * 5000),
            lambda body: certificate_of(body).update(delta=True),
            lambda body: certificate_of(body).update(extra=1),
            lambda body: certificate_of(body)["provenance"].update(noise="4"),
            lambda body: certificate_of(body)["provenance"].update(seed="0"),
            lambda body: certificate_of(body)["provenance"].update(secure=1),
            lambda body: certificate_of(body)["provenance"].update(sizes=[48, 5]),
            lambda body: certificate_of(body)["provenance"].update(sizes=[48, 10**9, 10**9]),
            lambda body: certificate_of(body)["provenance"].update(sizes=[10**18, 5, 2]),
            lambda body: certificate_of(body)["provenance"].update(method="[" * 100_000),
            lambda body: certificate_of(body).update(parents=[certificate_of(body) | {"parents": []}] * 200),
            lambda body: body["method"].update(hidden=40_000),
            lambda body: body["method"].update(hidden=10**9),
            lambda body: body["method"].update(hops=10**11),
            lambda body: body["method"].update(hidden=True),
            lambda body: body["method"].update(hidden=4.0),
            lambda body: body["method"].update(learning_rate="fast"),
            lambda body: body.update(extra=1),
        ],
        ids=range(32),
    )
    def test_wrong_types_and_absurd_sizes(self, folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
        start, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        forge(folder, change)
        with pytest.raises(Tampered):
            gv.verify(folder)
        assert time.thread_time() - start < 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6  # KB

    @pytest.mark.parametrize("nodes", [10**9, 10**12, 10**18, -1, True, 48.0])
    def test_a_graph_of_absurd_size(self, tmp_path: Path, nodes: Any) -> None:
        graph = gv.datasets.load("chain-s")
        place = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=2.0, seed=0).save(tmp_path / "graph", "csv")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(Tampered):
            gv.verify(forge(place, lambda body: body.update(nodes=nodes), "graph.json"))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1e6

    def test_a_small_parquet_file_with_very_many_edges(self, tmp_path: Path) -> None:
        pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        graph = gv.datasets.load("chain-s")
        place = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=2.0, seed=0).save(tmp_path / "graph")
        kept = pq.read_schema(place / "edges.parquet").metadata
        zeros = pa.array([0]).take(pa.array([0] * 10_000_000, pa.int32()))
        table = pa.table({"source": zeros, "target": zeros}).replace_schema_metadata(kept)
        pq.write_table(table, place / "edges.parquet")
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(Tampered, match="10,000,000 rows"):
            gv.verify(forge(place, lambda _: None, "graph.json") and _resealed(place, "edges.parquet"))
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2e5

    def test_words_inside_a_parquet_file(self, tmp_path: Path) -> None:
        """Its own card goes where the file goes: it must be the folder's."""
        pq = pytest.importorskip("pyarrow.parquet")
        graph = gv.datasets.load("chain-s")
        place = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=2.0, seed=0).save(tmp_path / "graph")
        table = pq.read_table(place / "edges.parquet")
        card = table.schema.metadata[b"graphveil card"].replace(b"epsilon 2", b"epsilon 0")
        pq.write_table(
            table.replace_schema_metadata({**table.schema.metadata, b"graphveil card": card}), place / "edges.parquet"
        )
        with pytest.raises(Tampered, match="says of itself"):
            gv.verify(_resealed(place, "edges.parquet"))

    @pytest.mark.parametrize(
        "line", ["01,2\n", " 1,2\n", "1,2,\n", "1,2", "+1,2\n", "1,2\r\n", "1.0,2\n", f"{2**63},0\n"]
    )
    def test_an_edge_list_is_written_in_one_way(self, tmp_path: Path, line: str) -> None:
        graph = gv.datasets.load("chain-s")
        place = gv.release_graph(graph, gv.methods.EdgeRand(), epsilon=2.0, seed=0).save(tmp_path / "graph", "csv")
        (place / "edges.csv").write_text(f"source,target\n{line}")
        with pytest.raises(Tampered):
            gv.verify(_resealed(place, "edges.csv"))


def _resealed(folder: Path, name: str) -> Path:
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))
    return folder


NUMBERS: list[Any] = [
    0,
    1,
    -1,
    2,
    10**6,
    10**12,
    10**18,
    1e-300,
    1e-9,
    0.5,
    1e9,
    1e300,
    -0.5,
    "inf",
    "nan",
    "1",
    True,
    None,
]
"""What a hostile file gives for a number."""


def hostile(kind: type[Curve]) -> Iterator[dict[str, Any]]:
    """Every specimen with every field replaced in turn."""
    for specimen in kind.specimens():
        described = specimen.describe()
        for item in fields(kind):  # type: ignore[arg-type]  # every curve is a dataclass
            for value in (*NUMBERS, [], {}, [described[item.name]] * 5000, [0.5, 0.5], described):
                yield {**described, item.name: value}


def plan_with(claim: dict[str, Any], times: Any = 1) -> dict[str, Any]:
    step = {
        "name": "a",
        "act": {"kind": "Exposed"},
        "claim": claim,
        "times": times,
        "why": "",
        "assumes": [],
        "refuted": "",
    }
    near = {"unit": "node", "relation": "add_remove", "undirected": True}
    return {"adjacency": near, "reading": "sound", "steps": [step]}


class TestPlans:
    @pytest.mark.parametrize("kind", curves().values(), ids=lambda kind: kind.__name__)
    def test_hostile_numbers_in_every_kind_of_curve(self, kind: type[Curve]) -> None:
        """Refused as `Tampered`, or taken as they are."""
        for described in hostile(kind):
            try:
                plan = rebuild_plan(plan_with(described))
            except Tampered:
                continue
            assert json.dumps(plan.describe()) == json.dumps(plan_with(described))

    @pytest.mark.parametrize("kind", curves().values(), ids=lambda kind: kind.__name__)
    def test_a_certificate_of_one_is_refused_in_time(
        self, kind: type[Curve], release: gv.Release, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Many uses of extreme curves; the patience is shortened so that the test is."""
        monkeypatch.setattr(described_plans, "_MAX_TIMES", 10**5)
        for described in [*hostile(kind)][:: 7 if kind is HeterPoissonCurve else 5]:
            body = release.certificate.describe() | {"plan": plan_with(described, 1000)}
            start = time.thread_time()
            with pytest.raises(Tampered):
                Certificate.rebuild(json.loads(json.dumps(body)), start + 1.0)
            assert time.thread_time() - start < 15

    @pytest.mark.parametrize("times", [10**7, 10**12, 10**18, 0, -1, 1.5, True, "1", None])
    def test_times(self, times: Any) -> None:
        with pytest.raises(Tampered):
            rebuild_plan(plan_with(GaussianCurve(1.0).describe(), times))

    def test_depth_and_length(self) -> None:
        deep = GaussianCurve(1.0).describe()
        for _ in range(3):
            deep = {"kind": "PoissonCurve", "base": deep, "rate": 0.5}
        long = {"kind": "DominatingPair", "present": [1e-6] * 10**6, "absent": [1e-6] * 10**6}
        wide = {"kind": "RevealedMixture", "weights": [1.0] * 5000, "curves": [GaussianCurve(1.0).describe()] * 5000}
        for described in (deep, long, wide):
            with pytest.raises(Tampered, match=r"nested more than|a list of"):
                rebuild_plan(plan_with(described))

    def test_charging_ends_in_time(self) -> None:
        steps = [
            Step(str(i), Exposed(), HeterPoissonCurve(0.03 + i / 1000, 0.5, 1.0, 1.0, 0, 2000), 1000, "")
            for i in range(50)
        ]
        plan = Plan(Adjacency.of("node"), Reading.SOUND, tuple(steps))
        start = time.thread_time()
        with pytest.raises(Tampered, match="too long"):
            accounting.epsilon(plan, 1e-5, start + 0.5)
        assert time.thread_time() - start < 30

    def test_many_curves_in_one_end_in_time(self) -> None:
        slow = tuple(HeterPoissonCurve(0.03 + i / 1000, 0.5, 1.0, 1.0, 0, 2000) for i in range(500))
        mixture = PoissonCurve(RevealedMixture((1 / 500,) * 500, slow), 0.5)
        plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("a", Exposed(), mixture, 3, ""),))
        start = time.thread_time()
        with pytest.raises(Tampered, match="too long"):
            accounting.epsilon(plan, 1e-5, start + 0.5)
        assert time.thread_time() - start < 15

    def test_our_own_plans_have_all_the_time_they_need(self) -> None:
        plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("a", Exposed(), GaussianCurve(1.0), 1, ""),))
        strange = replace(plan, steps=(Step("a", Exposed(), PoissonCurve(GaussianCurve(1.25), 0.125), 1, ""),))
        with pytest.raises(Tampered):
            accounting.epsilon(strange, 1e-5, time.thread_time() - 1.0)
        assert accounting.epsilon(plan, 1e-5) > 0
        assert accounting.epsilon(strange, 1e-5) > 0

    @pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
    def test_hardly_any_noise_claims_nothing(self, rate: float) -> None:
        """Its curve is exact at points that then lie too far apart: epsilon was 0 at a noise of 1e-9."""
        for noise in (1e-5, 1e-6, 1e-9, 1e-300):
            curve = HeterPoissonCurve(noise, rate, 1.0, 1.0, 0, 1000)
            plan = Plan(Adjacency.of("node"), Reading.SOUND, (Step("a", Exposed(), curve, 1, ""),))
            assert accounting.epsilon(plan, 1e-5) == math.inf

    def test_what_would_fill_the_memory_is_refused(self) -> None:
        with pytest.raises((InvalidInput, Unsupported), match="memory"):
            HeterPoissonCurve(0.1, 1.0, 1e9, 1.0, 0, 10**9)
        with pytest.raises(InvalidInput, match="10,000"):
            MomentsCurve(GaussianCurve(1.0), 10**9)
