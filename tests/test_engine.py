"""Engines: the same results everywhere, in order, and nothing is lost with a worker."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch

from graphveil.core import InvalidInput, MissingExtra
from graphveil.engine import Local, Ray, each, engine_of, using
from pieces import refuse, total, total_but_die_once

ROWS = torch.randn(40, 60, generator=torch.Generator().manual_seed(0))
SEEDS = list(range(9))


def here() -> list[float]:
    return each(total, ROWS, SEEDS, "here")


def test_workers_give_what_this_process_gives() -> None:
    with using(Local(2)):
        assert each(total, ROWS, SEEDS, "two") == here()


def test_results_come_in_order_and_nothing_is_needed_for_nothing() -> None:
    assert here() == [total(ROWS, seed) for seed in SEEDS]
    assert each(total, ROWS, [], "none") == []


def test_the_engine_is_for_its_block_alone() -> None:
    with using(Local(2)), pytest.raises(InvalidInput, match="cannot work on it"):
        each(refuse, None, ["it", "it"], "two")
    with pytest.raises(InvalidInput, match="cannot work on it"):
        each(refuse, None, ["it"], "here")


@pytest.mark.parametrize("name", ["cloud", "local=there", "", "Ray"])
def test_unknown_engines_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="use local, ray, or ray=ADDRESS"):
        engine_of(name)


@pytest.mark.parametrize("jobs", [0, -1, 1.5])
def test_jobs_are_a_positive_number(jobs: int) -> None:
    with pytest.raises(InvalidInput, match="jobs must be at least 1"):
        engine_of("local", jobs)


def test_a_missing_ray_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install graphveil\[ray\]"):
        engine_of("ray")


@pytest.mark.xdist_group("ray")
def test_ray_agrees_bit_for_bit_even_when_a_worker_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs graphveil[ray]")
    # Workers import the pieces from this folder.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    mark = tmp_path / "one was lost"
    with using(Ray()):
        assert each(total, ROWS, SEEDS, "ray") == here()
        assert each(total_but_die_once, (ROWS, mark), SEEDS, "ray") == here()
        with pytest.raises(InvalidInput, match="cannot work on it"):
            each(refuse, None, ["it"], "ray")
    assert mark.exists()
