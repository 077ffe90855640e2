"""Every number with decimals that is typed in README and docs says where it comes from, and most are found there.

`<!-- numbers: SOURCES -->` on a line of its own holds until the next such mark or the next heading. Blocks that are
filled from results, and blocks of code, need none. Sources, separated by semicolons:

- `results/edge.json`: a kept result has the number, as it is, in per cent or as a mean over seeds, and what follows
  a plus-minus sign is one of its spreads. `results/edge.json: cora + gap + epsilon 4` names the entries that count;
  in a table words in the row and at the head of the column narrow them further.
- `tests/golden/test_teacher.py`, or another file of tests, benchmarks or experiments: the number stands in it.
- `given 0.1 85.1-77.9=7.2`: settings and figures of papers, named one by one, and differences of numbers that the
  other sources have.
- `formula`: settings, examples and arithmetic that a reader can redo. Nothing that was measured. Not compared.
- `once: COMMAND`: measured once and not kept, which the text says, as speeds of some machine are. The command, which
  stands there too, measures it again. Not compared.

`formula 0.5 1.4` and `once 0.9: COMMAND` are sources of these numbers alone; beside another source they name them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from typer.main import get_command

from graphveil.cli import app
from kept_numbers import FILLED, begins, decimals, forms, printed, printed_spreads, read, told, vocabulary

REPOSITORY = Path(__file__).parents[1]
ELSEWHERE = {"tables.md"}
"""Pages whose rows `test_docs.py` compares with the kept files that each row names."""
PAGES = [
    REPOSITORY / "README.md",
    *(page for page in sorted((REPOSITORY / "docs").rglob("*.md")) if page.name not in ELSEWHERE),
]
SAID = re.compile(r"measured once|not kept", re.IGNORECASE)
"""What a reader must see where a number is `once`."""


@dataclass(frozen=True)
class Section:
    """What follows a mark or a heading: the sources of the mark, and the lines that are typed, with their numbers."""

    sources: tuple[str, ...]
    lines: list[tuple[int, str]]

    def numbers(self) -> list[str]:
        return [number for _, line in self.lines for number in decimals(line)]

    def told(self) -> Iterator[tuple[int, str, bool, str]]:
        """Every number with its line, whether it is a spread, and what narrows its source: in a table, row and head."""
        head: list[str] = []
        for place, line in self.lines:
            cells = line.split("|") if line.startswith("|") else [line]
            head = headed(cells) if len(cells) > 1 and len(head) != len(cells) else head if len(cells) > 1 else []
            for column, cell in enumerate(cells):
                words = f"{line}{head[1]} {cells[1].strip()}|{head[column]}|" if head else ""
                yield from ((place, number, spread, words) for number, spread in told(cell))


def headed(cells: list[str]) -> list[str]:
    """Heads of columns in full: `4` after `epsilon 2` is epsilon 4, `measured` after `gap: advice` is of gap."""
    full: list[str] = []
    for cell in map(str.strip, cells):
        before, _, other = full[-1].partition(":") if full else ("", "", "")
        if re.fullmatch(r"[\d.]+", cell) and before.startswith("epsilon"):
            cell = f"epsilon {cell}"
        elif other and ":" not in cell:
            cell = f"{before}: {cell}"
        full.append(cell)
    return full


def sections(page: Path) -> Iterator[Section]:
    section, fenced, filled = Section((), []), False, False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        mark = re.fullmatch(r"<!-- numbers: (.+) -->", line)
        if re.match(r" *```", line):
            fenced = not fenced
        elif fenced:
            continue
        elif mark or line.startswith("#"):
            yield section
            section = Section(tuple(mark[1].split("; ")) if mark else (), [])
        elif block := FILLED.match(line):
            filled = not block["end"]
        elif not filled and not line.startswith("    "):
            section.lines.append((number, line))
    yield section


@cache
def standing(file: str) -> frozenset[str]:
    """All numbers with decimals of a file, also rounded and in per cent."""
    return forms(map(float, re.findall(r"(?<![\w.])\d*\.\d+", (REPOSITORY / file).read_text(encoding="utf-8"))))


def words_of(name: str) -> set[str]:
    return {label for labels in vocabulary(name).values() for label in labels}


def has(source: str, number: str, spread: bool = False, line: str = "") -> bool:
    """Whether a single source has a number that stands in a line, or in a row under the head of its column."""
    (kind, *named), chosen = source.partition(": ")[0].split(), source.partition(": ")[2]
    if kind in ("formula", "once"):
        return not named or number in named
    if kind == "given":
        return number in {term.partition("=")[2] or term for term in named}
    if not kind.startswith("results/"):
        return number in standing(kind)
    name, words = kind.removeprefix("results/"), set(filter(None, chosen.split(" + ")))
    if line.startswith("|"):
        row = {part.strip(" *`").lower() for part in [*line.split("|"), *re.split("[|:,]", line)]} & words_of(name)
        said = [label for known in vocabulary(name).values() if row & known for label in known]
        words = row | {word for word in words if not any(begins(word, label) for label in said)}
    return number in (printed_spreads if spread else printed)(name, frozenset(words))


def name_of(page: Path) -> str:
    return page.relative_to(REPOSITORY).as_posix()


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_typed_number_is_in_its_source(page: Path) -> None:
    wrong = [
        f"{name_of(page)}:{place}: {number} {'is not in ' if section.sources else 'has no source'}"
        + "; ".join(section.sources)
        for section in sections(page)
        for place, number, spread, words in section.told()
        if not any(has(source, number, spread, words) for source in section.sources)
    ]
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_sources_exist_and_say_what_they_must(page: Path) -> None:
    for section in sections(page):
        assert section.numbers() or not section.sources, f"no number under {section.sources}"
        for source in section.sources:
            (kind, *named), chosen = source.partition(": ")[0].split(), source.partition(": ")[2]
            missing = [term for term in named if (term.partition("=")[2] or term) not in section.numbers()]
            assert not missing, f"{source}: {missing} is not there"
            assert named or kind not in ("formula", "once") or len(section.sources) == 1, f"{source}: name its numbers"
            if kind == "once":
                assert exists(chosen), f"{source}: no such script or command"
                assert chosen in " ".join(line for _, line in section.lines), f"{source}: the text must name it"
                assert SAID.search(" ".join(line for _, line in section.lines)), f"{source}: the text must say so"
            elif kind == "given":
                for term in filter(re.compile("=").search, named):
                    check_difference(term, section.sources)
            elif kind != "formula":
                assert (REPOSITORY / kind).is_file(), source
                for word in filter(None, chosen.split(" + ")):
                    known = words_of(kind.removeprefix("results/"))
                    assert any(begins(word, label) for label in known), f"{source}: no entry says {word!r}"


def exists(command: str) -> bool:
    """A script of benchmarks/, or a command of graphveil."""
    first, *rest = command.split()
    if first == "graphveil":
        return rest[0] in vars(get_command(app))["commands"]
    return first.startswith("benchmarks/") and (REPOSITORY / first).is_file()


def check_difference(term: str, sources: tuple[str, ...]) -> None:
    """`85.1-77.9=7.2`: both are known, and it is their difference but for one in the last digit."""
    parts, _, result = term.partition("=")
    more, less = parts.split("-")
    last = 10.0 ** -len(result.partition(".")[2])
    assert abs(float(more) - float(less) - float(result)) < 1.01 * last, term
    others = [source for source in sources if source != "formula" and not source.startswith("once")]
    for number in (more, less):
        assert any(has(source, number) for source in others), f"{term}: {number} is in no source"


def test_heads_of_columns_stand_for_those_after_them() -> None:
    whole = ["", "epsilon 2", "epsilon 4", "gap: advice", "gap: measured", "ndp: x"]
    assert headed(["", " epsilon 2 ", " 4 ", " gap: advice ", " measured ", " ndp: x "]) == whole
    section = Section((), [(1, "| epsilon | gap: advice | measured |"), (2, "|---|---|---|"), (3, "| 2 | a | 0.5 |")])
    [(_, number, _, words)] = section.told()
    source = "results/selection.json: gap + dpsgd"
    assert (number, "|epsilon 2|gap: measured|" in words) == ("0.5", True)
    [kept] = [
        f"{100 * row['test']:.1f}" for row in read("selection.json") if row["method"] == "gap" and row["epsilon"] == 2
    ]
    assert has(source, kept, line=words)
    assert not has(source, kept, line=words.replace("gap: measured", "dpsgd: measured"))
    assert not has(source, kept, line=words.replace("epsilon 2", "epsilon 8").replace("| 2 |", "| 8 |"))


def test_what_looks_up_nothing_stands_alone_or_names_its_numbers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- numbers: formula; results/selection.json -->\n\n0.3\n")
    with pytest.raises(AssertionError, match="name its numbers"):
        test_sources_exist_and_say_what_they_must(page)
    page.write_text("<!-- numbers: formula 0.3; results/selection.json -->\n\n0.3\n")
    test_sources_exist_and_say_what_they_must(page)


def test_what_is_wrong_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A\n\n0.1 `0.2` Python 3.11\n\n<!-- numbers: formula; given 0.4 -->\n\n0.3\n\n## B\n\n0.4 ± 0.5.\n\n"
        "<!-- results/edge.json: gap -->\n0.6\n<!-- /results -->\n0.7\n"
    )
    found = [(section.sources, section.numbers()) for section in sections(page) if section.numbers()]
    assert found == [((), ["0.1"]), (("formula", "given 0.4"), ["0.3"]), ((), ["0.4", "0.5", "0.7"])]
    assert list(told("0.4 ± 0.5.")) == [("0.4", False), ("0.5", True)]
    assert list(told("9.9x, 7.5s, version 0.6.0")) == [("9.9", False), ("7.5", False)]
    rows = [row for row in read("selection.json") if row["method"] == "gap" and row["epsilon"] == 2]
    [score], source = {f"{100 * row['test']:.2f}" for row in rows}, "results/selection.json: gap + epsilon 2"
    assert has(source, score)
    assert not has(source, score, spread=True)
    assert not has(source, f"{float(score) + 0.01:.2f}")
    assert not has("results/selection.json: dpsgd", score)
    assert not exists("graphveil nothing")
    assert not exists("benchmarks/nothing.py")
    with pytest.raises(AssertionError):
        check_difference("0.5-0.3=0.4", ("given 0.5 0.3",))
