"""The pages say what the records and certificates say, refuse what they cannot read, and need nothing from outside."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphveil.cli import app
from graphveil.errors import InvalidInput
from graphveil_lab.bench.kept import half_width
from graphveil_lab.report.measured import rows
from graphveil_lab.report.page import report
from graphveil_lab.report.records import read
from reported import COURT, NODES, edge_attacks, kept, row, write

REPOSITORY = Path(__file__).parents[3]


class Outside(HTMLParser):
    """Collects everything a browser would fetch, and counts scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        links = [value for name, value in attrs if name in ("src", "href") and value and not value.startswith("#")]
        self.found += [f"{tag}: {link}" for link in links]
        self.scripts += tag == "script"


def outside(page: str) -> Outside:
    parser = Outside()
    parser.feed(page)
    return parser


def test_report_of_every_kept_result_is_deterministic_and_whole() -> None:
    files = sorted((REPOSITORY / "lab" / "results").glob("*.json"))
    page = report(read([REPOSITORY / "lab" / "results"]))
    assert page == report(read([REPOSITORY / "lab" / "results"]))
    assert outside(page).found == []
    for file in files:
        assert file.stem in page or file.stem == "court", file
    assert "caribou-theorem-5" in page
    assert len(page.encode()) < 2_000_000


def test_rows_beyond_some_are_packed_and_none_is_lost(tmp_path: Path) -> None:
    lines = [row(method=f"gap </script> {index % 3}", epsilon=1.0, test=index / 1000) for index in range(900)]
    held = rows(read([write(tmp_path / "kept.json", lines)]).tables)
    assert held.packed is not None
    assert "</script" not in held.packed
    columns = json.loads(held.packed)
    runs = [[run.partition("x") for run in one["used"].split(" ")] for one in columns]
    unpacked = [
        [one["words"][int(place)][0] for place, _, times in each for _ in range(int(times or 1))]
        for one, each in zip(columns, runs, strict=True)
    ]
    texts = [[cell.text for cell in each] for each in held.written] + [
        list(each) for each in zip(*unpacked, strict=True)
    ]
    assert texts == [[cell.text for cell in each] for each in held.rows]
    assert len(held.written) < 900
    assert rows(read([write(tmp_path / "few.json", lines[:9])]).tables).packed is None


def test_a_source_is_told_once_for_figures_in_a_row(tmp_path: Path) -> None:
    sources = {1.0: "Table 9", 2.0: "Table 9", 4.0: "Figure 1"}
    lines = [row(epsilon=at, published=0.5, source=source) for at, source in sources.items()]
    page = report(read([write(tmp_path / "kept.json", lines)]))
    assert "<title>gap, published\nε 1: 50.0; ε 2: 50.0 (Table 9); ε 4: 50.0 (Figure 1)</title>" in page


def test_numbers_are_those_of_the_records(tmp_path: Path) -> None:
    rows = [
        row(method="gap", epsilon=1.0, test=0.5, std=0.1, seeds=5, published=0.61, source="Table 9"),
        row(method="gap", epsilon="inf", test=0.7, certificate_epsilon="inf", sound_epsilon="inf"),
        row(method="gap", epsilon=1.0, reading="published", test=0.52, sound_epsilon=1.465,
            audited=1.2345, audit="REFUTED: canary_edge, 1000 runs", soundness="not proven; provable: 1.465"),
    ]  # fmt: skip
    page = report(read([write(tmp_path / "kept.json", rows)]))
    assert "<title>gap\nε 1: 50.0; 70.0</title>" in page
    assert "± 12.4" in page  # t(4, 0.975) 0.1 / sqrt(5)
    assert "-11.00" in page
    assert "1.465" in page
    assert "1.234<" in page  # a lower bound is rounded down
    assert "canary_edge, 1000 runs" in page
    assert "gap, published claim" in page
    assert 'bad long">REFUTED: canary_edge' not in page  # short enough for one line
    assert '"bad">REFUTED: canary_edge' in page
    assert '"bad">not proven; provable: 1.465' in page
    assert "docs/methods/gap.md" in page
    assert "one undirected edge moves TWO rows" in page


@pytest.mark.parametrize(
    ("changes", "starred"),
    [
        ({}, True),
        ({"reading": "published", "sound_epsilon": "inf"}, False),
        ({"certificate_epsilon": "inf", "sound_epsilon": "inf"}, False),
        ({"audited": 1.5, "audit": "REFUTED: canary_edge"}, False),
        ({"selection": "tuned on validation, cost not charged"}, False),
        ({"selection": "charged"}, True),
    ],
    ids=["sound", "published", "unprotected", "refuted", "tuned", "charged"],
)
def test_stars_are_for_what_is_proven(tmp_path: Path, changes: dict[str, Any], starred: bool) -> None:
    rows = [row(method="other", test=0.5), row(method="best", test=0.6, **changes)]
    page = report(read([write(tmp_path / "kept.json", rows)]))
    starred_rows = [line for line in page.splitlines() if "★" in line]
    assert len(starred_rows) == 1
    assert ('<th scope="row">best' in starred_rows[0]) is starred


def test_what_failed_is_shown(tmp_path: Path) -> None:
    rows = [row(test=None, std=None, seeds=0, failed=5, failure="Unsupported: too large",
                certificate_epsilon=None, sound_epsilon=None)]  # fmt: skip
    page = report(read([write(tmp_path / "kept.json", rows)]))
    assert "No run gave a score" in page
    assert '<td class="bad">failed' in page
    assert "5: Unsupported: too large" in page


def test_the_page_says_what_its_numbers_are_worth(tmp_path: Path) -> None:
    page = report(read([write(tmp_path / "kept.json", [row(audited=0.5, audit="canary_edge")])]))
    for said in ("Student's 95 %", "on small graphs", "99 %", "where a graph is private, this page is too"):
        assert said in page


def test_interval_of_the_records_comes_first(tmp_path: Path) -> None:
    page = report(read([write(tmp_path / "kept.json", [row(interval=0.033)])]))
    assert "± 3.3" in page
    assert half_width(None, 5) is None
    assert half_width(0.1, 1) is None
    assert half_width(0.1, 2) == pytest.approx(12.706 * 0.1 / math.sqrt(2), rel=1e-4)


def test_attacks_and_court_are_recognised_by_content(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "one.json", edge_attacks()),
        write(tmp_path / "two.json", NODES),
        write(tmp_path / "three.json", COURT),
        write(tmp_path / "four.json", {"jobs": 2, "seconds": {"gap": 1.5}}),
    ]
    records = read(files)
    assert list(records.attacks) == ["one", "two"]
    assert list(records.courts) == ["three"]
    assert list(records.plain) == ["four"]
    [gmia] = [item for item in records.attacks["two"] if item.attack == "gmia"]
    assert (gmia.seeds, gmia.auc, gmia.epsilon) == (2, pytest.approx(0.6), 4.0)
    page = report(records)
    for said in ("0.812", "features alone", "case-one", "seconds gap", "turns the guess round", "near 50"):
        assert said in page


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "unknown kind"),
        ("[]", "unknown kind"),
        (kept([{"method": "gap", "reading": "sound"}]), "damaged"),
        (kept([{"attacks": {}}, {"x": 1}]), "entry 1 lacks"),
        ('[{"x": NaN}]', "not JSON"),
        (kept({"rulings": [{"name": "a"}]}), "damaged"),
        (kept([{"attacks": {"lpa": {}}, "seeds": 1}]), "damaged"),
        ('{"task": {}, "schema_version": 1}', "--spec"),
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        (kept([row()]).replace("0.55", "1e999"), "damaged at 0.test"),
        (kept([row(test=55.0)]), "damaged at 0.test"),
        (kept(edge_attacks()).replace("0.812", '"nan"'), "no fraction"),
    ],
    ids=[
        "cut",
        "numbers",
        "empty",
        "row",
        "mixed",
        "nan",
        "court",
        "attack",
        "record",
        "nothing",
        "deep",
        "infinite",
        "percent",
        "rate",
    ],
)
def test_what_cannot_be_shown_is_named_before_anything_is_written(tmp_path: Path, content: str, said: str) -> None:
    good, bad, page = write(tmp_path / "good.json", [row()]), tmp_path / "bad.json", tmp_path / "page.html"
    bad.write_text(content)
    result = CliRunner().invoke(app, ["report", str(good), str(bad), "-o", str(page)])
    assert isinstance(result.exception, InvalidInput)
    assert "bad.json" in str(result.exception)
    assert said in str(result.exception)
    assert not page.exists()


def test_a_page_overwrites_no_results_and_leaves_no_folders(tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", [row()])
    page, missing, deep = tmp_path / "x.html", tmp_path / "no.json", tmp_path / "new" / "x.html"
    for words, said in (
        ([good, "-o", good], "must end in .html"),
        ([missing, "-o", deep], "cannot be read"),
        ([good, "--spec", "smoke", "-o", page], "folder of records"),
        ([good, good, "-o", page], "named twice"),
    ):
        result = CliRunner().invoke(app, ["report", *map(str, words)])
        assert isinstance(result.exception, InvalidInput)
        assert said in str(result.exception)
    assert list(tmp_path.iterdir()) == [good]
    assert good.read_text() == kept([row()])


def test_missing_files_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"nothing\.json cannot be read"):
        read([tmp_path / "nothing.json"])
    with pytest.raises(InvalidInput, match=r"holds no \.json file"):
        read([tmp_path])
    with pytest.raises(InvalidInput, match="holds no record of the experiment floor"):
        read([tmp_path], spec="floor")


def test_files_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = write(tmp_path / "a" / "x.json", [row()]), write(tmp_path / "b" / "x.json", [row()])
    assert list(read([one, two]).tables) == ["x", str(two)]


def test_records_of_a_bench_run(tmp_path: Path) -> None:
    spec = tmp_path / "tiny.toml"
    spec.write_text(
        'title = "Tiny"\ndatasets = ["chain-s"]\nsplit = "random"\nunit = "edge"\ndelta = 1e-5\nepsilons = [1]\n'
        'seeds = [0]\n[[method]]\nname = "mlp"\nparams = { epochs = 1 }\n'
    )
    out, page = tmp_path / "records", tmp_path / "page.html"
    for words in (["bench", "run", str(spec), "--out", str(out), "--quiet"],
                  ["report", str(out), "--spec", str(spec), "-o", str(page)]):  # fmt: skip
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, (result.output, result.exception)
    assert "Tiny" in page.read_text()


def test_hostile_text_is_text(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    rows = [row(method=evil, dataset=evil, source=evil, failure=evil, failed=1, soundness=evil, published=0.5)]
    page = report(read([write(tmp_path / "kept.json", rows), write(tmp_path / "plain.json", [{evil: evil}])]))
    assert evil not in page
    assert "<img" not in page
    assert outside(page).scripts == 2
    assert json.dumps(evil) not in page
