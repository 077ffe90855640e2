"""Shared set-up: one thread each, because the suite runs in parallel processes."""

from __future__ import annotations

import numba
import torch

torch.set_num_threads(1)
numba.set_num_threads(1)
