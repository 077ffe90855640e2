"""Audits of a table: every claim once, kept, and beside the epsilon that it is about."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphveil.auditing.audit import judge
from graphveil.cli import app
from graphveil.data.sealing import Public
from graphveil.mechanisms.gaussian import Gaussian, GaussianCurve
from graphveil.methods import Gap
from graphveil.runtime.compute import Compute
from graphveil.vocabulary import Adjacency, Plan, Reading, Step
from graphveil_lab import kept_files
from graphveil_lab.bench import audits, runner, table
from graphveil_lab.bench.spec import Spec

GAP = {"name": "gap", "params": {"hidden": 4, "head": 4, "epochs": 2}}
RUNS = 60
MLP = {"name": "mlp", "params": {"hidden": 4, "epochs": 2}}


def make(*methods: dict[str, Any], **changes: Any) -> Spec:
    base = {"title": "t", "datasets": ["chain-s"], "unit": "edge", "delta": 1e-2, "epsilons": [8], "seeds": [0, 1]}
    return Spec.model_validate(base | changes | {"method": methods or (GAP,)})


def test_a_claim_is_attacked_once_for_all_its_lines() -> None:
    spec = make(GAP, MLP, datasets=["chain-s", "chain-m"], epsilons=[2, 8, "inf"])
    assert [(claim.method, claim.epsilon) for claim in audits.claims(spec)] == [
        ("gap", 2.0), ("gap", 8.0), ("mlp", 2.0), ("mlp", 8.0),
    ]  # fmt: skip


def test_lower_bounds_are_kept_and_stand_beside_the_claim(tmp_path: Path) -> None:
    spec = make(GAP, MLP, epsilons=[8])
    [told, silent] = audits.run(spec, out=tmp_path, runs=RUNS)
    found = told.found()
    assert found is not None
    assert 1 < found.lower < found.claimed <= 8
    assert silent.found() is None
    assert "nothing is released" in silent.failure
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "audits").iterdir()}
    again = audits.run(spec, out=tmp_path, runs=RUNS)
    assert again == [told, silent]
    name = f"{told.claim.key()}.json"
    assert (tmp_path / "audits" / name).stat().st_mtime_ns == before[name], "what was found is not attacked again"
    rows = table.summarise(spec, runner.run(spec, out=tmp_path, progress=False), audits.by_claim(again))
    assert [row.audited for row in rows] == [found.lower, None]
    assert rows[0].audit == f"the only edge of two nodes ({found.counts}, 60 runs, 99% confidence)"
    shown = f"> {math.floor(found.lower * 1e3) / 1e3:.3f}"
    assert shown in table.show(rows)


def test_bounds_are_put_beside_lines_that_were_kept_before(tmp_path: Path) -> None:
    spec, file = make(GAP, MLP, epsilons=[2, 8], seeds=[0]), tmp_path / "table.json"
    table.write(table.summarise(spec, runner.run(spec, out=tmp_path, progress=False)), file)
    made, before = (held := kept_files.read(file)).made, held.content
    before[0]["made_by"] = "gap 0"
    kept_files.write(file, before, "lines", by={"command": "earlier"})
    findings = audits.by_claim(audits.run(spec, out=tmp_path, runs=RUNS))
    table.write_findings(findings, file, spec)
    after = kept_files.read(file).content
    assert made["command"]
    assert kept_files.read(file).made == {"command": "earlier"}, "bounds do not change what made the scores"
    assert [line["audited"] is not None for line in after] == [False, True, False, False], "nothing beside a stale line"
    assert after[1]["audit"].endswith("60 runs, 99% confidence)")
    rest = [
        {key: value for key, value in line.items() if not key.startswith(("audit", "played"))}
        for line in (*before, *after)
    ]
    assert rest[: len(before)] == rest[len(before) :]


def test_workers_change_nothing_and_damage_is_noticed(tmp_path: Path) -> None:
    spec = make(epsilons=[4, 8])
    alone = audits.run(spec, out=tmp_path / "1", runs=RUNS)
    assert audits.run(spec, out=tmp_path / "2", compute=Compute(jobs=2), runs=RUNS) == alone
    path = tmp_path / "1" / "audits" / f"{alone[0].claim.key()}.json"
    whole = path.read_text()
    for damaged in ("1", '"much"', "null"):
        path.write_text(re.sub(r'"lower": [^,\n}]+', f'"lower": {damaged}', whole))
        assert audits.finished(spec, out=tmp_path / "1") == alone[1:]
    assert audits.run(spec, out=tmp_path / "1", runs=RUNS) == alone
    assert [audit.finding["runs"] for audit in audits.run(spec, out=tmp_path / "1", runs=62) if audit.finding] == [
        62
    ] * 2


def test_a_false_claim_shows_in_its_line(tmp_path: Path) -> None:
    spec = make(epsilons=[1], readings=["published"], delta=0.05)
    [audit] = audits.run(spec, out=tmp_path, runs=RUNS)
    assert audit.claim.reading.value == "published"
    [row] = table.summarise(spec, runner.run(spec, out=tmp_path, progress=False), audits.by_claim([audit]))
    assert row.soundness.startswith("not proven; provable: 1.")


def _cheap(self: Gap, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG001
    """A plan that charges a tenth of what an edge moves."""
    return Plan(adjacency, reading, (Step("hop", Gaussian(noise), GaussianCurve(0.1 / noise), self.hops, why="none"),))


def test_a_broken_method_is_called_so_in_every_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gap, "plan", _cheap)
    spec = make(epsilons=[1])
    found = audits.run(spec, out=tmp_path, runs=RUNS)
    assert found[0].row()["verdict"] == "refuted"
    rows = table.summarise(spec, runner.run(spec, out=tmp_path, progress=False), audits.by_claim(found))
    table.write(rows, tmp_path / "t.json")
    shown, board = table.show(rows), table.board([tmp_path / "t.json"], 1.0)
    assert f"> {found[0].row()['above']} REFUTED" in shown
    assert f"> {found[0].row()['above']} REFUTED |" in board
    assert "99% confidence on its own" in board, "many audits are shown: each may be wrong"
    (tmp_path / "t.toml").write_text(
        'title = "t"\ndatasets = ["chain-s"]\nunit = "edge"\ndelta = 1e-2\nepsilons = [1]\nseeds = [0, 1]\n'
        '[[method]]\nname = "gap"\nparams = {hidden = 4, head = 4, epochs = 2}\n'
    )
    words = ["bench", "audit", str(tmp_path / "t.toml"), "--out", str(tmp_path), "--runs", str(RUNS)]
    assert CliRunner().invoke(app, words).exit_code == 3, "as for `graphveil audit`"


def test_an_odd_number_of_runs_is_not_played_again(tmp_path: Path) -> None:
    spec = make()
    [first] = audits.run(spec, out=tmp_path, runs=RUNS + 1)
    [path] = (tmp_path / "audits").iterdir()
    written = path.stat().st_mtime_ns
    assert audits.run(spec, out=tmp_path, runs=RUNS + 1) == [first]
    assert path.stat().st_mtime_ns == written


def test_an_audit_that_breaks_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:

    def fails_at_four(claim: Any, *given: Any) -> Any:
        if claim.epsilon < 5:
            raise ZeroDivisionError("no luck")
        return judge(claim, *given)

    monkeypatch.setattr(audits, "judge", fails_at_four)
    broken, good = audits.run(make(epsilons=[4, 8]), out=tmp_path, runs=RUNS)
    assert (broken.finding, broken.failure) == (None, "ZeroDivisionError: no luck")
    assert good.found() is not None
