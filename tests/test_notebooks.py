"""The notebooks of the docs run from top to bottom; their cells are Python, so no notebook server is needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "docs" / "notebooks").glob("*.ipynb"))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["edge-level", "label-level", "officer"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_its_cells_run_in_order(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    namespace: dict[str, Any] = {}
    for place, cell in enumerate(read(path)["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{path.name}, cell {place}", "exec"), namespace)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_stored_without_outputs_and_explains_every_step(path: Path) -> None:
    """An output would be of somebody's machine, and change with every run."""
    notebook = read(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    for before, cell in zip([None, *notebook["cells"]], notebook["cells"], strict=False):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            assert before is not None
            assert before["cell_type"] == "markdown"
