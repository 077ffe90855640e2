"""Hearsay, cryptographic noise and clipped gradients on one CUDA GPU: equal to the CPU, and how fast.

    python tests/speed/gpu.py [--json FILE]
    python tests/speed/gpu.py [--sizes small middle large] [--folder /tmp/gpu] [--skip-equal]

Every size: a graph is made on the GPU from a seed (not counted), then `gv.train` with cryptographic noise, the
certificate and `release.save` are timed, by phases. The first run of every size warms up and is not counted, but for
the largest. Prints one table, which ends the output.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest import mock

import torch

import graphveil as gv
from graphveil.data.datasets.planted import planted
from graphveil.data.identity import public_digest
from graphveil.privacy import cipher
from graphveil.privacy.noise import Secure
from graphveil.release.record import Stopwatch
from graphveil.runtime.compute import Compute
from graphveil.runtime.folders import write_whole
from graphveil.vocabulary import Adjacency

SIZES: dict[str, dict[str, Any]] = {
    "small": {"nodes": 1_000_000, "edges": 6_000_000, "classes": 4, "features": 32},
    "middle": {"nodes": 2_450_016, "edges": 62_000_000, "classes": 47, "features": 100},
    "large": {"nodes": 100_000_000, "edges": 800_000_000, "classes": 16, "features": 64, "dtype": torch.bfloat16},
}
PHASES = {
    "digest": "graphveil.release.certify._provenance",
    "calibrate": "graphveil.run.planned",
    "scale": "graphveil.methods.edge.hearsay.Scaling.fit",
    "folds": "graphveil.methods.edge.hearsay.cross_fitted",
    "beliefs": "graphveil.nn.cross_fit.Folds.log_beliefs",
    "counts": "graphveil.mechanisms.geometric_count.Tally._counted",
    "release": "graphveil.privacy.session.Session.release",
    "head": "graphveil.methods.edge.hearsay.fit_in_batches",
    "scores": "graphveil.methods.edge.hearsay._log_posteriors",
    "fetch": "graphveil.run.to_host",
    "save": "graphveil.release.release.Release.save",
}
"""What is timed, by where it is found. `release` holds `counts`: the rest of it is noise."""


def timed(work: Callable[..., Any]) -> tuple[Any, float]:
    """What it gives, and wall seconds until the GPU is done."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    found = work()
    torch.cuda.synchronize()
    return found, time.perf_counter() - start


def watched(seconds: dict[str, float]) -> ExitStack:
    """Inside, every phase adds its wall seconds."""
    stack = ExitStack()
    for phase, place in PHASES.items():
        home, name = place.rsplit(".", 1)
        owner: Any = _found(home)
        real = vars(owner)[name]
        stack.enter_context(mock.patch.object(owner, name, _timing(real, phase, seconds)))
    return stack


def _found(path: str) -> Any:
    module, _, kind = path.rpartition(".")
    import importlib

    try:
        return importlib.import_module(path)
    except ImportError:
        return getattr(importlib.import_module(module), kind)


def _timing(real: Any, phase: str, seconds: dict[str, float]) -> Any:
    inner = real.__func__ if isinstance(real, classmethod) else real

    def work(*args: Any, **kwargs: Any) -> Any:
        found, spent = timed(lambda: inner(*args, **kwargs))
        seconds[phase] = seconds.get(phase, 0.0) + spent
        return found

    return classmethod(work) if isinstance(real, classmethod) else work


def bandwidth() -> float:
    """Bytes read and written per second by a large copy."""
    source = torch.empty(1 << 31, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    target.copy_(source)
    return 2 * len(source) * 10 / timed(lambda: [target.copy_(source) for _ in range(10)])[1]


def hearsay(size: dict[str, Any], folder: Path, warm: bool) -> dict[str, Any]:
    """Seconds of one certified run by phases, its peak and its scores."""
    graph, made = timed(lambda: planted(**size, seed=1, device="cuda"))
    print(f"made {graph} in {made:.2f} s, {torch.cuda.max_memory_allocated() / 1e9:.1f} GB at most", flush=True)
    asked: dict[str, Any] = {"epsilon": 2, "delta": 1e-9, "unit": "edge", "compute": Compute(device="cuda")}
    seconds: dict[str, float] = {}

    def run() -> gv.Release:
        release = gv.train(graph, gv.methods.Hearsay(), **asked)
        release.save(folder)
        return release

    if warm:
        run()
        graph = graph.with_arcs(graph.adj)
        graph._cached.clear()
    with watched(seconds), Stopwatch() as watch:
        release, total = timed(run)
    shutil.rmtree(folder, ignore_errors=True)
    found = release.predict() == graph.y.cpu()
    arcs = graph.adj.num_arcs
    seconds["noise"] = seconds.pop("release") - seconds["counts"]
    return {
        "nodes": graph.num_nodes,
        "edges": graph.num_edges,
        "making": made,
        "total": total,
        "phases": seconds,
        "gpu_peak_gb": watch.gpu_peak_mb / 1e3,
        "peak_gb": watch.peak_mb / 1e3,
        "accuracy": float(found[graph.test.cpu()].double().mean()),
        "epsilon": release.certificate.epsilon,
        "source": release.certificate.provenance.source,
        "arcs_per_s": arcs / seconds["counts"],
        # Every arc's source is read once, what it says once, and every cell is written once.
        "least_bytes": arcs * 5 + graph.num_nodes * graph.num_classes * 8,
    }


def noise() -> dict[str, float]:
    """Words and whole numbers per second on the GPU, and Gaussians."""
    device, count = torch.device("cuda", 0), 1 << 27
    source = Secure()
    words = timed(lambda: cipher.words_on(bytes(32), 0, count, device))
    words = timed(lambda: cipher.words_on(bytes(32), 0, count, device))
    chances = [1 / (1 + 2.718 ** (2**digit)) for digit in range(7)]
    source.digits(1 << 24, chances, device)
    digits = timed(lambda: source.digits(1 << 24, chances, device))
    total = torch.zeros(1 << 24, device=device)
    source.add_gaussian(total, 1.0, 1.0)
    gaussians = timed(lambda: source.add_gaussian(total, 1.0, 1.0))
    return {
        "words32_per_s": 2 * count / words[1],
        "whole_per_s": (1 << 24) / digits[1],
        "normal_per_s": (1 << 24) / gaussians[1],
    }


def equal() -> dict[str, Any]:
    """What is the same on both devices, under one seed, on a graph of 200,000 nodes."""
    graph = planted(200_000, 1_200_000, 4, 32, seed=2)
    there = planted(200_000, 1_200_000, 4, 32, seed=2, device="cuda")
    asked: dict[str, Any] = {"noise": 1.0, "delta": 1e-6, "unit": "edge", "seed": 5}
    releases = [gv.train(each, gv.methods.Hearsay(), **asked) for each in (graph, there)]
    alike = (releases[0].predict() == releases[1].predict()).double().mean()
    chances = [each.predict_proba() for each in releases]
    return {
        "graph": public_digest(graph, Adjacency.of("node")) == public_digest(there, Adjacency.of("node")),
        "same_labels": float(alike),
        "chances_apart": float((chances[0] - chances[1]).abs().max()),
        "accuracy": [each.evaluate("test")["accuracy"] for each in releases],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--json", type=Path, help="also keep what was measured")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/graphveil-gpu"))
    parser.add_argument("--skip-equal", action="store_true")
    args = parser.parse_args()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    found["copy_bytes_per_s"] = bandwidth()
    found["noise"] = noise()
    if not args.skip_equal:
        found["equal"] = equal()
        print(found["equal"], flush=True)
    found["hearsay"] = {}
    for name in args.sizes:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        found["hearsay"][name] = hearsay(SIZES[name], args.folder, warm=name != "large")
        print(name, json.dumps(found["hearsay"][name]), flush=True)
    _print(found)
    if args.json is not None:
        write_whole(args.json, found)


def _print(found: dict[str, Any]) -> None:
    print(f"\n{found['device']}, torch {found['torch']}, copies {found['copy_bytes_per_s'] / 1e12:.2f} TB/s")
    print({name: f"{rate:.3g}" for name, rate in found["noise"].items()})
    columns = sorted({phase for each in found["hearsay"].values() for phase in each["phases"]})
    print("| size | total s | GPU GB | " + " | ".join(columns) + " | arcs/s | of the bandwidth | accuracy |")
    for name, each in found["hearsay"].items():
        share = each["least_bytes"] / found["copy_bytes_per_s"] / each["phases"]["counts"]
        cells = [f"{each['phases'].get(phase, 0.0):.3f}" for phase in columns]
        print(
            f"| {name} | {each['total']:.2f} | {each['gpu_peak_gb']:.1f} | {' | '.join(cells)} "
            f"| {each['arcs_per_s']:.3g} | {100 * share:.0f} % | {100 * each['accuracy']:.1f} |"
        )


if __name__ == "__main__":
    main()
