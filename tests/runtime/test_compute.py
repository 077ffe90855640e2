"""One description of the means reaches whatever runs, and changes nothing but the time."""

from __future__ import annotations

from typing import Any

import numba
import pytest
import torch

import graphveil as gv
from graphveil.runtime.compute import HERE, Compute, Run
from graphveil.runtime.engine import IN_PROCESS, Local


def test_threads_are_those_of_its_block_alone() -> None:
    before = torch.get_num_threads(), numba.get_num_threads()
    with Compute(threads=1, jobs=2).opened() as run:
        assert run.engine == Local(2)
        assert torch.get_num_threads() == numba.get_num_threads() == 1
    assert (torch.get_num_threads(), numba.get_num_threads()) == before


def test_rows_at_a_time_are_those_asked_for_and_the_device_s_otherwise() -> None:
    with Compute().opened() as usual, Compute(block=7).opened() as few:
        assert (usual.block, few.block) == (None, 7)
    with Compute().opened(torch.device("cuda", 0)) as run:
        assert run.block == 1 << 20
    with Compute(block=7).opened(torch.device("cuda", 0)) as run:
        assert run.block == 7


def test_what_gains_nothing_on_a_gpu_stays_off_it(capsys: pytest.CaptureFixture[str]) -> None:
    with Compute().opened(torch.device("cuda", 0), gains=False) as run:
        assert (run.device, run.block) == (torch.device("cpu"), None)
    assert "gains nothing on a GPU" in capsys.readouterr().err


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
    seen: list[Run] = []

    class Watching(gv.methods.Gap):
        def fit(self, session: gv.Session) -> Any:
            seen.append(session.run)
            return super().fit(session)

    given: dict[str, Any] = {"noise": 2.0, "delta": 1e-5, "unit": "edge", "seed": 0}
    alone = gv.train(graph, Watching(epochs=2), **given)
    other = gv.train(graph, Watching(epochs=2), **given, compute=Compute(threads=1, jobs=2))
    assert [run.engine for run in seen] == [IN_PROCESS, Local(2)]
    assert {(run.device, run.block, run.workers) for run in seen} == {(HERE.device, None, HERE.workers)}
    assert alone.certificate.plan == other.certificate.plan
    assert torch.equal(alone.predict(), other.predict())
