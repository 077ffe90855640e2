"""Pieces of work for the engine tests: workers import them by name."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from torch import Tensor

from graphveil.core import InvalidInput


def total(shared: Tensor, seed: int) -> float:
    """A sum whose last digits depend on the order of additions."""
    drawn = torch.randn(shared.shape[1], 300, generator=torch.Generator().manual_seed(seed))
    return float((shared @ drawn).sum())


def total_but_die_once(shared: tuple[Tensor, Path], seed: int) -> float:
    """As `total`, but the first worker that comes by is lost."""
    rows, mark = shared
    if seed == 3 and not mark.exists():
        mark.touch()
        os._exit(9)
    return total(rows, seed)


def refuse(shared: None, item: str) -> str:  # noqa: ARG001
    raise InvalidInput(f"cannot work on {item}")
