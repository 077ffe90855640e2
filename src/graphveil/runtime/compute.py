"""Where and how work runs: it changes the time, never a plan, a certificate or, within stated rounding, a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

import torch

from graphveil.checks import quoted
from graphveil.errors import InvalidInput, Unsupported
from graphveil.runtime.engine import engine_of, limited_threads, require_engine, using

DEVICES = ("auto", "cpu", "cuda")
"""What a graph and its networks may be computed on."""


@dataclass(frozen=True)
class Compute:
    """The means of a run: given to `train`, `infer`, `release_graph`, `audit` and benchmarks, or `used` around them."""

    device: str | None = None
    """Where tensors are: cpu; cuda; auto, a CUDA GPU where there is one and the method gains by it; None, where the
    graph is."""
    block: int | None = None
    """Rows of nodes that are worked on at a time; None leaves it to the device. Fewer take less memory."""
    threads: int | None = None
    """Threads of torch and numba in this process; None leaves them as they are set. Workers have one each."""
    jobs: int = 1
    """Worker processes of the local engine."""
    engine: str = "local"
    """Where independent pieces of work run: local, ray (started here), or ray=ADDRESS of a running cluster."""

    def __post_init__(self) -> None:
        if self.device is not None and self.device not in DEVICES:
            raise Unsupported(f"no device {quoted(self.device)}; use one of: {', '.join(DEVICES)}")
        if self.device == "cuda" and not torch.cuda.is_available():
            raise Unsupported("there is no CUDA GPU here, or this PyTorch cannot use it; use device auto or cpu")
        for name, least in (("threads", self.threads), ("jobs", self.jobs), ("block", self.block)):
            if least is not None and (not isinstance(least, int) or isinstance(least, bool) or least < 1):
                raise InvalidInput(f"{name} must be a whole number of at least 1, got {quoted(least)}")
        require_engine(self.engine)

    @contextmanager
    def used(self) -> Iterator[None]:
        """Work inside this block runs so."""
        with using(engine_of(self.engine, self.jobs)), limited_threads(self.threads):
            token = _current.set(self)
            try:
                yield
            finally:
                _current.reset(token)

    def place(self, where: torch.device, gains: bool) -> torch.device:
        """The device of a run on a graph that is on `where`; gains: whether the method is any faster on a GPU."""
        if self.device is None:
            asked = where
        elif self.device == "auto":
            asked = torch.device("cuda" if gains and torch.cuda.is_available() else "cpu")
        else:
            asked = torch.device(self.device)
        # A device without a number would not be equal to that of a tensor.
        return torch.device("cuda", torch.cuda.current_device()) if asked == torch.device("cuda") else asked


_HERE = Compute()
_current: ContextVar[Compute] = ContextVar("compute", default=_HERE)


_ON_GPU = 1 << 20
"""Rows at a time on a GPU, which many fill and few do not."""

_device: ContextVar[torch.device | None] = ContextVar("device", default=None)


@contextmanager
def on_device(device: torch.device) -> Iterator[None]:
    """Work inside this block is done on `device`."""
    token = _device.set(device)
    try:
        yield
    finally:
        _device.reset(token)


def on_gpu() -> bool:
    """Whether work is done on a GPU here."""
    device = _device.get()
    return device is not None and device.type != "cpu"


def rows_at_a_time(usual: int) -> int:
    """How many rows of nodes are worked on at a time here: as was asked for, or `usual` on a processor."""
    return present().block or (_ON_GPU if on_gpu() else usual)


def present() -> Compute:
    """How work runs here."""
    return _current.get()


@contextmanager
def using_compute(compute: Compute | None) -> Iterator[None]:
    """Work inside this block runs as `compute` says, or as it does around it."""
    with nullcontext() if compute is None else compute.used():
        yield
