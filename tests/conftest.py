"""Shared set-up: one thread each, because the suite runs in parallel processes; fixed examples where CI is set."""

from __future__ import annotations

import os

import numba
import torch
from hypothesis import settings

torch.set_num_threads(1)
numba.set_num_threads(1)

# The gate judges a commit, so it must draw the same examples each time; a run by hand goes on exploring.
settings.register_profile("gate", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("gate")
