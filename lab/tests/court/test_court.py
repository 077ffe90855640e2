"""The soundness court: its quick version decides every case, and its parts do what they say."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil import plugins
from graphveil.auditing.bounds import Scores, rank_test
from graphveil.cli import app
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public
from graphveil.errors import InvalidInput
from graphveil.methods.edge.gap import Gap
from graphveil.methods.method import METHODS
from graphveil.plugins import Parts
from graphveil.privacy import accounting
from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import one_thread
from graphveil.vocabulary import UNLABELLED, Adjacency, Plan, Reading, Unit
from graphveil_lab import kept_files
from graphveil_lab.court import court, sound_cases
from graphveil_lab.court.case import Case
from graphveil_lab.court.stream_case import Lifetime
from graphveil_lab.report.page import court_page

NEARLY_ATTAINED = (
    "drw-features",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("caribou-edge", "caribou-edge-2", "ndp-features", "ndp-node")
    ),
)
"""Cases with settings and pairs of their own (evidence/stronger.py), which would not be caught without."""

CAUGHT = ("census-node", "dpdgc-edge", "eclipse-edge-2", "edgerand-edge", "gap-edge", "probe-features", "probe-label")
"""Cheap cases, of every unit."""

KEPT = kept_files.read(kept_files.kept_file("court")).content


@pytest.fixture(scope="session")
def held() -> court.Court:
    return court.hold(seed=0, quick=True)


def test_every_case_is_decided_as_expected(held: court.Court) -> None:
    assert held.as_expected, held.footer()


def test_every_false_claim_is_refuted_above_what_it_claims(held: court.Court) -> None:
    false = [ruling for ruling in held.rulings if ruling.expected == "refuted"]
    assert len(false) == len(plugins.modules("graphveil_lab.court.cases"))
    assert all(ruling.finding.lower > ruling.finding.claimed for ruling in false)
    assert all(ruling.finding.confidence >= 0.99 for ruling in false)


def test_every_method_and_unit_with_a_finite_sound_claim_is_heard(held: court.Court) -> None:
    names = {ruling.name for ruling in held.rulings}
    for kind in METHODS.ours().values():
        for unit in kind.units:
            plans = [_plan(method, unit) for method in kind.specimens()]
            if any(plan.steps and not any(step.claim.infinite for step in plan.steps) for plan in plans if plan):
                assert f"{kind.name()}-{unit.value}" in names


def _plan(method: gv.Method, unit: Unit) -> Plan | None:
    try:
        return method.plan(Public.blank(12, 4, 3), Adjacency.of(unit), Reading.SOUND, 1.0)
    except gv.GraphveilError:
        return None


def test_the_court_errs_once_in_a_hundred_times_at_most(held: court.Court) -> None:
    assert (1 - held.confidence) * len(court.cases()) == pytest.approx(0.01)
    assert "1% at most" in held.footer()


def test_the_kept_court_decided_as_expected() -> None:
    """It need not have heard a new method: the laboratory runs when it runs."""
    assert KEPT["as_expected"]


def test_the_page_is_self_contained_and_has_every_ruling(held: court.Court) -> None:
    page = court_page(held)
    assert not re.search(r"https?://|<script|<link|src=", page)
    assert all(f"<code>{ruling.name}</code>" in page for ruling in held.rulings)
    assert "False claims" in page
    assert "Sound claims" in page


def test_the_file_holds_every_finding(held: court.Court) -> None:
    read = json.loads(json.dumps(held.describe()))
    assert read["as_expected"] is True
    assert [each["name"] for each in read["rulings"]] == [ruling.name for ruling in held.rulings]
    assert read["rulings"][0]["finding"]["verdict"] == "refuted"


def test_a_court_is_read_back_as_it_was_written(held: court.Court) -> None:
    written = json.loads(json.dumps(held.describe()))
    again = court.Court.rebuild(written)
    assert again.describe() == written
    assert [_timeless(ruling) for ruling in again.rulings] == [_timeless(ruling) for ruling in held.rulings]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": 3}, "a name must be text"),
        ({"claim": "two\nlines"}, "a claim must be one line"),
        ({"expected": "guilty"}, "expects 'guilty'; a verdict is refuted or consistent"),
        ({"seconds": -1.0}, "the seconds of a ruling"),
        ({"finding": {"attack": "canary"}}, "not a finding"),
        ({"finding": 3}, "not a finding"),
    ],
)
def test_a_damaged_ruling_is_refused(changes: dict[str, Any], said: str) -> None:
    written = court.Court.rebuild(KEPT).describe()
    written["rulings"][0] |= changes
    with pytest.raises(InvalidInput, match=said):
        court.Court.rebuild(written)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": "0"}, "a seed must be a whole number"),
        ({"confidence": 1.0}, "confidence must lie strictly between"),
        ({"rulings": 3}, "not a court"),
        ({"rulings": [3]}, "not a ruling"),
    ],
)
def test_a_damaged_court_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        court.Court.rebuild({**KEPT, **changes})


@pytest.mark.slow  # games are the same for any number of workers in test_game.py
def test_the_number_of_workers_changes_nothing() -> None:
    alone = court.hold(seed=1, quick=True, only="privgnn")
    together = court.hold(seed=1, quick=True, only="privgnn", compute=Compute(jobs=2))
    assert len(alone.rulings) == 3
    assert [_timeless(ruling) for ruling in alone.rulings] == [_timeless(ruling) for ruling in together.rulings]


def test_a_case_says_the_same_alone_and_among_others(held: court.Court) -> None:
    (alone,) = court.hold(seed=0, quick=True, only="rate-times-epsilon").rulings
    among = next(ruling for ruling in held.rulings if ruling.name == alone.name)
    assert _timeless(alone) == _timeless(among)


def _timeless(ruling: court.Ruling) -> dict[str, Any]:
    return {**ruling.row(), "lower": ruling.finding.lower}


def test_every_file_holds_one_case_that_says_why() -> None:
    for module in plugins.modules("graphveil_lab.court.cases"):
        found = [item for item in vars(module).values() if _is_case(item, module.__name__)]
        assert len(found) == 1, module
        assert len(found[0].__doc__) > 200
        case = found[0]()
        assert 0 < case.quick <= case.runs
        assert case.expected == "refuted"


def _is_case(item: Any, home: str) -> bool:
    return isinstance(item, type) and issubclass(item, Case) and item.__module__ == home


@dataclass(frozen=True)
class Boastful(Gap):
    """Half of the noise that it charges for."""

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        whole, less = (super(Boastful, self).plan(public, adjacency, reading, share * noise) for share in (1.0, 0.5))
        (step,) = whole.steps
        return replace(whole, steps=(replace(step, act=less.steps[0].act),))


def test_a_new_method_is_heard_without_being_listed_and_refuted_if_it_boasts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parts, "ours", lambda _: {"boastful": Boastful})
    case = next(each for each in court.cases() if each.name == "boastful-edge")
    assert isinstance(case, sound_cases.SoundClaim)
    (ruling,) = court.hold(only="boastful-edge-3").rulings
    assert ruling.finding.verdict == "refuted"
    assert not ruling.as_expected


# --- Power: half of the noise. lab/benchmarks/court_power.py hears all cases so, in many minutes. ---

CONFIDENCE = 1 - court.ERROR / len(court.cases())
UPHELD = [case for case in court.cases() if isinstance(case, sound_cases.SoundClaim)]


@pytest.mark.parametrize("name", CAUGHT)
def test_half_of_the_noise_is_caught(name: str) -> None:
    (case,) = (each for each in court.cases() if each.name == name)
    assert isinstance(case, sound_cases.SoundClaim)
    with one_thread():
        assert case.judge(case.with_less_noise(0.5).play(case.runs, seed=1), CONFIDENCE).verdict == "refuted"


@pytest.mark.parametrize("name", NEARLY_ATTAINED)
def test_a_plan_that_nearly_attains_its_claim_stands_with_all_of_the_noise_and_falls_with_half(name: str) -> None:
    (case,) = (each for each in court.cases() if each.name == name)
    assert isinstance(case, sound_cases.SoundClaim)
    with one_thread():
        half, whole = (case.with_less_noise(share).play(case.runs, seed=11) for share in (0.5, 1.0))
    assert case.judge(half, CONFIDENCE).verdict == "refuted"
    assert case.judge(whole, CONFIDENCE).verdict == "consistent"


@pytest.mark.slow  # journals are written to disk
def test_half_of_the_noise_of_a_stream_is_caught() -> None:
    case = Lifetime(drawn=0.5)
    assert case.judge(case.play(case.runs, seed=1), CONFIDENCE).verdict == "refuted"


def test_a_boast_charges_for_all_of_the_noise_and_draws_half() -> None:
    (case,) = (each for each in UPHELD if each.name == "dpsgd-node")
    claimed, drawn = case.plan.steps, case.with_less_noise(0.5).plan.steps
    assert [replace(less, act=step.act) for less, step in zip(drawn, claimed, strict=True)] == list(claimed)
    assert [less.act for less in drawn] == [sound_cases.drawing(step.act, 0.5) for step in claimed]
    assert case.with_less_noise(1.0).plan == case.plan


@pytest.mark.parametrize("case", UPHELD, ids=lambda case: case.name)
def test_half_of_the_noise_is_half_in_every_act_and_changes_nothing_else(case: sound_cases.SoundClaim) -> None:
    for step in case._plan(2.0).steps:
        act, less = step.act, sound_cases.drawing(step.act, 0.5)
        while hasattr(act, "inner"):
            assert replace(less, inner=act.inner) == act  # type: ignore[type-var, call-arg]
            act, less = act.inner, less.inner  # type: ignore[attr-defined]
        ((name, all_of_it),) = ((name, value) for name, value in vars(act).items() if vars(less)[name] != value)
        assert vars(less)[name] == pytest.approx(all_of_it * (2.0 if name == "epsilon" else 0.5))


@pytest.mark.parametrize("case", UPHELD, ids=lambda case: case.name)
def test_the_graphs_of_a_pair_are_neighbours(case: sound_cases.SoundClaim) -> None:
    here, there = case.pair.graph, case.pair
    rows = ((here.x != there.x).any(dim=1) | (here.y != there.y)).nonzero().flatten().tolist()
    arcs = set(_arcs(here.adj)) ^ set(_arcs(there.adj))
    if case.adjacency.unit is Unit.EDGE:
        assert not rows
        assert len({frozenset(arc) for arc in arcs}) == 1
    elif case.adjacency.unit is Unit.NODE:
        (node,) = rows
        assert all(node in arc for arc in arcs)
        assert not there.x[node].any()
        assert there.y[node] == UNLABELLED
        assert not any(node in arc for arc in _arcs(there.adj))
    else:
        assert len(rows) == 1
        assert not arcs
        assert case.adjacency.unit is Unit.FEATURES or bool((here.x == there.x).all())


def _arcs(adj: Csr) -> list[tuple[int, int]]:
    return list(zip(adj.indices.tolist(), adj.targets().tolist(), strict=True))


def test_what_is_heard_longer_is_a_case() -> None:
    assert set(sound_cases._MORE) <= {case.name for case in UPHELD}


def test_a_leak_that_is_rarer_than_the_first_delta_is_caught_at_the_second() -> None:
    (case,) = (each for each in court.cases() if each.name == "gap-edge")
    silent = np.random.default_rng(0).standard_normal((2, case.runs))
    silent[0, : case.runs // 4] = np.inf
    found = case.judge(Scores(*silent), CONFIDENCE)
    assert (found.delta, found.verdict) == (0.05, "refuted")
    assert rank_test(Scores(*silent), 0.4, CONFIDENCE) == 0.0


def test_both_deltas_share_the_chance_of_an_error() -> None:
    (case,) = (each for each in court.cases() if each.name == "gap-edge")
    found = case.judge(Scores(*np.random.default_rng(0).standard_normal((2, 50))), CONFIDENCE)
    assert 1 - found.confidence == pytest.approx((1 - CONFIDENCE) / 2)
    assert found.claimed == pytest.approx(accounting.epsilon(case.plan, found.delta))  # type: ignore[attr-defined]


def test_networks_of_ones_own_and_growing_graphs_are_heard() -> None:
    sound = [case for case in court.cases() if case.expected == "consistent"]
    own = [case for case in sound if isinstance(getattr(getattr(case, "method", None), "network", None), gv.OwnNetwork)]
    assert {case.name.rpartition("-")[0] for case in own} == {
        "drw-features",
        "heterpoisson-node",
        "ndp-features",
        "ndp-node",
    }
    assert [case.name for case in sound if isinstance(case, Lifetime)] == ["stream-edge"]


def test_a_case_that_is_not_decided_as_expected_fails_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    (known,) = (each for each in court.cases() if each.name == "rate-times-epsilon")
    monkeypatch.setattr(court, "cases", lambda: [replace(known, expected="consistent")])
    done = CliRunner().invoke(app, ["court", "--quick"])
    assert done.exit_code == 1
    assert "NOT decided as expected: rate-times-epsilon" in " ".join(done.output.split())


def test_the_command_writes_both_files(tmp_path: Path) -> None:
    page, data = tmp_path / "court.html", tmp_path / "court.json"
    done = CliRunner().invoke(
        app, ["court", "--quick", "--only", "private-batch-size", "--html", str(page), "--json", str(data)]
    )
    assert done.exit_code == 0, done.output
    assert "private-batch-size" in page.read_text()
    assert kept_files.read(data).content["rulings"][0]["name"] == "private-batch-size"


@pytest.mark.parametrize(("given", "said"), [({"only": "nobody"}, "no case is called"), ({"seed": -1}, "a seed must")])
def test_what_cannot_be_heard_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(gv.InvalidInput, match=said):
        court.hold(**given)
