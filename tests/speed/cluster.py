"""Neighbour counts, or sums, over Parquet parts on a Ray cluster of this machine, beside one process.

    python tests/speed/cluster.py [--sums] [--nodes 1000000] [--degree 40] [--files 16] [--workers 4] [--kill]
                                 [--folder FOLDER]

Writes a synthetic graph as Parquet parts (20 million undirected edges), then releases noisy counts of neighbours by
class, as `hearsay` asks for them, under one seed: on a cluster of `--workers` workers and in this process. `--sums`
releases noisy sums of four numbers of every neighbour instead, in this process from the same parts. `--kill` kills a
worker in the middle. Prints JSON: seconds, whether both are equal bit for bit, how many workers were killed,
and the peak of the resident memory of every worker, of which the object store's shared pages are told apart. Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import torch

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.parts import ScatteredArcs
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.edge.parts.counts import cluster_degrees
from graphveil.methods.edge.parts.edge_method import heard_rows
from graphveil.privacy.noise import Seeded
from graphveil.runtime.compute import Compute
from graphveil.vocabulary import Adjacency

KILL_AFTER = 2.0
"""Seconds after a worker began to work."""


def write(folder: Path, nodes: int, degree: float, files: int) -> None:
    """The parts of a made-up graph."""
    folder.mkdir(parents=True)
    graph = social(num_nodes=nodes, num_features=1, average_degree=degree)
    low, high = graph.adj.indices, graph.adj.targets()
    edges = np.random.default_rng(0).permutation(np.stack([low, high], axis=1)[low < high])
    for place, part in enumerate(np.array_split(edges, files)):
        pq.write_table(pa.table({"source": part[:, 0], "target": part[:, 1]}), folder / f"edges-{place:03}.parquet")
    table = pa.table({"id": np.arange(nodes), "label": graph.y.numpy(), "x": graph.x.numpy()[:, 0]})
    pq.write_table(table, folder / "nodes.parquet")


def released(graph: gv.Graph, sums: bool, checked: bool = False) -> torch.Tensor:
    """Noisy counts of neighbours by label, int64 [n c], or noisy sums of what their labels are, float32 [n, c]."""
    if checked:
        assert graph.edge_parts is not None
        graph.edge_parts.require_clean()
    _, sealed = graph.seal(Adjacency.of("edge"))
    query = partial(cluster_degrees, clusters=graph.y, count=graph.num_classes)
    rows = torch.nn.functional.one_hot(graph.y, graph.num_classes).float() - 1 / graph.num_classes
    with sealed.opened():
        if sums:
            return Gaussian(2.0).apply(sealed, partial(heard_rows, rows=rows), Seeded(0))
        return Tally(2.0, marks=2).apply(sealed, query, Seeded(0))


class Watch:
    """Looks at Ray's workers while they run: the peak of each, and, if asked to, kills one of them."""

    def __init__(self, kill: bool) -> None:
        self.peaks: dict[int, tuple[float, float]] = {}
        self.killed: list[int] = []
        self._kill, self._done = kill, threading.Event()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Look all along this block."""
        thread = threading.Thread(target=self._look)
        thread.start()
        try:
            yield
        finally:
            self._done.set()
            thread.join()

    def _look(self) -> None:
        while not self._done.wait(0.05):
            for process in psutil.Process().children(recursive=True):
                try:
                    title, memory = " ".join(process.cmdline()), process.memory_info()
                    cpu = sum(process.cpu_times()[:2])
                except psutil.Error:
                    continue
                if not title.startswith("ray::"):
                    continue
                before = self.peaks.get(process.pid, (0.0, 0.0))
                own = (memory.rss - memory.shared) / 1e6
                self.peaks[process.pid] = max(before[0], own), max(before[1], memory.rss / 1e6)
                working = "IDLE" not in title and cpu > KILL_AFTER
                if self._kill and not self.killed and working:
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append(process.pid)


def main() -> None:
    """Write, count both ways, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1_000_000)
    parser.add_argument("--degree", type=float, default=40.0)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kill", action="store_true")
    parser.add_argument("--sums", action="store_true")
    parser.add_argument("--folder", type=Path)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = words.folder or Path(scratch, "parts")
        if not folder.exists():
            write(folder, words.nodes, words.degree, words.files)
        parts = gv.Graph.from_edges(folder / "edges-*.parquet", folder / "nodes.parquet", in_parts=True)
        watch = Watch(words.kill)
        with Compute(engine="ray", jobs=words.workers).opened() as run, watch.on():
            begin = time.perf_counter()
            adj = cast(ScatteredArcs, parts.adj).read_by(run.engine)
            there = released(replace(parts, adj=adj), words.sums, checked=True)
            cluster = time.perf_counter() - begin
        begin = time.perf_counter()
        files = folder / "edges-*.parquet", folder / "nodes.parquet"
        alone_with = gv.Graph.from_edges(*files, in_parts=words.sums)
        here = released(alone_with, words.sums)
        alone = time.perf_counter() - begin
    peaks = sorted(watch.peaks.values(), reverse=True)
    report = {
        "graph": repr(alone_with),
        "workers": words.workers,
        "cluster_s": round(cluster, 1),
        "one_process_s": round(alone, 1),
        "equal": torch.equal(there, here),
        "killed": len(watch.killed),
        "peak_of_each_worker_mb": [round(own) for own, _ in peaks],
        "with_shared_pages_mb": [round(both) for _, both in peaks],
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
