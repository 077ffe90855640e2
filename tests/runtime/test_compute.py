"""One description of the means reaches whatever runs, and changes nothing but the time."""

from __future__ import annotations

from typing import Any

import numba
import pytest
import torch

import graphveil as gv
from graphveil.runtime import engine
from graphveil.runtime.compute import Compute, present, using_compute
from graphveil.runtime.engine import Local


def test_it_is_seen_inside_its_block_alone() -> None:
    asked = Compute(threads=1, jobs=2)
    before = torch.get_num_threads(), numba.get_num_threads()
    with asked.used():
        assert present() == asked
        assert engine._current.get() == Local(2)
        assert torch.get_num_threads() == numba.get_num_threads() == 1
        with using_compute(None):
            assert present() == asked
    assert present() == Compute()
    assert (torch.get_num_threads(), numba.get_num_threads()) == before


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"device": "tpu"}, "use one of: auto, cpu, cuda"),
        ({"block": 0}, "block must be a whole number"),
        ({"threads": 0}, "threads must be a whole number"),
        ({"jobs": True}, "jobs must be a whole number"),
        ({"jobs": 1.5}, "jobs must be a whole number"),
        ({"engine": "spark"}, "use local, ray"),
        ({"engine": "local=here"}, "use local, ray"),
    ],
)
def test_what_cannot_be_is_refused_at_once(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(gv.GraphveilError, match=words):
        Compute(**wrong)


def test_training_runs_as_it_says_and_gives_the_same() -> None:
    graph = gv.datasets.load("chain-s")
    seen: list[Compute] = []

    class Watching(gv.methods.Gap):
        def fit(self, session: gv.Session) -> Any:
            seen.append(present())
            return super().fit(session)

    given: dict[str, Any] = {"noise": 2.0, "delta": 1e-5, "unit": "edge", "seed": 0}
    alone = gv.train(graph, Watching(epochs=2), **given)
    other = gv.train(graph, Watching(epochs=2), **given, compute=Compute(threads=1, jobs=2))
    assert seen == [Compute(), Compute(threads=1, jobs=2)]
    assert alone.certificate.plan == other.certificate.plan
    assert torch.equal(alone.predict(), other.predict())
