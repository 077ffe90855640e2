"""One training shared by the processes that `torchrun` starts, over PyTorch's own distributed package.

Every process holds the graph and draws the same batch: the first process draws all coins and all noise, and sends them
to the others, so cryptographic noise is drawn once. Each computes the clipped gradients of its share of the batch's
subgraphs. Their sums are added up in float64, which over r processes moves a sum of k clipped gradients by under
r k 2^-53 clips: far less than the engine's clipping leaves free (see nn/subgraph.py). The noisy sum is what one process
would have released, and every process goes on from the first one's.

Sums before noise, coins and noise travel between the processes unencrypted: all of them belong on one trusted machine
or network. No key travels, and nothing of this is written to a file or a log.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NoReturn, TypeVar

import numba
import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from graphveil.errors import GraphveilError, InvalidInput
from graphveil.vocabulary import Contributions, Floats

T = TypeVar("T")

_PATIENCE = timedelta(minutes=10)
"""How long the others may take to load the graph or to calibrate the noise before they count as lost."""

_LOST = (
    "another process of this run has ended or no longer answers, so the run ends without a release; "
    "what the ledger has reserved counts as spent"
)


class Lost(GraphveilError):
    """Another process of the run has ended or no longer answers."""


@dataclass(frozen=True)
class Workers:
    """The processes of one run: this one's number, and how many there are."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        """The process that draws, counts the budget, prints and saves."""
        return self.rank == 0

    def agreed(self, work: Callable[[], T]) -> T:
        """What `work()` returns in the first process, which alone runs it."""
        if self.size == 1:
            return work()
        box: list[Any] = [work() if self.first else None]
        with _answered():
            dist.broadcast_object_list(box, src=0)
        found: T = box[0]
        return found

    def require_alike(self, describe: Callable[[], str], what: str) -> None:
        """All processes describe `what` with the same words, or a clear error; alone, nothing is asked."""
        if self.size == 1:
            return
        mine = describe()
        if self.agreed(lambda: mine) != mine:
            raise InvalidInput(f"the processes of this run hold different {what}; start all of them on the same files")

    def own_share(self, count: int) -> tuple[int, int]:
        """Which of `count` pieces this process computes: the first, and the one after the last."""
        return count * self.rank // self.size, count * (self.rank + 1) // self.size

    def sent(self, count: int, work: Callable[[], Floats]) -> Floats:
        """`work()`, float64 [count], of the first process."""
        values = work() if self.first else np.empty(count)
        with _answered():
            dist.broadcast(torch.from_numpy(values), src=0)
        return values


ALONE = Workers()
"""This process, which shares its work with no other."""


@contextmanager
def joined() -> Iterator[Workers]:
    """The processes of `torchrun`, to share a training inside this block (`Compute.workers`); else this one alone."""
    if not dist.is_torchelastic_launched() or os.environ["WORLD_SIZE"] == "1":
        yield ALONE
        return
    # torchrun ends the others as soon as one is lost: they should say why.
    before = signal.signal(signal.SIGTERM, _stop)
    # torchrun limits torch's threads, so that the processes do not compete for cores.
    numba.set_num_threads(min(torch.get_num_threads(), numba.get_num_threads()))
    _stay_inside()
    with _answered():
        # No backend named: gloo carries what lies in memory, nccl what lies on a GPU.
        dist.init_process_group(timeout=_PATIENCE)
    try:
        yield Workers(dist.get_rank(), dist.get_world_size())
    finally:
        dist.destroy_process_group()
        signal.signal(signal.SIGTERM, before)


def _stay_inside() -> None:
    """Processes of one machine listen to it alone. gloo would take whatever address the machine's name leads to."""
    if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
        for name in {"lo", "lo0"} & {name for _, name in socket.if_nameindex()}:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)


@dataclass(frozen=True, eq=False)
class Together:
    """The contributions of all processes, of which this one holds a share."""

    mine: Contributions

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum over all processes, flat float64 [p]."""
        total = self.mine.clipped_sum(clip)
        with _answered():
            dist.all_reduce(total)
        return total


@contextmanager
def _answered() -> Iterator[None]:
    """Where a process waits for the others. PyTorch reports a lost one as a RuntimeError of many lines."""
    try:
        yield
    except RuntimeError as error:
        raise Lost(_LOST) from error


def _stop(*_: object) -> NoReturn:
    raise Lost(_LOST)
