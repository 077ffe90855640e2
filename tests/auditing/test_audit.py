"""The verb `audit`: what it refutes, what it refuses, that it can be resumed, and what a release's card then says."""

from __future__ import annotations

import hashlib
import json
import math
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil.auditing.attacks.canary_edge import CanaryEdge
from graphveil.auditing.audit import Claim
from graphveil.auditing.game import Game, Pair
from graphveil.cli import app
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.mechanisms.dominating_pair import PureCurve
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.mechanisms.prior_response import PriorResponse
from graphveil.release.audit_result import Law
from graphveil.vocabulary import Adjacency, Plan, Reading, Step

GAP = gv.methods.Gap(hidden=4, head=4, epochs=2, hops=1)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return gv.datasets.load("chain-s")


def run(*words: str) -> Any:
    return CliRunner().invoke(app, list(words))


def test_a_false_claim_is_refuted_and_a_sound_one_is_not(graph: Graph) -> None:
    """GAP charges one row of an undirected edge, which moves two."""
    given: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-5, "unit": "edge", "runs": 1200}
    false = gv.audit(GAP, graph, reading="published", **given)
    assert false.verdict == "refuted"
    assert 4.0 < false.lower < 5.992
    assert false.law is Law.GAUSSIAN
    sound = gv.audit(GAP, graph, **given)
    assert sound.verdict == "consistent"
    assert 2.0 < sound.lower < sound.claimed
    assert sound.attack.startswith("canary_edge on chain-s: ")


@pytest.mark.slow  # games are, in test_game.py
def test_any_number_of_workers_and_any_start_give_the_same(graph: Graph, tmp_path: Path) -> None:
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "unit": "node", "runs": 150, "attack": "gradient_canary"}
    method = gv.methods.DpSgd(steps=2)
    alone = gv.audit(method, graph, compute=gv.Compute(jobs=1), **given)
    assert alone.law is Law.GDP
    first = gv.audit(method, graph, compute=gv.Compute(jobs=2), folder=tmp_path / "kept", **given)
    assert first == alone
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").iterdir()}
    assert gv.audit(method, graph, folder=tmp_path / "kept", **given) == alone
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "kept").iterdir()} == kept
    assert gv.audit(method, graph, seed=1, **given) != alone


SUM = Step("sum", Gaussian(2.0), GaussianCurve(0.5), 1, why="")
ANSWER = Step("answer", PriorResponse(1.0, 3), PureCurve(1.0), 1, why="")
OTHERWISE = replace(SUM, name="otherwise", claim=PureCurve(1.0))
"""A Gaussian sum of which something else is claimed than mu-GDP."""


@pytest.mark.parametrize(
    ("law", "steps"),
    [
        (Law.GAUSSIAN, [SUM]),
        (Law.GAUSSIAN, [OTHERWISE]),
        (Law.GDP, [replace(SUM, times=2)]),
        (Law.GDP, [SUM, replace(SUM, name="another")]),
        (Law.ANY, [ANSWER]),
        (Law.ANY, [SUM, ANSWER]),
        (Law.ANY, [SUM, OTHERWISE]),
    ],
)
def test_what_is_known_of_scores_follows_from_the_plan(law: Law, steps: list[Step]) -> None:
    """Normal for one Gaussian sum, whatever is claimed of it; of mu-GDP only if nothing else is claimed."""
    plan = Plan(Adjacency.of("label"), Reading.SOUND, tuple(steps))
    assert Claim(GAP, plan, noise=1.0, epsilon=1.0, delta=1e-5).law is law


def test_certifying_runs_are_not_those_of_the_pilot(graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = []
    play = Game.play

    def noted(self: Game, runs: int, seed: int, *rest: Any) -> Any:
        seeds.append((runs, seed))
        return play(self, runs, seed, *rest)

    monkeypatch.setattr(Game, "play", noted)
    gv.audit(GAP, graph, epsilon=1.0, unit="edge", runs=400)
    *pilots, last = seeds
    assert {runs for runs, _ in pilots} == {20}
    assert last[0] == 200
    assert last[1] not in {seed for _, seed in pilots}


def test_what_cannot_be_audited_is_said(graph: Graph) -> None:
    with pytest.raises(Unsupported, match="nothing is released"):
        gv.audit(gv.methods.Mlp(), graph, epsilon=1.0, unit="edge")
    with pytest.raises(Unsupported, match="epsilon is infinite"):
        gv.audit(gv.methods.Gcn(), graph, epsilon=float("inf"), unit="edge")
    with pytest.raises(Unsupported, match="star_hub audits nothing"):
        gv.audit(GAP, graph, epsilon=1.0, unit="edge", attack="star_hub")
    with pytest.raises(InvalidInput, match="did you mean"):
        gv.audit(GAP, graph, epsilon=1.0, unit="edge", attack="canary_edges")
    with pytest.raises(InvalidInput, match="say who is protected"):
        gv.audit(GAP, graph, epsilon=1.0)
    with pytest.raises(InvalidInput, match="at least 2 runs"):
        gv.audit(GAP, graph, epsilon=1.0, unit="edge", runs=1)


@pytest.fixture
def folder(graph: Graph, tmp_path: Path) -> Path:
    return gv.train(graph, GAP, epsilon=2.0, delta=1e-5, unit="edge").save(tmp_path / "release")


def test_a_release_carries_its_finding(graph: Graph, folder: Path) -> None:
    before = gv.load(folder)
    found = gv.audit(folder, graph, runs=100, attack=CanaryEdge())
    after = gv.load(folder)
    assert after.audit == found
    assert after.certificate == before.certificate
    assert found.claimed == before.certificate.epsilon
    assert f"audited     epsilon is above {found.lower:.3f}"[:-1] in after.card()
    assert "99 % confidence over 100 runs: consistent" in (folder / "card.txt").read_text()
    assert gv.audit(before, graph, runs=100) is not None
    after.save(folder)
    assert gv.load(folder).audit == found


@pytest.mark.parametrize("unit", ["edge", "node"])
def test_what_a_folder_gets_is_a_function_of_public_parts(graph: Graph, tmp_path: Path, unit: str) -> None:
    """Whoever knows all but one edge, or one node, could else recompute the finding for both graphs and compare."""
    method = GAP if unit == "edge" else gv.methods.DpSgd(steps=1)
    folder = gv.train(graph, method, epsilon=2.0, delta=1e-5, unit=unit).save(tmp_path / "release")
    first = gv.audit(folder, graph, runs=40)
    pair = Pair.without_edge(graph, int(graph.adj.indices[0]), int(graph.adj.targets()[0]))
    other = graph.with_arcs(pair.adj) if unit == "edge" else replace(graph, x=graph.x.flip(0), adj=pair.adj)
    assert gv.audit(folder, other, runs=40) == first


@pytest.mark.parametrize("stated", [False, True])
def test_methods_with_public_degrees_are_audited_in_their_own_population(
    graph: Graph, tmp_path: Path, stated: bool
) -> None:
    """A stand-in has the degrees that were stated; an attacker's star has at least its own."""
    mine = replace(graph, every_id_present=False).with_degrees(3) if stated else graph
    method = gv.methods.HeterPoisson(network="gcn", hidden=2, epochs=0.5)
    folder = gv.train(mine, method, noise=3.0, delta=1e-5, unit="node").save(tmp_path / "release")
    found = gv.audit(folder, mine, runs=20)
    assert found.verdict == "consistent"
    assert gv.load(folder).audit == found
    if stated:
        with pytest.raises(InvalidInput, match="another plan"):
            gv.audit(folder, graph, runs=20)


def test_a_finding_on_the_graph_itself_cannot_go_into_a_release(graph: Graph) -> None:
    release = gv.train(graph, GAP, epsilon=2.0, delta=1e-5, unit="edge", seed=0)
    with pytest.raises(InvalidInput, match="made on the graph itself"):
        replace(release, audit=gv.audit(release, graph, runs=40))


def test_a_refuted_claim_stays_refuted(graph: Graph, tmp_path: Path) -> None:
    release = gv.train(graph, GAP, epsilon=8.0, delta=1e-5, unit="edge", reading="published")
    folder = release.save(tmp_path / "release")
    assert gv.audit(folder, graph, runs=1000).verdict == "refuted"
    assert gv.audit(folder, graph, runs=2).verdict == "consistent"
    found = gv.load(folder).audit
    assert found is not None
    assert found.verdict == "refuted"


def test_a_finding_belongs_to_one_method_and_plan(graph: Graph, tmp_path: Path) -> None:
    given: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-5, "unit": "edge"}
    release = gv.train(graph, GAP, **given, seed=0)
    folder = gv.train(graph, replace(GAP, hidden=5), **given, seed=0).save(tmp_path / "other")
    other = gv.audit(folder, graph, runs=40)
    assert math.isclose(other.claimed, release.certificate.epsilon)
    with pytest.raises(InvalidInput, match="another method or plan"):
        replace(release, audit=other)


def test_an_altered_finding_is_noticed(graph: Graph, folder: Path) -> None:
    gv.audit(folder, graph, runs=100)
    whole = (folder / "audit.json").read_text()

    def forged(**changes: object) -> None:
        """By somebody who knows the format and makes the manifest agree."""
        (folder / "audit.json").write_text(json.dumps({**json.loads(whole), **changes}))
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["sha256"]["audit.json"] = hashlib.sha256((folder / "audit.json").read_bytes()).hexdigest()
        (folder / "manifest.json").write_text(json.dumps(manifest))

    (folder / "audit.json").write_text(whole.replace("consistent", "consistent "))
    with pytest.raises(Tampered, match="altered"):
        gv.load(folder)
    for changes in (
        {"claimed": 3.0},
        {"delta": 1e-6},
        {"lower": 0.5},
        {"runs": 100_000},
        {"verdict": "refuted"},
        {"subject": ""},
        {"attack": "x\n  guarantee   epsilon 0"},
        {"confidence": 2.0},
        {"counts": "magic"},
    ):
        forged(**changes)
        with pytest.raises(Tampered):
            gv.load(folder)
    forged()
    gv.load(folder)
    (folder / "audit.json").unlink()
    with pytest.raises(Tampered, match="missing"):
        gv.load(folder)


def test_a_release_is_audited_as_it_was_made(graph: Graph, folder: Path) -> None:
    with pytest.raises(InvalidInput, match="as it was made"):
        gv.audit(folder, graph, epsilon=1.0)
    node = gv.train(graph, gv.methods.DpSgd(steps=1, sampling_rate=0.5), epsilon=2.0, unit="node", seed=0)
    with pytest.raises(InvalidInput, match="another plan"):
        gv.audit(node, graph.random_split(0.5, 0.2, 0.3))


def test_the_command(folder: Path, tmp_path: Path) -> None:
    words = shlex.split("gap chain-s --epsilon 8 --unit edge --hidden 4 --head 4 --epochs 2 --hops 1 --jobs 1 --quiet")
    result = run("audit", *words, "--runs", "1000", "--reading", "published", "--json")
    assert result.exit_code == 3, result.output
    assert json.loads(result.stdout)["verdict"] == "refuted"
    result = run("audit", *words, "--runs", "40", "--folder", str(tmp_path / "kept"))
    assert result.exit_code == 0, result.output
    assert "consistent" in result.stdout
    result = run("audit", str(folder), "chain-s", "--runs", "40", "--jobs", "1")
    assert result.exit_code == 0, result.output
    assert "audited" in result.stdout
    assert isinstance(run("audit", "nobody", "chain-s").exception, InvalidInput)
