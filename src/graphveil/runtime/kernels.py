"""Hand-written GPU kernels: a module `name` that has some keeps them in `name_triton`, which needs Triton."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from types import ModuleType

import torch


@cache
def kernels(name: str, device: torch.device) -> ModuleType | None:
    """The kernels of the module `name` where there are a GPU and Triton; None elsewhere: torch operations then do."""
    if device.type != "cuda":
        return None
    try:
        return import_module(f"{name}_triton")
    except ImportError:
        return None
