"""The pictures of README and docs are what the kept results say, and stand alone."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pictures

REPOSITORY = Path(__file__).parents[3]


def test_pictures_are_current() -> None:
    """`python lab/benchmarks/pictures.py` draws them anew."""
    for file, text in pictures.made(REPOSITORY).items():
        assert file.read_text(encoding="utf-8") == text, f"{file.name} is behind the results"


def test_pictures_stand_alone_and_have_words() -> None:
    for file in pictures.made(REPOSITORY):
        root = ElementTree.parse(file).getroot()
        links = [value for item in root.iter() for name, value in item.items() if name.endswith("href")]
        assert all(link.startswith("#") for link in links)
        assert (root.findtext("{http://www.w3.org/2000/svg}title") or "").strip()


def test_every_unit_has_a_panel() -> None:
    drawn = (REPOSITORY / "docs" / "assets" / "accuracy.svg").read_text(encoding="utf-8")
    for unit in ("edge", "node", "features", "label"):
        assert f"protects: {unit}<" in drawn
    assert "data-line" in drawn
