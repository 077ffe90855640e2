"""Cost of clipping subgraph by subgraph, beside ordinary SGD on the same model and torch.func's vmap(grad).

    python tests/speed/engine.py [--device cuda] [--models "gin 2,gcn 1"] [--quick]

4,096 stars of about 5.5 nodes, 767 features, 128 hidden units, 10 classes; one thread. Prints JSON: seconds per
step (best of several runs, taking turns), megabytes a step needs on top of its inputs (a fresh process each), and
the ratios. vmap runs on a sixteenth of the batch and is scaled up: it holds every gradient. Gathering the rows'
features comes before a step in all three and is reported by itself. On a GPU also the kernels and copies that a step
asks for. `--quick` leaves vmap and memory out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.nn.functional import cross_entropy, elu

from graphveil.nn.clipping import flat, unflat
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import gradients
from graphveil.nn.subgraph_model import Kind, SubgraphModel, logits, start, sums_at_rows

KINDS = ("gcn", "sage", "gin")
NODES, FEATURES, HIDDEN, CLASSES, BATCH = 22_000, 767, 128, 10, 4096
SHARE = 16
"""vmap takes one in so many subgraphs."""
RATE, CLIP, STD = 0.1, 1.0, 1.0
Step = Callable[[], object]


def stars(count: int) -> Subgraphs:
    """Centres that hear Poisson(4.5) leaves; leaves hear nobody."""
    rng = np.random.default_rng(0)
    sizes = rng.poisson(4.5, count) + 1
    ptr = np.concatenate(([0], np.cumsum(sizes)))
    heard = np.zeros(ptr[-1], np.int64)
    heard[ptr[:-1]] = sizes - 1
    leaves = np.delete(np.arange(ptr[-1]), ptr[:-1])
    nodes = rng.integers(0, NODES, ptr[-1])
    return Subgraphs(nodes, ptr, np.concatenate(([0], np.cumsum(heard))), leaves)


def sgd(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor, y: Tensor) -> Step:
    """Forward, mean loss, backward to the weights, update."""
    leaves = [weight.requires_grad_() for weight in weights]

    def step() -> list[Tensor]:
        found = torch.autograd.grad(cross_entropy(logits(model, leaves, batch, x), y), leaves)
        return [(weight - RATE * slope).detach() for weight, slope in zip(leaves, found, strict=True)]

    return step


def ours(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor, y: Tensor) -> Step:
    """Forward, norms, clipped sum, noise, update."""

    def step() -> list[Tensor]:
        total = gradients(model, weights, batch, x, y).clipped_sum(CLIP)
        noisy = (total + STD * torch.randn_like(total)) / batch.count
        return unflat((flat(weights) - RATE * noisy).float(), weights)

    return step


def mapped(model: SubgraphModel, weights: list[Tensor], batch: Subgraphs, x: Tensor, y: Tensor) -> Step:
    """vmap(grad) over subgraphs padded to the largest, then clip, add up, noise, update."""
    sizes = np.diff(batch.ptr)
    place = torch.from_numpy(np.arange(len(x)) - np.repeat(batch.ptr[:-1], sizes)).to(x.device)
    owner = torch.from_numpy(np.repeat(np.arange(batch.count), sizes)).to(x.device)
    padded = x.new_zeros(batch.count, int(sizes.max()), FEATURES)
    padded[owner, place] = x
    sums = sums_at_rows(model.kind, batch)
    targets = torch.from_numpy(np.repeat(np.arange(len(x)), np.diff(sums.indptr))).to(x.device)
    sources = torch.from_numpy(sums.indices).to(x.device)
    heard = x.new_zeros(batch.count, int(sizes.max()), int(sizes.max()))
    heard[owner[targets], place[targets], place[sources]] = torch.from_numpy(sums.weights).to(x)

    def loss(vector: Tensor, arcs: Tensor, h: Tensor, label: Tensor) -> Tensor:
        parts = iter(unflat(vector, weights))
        for depth in range(model.layers):
            weight, bias = next(parts), next(parts)
            rows = arcs[:1] if depth == model.layers - 1 else arcs
            mixed = rows @ h + (1 + next(parts)) * h[: len(rows)] if model.kind == "gin" else rows @ h
            h = elu(mixed @ weight + bias)
        return cross_entropy(h @ next(parts) + next(parts), label[None])

    def step() -> Tensor:
        each = vmap(grad(loss), in_dims=(None, 0, 0, 0))(flat(weights), heard, padded, y)
        total = (CLIP / each.norm(dim=1).clamp(min=CLIP)) @ each
        return flat(weights) - RATE * (total + STD * torch.randn_like(total)) / batch.count

    return step


VARIANTS = {"sgd": sgd, "ours": ours, "vmap": mapped}


def seconds(works: dict[str, Step], device: str, rounds: int = 15) -> dict[str, float]:
    """Best run of each, taking turns after a warm-up: CPU time, or wall time of a finished accelerator."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = dict.fromkeys(works, float("inf"))
    for turn in range(rounds + 1):
        for name, work in works.items():
            begin = clock()
            work()
            if device != "cpu":
                torch.cuda.synchronize()
            best[name] = min(best[name], clock() - begin) if turn else best[name]
    return best


def asked(work: Step) -> int:
    """Kernels, copies and fills that one run asks a GPU for."""
    work()
    with torch.profiler.profile() as watched:
        work()
        torch.cuda.synchronize()
    counts = {event.key: event.count for event in watched.key_averages()}
    words = ("LaunchKernel", "Memcpy", "Memset")
    return sum(count for name, count in counts.items() if name.startswith("cu") and any(word in name for word in words))


def megabytes(work: Step, device: str) -> float:
    """Peak memory of one run above what was there before (CPU: resident pages, Linux only)."""
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from now
    before_kib = _status("VmRSS")
    work()
    return (_status("VmHWM") - before_kib) / 2**10


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field))


class Bench:
    """One model on one device: its features, weights and the variants' steps."""

    def __init__(self, kind: Kind, layers: int, device: str) -> None:
        torch.set_num_threads(1)
        numba.set_num_threads(1)
        torch.manual_seed(0)
        self.model = SubgraphModel(kind, layers, HIDDEN, "elu", CLASSES, FEATURES)
        self.features, self.device = torch.randn(NODES, FEATURES).to(device), device

    def step(self, variant: str, count: int) -> Step:
        """A step on `count` subgraphs with its inputs ready."""
        batch = stars(count)
        x, y = self.gather(batch), torch.randint(0, CLASSES, (count,)).to(self.device)
        weights = [weight.to(self.device) for weight in start(self.model)]
        return VARIANTS[variant](self.model, weights, batch, x, y)

    def gather(self, batch: Subgraphs) -> Tensor:
        """Features of the rows."""
        return self.features[torch.from_numpy(batch.nodes).to(self.device)]

    def times(self, quick: bool) -> dict[str, float]:
        """Seconds per step, and of the gathering before it. vmap comes last: it would empty the others' caches."""
        batch = stars(BATCH)
        works = {variant: self.step(variant, BATCH) for variant in ("sgd", "ours")}
        found = seconds({"gather": lambda: self.gather(batch), **works}, self.device)
        if quick:
            return found
        part = seconds({"vmap": self.step("vmap", BATCH // SHARE)}, self.device)
        return found | {"vmap": SHARE * part["vmap"]}

    def launches(self) -> dict[str, int]:
        """What a step asks a GPU for; nothing on a processor."""
        variants = () if self.device == "cpu" else ("sgd", "ours")
        return {variant: asked(self.step(variant, BATCH)) for variant in variants}

    def peak(self, variant: str) -> float:
        """Megabytes a step needs on top of its inputs."""
        self.step(variant, 64)()  # libraries load and kernels compile here, not in the measured peak
        share = SHARE if variant == "vmap" else 1
        return share * megabytes(self.step(variant, BATCH // share), self.device)


def child(kind: str, layers: str, device: str, wanted: str) -> Any:
    """Times (all, or "quick"), launches, or the peak of one variant, from a fresh process."""
    # Freed tensors go back to the system at once, so that the peak counts live ones. It slows allocation down.
    frugal = {"MALLOC_MMAP_THRESHOLD_": "65536"} if wanted in VARIANTS else {}
    command = [sys.executable, __file__, "--one", kind, layers, device, wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | frugal)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout)


def one(kind: Kind, layers: int, device: str, wanted: str) -> Any:
    """What `child` asks for."""
    bench = Bench(kind, layers, device)
    if wanted in VARIANTS:
        return bench.peak(wanted)
    return bench.launches() if wanted == "launches" else bench.times(wanted == "quick")


def compare(kind: str, layers: str, device: str, quick: bool) -> dict[str, Any]:
    """All variants of one model."""
    took = child(kind, layers, device, "quick" if quick else "times")
    asks = {} if device == "cpu" else {"launches": child(kind, layers, device, "launches")}
    if quick:
        return {"seconds": took, **asks, "ours / sgd": took["ours"] / took["sgd"]}
    held = {variant: child(kind, layers, device, variant) for variant in VARIANTS}
    return {
        "seconds": took,
        **asks,
        "megabytes": held,
        "ours / sgd": took["ours"] / took["sgd"],
        "vmap / ours": took["vmap"] / took["ours"],
        "memory, ours / sgd": held["ours"] / held["sgd"],
    }


def main() -> None:
    """Run all and print JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--models", default=",".join(f"{kind} {layers}" for layers, kind in product("12", KINDS)))
    parser.add_argument("--quick", action="store_true", help="no vmap, no memory")
    parser.add_argument("--one", nargs=4, metavar=("KIND", "LAYERS", "DEVICE", "WANTED"), help="one process's part")
    words = parser.parse_args()
    if words.one:
        kind, layers, device, wanted = words.one
        print(json.dumps(one(kind, int(layers), device, wanted)))
        return
    report = {model: compare(*model.split(), words.device, words.quick) for model in words.models.split(",")}  # type: ignore[call-arg]
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
