"""An attacker who goes through all samples knows the exact law of an answer."""

from __future__ import annotations

import itertools
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from graphveil.auditing.sampled import exact_evidence
from graphveil.data.sealing import Sealed
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.gaussian import Gaussian


class Rows:
    """Rows that are summed, each no longer than asked for."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def clipped_sum(self, clip: float) -> Tensor:
        return (self.rows * (clip / self.rows.norm(dim=1, keepdim=True)).clamp(max=1.0)).sum(dim=0)


HERE, THERE = cast(Sealed, True), cast(Sealed, False)
VALUES = {True: [0.9, 0.2, -0.4, 0.1], False: [-0.9, 0.2, -0.4, 0.1]}


def query(present: Any, batch: Tensor) -> Rows:
    """A number of each record that was sampled."""
    return Rows(torch.tensor(VALUES[present])[batch][:, None])


@pytest.mark.parametrize("answer", [-1.3, 0.0, 0.4, 2.0])
def test_a_sample_without_replacement_is_a_mixture_over_all_samples(answer: float) -> None:
    act = FixedSize(Gaussian(0.5, clip=1.0), 2, 4)
    told = exact_evidence(act, HERE, THERE, query, torch.tensor([answer]))
    density = {
        present: np.mean([norm.pdf(answer, sum(pair), 0.5) for pair in itertools.combinations(VALUES[present], 2)])
        for present in (True, False)
    }
    assert told == pytest.approx(np.log(density[True] / density[False]), rel=1e-6)


def test_where_samples_are_many_nothing_is_said() -> None:
    act = FixedSize(Gaussian(0.5, clip=1.0), 10, 50)
    assert exact_evidence(act, HERE, THERE, query, torch.tensor([0.0])) is None


def test_of_other_mechanisms_nothing_is_said() -> None:
    assert exact_evidence(Gaussian(0.5), HERE, THERE, query, torch.tensor([0.0])) is None
