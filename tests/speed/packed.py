"""Training on a graph that stays on disk: 2 million nodes, 20 million undirected edges, 256 features.

    python tests/speed/packed.py [--folder FOLDER] [--nodes 2000000] [--degree 20.2] [--features 256] [--threads 1]
        [--method heterpoisson] [--unit UNIT] [--steps 20] [--layers 1]

Writes a synthetic graph as `graphveil data pack` would (features block by block; about 2.5 GB, twice that while
packing), then opens it, trains HeterPoisson at node level or (`--method`) another method with its defaults under a
unit that it leads (`--unit`) at epsilon 2, and scores all nodes, in a fresh process. Prints JSON: seconds, and the peak
of the resident megabytes (10^6 bytes) so far. Resident pages of the files count, though the system takes them back when
it needs to. Linux. The folder is a temporary one unless given, and a given one is kept and used again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numba
import numpy as np
import torch

import graphveil as gv
from graphveil.data.datasets.synthetic import NOISE, social
from graphveil.data.packed import map_array, open_packed, pack
from graphveil.methods import FLAGSHIPS
from graphveil.methods.method import METHODS

BATCH = 4096
ROWS = 50_000
"""Rows of features that are made at a time."""


def build(folder: Path, nodes: int, degree: float, features: int) -> None:
    """A social network whose features never lie in memory together; a few repeated edges are dropped."""
    small = social(num_nodes=nodes, num_features=1, average_degree=degree)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((small.num_classes, features), dtype=np.float32)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        file = Path(scratch, "x.npy")
        x = np.lib.format.open_memmap(file, mode="w+", dtype=np.float32, shape=(nodes, features))
        for first in range(0, nodes, ROWS):
            labels = small.y[first : first + ROWS].numpy()
            drawn = rng.standard_normal((len(labels), features), dtype=np.float32)
            x[first : first + ROWS] = centres[labels] + np.float32(NOISE) * drawn
        del x
        pack(replace(small, x=torch.from_numpy(map_array(file))).random_split(), folder)


def megabytes(field: str) -> float:
    """A line of the process's status, such as VmHWM (peak of the resident pages), in 10^6 bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(round(int(line.split()[1]) * 1024 / 1e6) for line in lines if line.startswith(field))


def measure(folder: Path, name: str, unit: str | None, steps: int, layers: int, threads: int) -> dict[str, object]:
    """Open, train and score in this process."""
    torch.set_num_threads(threads)
    numba.set_num_threads(threads)
    told: dict[str, object] = {"libraries_mb": megabytes("VmRSS"), "threads": threads}
    begin = time.perf_counter(), time.process_time()

    def note(part: str) -> None:
        nonlocal begin
        now = time.perf_counter(), time.process_time()
        told[f"{part}_s"], told[f"{part}_cpu_s"] = (
            round(after - before, 2) for before, after in zip(begin, now, strict=True)
        )
        told[f"peak_after_{part}_mb"] = megabytes("VmHWM")
        begin = time.perf_counter(), time.process_time()

    graph = open_packed(folder)
    told |= {"graph": repr(graph), "files_mb": round(sum(file.stat().st_size for file in folder.iterdir()) / 1e6)}
    note("opening")
    if name == "heterpoisson":
        method = gv.methods.HeterPoisson(
            network="sage", multiplier=4.0, batch=BATCH, epochs=steps * BATCH / graph.num_nodes, layers=layers
        )
        release = gv.train(graph, method, noise=1.0, unit="node")
    else:
        kind = METHODS.find(name)
        release = gv.train(
            graph,
            kind(),
            epsilon=2,
            unit=unit or min([unit for unit, name in FLAGSHIPS.items() if name == kind.name()] or kind.units),
            seed=0,
        )
    note("training")
    told |= {"test": release.evaluate("test")["accuracy"]}
    note("scoring")
    return {**told, "of_which_files_mb": megabytes("RssFile"), "of_which_own_mb": megabytes("RssAnon")}


def child(*words: str) -> str:
    """A part of the work in a fresh process, so that its peak is its own."""
    done = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def main() -> None:
    """Build, then measure, each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2_000_000)
    parser.add_argument("--degree", type=float, default=20.2)
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--method", default="heterpoisson")
    parser.add_argument("--unit")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--part", choices=("build", "measure"), help="one process's part")
    words = parser.parse_args()
    if words.part == "build":
        build(words.folder, words.nodes, words.degree, words.features)
    elif words.part == "measure":
        told = measure(words.folder, words.method, words.unit, words.steps, words.layers, words.threads)
        print(json.dumps(told, indent=2))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            folder = words.folder or Path(scratch, "graph")
            given = [*sys.argv[1:], "--folder", str(folder)]
            if not folder.exists():
                child(*given, "--part", "build")
            print(child(*given, "--part", "measure"), end="")


if __name__ == "__main__":
    main()
