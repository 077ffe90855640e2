"""Rewrite what follows from the parts that are there: `make contribute`, or `python lab/benchmarks/contribute.py`.

A method is one file in src/graphveil/methods/ and one page in docs/methods/, whose table "in short" says what it is and
to which family it belongs. From these follow the rows of docs/methods/index.md (between `<!-- methods: FAMILY -->` and
`<!-- /methods -->`) and the navigation of mkdocs.yml. The measured tables are filled (method_tables.py) and pictures
drawn (pictures.py). The court hears a new method when it sits next.

It is no module of the package: it writes files of the checkout, which an installed package does not have.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import method_tables
import pictures
from graphveil.methods.method import METHODS
from graphveil_lab.bench.table import lined

REPOSITORY = Path(__file__).resolve().parents[2]
COLUMNS = ("unit", "what it is", "needs", "claim", "published proof")
"""What a page says in short beside its family: the columns of the index."""

_CARD = re.compile(r"^\| in short \| \|\n\|---\|---\|\n((?:\|.*\|\n)+)", re.MULTILINE)
_FACT = re.compile(r"^\| (.+?) \| (.+) \|$", re.MULTILINE)
FAMILY = re.compile(r"(<!-- methods: (?P<family>[^\n]+?) -->\n)(.*?)(<!-- /methods -->)", re.DOTALL)
_PAGES = re.compile(r"(?:^ +- methods/\w+\.md\n)+", re.MULTILINE)

Card = dict[str, str]


def card(name: str, page: str) -> Card:
    """What the page of a method says in short."""
    found = _CARD.search(page)
    said = dict(_FACT.findall(found[1])) if found else {}
    if set(said) != {"family", *COLUMNS}:
        rows = "".join(f"\n| {fact} | ... |" for fact in ("family", *COLUMNS))
        raise SystemExit(f"docs/methods/{name}.md needs this table, filled in:\n\n| in short | |\n|---|---|{rows}")
    return said


def cards(pages: Path) -> dict[str, Card]:
    """The cards of all methods, by name; each must have a page in the folder `pages`."""
    known = sorted(METHODS.ours())
    if missing := [name for name in known if not (pages / f"{name}.md").exists()]:
        raise SystemExit(f"write docs/methods/{missing[0]}.md: docs/extend.md says what a proof page needs")
    return {name: card(name, (pages / f"{name}.md").read_text(encoding="utf-8")) for name in known}


def families(index: str, known: dict[str, Card]) -> dict[str, list[str]]:
    """The names of each family's methods; families are the marks of the index, in its order."""
    found: dict[str, list[str]] = {block["family"]: [] for block in FAMILY.finditer(index)}
    for name, said in known.items():
        if said["family"] not in found:
            raise SystemExit(f"docs/methods/{name}.md: no family {said['family']!r}; there are: {', '.join(found)}")
        found[said["family"]].append(name)
    return found


def indexed(index: str, known: dict[str, Card]) -> str:
    """The index with a row for every method under its family."""
    members = families(index, known)

    def fill(block: re.Match[str]) -> str:
        head = ["method", *COLUMNS]
        body = [[f"[{name}]({name}.md)", *(known[name][fact] for fact in COLUMNS)] for name in members[block["family"]]]
        return f"{block[1]}\n{lined(head, body)}\n\n{block[4]}"

    return FAMILY.sub(fill, index)


def navigated(config: str, index: str, known: dict[str, Card], pages: Path) -> str:
    """mkdocs.yml with every page of the folder: the index, the methods by family, then the others."""
    methods = [name for mine in families(index, known).values() for name in mine]
    others = sorted(page.stem for page in pages.glob("*.md") if page.stem not in {"index", *methods})
    lines = "".join(f"      - methods/{name}.md\n" for name in ("index", *methods, *others))
    return _PAGES.sub(lines, config, count=1)


def made(root: Path) -> dict[Path, str]:
    """What the index and the navigation should say."""
    pages, config = root / "docs" / "methods", root / "mkdocs.yml"
    index = (pages / "index.md").read_text(encoding="utf-8")
    known = cards(pages)
    said = config.read_text(encoding="utf-8")
    return {pages / "index.md": indexed(index, known), config: navigated(said, index, known, pages)}


def main() -> None:
    """Rewrite what has changed and name it."""
    parser = argparse.ArgumentParser(description="Rewrite what follows from the parts that are there.")
    parser.parse_args()
    for file, text in made(REPOSITORY).items():
        if file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
            print(file.relative_to(REPOSITORY))
    method_tables.main()
    pictures.main()


if __name__ == "__main__":
    main()
