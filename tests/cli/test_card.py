"""The card on the command line: what stands in the folder, or a page of it; nothing that was altered."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import graphveil as gv
from graphveil.cli import app
from graphveil.errors import InvalidInput, Tampered


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    graph = gv.datasets.load("chain-s")
    release = gv.train(graph, gv.methods.Hearsay(folds=2, hidden=4, head=4), epsilon=2, delta=1e-5, unit="edge")
    return release.save(tmp_path_factory.mktemp("card") / "model")


def test_the_card_is_printed_as_it_is_in_the_folder(folder: Path) -> None:
    result = CliRunner().invoke(app, ["card", str(folder)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert result.output == (folder / "card.txt").read_text()
    assert result.output.startswith("Whoever sees this release")


def test_a_released_graph_has_a_card_too(tmp_path: Path) -> None:
    method = gv.methods.LapGraph()
    gv.release_graph(gv.datasets.load("chain-s"), method, epsilon=2, delta=1e-5).save(tmp_path / "noisy")
    page = tmp_path / "card.html"
    result = CliRunner().invoke(app, ["card", str(tmp_path / "noisy"), "--format", "html", "--out", str(page)])
    assert result.exit_code == 0, (result.output, result.exception)
    assert "Whoever sees this release" in page.read_text()


def test_a_page_does_not_go_into_the_release(folder: Path) -> None:
    page = folder / "card.html"
    result = CliRunner().invoke(app, ["card", str(folder), "--format", "html", "--out", str(page)])
    assert isinstance(result.exception, InvalidInput)
    assert "elsewhere" in str(result.exception)
    assert not page.exists()


def test_an_altered_folder_has_no_card(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for file in folder.iterdir():
        text = file.read_bytes()
        (copy / file.name).write_bytes(text.replace(b"89 : 11", b"51 : 49") if file.name == "card.txt" else text)
    result = CliRunner().invoke(app, ["card", str(copy)])
    assert isinstance(result.exception, Tampered)
    assert "51 : 49" not in result.output
