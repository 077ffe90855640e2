"""What made a result is known, and what another revision made is never shown or counted."""

from __future__ import annotations

import io
import json
import sys
import tokenize
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from neighbours import Sketch

import graphveil as gv
from graphveil import discover
from graphveil.bench import kept, revisions, runner, table
from graphveil.bench.record import result_of
from graphveil.bench.revisions import closure, code, made_by
from graphveil.bench.spec import Spec
from graphveil.core import Unit, Unsupported
from graphveil.methods.bases.method import Method
from graphveil.methods.best import Best
from graphveil.methods.dpsgd import DpSgd
from graphveil.release.serving import scoring_graph
from reported import row, write

SPEC = Spec.model_validate(
    {
        "title": "t", "datasets": ["chain-s"], "unit": "node", "delta": 1e-5, "epsilons": [2], "seeds": [0, 1],
        "method": [{"name": "dpsgd", "params": {"steps": 3}}],
    }
)  # fmt: skip


BESIDE = {
    # Checks, words, and plans as data.
    "graphveil", "graphveil.core", "graphveil.graph.tensors", "graphveil.discover",
    # Hands on and adds up what others computed.
    "graphveil.release.release", "graphveil.release.certificate", "graphveil.graph.lineage",
    # Where work runs, and what is said of it.
    "graphveil.runtime.compute", "graphveil.runtime.engine", "graphveil.runtime.distributed",
    "graphveil.runtime.progress",
    # Scores of a finished run.
    "graphveil.bench.record", "graphveil.bench.spec",
}  # fmt: skip
"""What runs and is no source of a method: no result depends on it."""


@pytest.fixture
def other_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the code of dpsgd gave other results than before."""
    held = revisions.known()
    raised = held | {"dpsgd": held["dpsgd"].model_copy(update={"revision": held["dpsgd"].revision + 1})}
    monkeypatch.setattr(revisions, "known", lambda: raised)
    revisions._made_by.cache_clear()
    yield
    revisions._made_by.cache_clear()


@pytest.mark.parametrize("name", sorted(discover.methods()))
def test_the_code_that_ships_is_the_code_that_was_confirmed(name: str) -> None:
    assert "+" not in made_by(name), f"the source of {name} changed: python benchmarks/confirm.py"


def test_every_revision_is_of_a_method() -> None:
    assert revisions.known().keys() == discover.methods().keys()


def test_the_source_of_a_method_is_what_its_result_depends_on() -> None:
    found = closure("graphveil.methods.hearsay")
    assert {"graphveil.mechanisms.tally", "graphveil.nn.folds", "graphveil.methods.parts.counts"} <= found
    assert not [name for name in found if name.startswith(("graphveil.cli", "graphveil.report", "graphveil.release"))]


def executed(work: Callable[[], object]) -> set[str]:
    """The modules of ours of which functions run."""
    found: set[str] = set()

    def note(frame: FrameType, *_: object) -> None:
        if frame.f_code.co_name != "<module>":  # an import runs these
            found.add(frame.f_globals.get("__name__", ""))

    before = sys.gettrace()
    sys.settrace(note)
    try:
        work()
    finally:
        sys.settrace(before)
    return {name for name in found if name.partition(".")[0] == "graphveil"}


def once(method: Method, unit: Unit, costed: bool) -> None:
    """What a task of an experiment does: train and predict. To cost it takes long for some methods."""
    sketch = Sketch.random(np.random.default_rng(0), undirected=True, nodes=12)
    graph = sketch.beside_public() if method.needs_public else sketch.graph()
    release = gv.train(graph, method, noise=1.0, delta=1e-5, unit=unit, seed=0)
    if costed:
        result_of(release, graph, {})
    else:
        release.predict_proba(scoring_graph(method, graph))


@pytest.fixture(scope="module")
def imported() -> None:
    """Other libraries are imported by a first run, which would take twice as long if it were watched."""
    once(gv.methods.LapGraph.specimens()[0], Unit.EDGE, costed=True)


@pytest.mark.usefixtures("imported")
@pytest.mark.parametrize("name", sorted(discover.methods()))
def test_what_runs_is_the_source(name: str) -> None:
    """Every specimen on a small graph; imports alone would not see a module that is reached in another way."""
    kind = discover.methods()[name]
    for place, method in enumerate(kind.specimens()):
        ran: set[str] = set()
        for unit in sorted(kind.units):
            with suppress(Unsupported):
                ran |= executed(partial(once, method, unit, costed=place == 0))
        assert kind.__module__ in ran
        parts = [part.partition(" ")[0] for part in made_by(name, method.describe()).split(", ")]
        told = closure(*(discover.methods()[part].__module__ for part in parts), *revisions._ALWAYS)
        assert {other for other in ran if other.startswith(revisions.COMPUTES)} <= told
        assert {other for other in ran if not other.startswith(revisions.COMPUTES)} <= BESIDE


def test_comments_and_docstrings_are_no_source(tmp_path: Path) -> None:
    plain, told, other = (tmp_path / f"{name}.py" for name in ("plain", "told", "other"))
    plain.write_text("def f(x):\n    return x + 1\n")
    told.write_text('"""A text."""\n# why\n\ndef f(x):\n    """More."""\n    return x + 1  # so\n')
    other.write_text("def f(x):\n    return x + 2\n")
    assert code(plain) == code(told) != code(other)


TRICKY = r"""
a = "# no" + r'\\'# yes
b = '''it's # no'''  # yes "and
c = ("x"  # yes
     "# no", f"{a!r}#no")
# yes
"""


def test_comments_are_where_the_tokenizer_finds_them(tmp_path: Path) -> None:
    tricky, plain = tmp_path / "tricky.py", tmp_path / "plain.py"
    tricky.write_text(TRICKY)
    for file in (tricky, *(Path(revisions.__file__).parents[1] / "methods").rglob("*.py")):
        lines = file.read_text(encoding="utf-8").split("\n")
        for token in tokenize.generate_tokens(io.StringIO("\n".join(lines)).readline):
            if token.type == tokenize.COMMENT:
                lines[token.start[0] - 1] = lines[token.start[0] - 1][: token.start[1]]
        plain.write_text("\n".join(lines), encoding="utf-8")
        revisions.forget()
        assert code(plain) == code(file), file


@pytest.mark.skipif(sys.version_info < (3, 12), reason="such texts are an error before Python 3.12")
def test_where_quotes_hide_comments_these_count(tmp_path: Path) -> None:
    file = tmp_path / "nested.py"
    file.write_text('a = f"{x["#"]}"\n# why\n')
    assert code(file) == 'a = f"{x["#"]}"\n# why'


def test_every_file_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, parse = [], revisions.ast.parse
    monkeypatch.setattr(revisions.ast, "parse", lambda text: parsed.append(text) or parse(text))
    revisions.forget()
    for name in ("gap", "hearsay", "gap"):
        revisions.source_of(name)
    assert len(closure("graphveil.methods.gap")) < len(parsed) == len(set(parsed))


def test_a_changed_source_has_another_name(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_by("gap")
    monkeypatch.setattr(revisions, "source_of", lambda _: "f" * 64)
    revisions._made_by.cache_clear()
    assert made_by("gap") == f"{before}+ffffffff"
    assert revisions.stale(before)
    revisions._made_by.cache_clear()


def test_records_of_another_revision_are_made_again(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    first = runner.run(SPEC, out=tmp_path)
    assert {record.made_by for record in first} == {made_by("dpsgd")}
    assert len(runner.finished(SPEC, out=tmp_path)) == 2
    request.getfixturevalue("other_revision")
    assert runner.finished(SPEC, out=tmp_path) == []
    again = runner.run(SPEC, out=tmp_path)
    assert {record.made_by for record in again} == {made_by("dpsgd")} != {record.made_by for record in first}


def test_records_of_other_data_are_made_again(tmp_path: Path) -> None:
    [record, _] = runner.run(SPEC, out=tmp_path)
    path = tmp_path / f"{record.task.key()}.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"data": "0" * 64}))
    assert len(runner.finished(SPEC, out=tmp_path)) == 1
    assert {record.data for record in runner.run(SPEC, out=tmp_path)} == {record.data}


def test_a_choice_is_made_by_its_candidates_too() -> None:
    described = Best(candidates=(DpSgd(steps=3), DpSgd(steps=4))).describe()
    assert made_by("best", described) == f"{made_by('best')}, {made_by('dpsgd')}"
    described = {"candidates": [{"kind": "Gap"}, {"kind": "DpSgd"}]}
    assert made_by("best", described).split(", ") == [made_by(name) for name in ("best", "dpsgd", "gap")]


def test_what_was_edited_while_it_played_is_no_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    made, other = made_by("gap"), made_by("dpsgd")
    with monkeypatch.context() as late:
        late.setattr(revisions, "_STARTED", float("inf"))
        assert revisions.played_by(made) == revisions.played_by(made) != revisions.played_by(other)
    for module in ("evidence.game", "methods.gap"):
        file = revisions._ours(f"graphveil.{module}")
        assert file
        monkeypatch.setattr(revisions, "_STARTED", file.stat().st_mtime - 1)
        monkeypatch.setattr(
            revisions, "_ours", lambda name, only=file, one=module: only if name.endswith(one) else None
        )
        assert revisions.played_by(made) != revisions.played_by(made)
        monkeypatch.undo()
    assert revisions.played_by("renamed 3") == ""


def test_a_method_that_is_gone_is_stale() -> None:
    assert revisions.stale("renamed 3")


@pytest.mark.parametrize("changes", [{"made_by": ""}, {"made_by": "gap 0"}, {"made_by": "gap 1+00000000"}])
def test_stale_lines_show_no_score(changes: dict[str, Any], tmp_path: Path) -> None:
    [line] = kept.load(write(tmp_path / "t.json", [row(audited=0.5, audit="canary_edge", **changes)]))
    assert (line.test, line.std, line.audited, line.audit) == (None, None, None, "")
    assert line.failure.startswith("stale: ")
    assert "| gap |  | stale |" in table.board([tmp_path / "t.json"], 1.0)


def test_of_methods_of_others_nothing_is_known(tmp_path: Path) -> None:
    [line] = kept.load(write(tmp_path / "t.json", [row(made_by="theirs 0+12345678")]))
    assert line.test == 0.55
