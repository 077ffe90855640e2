"""The list of planted mistakes does not go stale: every text is found once, and every test that must see one exists."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from graphveil import discover
from mutants import ENOUGH, ROOT, Mutant, listed, planted, run, verdict

MUTANTS = listed()
HOMES = (
    "mechanisms/",
    "methods/",
    "sampling/",
    "nn/",
    "privacy/session.py",
    "evidence/bounds.py",
    "privacy/noise.py",
    "graph/sealing.py",
)


def test_the_list_is_long_and_covers_what_protects() -> None:
    assert len(MUTANTS) >= 120
    assert not [name for name, times in Counter(one.name for one in MUTANTS).items() if times > 1]
    for home in HOMES:
        assert sum(one.file.startswith(home) for one in MUTANTS) >= 4, home
    named = {one.file for one in MUTANTS}
    for kind in discover.mechanisms().values():
        home = f"mechanisms/{kind.__module__.rpartition('.')[2]}.py"
        assert home in named, f"plant a mistake in {home}"


@pytest.mark.parametrize("file", sorted({one.file for one in MUTANTS}))
def test_every_old_text_stands_once_in_its_file(file: str) -> None:
    text = (ROOT / "src" / "graphveil" / file).read_text(encoding="utf-8")
    for one in MUTANTS:
        if one.file == file:
            compile(one.applied(text), file, "exec")


def test_every_named_test_exists() -> None:
    for one in MUTANTS:
        assert one.tests, one.name
        for test in one.tests:
            file, *places = test.split("::")
            text = (ROOT / "tests" / file).read_text(encoding="utf-8")
            for place in places:
                assert f"def {place}(" in text or f"class {place}:" in text, f"{one.name}: {test}"
            for word in re.findall(r"\w+", one.only):
                known = word in {"and", "or", "not"} or word in discover.methods() or word in text
                assert known, f"{one.name}: no {word} in {test}"


def test_few_are_excused() -> None:
    assert sum(bool(one.harmless) for one in MUTANTS) <= (1 - ENOUGH) * len(MUTANTS)


def test_a_mutant_is_planted_in_a_copy_and_leaves_no_trace(tmp_path: Path) -> None:
    one = Mutant("less", "thing.py", "noise = 1.0", "noise = 0.97", ())
    path = tmp_path / one.source
    path.parent.mkdir()
    path.write_text("noise = 1.0\n")
    before = path.stat().st_mtime_ns
    with planted(one, tmp_path):
        assert path.read_text() == "noise = 0.97\n"
    assert path.read_text() == "noise = 1.0\n"
    assert path.stat().st_mtime_ns == before
    for text in ("noise = 2.0", "noise = 1.0; noise = 1.0"):
        with pytest.raises(ValueError, match="not once"):
            one.applied(text)


def test_outcomes_are_kept_and_judged(tmp_path: Path) -> None:
    mutants = MUTANTS[:20]
    kept = {one.name: {"digest": one.digest(), "found": "killed", "told": ""} for one in mutants}
    out = tmp_path / "mutants.json"
    run(mutants, kept, out, jobs=1, limit=1.0)
    assert not out.exists(), "nothing is run again"
    assert verdict(mutants, kept)[1]
    kept[mutants[0].name]["found"] = "survived"
    told, enough = verdict(mutants, json.loads(json.dumps(kept)))
    assert not enough, "a survivor must be explained"
    assert mutants[0].name in told
    excused = [replace(mutants[0], harmless="it only makes the noise larger"), *mutants[1:]]
    assert verdict(excused, kept)[1]
    kept[mutants[0].name]["found"] = "killed"
    assert not verdict(excused, kept)[1], "what is killed is not harmless"
