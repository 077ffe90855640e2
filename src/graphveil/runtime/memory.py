"""How much memory a run takes, asked before anything is spent, and what to lower where it is too much."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from graphveil.errors import Unsupported


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes that a run takes beside the graph, at least: `held` throughout, and `a_row` for each of `rows` at a time.

    lower: what makes these rows fewer, in words; empty if nothing does.
    """

    held: int = 0
    rows: int = 0
    a_row: int = 0
    lower: str = ""

    @property
    def size(self) -> int:
        """All of it."""
        return self.held + self.rows * self.a_row


BLOCK_SIZE = "the block, Compute(block=...) or --block,"
"""What makes rows fewer that are worked on at a time, for `Room.lower`."""


def require_room(device: torch.device, room: MemoryEstimate, nodes: int) -> None:
    """There is so much memory, or a clear error before anything is spent that names what to lower. nodes: of the graph.

    A GPU's is what is free; a processor's is all that the machine has, because others may give theirs back.
    """
    free = _free(device)
    if room.size <= free:
        return
    where = "on the GPU beside the graph" if device.type != "cpu" else "beside the graph"
    fits = (free - room.held) // max(room.a_row, 1)
    if room.lower and fits >= 1:
        advice = f"lower {room.lower} to {fits / room.rows:.0%} of what it is: {fits:,} instead of {room.rows:,} rows"
    elif device.type == "cpu":
        advice = "take a machine with more"
    else:
        advice = "give its features as bfloat16 (graph.to(dtype=torch.bfloat16)), or use device cpu"
    raise Unsupported(
        f"{nodes:,} nodes take {room.size / 1e9:,.1f} GB {where}, and {free / 1e9:,.1f} GB are there; {advice}"
    )


def _free(device: torch.device) -> int:
    """Bytes."""
    if device.type == "cpu":
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 1 << 62
    reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserved


@contextmanager
def report_oom(rows: int | None) -> Iterator[None]:
    """A GPU that runs out of memory inside says what to lower; rows: those that are worked on at a time."""
    try:
        yield
    except torch.OutOfMemoryError:
        # torch's own words quote sizes, which may be private.
        raise MemoryError(
            "the GPU is out of memory: lower the block, Compute(block=...) or --block, now "
            f"{rows or 1:,} rows; or give features as bfloat16, or use device cpu"
        ) from None
