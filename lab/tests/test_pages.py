"""What the laboratory fills in pages is what it has kept, and what pages show of it works."""

from __future__ import annotations

import inspect
import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest

import contribute
import edge_attacks
import method_tables
import node_attacks
import privgnn_programmed
from docstrings import public_parts, reference, resolve
from graphveil_lab import kept_files
from graphveil_lab.bench.revisions import made_by
from graphveil_lab.bench.spec import Spec
from reported import write

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
RESULTS = REPOSITORY / "lab" / "results"
PAGES = [*(REPOSITORY / f"{name}.md" for name in ("README", "CONTRIBUTING")), *sorted(DOCS.rglob("*.md"))]
FILLED = re.compile(r"<!-- (?P<end>/?)(?:results|methods|edge-attacks|node-attacks|privgnn-programmed)\b")
"""Blocks that scripts fill."""


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


def unfenced(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)


def read(name: str) -> Any:
    """The content of a kept file."""
    return kept_files.read(RESULTS / name).content


def test_experiments_in_the_docs_can_be_run() -> None:
    shown = [text for page in PAGES for text in re.findall(r"^```toml\n(.*?)^```", page.read_text(), re.S | re.M)]
    assert shown
    for text in shown:
        assert Spec.model_validate(tomllib.loads(text)).tasks()


def test_index_and_navigation_follow_from_the_pages_of_methods() -> None:
    for file, text in contribute.made(REPOSITORY).items():
        assert file.read_text() == text, f"{name_of(file)}: run make contribute"


@pytest.mark.parametrize("page", list(method_tables.pages()), ids=name_of)
def test_measured_tables_are_the_kept_results(page: Path) -> None:
    text = page.read_text()
    assert method_tables.filled(text, RESULTS) == text, "run make contribute"


def made_by_scripts(page: Path) -> dict[str, dict[str, str]]:
    """What scripts make of the kept results for the blocks of a page, by script and table."""
    if page.name == "attacks.md":
        order = [cell.key for cell in edge_attacks.cells(edge_attacks.DATASETS, edge_attacks.SEEDS, quick=False)]
        runs = sorted(read("edge-attacks.json"), key=lambda run: order.index(edge_attacks.key_of(run)))
        edges = edge_attacks.tables(edge_attacks.summary(runs))
        return {"edge-attacks": edges, "node-attacks": node_attacks.tables(read("node-attacks.json"))}
    if page.name == "privgnn.md":
        runs, audits = read("privgnn-programmed.json"), read("privgnn-audit.json")
        made = {"accuracy": privgnn_programmed.accuracy_table(runs), "reach": privgnn_programmed.reach_table(runs)}
        return {"privgnn-programmed": {**made, "audit": privgnn_programmed.audit_table(audits)}}
    return {}


@pytest.mark.parametrize("page", [DOCS / "attacks.md", DOCS / "methods" / "privgnn.md"], ids=name_of)
def test_blocks_that_scripts_fill_are_the_kept_results(page: Path, tmp_path: Path) -> None:
    again = shutil.copy(page, tmp_path)
    for script, tables in made_by_scripts(page).items():
        edge_attacks.fill(Path(again), script, tables)
    assert Path(again).read_text() == page.read_text(), "run the script with --page"


def blocks_that_are_filled(page: Path) -> set[str]:
    """The first lines of the blocks that something fills."""
    text = unfenced(page)
    found = [block for block in method_tables.BLOCK.finditer(text) if (RESULTS / f"{block['name']}.json").exists()]
    marks = {f"{script}: {table}" for script, tables in made_by_scripts(page).items() for table in tables}
    opened = {block[1].strip() for block in (*found, *contribute.FAMILY.finditer(text))}
    return opened | {f"<!-- {mark} -->" for mark in marks}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_that_says_so_is_filled(page: Path) -> None:
    """Where a mark has a wrong letter nothing fills the block, and no number in it is looked up."""
    marks = [line for line in unfenced(page).splitlines() if (mark := FILLED.match(line)) and not mark["end"]]
    assert not set(marks) - blocks_that_are_filled(page)


def test_a_table_is_filled_from_results_and_stays_as_it_is(tmp_path: Path) -> None:
    made = {"made_by": made_by("gap"), "selection": "fixed"}
    row = {"dataset": "a", "unit": "edge", "reading": "sound", "epsilon": 1.0, "delta": 1e-5, **made}
    spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "params": {}, "tuned": {}}
    rest = {"published": None, "source": "", "failed": 0, "failure": ""}
    known = {"seeds": 5, "test": 0.5, "std": 0.01 * 5**0.5, **spent, **rest}
    other = {**row, **known, "epsilon": "inf", "test": None, "std": None}
    rows = [{**row, **known, "method": "gap"}, {**other, "method": "mlp"}, {**row, **known, "method": "gapless"}]
    write(tmp_path / "some.json", rows)
    page = "above\n<!-- lab/results/some.json: gap + mlp -->\nold\n<!-- /results -->\nbelow\n"
    filled = method_tables.filled(page, tmp_path)
    assert "| a | gap | 50.0 ± 2.8 |  |\n| a | mlp |  | failed |" in filled
    assert "gapless" not in filled
    assert "old" not in filled
    assert filled.startswith("above\n")
    assert method_tables.filled(filled, tmp_path) == filled
    absent = page.replace("some", "absent")
    assert method_tables.filled(absent, tmp_path) == absent


def test_the_best_methods_are_ranked_by_proven_lines_of_all_graphs(tmp_path: Path) -> None:
    def row(method: str, test: float, **given: Any) -> dict[str, Any]:
        place = {"dataset": "a", "unit": "edge", "split": "random", "reading": "sound", "epsilon": 1.0, "delta": 1e-5}
        spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "params": {}, "tuned": {}, "selection": "fixed"}
        rest = {"published": None, "source": "", "failed": 0, "failure": "", "seeds": 1, "std": None}
        rest["made_by"] = made_by("gap")
        return {**place, **spent, **rest, "method": method, "test": test, **given}

    rows = [
        *(row("gap", 0.5), row("gap two hops", 0.6), row("progap", 0.4), row("lpgnet", 0.3)),
        *(row("boast", 0.9, reading="published"), row("half", 0.8, dataset="c"), row("other", 0.7, epsilon=2.0)),
        row("mlp", 0.95, certificate_epsilon=0.0, sound_epsilon=0.0),
    ]
    both = [{**each, "dataset": name} for each in rows for name in ("a", "b") if each["dataset"] == "a"]
    write(tmp_path / "some.json", [*both, row("half", 0.8)])
    page = "<!-- lab/results/some.json: best 2 at epsilon 1 on b, a -->\n<!-- /results -->"
    made = method_tables.filled(page, tmp_path).splitlines()
    assert made[2:-2] == [
        "| unit | method | b | a |",
        "| --- | --- | --- | --- |",
        "| edge | gap two hops | 60.0 | 60.0 |",
        "| edge | progap | 40.0 | 40.0 |",
        "| edge | mlp, ε = 0 | 95.0 | 95.0 |",
    ]


def test_lines_stand_beside_each_other_and_measurements_in_columns(tmp_path: Path) -> None:
    place = {"unit": "edge", "reading": "sound", "delta": 1e-5, "selection": "fixed", "params": {}, "tuned": {}}
    spent = {"certificate_epsilon": 1.0, "sound_epsilon": 1.0, "seeds": 1, "std": None}
    rest = {**place, **spent, "published": None, "source": "", "failed": 0, "failure": ""}
    rest["made_by"] = made_by("gap")
    rows = [
        {**rest, "method": method, "dataset": dataset, "epsilon": epsilon, "test": test}
        for method, dataset, epsilon, test in (("b, own", "x", 4.0, 0.5), ("a", "y", 4.0, 0.25), ("a", "x", 2.0, 0.1))
    ]
    write(tmp_path / "some.json", rows)
    write(tmp_path / "took.json", [{"own": 1.23456, "own / loop": 20.0, "hidden": 3}])
    page = "<!-- lab/results/some.json: all at epsilon 4 on x, y -->\n<!-- /results -->"
    made = method_tables.filled(page, tmp_path)
    assert "| unit | method | x | y |" in made
    assert "| edge | b, own | 50.0 |  |\n| edge | a |  | 25.0 |" in made
    page = "<!-- lab/results/took.json: columns own, own / loop -->\n<!-- /results -->"
    assert "| own | own / loop |\n| --- | --- |\n| 1.23 | 20 |" in method_tables.filled(page, tmp_path)


def test_what_a_court_notices_is_counted_by_plan() -> None:
    def row(case: str, plan: str, certified: float) -> dict[str, Any]:
        said = {"claimed": 1.0, "certified": certified, "auc": 0.9, "caught": certified > 1}
        return {"case": case, "plan": plan, **said}

    rows = [row("gap-edge", "gap-edge", 0.5), row("gap-edge-2", "gap-edge", 1.5), row("gap-edge-3", "gap-edge-3", 0.25)]
    made = method_tables.power([*rows, row("ndp-node", "ndp-node", 2.0)])
    assert made.startswith("2 of 3 plans are caught.")
    assert "| `gap-edge` | 1 of 2 | `gap-edge-3`: 0.250 of 1.000, AUC 0.90 |\n| `ndp-node` | 1 of 1 |  |" in made


@pytest.mark.parametrize("name", [name for name in reference(DOCS / "api") if name.startswith("graphveil_lab")])
def test_every_public_name_has_a_docstring(name: str) -> None:
    assert inspect.getdoc(resolve(name))
    assert not [part for part, item in public_parts(name) if not inspect.getdoc(item)]
