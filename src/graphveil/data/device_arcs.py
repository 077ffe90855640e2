"""Arcs that lie on a GPU: checked there, and copied into this machine's memory only when read as numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput

if TYPE_CHECKING:
    from graphveil.data.lineage import GraphOrigin

BLOCK = 1 << 26
"""Arcs that are worked on at a time: half a gigabyte of int64."""


class DeviceCsr(Csr):
    """A `Csr` whose arrays are tensors of one device. indptr: int64 [n + 1]; indices: int32 or int64 [m]."""

    def __init__(self, indptr: Tensor, indices: Tensor, origin: GraphOrigin | None = None) -> None:
        # The base's fields are cached properties here.
        vars(self).update(pointers=indptr, columns=indices, origin=origin, _copies={indptr.device: (indptr, indices)})
        self._check()

    pointers: Tensor
    columns: Tensor

    def _check(self) -> None:
        pointers, columns, count = self.pointers, self.columns, self.num_nodes
        if pointers.dtype != torch.int64 or columns.dtype not in (torch.int32, torch.int64):
            raise InvalidInput("DeviceCsr takes int64 pointers, and columns of int32 or int64")
        if pointers.dim() != 1 or columns.dim() != 1 or pointers.device != columns.device or count < 0:
            raise InvalidInput("DeviceCsr takes two one-dimensional tensors of one device")
        if (int(pointers[0]), int(pointers[-1])) != (0, len(columns)) or bool((pointers.diff() < 0).any()):
            raise InvalidInput(f"DeviceCsr.pointers must rise from 0 to {len(columns)}, the number of arcs")
        for first, sources, targets in self.blocks():
            if bool(((sources < 0) | (sources >= count)).any()):
                raise InvalidInput(f"DeviceCsr.columns holds ids outside 0..{count - 1}")
            before = columns[first - 1 : first + len(sources) - 1] if first else columns[: len(sources) - 1]
            inside = targets[int(first == 0) :]
            inside = pointers[inside] < torch.arange(
                first + int(first == 0), first + len(sources), device=inside.device
            )
            if bool((inside & (sources[int(first == 0) :] <= before)).any()):
                raise InvalidInput("DeviceCsr.columns repeats or breaks the order of a row; rows must strictly rise")

    def blocks(self, size: int | None = None) -> Iterator[tuple[int, Tensor, Tensor]]:
        """(first arc, sources, targets int64) of consecutive arcs, all of them in turn."""
        return blocks_of(self.pointers, self.columns, size)

    @cached_property
    def indptr(self) -> Ids:
        """In this machine's memory, int64 [n + 1]."""
        return self.pointers.cpu().numpy()

    @cached_property
    def indices(self) -> Ids:
        """In this machine's memory, int64 [m]."""
        return self.columns.to("cpu", torch.int64).numpy()

    @property
    def num_nodes(self) -> int:
        return len(self.pointers) - 1

    @property
    def num_arcs(self) -> int:
        return len(self.columns)

    def has_loops(self) -> bool:
        return any(bool((sources == targets).any()) for _, sources, targets in self.blocks())

    def is_symmetric(self) -> bool:
        return all(bool(self._holds(targets, sources).all()) for _, sources, targets in self.blocks())

    def _holds(self, sources: Tensor, targets: Tensor) -> Tensor:
        """Whether there is an arc sources[k] -> targets[k], bool [k]: a search in the rows, all at once."""
        low, high = self.pointers[targets], self.pointers[targets + 1]
        end = high.clone()
        for _ in range(int((high - low).max()).bit_length() if len(low) else 0):
            middle = (low + high) // 2
            smaller = (middle < high) & (self.columns[middle.clamp(max=len(self.columns) - 1)] < sources)
            low, high = torch.where(smaller, middle + 1, low), torch.where(smaller, high, middle)
        return (low < end) & (self.columns[low.clamp(max=len(self.columns) - 1)] == sources)

    def __reduce__(self) -> tuple[type[Csr], tuple[Ids, Ids, GraphOrigin | None]]:
        return Csr, (self.indptr, self.indices, self.origin)


def blocks_of(pointers: Tensor, columns: Tensor, size: int | None = None) -> Iterator[tuple[int, Tensor, Tensor]]:
    """(first arc, sources int64, targets int64) of consecutive arcs of a CSR on any device."""
    step = BLOCK if size is None else size
    for first in range(0, len(columns), step):
        sources = columns[first : first + step].to(torch.int64)
        low = int(torch.searchsorted(pointers, torch.tensor([first], device=pointers.device), right=True)) - 1
        last = first + len(sources)
        high = int(torch.searchsorted(pointers, torch.tensor([last], device=pointers.device)))
        counts = pointers[low : high + 1].clamp(first, last).diff()
        rows = torch.arange(low, high, device=pointers.device)
        yield first, sources, rows.repeat_interleave(counts, output_size=len(sources))


def packed_on_device(edge_index: Tensor, count: int) -> DeviceCsr:
    """The arcs sources -> targets of PyG's [2, m], in any order and distinct, by target."""
    keys = (edge_index[1].to(torch.int64) * count + edge_index[0]).sort().values
    if len(keys) and (
        bool((keys[1:] == keys[:-1]).any()) or int(edge_index.min()) < 0 or int(edge_index.max()) >= count
    ):
        raise InvalidInput("edge_index repeats an arc, or names a node that is not there")
    rows = keys // count
    pointers = torch.zeros(count + 1, dtype=torch.int64, device=keys.device)
    pointers[1:] = torch.bincount(rows, minlength=count).cumsum(0)
    return DeviceCsr(pointers, (keys - rows * count).to(torch.int32 if count < 1 << 31 else torch.int64))
