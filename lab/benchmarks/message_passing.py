"""Memory and time of private message passing on a large graph: Gaussian hops (as in `gap`) and `Contractive`.

    python lab/benchmarks/message_passing.py [--nodes 230000] [--edges 20000000] [--width 64] [--hops 10] [--threads 2]
    python lab/benchmarks/message_passing.py --real fb100-union

Makes synthetic graphs (undirected: two arcs per edge) and runs the hops on them with the cryptographic source, every
mechanism in a fresh process. Prints JSON: the megabytes (10^6 bytes) of features and arcs as stored, the peak of the
resident memory on top of them, and both together as a multiple of features + arcs (bar: 3); seconds per hop; and what
shows that time is linear: CPU seconds at a quarter, half and all of the edges, and of the hops. With --real `hearsay`,
`gap` and `caribou` are trained on a stored graph instead, end to end. Linux.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.edge.parts.edge_method import messages
from graphveil.methods.method import METHODS
from graphveil.nn.features import unit_rows
from graphveil.privacy.noise import Secure
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Reading, Step

STD = 4.0
SHARES = (0.25, 0.5, 1.0)
REPEATED = 1.0026
"""So many times more edges are drawn, since repeated ones are dropped."""


def door(graph: gv.Graph, act: Mechanism, times: int) -> Session:
    """A session whose one step is `act`."""
    adjacency = Adjacency.of("edge", undirected=True)
    plan = Plan(adjacency, Reading.SOUND, (Step("hop", act, act.curve(2.0), times, why=""),))
    public, sealed = graph.seal(adjacency)
    return Session(public, sealed, plan, Secure())


def gaussian(graph: gv.Graph, hops: int) -> Tensor:
    """X <- unit_rows(A X + noise), `hops` releases."""
    session, rows = door(graph, Gaussian(STD), hops), graph.x
    for _ in range(hops):
        rows = unit_rows(session.release("hop", partial(messages, rows=rows)))
    return rows


def contractive(graph: gv.Graph, hops: int) -> Tensor:
    """All hops inside one release."""
    return door(graph, Contractive(STD, hops, alpha=0.9), 1).release("hop", partial(messages, rows=graph.x))


WAYS = {"gaussian": gaussian, "contractive": contractive}


def save(folder: Path, nodes: int, edges: int, width: int) -> None:
    """A synthetic graph as arrays."""
    folder.mkdir()
    graph = social(num_nodes=nodes, num_features=width, average_degree=2 * edges * REPEATED / nodes)
    for name, array in {"x": graph.x.numpy(), "indptr": graph.adj.indptr, "indices": graph.adj.indices}.items():
        np.save(folder / name, array)


def load(folder: Path) -> gv.Graph:
    """The graph of `save`, in memory and without its labels."""
    x, indptr, indices = (np.load(folder / f"{name}.npy") for name in ("x", "indptr", "indices"))
    none = torch.zeros(len(x), dtype=torch.bool)
    labels = torch.full((len(x),), -1)
    labels[:2] = torch.arange(2)
    return gv.Graph(torch.from_numpy(x), Csr(indptr, indices), labels, 2, True, none, none, none, "made up", "none")


def megabytes(field: str) -> float:
    """A line of the process's status, such as VmHWM (peak of the resident pages), in 10^6 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith(field))


def stored(graph: gv.Graph) -> float:
    """Features and arcs, in 10^6 bytes."""
    return (graph.x.numpy().nbytes + graph.adj.indptr.nbytes + graph.adj.indices.nbytes) / 1e6


class Peak:
    """Resident memory on top of what was there when it was made."""

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from now
        self.before = megabytes("VmRSS")

    def above(self) -> float:
        """The peak since then, in 10^6 bytes."""
        return megabytes("VmHWM") - self.before


def measure(way: str, folder: Path, hops: int) -> dict[str, Any]:
    """One mechanism on one graph, in this process."""
    small = social(num_nodes=100)
    WAYS[way](small, 2)  # kernels compile here
    graph = load(folder)
    peak, wall, cpu = Peak(), time.perf_counter(), time.process_time()
    WAYS[way](graph, hops)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    sizes = {"edges": graph.adj.num_arcs // 2, "stored_mb": stored(graph), "above_mb": peak.above()}
    return {**sizes, "seconds": wall, "cpu_seconds": cpu}


def train(method: str, name: str) -> dict[str, Any]:
    """One method on a stored graph, end to end, in this process."""
    graph = gv.datasets.load(name, split="random", seed=0)
    peak, begin = Peak(), time.perf_counter()
    release = gv.train(graph, METHODS.find(method)(), epsilon=4.0, delta=1e-8, unit="edge")
    trained = time.perf_counter() - begin
    test = release.evaluate("test")["accuracy"]
    return {
        "graph": repr(graph),
        "stored_mb": stored(graph),
        "above_mb": peak.above(),
        "train_seconds": trained,
        "train_and_score_seconds": time.perf_counter() - begin,
        "test": test,
    }


def child(*words: object) -> Any:
    """What a fresh process measures."""
    command = [sys.executable, __file__, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def compare(way: str, folders: dict[float, Path], hops: int, threads: int) -> dict[str, Any]:
    """One mechanism: its memory, and its time over edges and over hops."""

    def took(share: float, count: int) -> Any:
        return child("--threads", threads, "--hops", count, "--one", way, folders[share])

    whole = took(1.0, hops)
    fewer = [took(share, hops) for share in SHARES[:-1]]
    shorter = {count: took(1.0, count) for count in (max(int(share * hops), 1) for share in SHARES[:-1])}
    return {
        **{name: round(value, 2) for name, value in whole.items()},
        "multiple": round(1 + whole["above_mb"] / whole["stored_mb"], 2),
        "seconds_per_hop": round(whole["seconds"] / hops, 2),
        "cpu_seconds_by_edges": {found["edges"]: round(found["cpu_seconds"], 2) for found in [*fewer, whole]},
        "cpu_seconds_by_hops": {k: round(found["cpu_seconds"], 2) for k, found in {**shorter, hops: whole}.items()},
    }


def main() -> None:
    """Run all and print JSON."""
    parser = argparse.ArgumentParser()
    for name, default in {"nodes": 230_000, "edges": 20_000_000, "width": 64, "hops": 10, "threads": 2}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--real", metavar="NAME", help="train hearsay, gap and caribou on a stored graph")
    parser.add_argument("--one", nargs=2, metavar=("WHAT", "WHERE"), help="one process's part")
    words = parser.parse_args()
    torch.set_num_threads(words.threads)
    numba.set_num_threads(min(words.threads, numba.get_num_threads()))
    if words.one:
        what, where = words.one
        print(json.dumps(measure(what, Path(where), words.hops) if what in WAYS else train(what, where)))
        return
    if words.real:
        methods = ("hearsay", "gap", "caribou")
        print(json.dumps({name: child("--threads", words.threads, "--one", name, words.real) for name in methods}))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folders = {share: Path(scratch, str(share)) for share in SHARES}
        for share, folder in folders.items():
            save(folder, words.nodes, round(share * words.edges), words.width)
        print(json.dumps({way: compare(way, folders, words.hops, words.threads) for way in WAYS}, indent=2))


if __name__ == "__main__":
    main()
