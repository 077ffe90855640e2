"""Finding datasets by name, and adding one by adding a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import get_args

import pytest

from graphveil.data import datasets
from graphveil.data.datasets.source import DRAWN, TWO_GRAPHS, SplitName, drawn
from graphveil.errors import InvalidInput


def test_no_name_is_lost() -> None:
    """A new file adds names; those that results and releases speak of stay."""
    assert set(datasets.names()) >= {
        *("social", "chain-s", "chain-m", "chain-l", "chain-x", "cora", "citeseer", "pubmed", "computers"),
        *("photo", "cs", "cora_ml", "dblp", "facebook", "twitch-de", "twitch-en", "twitch-es", "twitch-fr"),
        *(
            "twitch-pt",
            "twitch-ru",
            "chameleon",
            "chameleon-undirected",
            "rutgers89",
            "fb100-union",
            "german",
            "credit",
            "flickr-size",
            "unequal",
            "ten-features",
            "sixty-classes",
            "reciprocal",
            "thirty-thousand",
        ),
    }


def test_describe_has_one_full_row_each() -> None:
    rows = datasets.describe()
    assert [row["name"] for row in rows] == datasets.names()
    assert all(set(row) == {"name", "source", "nodes", "edges", "present", "splits"} for row in rows)
    assert all("random" in row["splits"] for row in rows)
    social = next(row for row in rows if row["name"] == "social")
    assert datasets.load("social").num_edges == social["edges"]


@pytest.mark.parametrize(("typo", "meant"), [("coar", "cora"), ("chain_s", "chain-s"), ("Twitch-UK", "twitch-ru")])
def test_a_typo_is_answered_with_close_names(typo: str, meant: str) -> None:
    with pytest.raises(InvalidInput, match=f"unknown dataset '{typo}'.*{meant}"):
        datasets.load(typo)


def test_an_unknown_split_lists_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match="use one of: random, per_class"):
        datasets.load("social", split="public")


def test_every_name_of_a_split_is_one_that_datasets_take() -> None:
    known = {split for row in datasets.describe() for split in row["splits"]} | {"random_80_20", *TWO_GRAPHS}
    assert known == set(get_args(SplitName))


@pytest.mark.parametrize("split", DRAWN)
def test_any_graph_is_split_as_a_dataset_is(split: str) -> None:
    own = datasets.load("social")
    assert drawn(own, split, 3).split_hash() == datasets.load("social", split=split, seed=3).split_hash()
    with pytest.raises(InvalidInput, match="has no split 'public'; use one of: random, random_80_20, per_class"):
        drawn(own, "public", 0)


@pytest.mark.parametrize("split", ["random", "per_class", "two_graphs"])
def test_named_datasets_have_every_id_present(split: str) -> None:
    graph = datasets.load("social", split=split)
    assert graph.every_id_present
    assert graph.split_reads_labels is (split == "per_class")
    assert datasets.load("chain-s", split="public").every_id_present


def test_a_new_file_is_a_new_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from graphveil.data.datasets.chains import chains\n"
        "from graphveil.data.datasets.source import Generated\n"
        "SOURCES = {'mine': Generated('me', 6, 4, ('random',), lambda: chains(3, 2, name='mine'))}\n"
    )
    monkeypatch.setattr(datasets, "__path__", [*datasets.__path__, str(tmp_path)])
    try:
        assert datasets.load("mine").num_nodes == 6
        assert "mine" in datasets.names()
        (tmp_path / "clash.py").write_text("from graphveil.data.datasets.chains import SOURCES\n")
        with pytest.raises(InvalidInput, match="exists already"):
            datasets.names()
    finally:
        for module in ("mine", "clash"):
            sys.modules.pop(f"graphveil.data.datasets.{module}", None)
