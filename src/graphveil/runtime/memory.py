"""What a run makes lies on its device, and public chance is drawn by one generator whatever the device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from graphveil.errors import Unsupported
from graphveil.runtime.compute import on_device, rows_at_a_time

_MADE = {
    torch.empty,
    torch.zeros,
    torch.ones,
    torch.full,
    torch.arange,
    torch.linspace,
    torch.eye,
    torch.tensor,
}
"""Functions that make a tensor of numbers that are known."""

_DRAWN = {torch.rand, torch.randn, torch.randint, torch.randperm}
"""Functions that draw one."""

_FILLED = {Tensor.uniform_, Tensor.normal_, Tensor.random_, Tensor.bernoulli_, Tensor.exponential_}
"""Methods that draw into one that is there."""

_LIKE = {torch.rand_like, torch.randn_like, torch.randint_like, torch.bernoulli}
"""Functions that draw one like another."""


_SILENCED = {torch.dropout, torch.nn.functional.dropout}
"""Functions that silence some entries of one."""


class _Placed(TorchFunctionMode):
    """torch's functions inside: made on `device`, drawn in this machine's memory and sent there.

    What is written in Python, as first weights and dropout are, hides its draws from us, and is met as a whole.
    """

    def __init__(self, device: torch.device) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = dict(kwargs or {})
        if func in _MADE:
            named["device"] = self.device if named.get("device") is None else named["device"]
        elif func in _DRAWN:
            where = torch.device(named.pop("device", None) or self.device)
            return func(*args, **named, device="cpu").to(where)
        elif func in _FILLED and args[0].device.type != "cpu":
            drawn = func(torch.empty(args[0].shape, dtype=args[0].dtype, device="cpu"), *args[1:], **named)
            return args[0].copy_(drawn)
        elif func in _LIKE and args[0].device.type != "cpu":
            return func(args[0].cpu(), *args[1:], **named).to(args[0].device)
        elif func in _SILENCED and args[0].device.type != "cpu":
            kept = func(torch.ones(args[0].shape, dtype=args[0].dtype, device="cpu"), *args[1:], **named)
            return args[0] * kept.to(args[0].device)
        elif getattr(func, "__module__", "") == "torch.nn.init":
            return _started(func, args, named)
        return func(*args, **named)


def _started(func: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Tensor:
    """First weights, which torch's own functions draw into a tensor."""
    into: Tensor = args[0] if args else named["tensor"]
    rest, given = args[1:], {name: value for name, value in named.items() if name != "tensor"}
    drawn: Tensor = func(torch.empty(into.shape, dtype=into.dtype, device="cpu"), *rest, **given)
    with torch.no_grad():
        into.copy_(drawn)
    return into


@contextmanager
def placed(device: torch.device) -> Iterator[None]:
    """Inside, tensors are made on `device`. Chance is the same on every device: the generator of the CPU draws it."""
    if device.type == "cpu":
        yield
        return
    with torch.cuda.device(device), on_device(device), _Placed(device):
        yield


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
def report_oom() -> Iterator[None]:
    """A GPU that runs out of memory inside says what to lower."""
    try:
        yield
    except torch.OutOfMemoryError:
        raise MemoryError(out_of_room()) from None


def out_of_room() -> str:
    """What to do about it, in words: torch's own quote sizes, which may be private."""
    return (
        f"the GPU is out of memory: lower the block, Compute(block=...) or --block, now {rows_at_a_time(1):,} rows; or "
        "give features as bfloat16, or use device cpu"
    )
