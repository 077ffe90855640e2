"""Kernels are asked for in one way, and whoever has some does without where there is no GPU or no Triton."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest
import torch

import graphveil
from graphveil.runtime import kernels

SOURCE = Path(graphveil.__file__).parent
HOMES = sorted(path.with_name(path.name.replace("_triton", "")) for path in SOURCE.rglob("*_triton.py"))


def test_every_module_with_kernels_asks_for_them_here() -> None:
    assert len(HOMES) >= 4
    for home in HOMES:
        assert "from graphveil.runtime.kernels import kernels" in home.read_text()
        # No other way leads to them, so that a missing Triton is met once.
        assert "_triton" not in home.read_text()


@pytest.mark.parametrize("home", [path.stem for path in HOMES])
def test_a_processor_has_none(home: str) -> None:
    assert kernels.kernels(f"graphveil.nn.{home}", torch.device("cpu")) is None


def test_a_gpu_without_triton_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def missing(name: str) -> ModuleType:
        asked.append(name)
        raise ModuleNotFoundError("no module named 'triton'")

    monkeypatch.setattr(kernels, "import_module", missing)
    assert kernels.kernels.__wrapped__("graphveil.nn.aggregate", torch.device("cuda")) is None
    assert asked == ["graphveil.nn.aggregate_triton"]


def test_a_gpu_with_triton_has_those_of_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "import_module", lambda name: importlib.import_module(name.removesuffix("_triton")))
    found = kernels.kernels.__wrapped__("graphveil.nn.aggregate", torch.device("cuda"))
    assert isinstance(found, ModuleType)
    assert found.__name__ == "graphveil.nn.aggregate"
