"""Copies from a GPU into this machine's memory, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

BLOCK = 1 << 24
"""Items that are copied, or bytes that are hashed, at a time."""


def to_host(tensor: Tensor) -> Tensor:
    """The same values in this machine's memory."""
    if tensor.device.type == "cpu":
        return tensor
    out = torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")
    blocks = torch.split(tensor.detach().contiguous().flatten(), BLOCK)
    for target, block in zip(torch.split(out.flatten(), BLOCK), host_blocks(blocks), strict=True):
        target.copy_(block)
    return out


def host_blocks(blocks: Sequence[Tensor]) -> Iterator[Tensor]:
    """Tensors in this machine's memory, one after the other; the next copy from a GPU runs meanwhile.

    A block is overwritten by the second one after it.
    """
    if not blocks or blocks[0].device.type == "cpu":
        yield from blocks
        return
    buffers = [torch.empty(len(blocks[0]), dtype=blocks[0].dtype, pin_memory=True) for _ in range(2)]
    events = [torch.cuda.Event() for _ in buffers]  # type: ignore[no-untyped-call]  # torch does not type it

    def start(place: int) -> None:
        block, buffer = blocks[place], buffers[place % 2]
        buffer[: len(block)].copy_(block, non_blocking=True)
        events[place % 2].record()

    start(0)
    for place, block in enumerate(blocks):
        if place + 1 < len(blocks):
            start(place + 1)
        events[place % 2].synchronize()
        yield buffers[place % 2][: len(block)]
