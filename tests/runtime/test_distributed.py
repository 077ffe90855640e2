"""Several processes of torchrun train one model: the same weights, one reservation, and no release without all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.methods.node.parts.subgraph_method import shared_out
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.privacy.noise import Seeded, common
from graphveil.runtime import distributed
from graphveil.runtime.distributed import ALONE, Workers, joined

LOSING = """
import os, time
from datetime import timedelta
from torch.distributed.distributed_c10d import _set_pg_timeout
from graphveil import cli
from graphveil.methods.node.parts import subgraph_method

calls, share = [], subgraph_method.shared_out

def failing(batch, work, workers):
    calls.append(1)
    if len(calls) == 3:
        _set_pg_timeout(timedelta(seconds=2))  # the others would wait for ten minutes
        if os.environ["RANK"] == "1":
            {failure}
    return share(batch, work, workers)

subgraph_method.shared_out = failing
cli.main()
"""
HOW = {"dies": "os.kill(os.getpid(), 9)", "hangs": "time.sleep(600)"}


def torchrun(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=120)


def train(folder: Path, method: str, unit: str) -> list[str]:
    """The words of a training whose budget is counted."""
    gv.Ledger(folder / "ledger.db").open(gv.datasets.load("social"), unit, epsilon=100, delta=1e-5)
    budget = ["--unit", unit, "--noise", "2", "--delta", "1e-5", "--ledger", str(folder / "ledger.db")]
    return ["train", method, "social", *budget, "--seed", "3", "--out", str(folder / "model")]


def test_two_processes_release_what_one_does(tmp_path: Path) -> None:
    words = train(tmp_path, "heterpoisson", "node")
    done = torchrun("-m", "graphveil", *words, "--network", "sage", "--epochs", "3", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count('"epsilon"') == 1
    two = gv.load(tmp_path / "model")
    method = gv.methods.HeterPoisson(network="sage", epochs=3)
    one = gv.train(gv.datasets.load("social"), method, noise=2, delta=1e-5, unit="node", seed=3)
    assert two.method == method
    for name, part in one.state.items():
        torch.testing.assert_close(two.state[name], part, rtol=1e-5, atol=1e-5)
    (entry,) = gv.Ledger(tmp_path / "ledger.db").entries()
    assert entry["committed"]
    assert two.certificate.provenance.ledger_entry == entry["id"]


@pytest.mark.parametrize("how", ["dies", pytest.param("hangs", marks=pytest.mark.slow)])
def test_a_lost_process_ends_the_run_and_the_budget_stays_spent(tmp_path: Path, how: str) -> None:
    script = tmp_path / "losing.py"
    script.write_text(LOSING.format(failure=HOW[how]))
    done = torchrun(str(script), *train(tmp_path, "drw", "features"), "--steps", "30")
    assert done.returncode != 0
    assert "error (rank 0): another process of this run has ended or no longer answers" in done.stderr
    assert not (tmp_path / "model").exists()
    (account,) = gv.Ledger(tmp_path / "ledger.db").accounts()
    assert (account.entries, account.open) == (1, 1)
    assert account.spent > 0


@pytest.mark.parametrize("size", [2, 3, 7])
def test_every_subgraph_is_computed_by_one_process(size: int) -> None:
    shares: list[Subgraphs] = []
    for rank in range(size):
        shared_out(alone(5), shares.append, Workers(rank, size))  # type: ignore[arg-type]
    assert np.concatenate([part.centres for part in shares]).tolist() == [0, 1, 2, 3, 4]
    assert max(part.count for part in shares) == -(-5 // size)


def alone(count: int) -> Subgraphs:
    """Single nodes."""
    return Subgraphs(np.arange(count), np.arange(count + 1), np.zeros(count + 1, np.int64), np.empty(0, np.int64))


@pytest.mark.parametrize(("here", "everywhere"), [("2", "2"), ("2", "4")])
def test_processes_of_one_machine_listen_to_it_alone(
    here: str, everywhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", here)
    monkeypatch.setenv("WORLD_SIZE", everywhere)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "")
    monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    distributed._stay_inside()
    chosen = os.environ.get("GLOO_SOCKET_IFNAME")
    assert (chosen in ("lo", "lo0")) if here == everywhere else chosen is None


def test_one_process_is_left_alone() -> None:
    batch = alone(2)
    source = Seeded(0)
    with joined() as workers:
        assert workers == ALONE
        assert workers.first
        assert common(source, workers) is source
        assert workers.agreed(lambda: 7) == 7
        assert shared_out(batch, lambda part: part, workers) is batch  # type: ignore[arg-type,return-value]
