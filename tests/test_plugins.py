"""Parts of others: found by entry points and references of users, never because a file names them."""

from __future__ import annotations

import gc
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil import planning, plugins
from graphveil.auditing.game import ATTACKS
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Tampered
from graphveil.mechanisms.described import rebuild_curve, rebuild_mechanism
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.geometric_count import Tally
from graphveil.mechanisms.poisson import Poisson, PoissonCurve
from graphveil.mechanisms.unprotected import Exposed
from graphveil.methods import FLAGSHIPS, flagship
from graphveil.methods.described import rebuild_method, source_of
from graphveil.methods.method import METHODS, Method
from graphveil.nn.clipping import ExampleGradients, Vectors
from graphveil.nn.own_network import NETWORKS
from graphveil.nn.subgraph import SubgraphGradients
from graphveil.plugins import Parts
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Curve, Mechanism, Plan, Reading, State, Step, Unit

Install = Callable[..., Path]

ENTRIES = "[graphveil.methods]\n"

METHOD = '''
from dataclasses import dataclass
import torch
from graphveil.vocabulary import Plan, Step, Unit
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import Method

@dataclass(frozen=True)
class {kind}(Method):
    """A stranger's."""
    units = frozenset({{Unit.EDGE}})

    def plan(self, public, adjacency, reading, noise):
        return Plan(adjacency, reading, ())

    def fit(self, session):
        return {{"logits": torch.zeros(session.public.num_nodes, session.public.num_classes)}}
'''


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Puts modules and what registers them where Python finds them, as if they were installed."""
    # A search path that nobody has seen: what is registered there is looked up anew.
    home = tmp_path / "site"

    def write(name: str, entries: str, **modules: str) -> Path:
        told = home / f"{name}-1.2.dist-info"
        told.mkdir(parents=True)
        (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
        (told / "entry_points.txt").write_text(entries)
        for module, text in modules.items():
            (home / f"{module}.py").write_text(text)
        return home

    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(home))
    yield write
    for module in set(sys.modules) - before:
        del sys.modules[module]
    gc.collect()  # classes that nobody has any more are found no more
    plugins._registered.cache_clear()


class TestNamed:
    def test_a_reference_is_imported(self) -> None:
        assert plugins.named("graphveil.vocabulary:Unit.EDGE") is Unit.EDGE

    @pytest.mark.parametrize("reference", ["", "gap", "a b:C", "a:", ":C", "a:b:c", "a/b:C", "../x:C", "a:1"])
    def test_what_is_no_reference(self, reference: str) -> None:
        with pytest.raises(InvalidInput, match=r"package\.module:Name"):
            plugins.named(reference)

    def test_a_module_that_is_not_there(self) -> None:
        with pytest.raises(InvalidInput, match=r"no module 'nowhere_at_all'.*PYTHONPATH"):
            plugins.named("nowhere_at_all.sub:C")

    def test_a_name_that_is_not_there_is_suggested(self) -> None:
        with pytest.raises(InvalidInput, match="did you mean Unit"):
            plugins.named("graphveil.vocabulary:Unitt")

    @pytest.mark.parametrize("text", ["1 / 0", "import nowhere_at_all", "import sys; sys.exit(3)", "def :"])
    def test_a_module_that_breaks_is_named_with_its_error(self, install: Install, text: str) -> None:
        install("breaks", "", breaking=text)
        with pytest.raises(InvalidInput, match=r"'breaking:C' does not load: (Zero|ModuleNot|SystemExit|Syntax)"):
            plugins.named("breaking:C")

    def test_a_method_must_be_one(self) -> None:
        with pytest.raises(InvalidInput, match=r"'graphveil.vocabulary:Unit' is no method.*derived from Method"):
            METHODS.find("graphveil.vocabulary:Unit")
        with pytest.raises(InvalidInput, match="is no method"):
            METHODS.find("graphveil.methods.edge.parts.edge_method:EdgeMethod")


class TestOurs:
    def test_a_method_is_found_without_importing_the_others(self) -> None:
        script = (
            "import sys; from graphveil.methods.method import METHODS; METHODS.find('hearsay')\n"
            "print([name for name in METHODS.modules if METHODS.modules[name] in sys.modules])"
        )
        assert ran(script, path=Path()).stdout.strip() == "['hearsay']"

    @pytest.mark.parametrize("parts", [METHODS, ATTACKS], ids=["methods", "attacks"])
    def test_every_file_holds_the_part_of_its_name(self, parts: Parts[Any]) -> None:
        for name, kind in parts.ours().items():
            assert kind.name() == name
            assert parts.by_class(kind.__name__) is kind
        assert set(parts.ours().values()) == set(plugins.classes(parts.package, parts.base).values())

    def test_flagships_protect_the_units_that_they_are_taken_for(self) -> None:
        assert set(FLAGSHIPS) == set(Unit)
        assert all(unit in flagship(unit).units for unit in Unit)

    def test_a_word_in_another_case_is_no_class(self) -> None:
        assert METHODS.by_class("gap") is None
        assert METHODS.by_class("Gap") is gv.methods.Gap


class TestRegistered:
    def test_a_method_is_found_by_name_and_says_whose_it_is(self, install: Install) -> None:
        install(
            "theirs",
            ENTRIES + "stranger = their_method:Stranger\n",
            their_method=METHOD.format(kind="Stranger"),
        )
        assert "stranger" not in METHODS.ours()
        kind = METHODS.find("Stranger")
        assert kind.__module__ == "their_method"
        assert source_of(kind) == "their_method:Stranger of theirs 1.2"
        assert not plugins.is_ours(kind)
        assert plugins.is_ours(gv.methods.Gap)

    def test_no_plugin_shadows_one_of_ours(self, install: Install) -> None:
        install("theirs", ENTRIES + "gap = their_method:Gap\n", their_method=METHOD.format(kind="Gap"))
        assert METHODS.find("gap") is gv.methods.Gap
        [refused] = METHODS.others().values()
        assert "has the name of one that is built in" in str(refused)
        with pytest.raises(InvalidInput, match="called 'gap' as one that is built in"):
            METHODS.find("their_method:Gap")

    def test_two_that_register_one_name(self, install: Install) -> None:
        install("first", ENTRIES + "twin = one:Twin\n")
        install("second", ENTRIES + "twin = two:Twin\n")
        with pytest.raises(InvalidInput, match=r"registered by first 1\.2 and by second 1\.2"):
            METHODS.find("twin")

    def test_one_that_breaks_is_named_and_breaks_nothing_else(self, install: Install) -> None:
        install("broken", ENTRIES + "sad = sadness:Sad\n", sadness="raise RuntimeError('out of order')")
        with pytest.raises(InvalidInput, match=r"'sad' of broken 1\.2: 'sadness:Sad' does not load: RuntimeError: out"):
            METHODS.find("sad")
        assert METHODS.find("gap") is gv.methods.Gap

    def test_the_name_is_the_class_s_own(self, install: Install) -> None:
        install(
            "theirs",
            ENTRIES + "other = their_method:Stranger\n",
            their_method=METHOD.format(kind="Stranger"),
        )
        with pytest.raises(InvalidInput, match="registered as 'other' and called 'stranger'"):
            METHODS.find("other")

    def test_an_attack(self, install: Install, graph: gv.Graph) -> None:
        text = "from graphveil.auditing.attacks.canary_edge import CanaryEdge\nclass Poke(CanaryEdge):\n    pass\n"
        install("theirs", "[graphveil.attacks]\npoke = poke:Poke\n", poke=text)
        assert ATTACKS.find("poke").__module__ == "poke"
        found = gv.audit(Outsider(), graph, epsilon=1, delta=1e-5, unit="edge", runs=8, attack="poke")
        assert found.attack.startswith("poke on")

    def test_a_dataset(self, install: Install) -> None:
        text = (
            "from functools import partial\nfrom graphveil.data.datasets.chains import chains\n"
            "from graphveil.data.datasets.source import Generated\n"
            "TINY = Generated('made up', 12, 10, ('random',), partial(chains, 6, 2, name='tiny'))\n"
        )
        entries = "[graphveil.datasets]\ntiny = their_data:TINY\nsad = sadness:S\nwrong = their_data:partial\n"
        install("theirs", entries, their_data=text)
        assert gv.datasets.load("tiny").num_nodes == 12
        assert {"tiny", "sad", "social"} <= set(gv.datasets.names())
        rows = {row["name"]: row for row in gv.datasets.describe()}
        assert rows["tiny"]["nodes"] == 12
        assert "DOES NOT LOAD: 'sad' of theirs 1.2" in rows["sad"]["source"]
        with pytest.raises(InvalidInput, match="is no dataset: register a DatasetSource"):
            gv.datasets.load("wrong")


class TestFiles:
    """What a file names is imported only if an installed distribution registers it."""

    def test_a_module_that_a_file_names_is_not_imported(self, install: Install) -> None:
        install("theirs", "", lurking="raise SystemExit('imported')")
        for kind in ("lurking:Lurk", "lurking.Lurk", "Lurk"):
            with pytest.raises(Tampered, match="unknown method"):
                rebuild_method({"kind": kind})
            with pytest.raises(Tampered, match="unknown part"):
                rebuild_curve({"kind": kind})
        with pytest.raises(InvalidInput, match=r"a file imports nothing.*--method lurking:Lurk"):
            METHODS.written("lurking:Lurk")
        assert "lurking" not in sys.modules

    def test_a_release_of_a_registered_method_is_read_back(self, install: Install, tmp_path: Path) -> None:
        home = install("theirs", ENTRIES + "lone = lone_method:Lone\n", lone_method=METHOD.format(kind="Lone"))
        release = gv.train(gv.datasets.load("chain-s"), "lone", epsilon=1, delta=1e-5, unit="edge", seed=0)
        release.save(tmp_path / "release")
        script = "import sys, graphveil as gv; gv.load(sys.argv[1]); print('lone_method' in sys.modules)"
        assert ran(script, str(tmp_path / "release"), path=home).stdout.strip() == "True"
        (home / "theirs-1.2.dist-info" / "entry_points.txt").write_text("")
        failed = ran(script, str(tmp_path / "release"), path=home)
        assert failed.returncode
        assert "unknown method 'Lone'" in failed.stderr

    def test_a_registered_mechanism_is_read_back(self, install: Install) -> None:
        text = (
            "from dataclasses import dataclass\nfrom graphveil.mechanisms.gaussian import Gaussian, GaussianCurve\n"
            "@dataclass(frozen=True)\nclass Mine(Gaussian):\n    pass\n"
            "@dataclass(frozen=True)\nclass MineCurve(GaussianCurve):\n    pass\n"
        )
        install(
            "theirs", "[graphveil.mechanisms]\nmine = their_law:Mine\nminecurve = their_law:MineCurve\n", their_law=text
        )
        made = rebuild_mechanism({"kind": "Mine", "std": 2.0, "clip": 1.0})
        assert type(made).__module__ == "their_law"
        inside = {"kind": "PoissonCurve", "base": {"kind": "MineCurve", "mu": 1.0}, "rate": 0.5}
        assert rebuild_curve(inside).base.kind() == "MineCurve"  # type: ignore[attr-defined]
        # Ours stay ours, whatever else is registered.
        assert type(rebuild_mechanism({"kind": "Gaussian", "std": 2.0, "clip": 1.0})) is Gaussian


def ran(script: str, *words: str, path: Path) -> subprocess.CompletedProcess[str]:
    found = os.pathsep.join([str(path), *(each for each in sys.path if each)])
    return subprocess.run(
        [sys.executable, "-c", script, *words], env={**os.environ, "PYTHONPATH": found}, capture_output=True, text=True
    )


@dataclass(frozen=True)
class Outsider(Method):
    """One noisy sum of unit rows, by a stranger."""

    units = frozenset({Unit.EDGE})

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        act = Gaussian(noise)
        return Plan(adjacency, reading, (Step("sum", act, act.curve(math.sqrt(2)), 1, why="README.md"),))

    def asked(self, sealed: Sealed) -> object:
        return Vectors(torch.ones(sealed.adj.num_arcs, 1))

    def fit(self, session: Session) -> State:
        told = session.release("sum", self.asked)
        return {"logits": told.float().expand(session.public.num_nodes, session.public.num_classes).contiguous()}


@pytest.fixture(scope="module")
def graph() -> gv.Graph:
    return gv.datasets.load("chain-s")


def trained(graph: gv.Graph, method: Method) -> gv.Release:
    return gv.train(graph, method, epsilon=2, delta=1e-5, unit="edge", seed=0)


class TestClaimsOfOthers:
    def test_the_card_says_whose_claim_it_is_and_what_is_enforced(self, graph: gv.Graph, tmp_path: Path) -> None:
        release = trained(graph, Outsider())
        card = release.card()
        assert "As far as its method's author is right, which is not proven here" in card
        assert "reading     sound, by the claim of its author" in card
        assert f"code        {__name__}:Outsider" in card
        assert "enforced    by graphveil: which steps run" in card
        assert any("is not part of graphveil" in said for said in release.certificate.warnings())
        loaded = gv.verify(release.save(tmp_path / "release"), graph)
        assert loaded.card() == card
        assert loaded.certificate.provenance.others == f"{__name__}:Outsider"

    def test_of_ours_nothing_is_said(self, graph: gv.Graph) -> None:
        release = trained(graph, gv.methods.Gap(epochs=2))
        assert "author" not in release.card()
        assert release.certificate.describe()["provenance"]["others"] == ""

    def test_the_words_cannot_be_taken_out_of_a_file(self, graph: gv.Graph) -> None:
        """Whoever loads it has the method, and it is not ours: a file that leaves that out was altered."""
        said = trained(graph, Outsider()).certificate.describe()
        said["provenance"]["others"] = ""
        with pytest.raises(Tampered, match="not part of graphveil"):
            gv.Certificate.from_json(json.dumps(said))

    def test_a_choice_among_others_is_not_ours(self, graph: gv.Graph) -> None:
        from graphveil.methods.baseline.best import Best

        release = trained(graph, Best((Outsider(), Outsider())))
        assert "Outsider" in release.certificate.provenance.others

    @pytest.mark.parametrize(
        ("act", "claim"),
        [
            (type("Gaussian", (Gaussian,), {})(5.0), GaussianCurve(0.1)),
            (Gaussian(5.0), type("GaussianCurve", (GaussianCurve,), {})(0.1)),
            (type("Quiet", (Gaussian,), {"kind": classmethod(lambda _: "Gaussian")})(5.0), GaussianCurve(0.1)),
        ],
        ids=["mechanism", "curve", "word"],
    )
    def test_what_would_pass_for_ours_is_refused(self, graph: gv.Graph, act: Gaussian, claim: GaussianCurve) -> None:
        @dataclass(frozen=True)
        class Poser(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
                return Plan(adjacency, reading, (Step("sum", act, claim, 1, why=""),))

        with pytest.raises(InvalidInput, match="as one that is built in; rename it"):
            gv.train(graph, Poser(), noise=5.0, delta=1e-5, unit="edge", seed=0)

    @pytest.mark.parametrize(
        ("act", "claim"),
        [
            (Gaussian(5.0), GaussianCurve(0.1)),
            (Exposed(), GaussianCurve(0.1)),
            (Tally(2.0, marks=2), PureCurve(0.5)),
            (Poisson(Gaussian(5.0), 0.5, 40), PoissonCurve(GaussianCurve(0.2), 0.4)),
            (Gaussian(10.0), PoissonCurve(GaussianCurve(4.0), 5e-5)),
        ],
        ids=["noise", "nothing drawn", "marks", "sampling", "over many uses"],
    )
    def test_a_claim_below_what_its_mechanism_costs_is_refused(
        self, graph: gv.Graph, act: Mechanism, claim: Curve
    ) -> None:
        @dataclass(frozen=True)
        class Modest(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
                return Plan(
                    adjacency,
                    reading,
                    (Step("sum", act, claim, 3000 if isinstance(act, Gaussian) and act.std == 10 else 1, why=""),),
                )

            def fit(self, session: Session) -> State:  # noqa: ARG002
                raise AssertionError("something was read")

        with pytest.raises(InvalidInput, match=r"step 'sum' charges epsilon .* costs .* at least"):
            gv.train(graph, Modest(), noise=5.0, delta=1e-5, unit="edge", seed=0)

    @pytest.mark.parametrize("name", sorted(set(METHODS.ours()) - {"best", "caribou"}))
    def test_no_sound_plan_of_ours_would_be_refused_by_that(self, name: str) -> None:
        """The least that a mechanism can cost is below every proven claim."""
        kind, public = METHODS.find(name), Public.blank(300, 10, 4, True)
        for unit in kind.units:
            plan = kind.specimens()[0].plan(public, Adjacency.of(unit), Reading.SOUND, 3.0)
            planning._require_charged(plan, 1e-5)

    def test_a_method_with_the_name_of_ours_is_refused(self, graph: gv.Graph) -> None:
        poser = type("Gap", (Outsider,), {})
        with pytest.raises(InvalidInput, match="as one that is built in"):
            trained(graph, poser())

    def test_a_mechanism_that_no_file_could_name_is_refused(self, graph: gv.Graph) -> None:
        """Registered it would be read back; a release that nobody can load must not be paid for."""
        mine = type("Unregistered", (Gaussian,), {})

        @dataclass(frozen=True)
        class Lonely(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
                return Plan(adjacency, reading, (Step("sum", mine(noise), mine(noise).curve(2.0), 1, why=""),))

        with pytest.raises(InvalidInput, match=r"no file could hold this plan.*Unregistered.*register it"):
            gv.train(graph, Lonely(), noise=5.0, delta=1e-5, unit="edge", seed=0)

    def test_words_of_a_step_cannot_write_lines_of_a_card(self, graph: gv.Graph) -> None:
        @dataclass(frozen=True)
        class Chatty(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
                [step] = super().plan(public, adjacency, reading, noise).steps
                return Plan(adjacency, reading, (Step("sum", step.act, step.claim, 1, why="x]\n  ledger  entered"),))

        with pytest.raises(InvalidInput, match="one line of printable characters"):
            trained(graph, Chatty())

    def test_plans_of_other_classes_are_refused(self, graph: gv.Graph) -> None:
        class Dear(Plan):
            pass

        @dataclass(frozen=True)
        class Planner(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
                return Dear(adjacency, reading, super().plan(public, adjacency, reading, noise).steps)

        with pytest.raises(InvalidInput, match="a Plan of Steps"):
            trained(graph, Planner())


class Unclipped:
    """Contributions that forget the bound."""

    def clipped_sum(self, clip: float) -> Tensor:  # noqa: ARG002
        return torch.full((1,), 1e9)


def test_what_lies_in_the_current_folder_was_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A download with a release, code and a made-up distribution beside it runs nothing because the release is read."""
    told = tmp_path / "evil-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Name: evil\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[graphveil.networks]\nnet = evil:Net\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert any(one.reference == "evil:Net" for one in plugins.registered(NETWORKS))
    monkeypatch.chdir(tmp_path)
    plugins._registered.cache_clear()
    assert not any(one.reference == "evil:Net" for one in plugins.registered(NETWORKS))
    plugins._registered.cache_clear()


class TestBoundsOfOthers:
    def test_a_query_answers_with_our_classes(self, graph: gv.Graph) -> None:
        @dataclass(frozen=True)
        class Loose(Outsider):
            def asked(self, sealed: Sealed) -> object:  # noqa: ARG002
                return Unclipped()

        with pytest.raises(gv.Unsupported, match="'sum' was answered with a Unclipped, a class that could leave out"):
            trained(graph, Loose())

    @pytest.mark.parametrize(
        "way", ["a word for ours", "an attribute beside", "a length that was told", "a part within"]
    )
    def test_ours_with_something_beside_is_not_ours(self, graph: gv.Graph, way: str) -> None:
        rows = torch.full((3, 1), 1e6, dtype=torch.float64)

        def answer() -> object:
            if way == "a word for ours":
                return type("Sly", (Unclipped,), {"__module__": "torch.sly"})()
            if way == "an attribute beside":
                vectors = Vectors(rows)
                object.__setattr__(vectors, "clipped_sum", lambda _: rows.sum(dim=0))
                return vectors
            if way == "a part within":
                return SubgraphGradients((Unclipped(),))  # type: ignore[arg-type]
            return ExampleGradients((rows,), (torch.ones(3, 1),), known=torch.zeros(3))

        @dataclass(frozen=True)
        class Loose(Outsider):
            def asked(self, sealed: Sealed) -> object:  # noqa: ARG002
                return answer()

        if way == "a length that was told":
            # Three contributions of length one, under noise of a few.
            assert float(trained(graph, Loose()).state["logits"].abs().max()) < 100
        else:
            with pytest.raises(gv.Unsupported, match="a class that could leave out the bound"):
                trained(graph, Loose())

    def test_an_act_runs_as_a_file_would_give_it_back(self, graph: gv.Graph) -> None:
        @dataclass(frozen=True)
        class Muted(Outsider):
            def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
                made = super().plan(public, adjacency, reading, noise)
                object.__setattr__(made.steps[0].act, "apply", lambda *_: torch.full((1,), 0.5))
                return made

        assert float(trained(graph, Muted()).state["logits"][0, 0]) != 0.5

    def test_so_does_one_of_a_candidate(self, graph: gv.Graph) -> None:
        from graphveil.methods.baseline.best import Best

        @dataclass(frozen=True)
        class Loose(Outsider):
            def asked(self, sealed: Sealed) -> object:  # noqa: ARG002
                return Unclipped()

        with pytest.raises(gv.Unsupported, match="a class that could leave out the bound"):
            trained(graph, Best((Outsider(), Loose())))

    def test_a_kind_of_tensor_is_no_tensor(self, graph: gv.Graph) -> None:
        class Sly(Tensor):
            pass

        @dataclass(frozen=True)
        class Loose(Outsider):
            def asked(self, sealed: Sealed) -> object:  # noqa: ARG002
                return torch.zeros(1).as_subclass(Sly)

        with pytest.raises(gv.Unsupported, match="answered with a Sly"):
            trained(graph, Loose())
