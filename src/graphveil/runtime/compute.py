"""Where and how work runs: it changes the time, never a plan, a certificate or, within stated rounding, a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass

from graphveil.core import InvalidInput, Unsupported, quoted
from graphveil.runtime.engine import engine_of, limited_threads, require_engine, using

DEVICES = ("cpu",)
"""What a graph and its networks may be computed on."""


@dataclass(frozen=True)
class Compute:
    """The means of a run: given to `train`, `infer`, `release_graph`, `audit` and benchmarks, or `used` around them."""

    device: str = "cpu"
    """Where tensors are: cpu."""
    threads: int | None = None
    """Threads of torch and numba in this process; None leaves them as they are set. Workers have one each."""
    jobs: int = 1
    """Worker processes of the local engine."""
    engine: str = "local"
    """Where independent pieces of work run: local, ray (started here), or ray=ADDRESS of a running cluster."""

    def __post_init__(self) -> None:
        if self.device not in DEVICES:
            raise Unsupported(f"no device {quoted(self.device)}; use one of: {', '.join(DEVICES)}")
        for name, least in (("threads", self.threads), ("jobs", self.jobs)):
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


_HERE = Compute()
_current: ContextVar[Compute] = ContextVar("compute", default=_HERE)


def present() -> Compute:
    """How work runs here."""
    return _current.get()


@contextmanager
def using_compute(compute: Compute | None) -> Iterator[None]:
    """Work inside this block runs as `compute` says, or as it does around it."""
    with nullcontext() if compute is None else compute.used():
        yield
