"""Chains: only the first node of each carries its class, so a model must look far (IGNN, Gu et al. 2020).

Sizes and splits are those of Table 6 in the paper of Caribou's authors.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch

from graphveil.data.arcs import Csr
from graphveil.data.datasets.source import Generated
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput


def chains(length: int, count: int, num_classes: int = 2, num_features: int = 5, name: str = "chains") -> Graph:
    """`count` paths of `length` nodes, equally many per class, without a split; x is 0 but at the heads."""
    if length < 2 or num_classes < 1 or count < num_classes or count % num_classes:
        raise InvalidInput(f"cannot share {count} chains of {length} nodes among {num_classes} classes")
    if num_features < num_classes:
        raise InvalidInput(f"{num_classes} classes need as many features, got {num_features}")
    heads = np.arange(count) * length
    classes = np.arange(count) // (count // num_classes)
    x = torch.zeros(count * length, num_features)
    x[heads, classes] = 1.0
    inner = np.setdiff1d(np.arange(count * length), heads)
    adj = Csr.from_edge_index(np.r_[inner - 1, inner], np.r_[inner, inner - 1], count * length)
    y = torch.from_numpy(np.repeat(classes, length))
    none = torch.zeros(len(y), dtype=torch.bool)
    return Graph(x, adj, y, num_classes, True, none, none, none, name, "none", every_id_present=True)


def _public(graph: Graph, seed: int, train: int, test: int) -> Graph:
    """The published numbers of training and test nodes at random; the rest validates."""
    order = np.random.Generator(np.random.PCG64(seed)).permutation(graph.num_nodes)
    masks = torch.zeros(3, graph.num_nodes, dtype=torch.bool)
    for mask, ids in zip(masks, np.split(order, [train, graph.num_nodes - test]), strict=True):
        mask[torch.from_numpy(ids)] = True
    return graph.with_split(masks[0], masks[1], masks[2], f"public(seed={seed})")


def _source(name: str, length: int, count: int, train: int, test: int) -> Generated:
    return Generated(
        origin="chains (IGNN)",
        nodes=length * count,
        edges=(length - 1) * count,
        splits=("random", "public"),
        make=partial(chains, length, count, name=name),
        public=partial(_public, train=train, test=test),
    )


SOURCES = {
    "chain-s": _source("chain-s", 8, 6, train=8, test=32),
    "chain-m": _source("chain-m", 10, 6, train=10, test=40),
    "chain-l": _source("chain-l", 15, 6, train=15, test=60),
    "chain-x": _source("chain-x", 15, 10, train=25, test=100),
}
