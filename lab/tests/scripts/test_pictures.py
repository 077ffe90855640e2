"""The pictures of README and docs are what the kept results say, and stand alone."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

import pictures

REPOSITORY = Path(__file__).parents[3]


def test_the_picture_is_current() -> None:
    """`python lab/benchmarks/pictures.py` draws it anew."""
    assert pictures.PICTURE.read_text(encoding="utf-8") == pictures.drawn(REPOSITORY), "it is behind the results"


@pytest.mark.parametrize("name", ["accuracy", "path"])
def test_pictures_stand_alone_and_have_words(name: str) -> None:
    root = ElementTree.parse(REPOSITORY / "docs" / "assets" / f"{name}.svg").getroot()
    links = [value for item in root.iter() for name, value in item.items() if name.endswith("href")]
    assert all(link.startswith("#") for link in links)
    assert (root.findtext("{http://www.w3.org/2000/svg}title") or "").strip()


def test_every_unit_has_a_panel_with_curves() -> None:
    drawn = pictures.PICTURE.read_text(encoding="utf-8")
    for unit in ("edge", "node", "features", "label"):
        assert f"protects: {unit}<" in drawn
    assert "<title>hearsay\nε 1: " in drawn
