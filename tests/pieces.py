"""Pieces of work for the engine tests: workers import them by name."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.errors import InvalidInput


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


def files_in(shared: tuple[NDArray[np.float64], Tensor, Path], item: int) -> list[str]:  # noqa: ARG001
    """What lies in a folder while this piece of work holds its array and its tensor."""
    return [path.name for path in shared[2].rglob("*") if path.is_file()]


@dataclass(frozen=True)
class DieOnce:
    """`work`, of which the first worker dies; `mark`: the file that says so, `driver`: the process that is none."""

    work: Callable[..., Any]
    mark: Path
    driver: int

    def __call__(self, *given: Any) -> Any:
        if os.getpid() != self.driver and not self.mark.exists():
            self.mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.work(*given)
