"""Where and how work runs: it changes the time, never a plan, a certificate or, within stated rounding, a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from graphveil.checks import quoted
from graphveil.errors import InvalidInput, Unsupported
from graphveil.runtime.distributed import ALONE, Workers
from graphveil.runtime.engine import IN_PROCESS, Engine, engine_of, limited_threads, require_engine
from graphveil.runtime.progress import QUIET, Progress

DEVICES = ("auto", "cpu", "cuda")
"""What a graph and its networks may be computed on."""

_CPU = torch.device("cpu")

_ON_GPU = 1 << 20
"""Rows at a time on a GPU, which many fill and few do not."""


@dataclass(frozen=True)
class Run:
    """What a run is carried out with, handed to whatever needs it; by default this process, on the CPU, quietly.

    block: rows of nodes that are worked on at a time, None for what a CPU is best at.
    """

    device: torch.device = _CPU
    block: int | None = None
    engine: Engine = IN_PROCESS
    workers: Workers = ALONE
    progress: Progress = QUIET


HERE = Run()
"""This process, on the CPU, quietly."""


@dataclass(frozen=True)
class Compute:
    """The means of a run: given to `train`, `infer`, `release_graph`, `audit` and benchmarks."""

    device: str | None = None
    """Where tensors are: cpu; cuda; auto, a CUDA GPU where there is one and the method gains by it; None, where the
    graph is."""
    block: int | None = None
    """Rows of nodes that are worked on at a time; None leaves it to the device. Fewer take less memory."""
    threads: int | None = None
    """Threads of torch and numba in this process; None leaves them as they are set. Workers have one each."""
    jobs: int = 1
    """Worker processes of the local engine."""
    engine: str | Engine = "local"
    """Where independent pieces of work run: local, ray (started here), ray=ADDRESS of a running cluster, or an engine.
    """
    workers: Workers = ALONE
    """The processes of `torchrun` that share the training: those that `runtime.distributed.joined` gives."""
    quiet: bool = False
    """Whether no progress is shown."""

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
    def opened(self, where: torch.device = _CPU, gains: bool = True) -> Iterator[Run]:
        """What a run inside this block is carried out with, its engine started.

        where: the device of the graph; gains: whether the method is any faster on a GPU: others stay on the CPU.
        """
        engine, device, progress = engine_of(self.engine, self.jobs), self.place(where, gains), Progress(not self.quiet)
        if device.type != "cpu" and not gains:
            progress.note("the method gains nothing on a GPU, and runs on the CPU")
            device = _CPU
        block = self.block or (_ON_GPU if device.type != "cpu" else None)
        with engine.opened(), limited_threads(self.threads):
            yield Run(device, block, engine, self.workers, progress)

    def place(self, where: torch.device, gains: bool) -> torch.device:
        """The device that is asked for, of a run on a graph that is on `where`."""
        if self.device is None:
            asked = where
        elif self.device == "auto":
            asked = torch.device("cuda" if gains and torch.cuda.is_available() else "cpu")
        else:
            asked = torch.device(self.device)
        # A device without a number would not be equal to that of a tensor.
        return torch.device("cuda", torch.cuda.current_device()) if asked == torch.device("cuda") else asked


USUAL = Compute()
"""As it is where nothing is asked for."""
