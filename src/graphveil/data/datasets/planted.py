"""A generated network of any size, made on any device: the same bits from the same seed on all of them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphveil.data.device_arcs import DeviceCsr
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput
from graphveil.runtime.counter_rng import mixed

_BLOCK = 1 << 22
"""Nodes that are made at a time."""
_KEPT = 0.75
"""Share of the drawn edges that stay, so that degrees differ."""
_SIGNAL = 0.35
"""Length of a class's mean in features, beside noise of deviation 1 in every one."""
_BYTES = math.sqrt(8 * (256**2 - 1) / 12)
"""Standard deviation of the sum of eight random bytes."""


def planted(
    nodes: int,
    edges: int,
    classes: int,
    features: int,
    seed: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Graph:
    """About `edges` undirected edges among `nodes` nodes, of which 75 % train, 10 % validate and 15 % test.

    Node i is linked to p_k(i) for affine permutations p_k modulo n, three in four of which keep the class, i modulo c,
    and a fair share of these links is left out. Every row can be made by itself, so nothing is ever sorted as a whole.
    Features are a mean of the class and sums of bytes, which are nearly normal: whole numbers until the last product.
    """
    turns = max(1, round(edges / (_KEPT * nodes)))
    if nodes < 16 * turns or not 2 <= classes <= nodes or features < 1:
        raise InvalidInput(f"{nodes} nodes are too few for {edges} edges and {classes} classes, or have no features")
    there = torch.device(device)
    labels = torch.arange(nodes, device=there) % classes
    deal = _words(seed, 1, torch.arange(nodes, device=there)) & 1023
    train, val = deal < 768, (deal >= 768) & (deal < 870)
    x = torch.empty(nodes, features, dtype=dtype, device=there)
    means = (_bytes(seed, 2, torch.arange(classes, device=there), features) > 0).to(torch.float32) * 2 - 1
    for first in range(0, nodes, max(1, _BLOCK * 16 // features)):
        part = torch.arange(first, min(first + max(1, _BLOCK * 16 // features), nodes), device=there)
        x[part[0] : part[-1] + 1] = _bytes(seed, 3, part, features) + means[labels[part]] * (_SIGNAL / math.sqrt(2))
    adj = _arcs(nodes, turns, edges / (turns * nodes), classes, seed, there)
    masks = (train, val, ~(train | val))
    return Graph(x, adj, labels, classes, True, *masks, "planted", "planted", every_id_present=True)


def _words(seed: int, stream: int, places: Tensor) -> Tensor:
    """A word for every place, int64 like `places`."""
    start = int(mixed(torch.tensor([seed * 64 + stream])))
    return mixed(places + start)


def _bytes(seed: int, stream: int, rows: Tensor, width: int) -> Tensor:
    """Nearly normal numbers of mean 0 and deviation 1, float32 [k, width], by row and column."""
    words = _words(seed, stream, rows[:, None] * width + torch.arange(width, device=rows.device))
    total = torch.zeros_like(words)
    for shift in range(0, 64, 8):
        total += (words >> shift) & 255
    return (2 * total - 8 * 255).to(torch.float32) * (0.5 / _BYTES)


def _arcs(nodes: int, turns: int, kept: float, classes: int, seed: int, device: torch.device) -> DeviceCsr:
    """Rows of neighbours p_k(i) and p_k^-1(i), sorted, without loops, repeats and what is left out."""
    steps = [_permutation(nodes, classes if k % 4 else 1, seed * 997 + k) for k in range(turns)]
    short = torch.int32 if nodes < 1 << 31 else torch.int64
    columns = torch.empty(2 * turns * nodes, dtype=short, device=device)
    pointers, at = torch.zeros(nodes + 1, dtype=torch.int64, device=device), 0
    size = max(1, _BLOCK * 8 // turns)
    for first in range(0, nodes, size):
        own = torch.arange(first, min(first + size, nodes), device=device)
        near = [(a * own + b) % nodes for a, b, _ in steps] + [(back * (own - b)) % nodes for _, b, back in steps]
        row = torch.stack(near, dim=1).sort(dim=1).values
        stays = row != own[:, None]
        stays[:, 1:] &= row[:, 1:] != row[:, :-1]
        low, high = torch.minimum(row, own[:, None]), torch.maximum(row, own[:, None])
        # Of the pair, so that both of its rows agree.
        stays &= (_words(seed, 4, low * nodes + high) & 0xFFFF) < int(kept * 65536)
        found = row[stays]
        columns[at : at + len(found)] = found.to(short)
        pointers[first + 1 : first + 1 + len(own)] = at + stays.sum(dim=1).cumsum(0)
        at += len(found)
    return DeviceCsr(pointers, columns[:at].clone())


def _permutation(nodes: int, classes: int, number: int) -> tuple[int, int, int]:
    """(a, b, a^-1) of i -> a i + b modulo n, with a and b multiples of `classes`, plus one in a."""
    words = mixed(torch.arange(4096) + (number << 20)) & 0x7FFFFFFFFFFFFFFF
    shift = int(words[0]) % max(nodes // classes, 1) * classes
    for word in words[1:].tolist():
        factor = word % max(nodes // classes, 1) * classes + 1
        if factor > 1 and math.gcd(factor, nodes) == 1:
            return factor, shift, pow(factor, -1, nodes)
    raise InvalidInput(f"no permutation of {nodes} nodes was found; take another seed")
