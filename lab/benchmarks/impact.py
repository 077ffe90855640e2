"""How far one node moves a GNN's gradient, by the share of nodes it points to (HeterPoisson, section 4.1, figure 1).

A random directed graph of 100 nodes, 10 classes, standard normal features; a new node with out-arcs to a share chi of
the others; the distance of the two full gradients, mean and standard deviation over 100 seeds.

    python lab/benchmarks/impact.py [--json FILE]
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import numpy as np
import torch

from graphveil.data.arcs import Csr
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph_model import Kind, SubgraphModel, logits_at_rows, start
from graphveil_lab import kept_files

NODES, CLASSES, WIDTH, DENSITY, SEEDS = 100, 10, 16, 0.05, 100
SHARES = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
KINDS: tuple[Kind, ...] = ("gcn", "gin", "sage")


def gradient(
    model: SubgraphModel, weights: list[torch.Tensor], links: np.ndarray, x: torch.Tensor, y: torch.Tensor
) -> torch.Tensor:
    """The gradient of the mean loss over all nodes, flat. links: bool [n, n], links[i, j] the arc j -> i."""
    targets, sources = np.nonzero(links)
    adj = Csr.from_edge_index(sources, targets, len(y))
    whole = Subgraphs(np.arange(len(y)), np.array([0, len(y)]), adj.indptr, adj.indices)
    live = [weight.clone().requires_grad_() for weight in weights]
    loss = torch.nn.functional.cross_entropy(logits_at_rows(model, live, whole, x), y)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, live)])


def impact(kind: Kind, share: float, seed: int) -> float:
    """The distance of the gradients with and without the new node, which is the last one."""
    rng = np.random.default_rng(seed)
    n = NODES + 1
    links = (rng.random((n, n)) < DENSITY) & ~np.eye(n, dtype=bool)
    links[:, -1] = links[-1, :] = False
    x = torch.from_numpy(rng.standard_normal((n, WIDTH)).astype(np.float32))
    y = torch.from_numpy(rng.integers(CLASSES, size=n))
    model = SubgraphModel(kind, 2, 32, "elu", CLASSES, WIDTH)
    weights = start(model, torch.Generator().manual_seed(seed))
    before = gradient(model, weights, links[:-1, :-1], x[:-1], y[:-1])
    links[rng.permutation(NODES)[: round(share * NODES)], -1] = True
    return float((gradient(model, weights, links, x, y) - before).norm())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="also write the table to this file")
    out = parser.parse_args().json
    torch.set_num_threads(1)
    rows = []
    print(f"{'chi':>5}" + "".join(f"{kind:>18}" for kind in KINDS))
    for share in SHARES:
        line = {"chi": share}
        for kind in KINDS:
            moves = [impact(kind, share, seed) for seed in range(SEEDS)]
            line |= {kind: statistics.fmean(moves), f"{kind} std": statistics.stdev(moves)}
        rows.append(line)
        print(
            f"{share:5.1f}" + "".join(f"{line[kind]:10.4f} ± {line[f'{kind} std']:.4f}" for kind in KINDS), flush=True
        )
    if out:
        kept_files.write(out, rows)


if __name__ == "__main__":
    main()
