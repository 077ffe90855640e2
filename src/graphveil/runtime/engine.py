"""Where independent pieces of work run: in this process, in worker processes, or on a Ray cluster.

A piece is a pure function of what it is given and runs on one thread, so every engine gives the same results, bit for
bit, if the machines are alike. Pieces may hold private data: workers belong inside the same walls as this process.
A Ray cluster that is started here answers this machine alone, asks for a token, and keeps its files to its owner.
"""

from __future__ import annotations

import logging
import os
import secrets
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, TypeVar

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from graphveil.errors import InvalidInput, MissingExtra, Unsupported
from graphveil.runtime.progress import QUIET, Progress

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[S, T], R]
"""A piece of work: of what all pieces share, and of its own item. Importable by name, so that workers find it."""

Columns = dict[str, NDArray[Any]]
"""Arrays of one length by name."""

_RETRIES = 8
"""How often Ray runs a piece again whose worker was lost."""

_ROWS = 1 << 20
"""Rows of a file that a worker of a group-by reads at a time."""

_BYTES = 1 << 25
"""Bytes of rows that pass from one worker to another in one piece."""

GROUP = "group"
"""The column of `Engine.grouped` that says where a row belongs."""


@dataclass(frozen=True, eq=False)
class GroupBy:
    """Rows of Parquet files, brought together by group.

    spread(table) gives rows for some of a file's rows, an Arrow table of `columns`: a column `group`, of 0..groups-1,
    and others. gather(group, rows) is asked for every group, with those others of all its rows, even if there are none;
    the arrays are its own. Both are pure functions, so whatever is lost can be made again.
    """

    files: tuple[str, ...]
    columns: tuple[str, ...]
    groups: int
    spread: Callable[[Any], Columns]
    gather: Callable[[int, Columns], Columns]


class Engine(ABC):
    """Runs pieces of work, in any order."""

    @abstractmethod
    def stream(self, work: Work[S, T, R], shared: S, items: Sequence[T]) -> Generator[tuple[int, R]]:
        """(place in `items`, result) as they get done; closing it early drops what has not begun."""

    @abstractmethod
    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        """What `gather` gives for all groups, in any order and in pieces."""

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Start what is needed for this block, and give it back afterwards."""
        yield


@dataclass(frozen=True)
class Local(Engine):
    """This process, or `jobs` worker processes of this machine."""

    jobs: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.jobs, int) or self.jobs < 1:
            raise InvalidInput(f"jobs must be at least 1, got {self.jobs!r}")

    def stream(self, work: Work[S, T, R], shared: S, items: Sequence[T]) -> Generator[tuple[int, R]]:
        if self.jobs == 1 or len(items) < 2:
            return (_piece(work, shared, place, item) for place, item in enumerate(items))
        from joblib import Parallel, delayed

        # Should we be killed, the workers finish what they hold; the timeout then sends them home. Nothing is put into
        # files (max_nbytes): it may be private.
        pool = Parallel(
            self.jobs, backend="loky", return_as="generator_unordered", idle_worker_timeout=20, max_nbytes=None
        )
        done: Generator[tuple[int, R]] = pool(
            delayed(_piece)(work, shared, place, item) for place, item in enumerate(items)
        )
        return done

    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        """In this process alone, which holds all rows."""
        import pyarrow.parquet as pq

        rows = [_empty(work)]
        for file in work.files:
            with pq.ParquetFile(file) as opened:
                rows += [
                    work.spread(_as_table(batch)) for batch in opened.iter_batches(_ROWS, columns=list(work.columns))
                ]
        joined = {name: np.concatenate([part[name] for part in rows]) for name in rows[0]}
        for group in range(work.groups):
            mine = joined[GROUP] == group
            yield work.gather(group, {name: column[mine] for name, column in joined.items() if name != GROUP})


@dataclass(frozen=True)
class Ray(Engine):
    """A Ray cluster at `address`, or one started on this machine if it is None, of `jobs` workers if that is given.

    Lost workers are replaced.
    """

    address: str | None = None
    jobs: int | None = None

    def stream(self, work: Work[S, T, R], shared: S, items: Sequence[T]) -> Generator[tuple[int, R]]:
        return _remote(_ray(), work, shared, items)

    def grouped(self, work: GroupBy) -> Iterator[Columns]:
        """As a group-by of Ray Data: a worker holds some rows of a file, or those of some groups."""
        return _grouped(_ray(), work)

    @contextmanager
    def opened(self) -> Iterator[None]:
        ray = _ray()
        if ray.is_initialized():
            # The caller's own cluster: it stays.
            yield
            return
        with _joined(ray, self.address) if self.address else _started(ray, self.jobs):
            yield


IN_PROCESS = Local()
"""This process alone."""


def require_engine(name: object) -> None:
    """`local`, `ray` (started here), `ray=ADDRESS` of a running cluster, or an `Engine`; or a clear error."""
    if isinstance(name, Engine):
        return
    if not isinstance(name, str) or not (name in ("local", "ray") or name.startswith("ray=")):
        raise InvalidInput(f"unknown engine {name!r}; use local, ray, or ray=ADDRESS (e.g. ray=10.0.0.5:6379)")


def engine_of(name: str | Engine, jobs: int = 1) -> Engine:
    """The engine of that name: see `require_engine`."""
    if isinstance(name, Engine):
        return name
    require_engine(name)
    if name == "local":
        return Local(jobs)
    _ray()
    return Ray(name.partition("=")[2] or None, jobs if jobs > 1 else None)


def each(
    engine: Engine, work: Work[S, T, R], shared: S, items: Sequence[T], label: str, progress: Progress = QUIET
) -> list[R]:
    """The results of all items, in their order."""
    results: list[Any] = [None] * len(items)
    with closing(engine.stream(work, shared, items)) as stream:
        for _ in progress.track(range(len(items)), label):
            place, result = next(stream)
            results[place] = result
    return results


def one_thread() -> AbstractContextManager[None]:
    """Sums in one order, whatever the number of workers."""
    return limited_threads(1)


@contextmanager
def limited_threads(count: int | None) -> Iterator[None]:
    """torch and numba take so many threads inside this block, or as many as before."""
    before = torch.get_num_threads(), numba.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]  # set at import
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def _piece(work: Work[S, T, R], shared: S, place: int, item: T) -> tuple[int, R]:
    with one_thread():
        return place, work(shared, item)


def _ray() -> Any:
    # Nothing is reported to anybody; Ray reads this when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise MissingExtra("Ray is not installed; run `pip install graphveil[ray]`") from None
    return ray


@contextmanager
def _started(ray: Any, jobs: int | None = None) -> Iterator[None]:
    """A cluster of our own on this machine, which nobody else can reach, and whose files nobody else can read."""
    if os.environ.get("RAY_AUTH_MODE", "token") != "token":
        raise InvalidInput("RAY_AUTH_MODE turns Ray's token off, and Ray would hold private data; unset it")
    # Only where it is not set does Ray read it anew.
    os.environ.pop("RAY_AUTH_MODE", None)
    # Ray's processes find it there; left to itself, Ray writes a token for all to read into the home folder. It stays,
    # because Ray remembers it until this process ends.
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with tempfile.TemporaryDirectory(prefix="graphveil-", ignore_cleanup_errors=True) as walls:
        with _loopback(ray):
            # "local": Ray would otherwise join whatever cluster it finds. Nothing is spilled to disk.
            _init(
                ray,
                "local",
                "Ray cannot be started",
                _node_ip_address="127.0.0.1",
                _system_config={"automatic_object_spilling_enabled": False},
                # Ray opens its folder to everybody, so it gets one inside ours.
                _temp_dir=os.path.join(walls, "ray"),
                num_cpus=jobs,
            )
        try:
            _require_walls(ray)
            yield
        finally:
            ray.shutdown()


@contextmanager
def _loopback(ray: Any) -> Iterator[None]:
    """Ray puts an address that others reach in the place of 127.0.0.1, except where it knows of no clusters."""
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _require_walls(ray: Any) -> None:
    """Our cluster listens to this machine alone, and asks for its token; no work was sent there yet."""
    listening = [node["NodeManagerAddress"] for node in ray.nodes()]
    if not all(ip_address(place).is_loopback for place in listening) or os.environ.get("RAY_AUTH_MODE") != "token":
        raise Unsupported(f"Ray {ray.__version__} starts a cluster that others can reach; install ray 2.60")


@contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    """Somebody else's cluster, about whose token somebody has decided."""
    if "RAY_AUTH_MODE" not in os.environ:
        raise InvalidInput(
            "Ray will hold private data: start its cluster with RAY_AUTH_MODE=token, and set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) here; RAY_AUTH_MODE=disabled if all who reach it may read the data"
        )
    _init(ray, address, f"Ray at {address} cannot be reached, or refuses our token")
    try:
        yield
    finally:
        ray.shutdown()


def _init(ray: Any, address: str, failed: str, **own: Any) -> None:
    try:
        ray.init(address, include_dashboard=False, log_to_driver=False, logging_level="error", **own)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise InvalidInput(f"{failed}: {error}") from None


def _remote(ray: Any, work: Work[S, T, R], shared: S, items: Sequence[T]) -> Generator[tuple[int, R]]:
    """Submit all pieces, `shared` once, and yield them as they get done."""
    piece = ray.remote(num_cpus=1, max_retries=_RETRIES)(_piece)
    held = ray.put(shared)
    waiting = [piece.remote(work, held, place, item) for place, item in enumerate(items)]
    try:
        while waiting:
            (done,), waiting = ray.wait(waiting)
            yield ray.get(done)
    finally:
        for task in waiting:
            ray.cancel(task)


def _empty(work: GroupBy) -> Columns:
    """No row, in the columns and types of `spread`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = pq.read_schema(work.files[0])
    return work.spread(pa.table({name: pa.array([], head.field(name).type) for name in work.columns}))


def _as_table(batch: Any) -> Any:
    import pyarrow as pa

    return pa.Table.from_batches([batch])


def _grouped(ray: Any, work: GroupBy) -> Iterator[Columns]:
    """Rows are spread by tasks, sorted by group, and gathered by tasks: a task that is lost runs again."""
    import ray.data as data

    _quiet_data(data)
    held, empty = ray.put(work), _empty(work)

    def spread(table: Any) -> Columns:
        with one_thread():
            made = ray.get(held).spread(table)
        return {**made, GROUP: made[GROUP].astype(np.int32), _REAL: np.ones(len(made[GROUP]), np.bool_)}

    def gather(rows: Columns) -> Columns:
        group, real = int(rows[GROUP][0]), rows[_REAL]
        with one_thread():
            found: Columns = ray.get(held).gather(group, {name: rows[name][real] for name in empty if name != GROUP})
        return found

    # A row for every group, so that each is gathered.
    keys = {name: np.zeros(work.groups, column.dtype) for name, column in empty.items()}
    every = {**keys, GROUP: np.arange(work.groups, dtype=np.int32), _REAL: np.zeros(work.groups, np.bool_)}
    rows = data.read_parquet(list(work.files)).select_columns(list(work.columns))
    rows = rows.map_batches(spread, batch_size=_ROWS, batch_format="pyarrow")
    rows = rows.union(data.from_numpy([np.arange(work.groups)]).map_batches(lambda _: every, batch_format="numpy"))
    done = rows.groupby(GROUP).map_groups(gather, batch_format="numpy")
    yield from done.iter_batches(batch_size=None, batch_format="numpy")


_REAL = "real"
"""Which rows are not there for their group's sake alone."""


def _quiet_data(data: Any) -> None:
    """Ray Data without words; sorted by tasks, which run again when they are lost, and not by actors, which do not."""
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = data.DataContext.get_current()
    context.enable_progress_bars = context.print_on_execution_start = False
    context.target_max_block_size = _BYTES
    context.shuffle_strategy = data.context.ShuffleStrategy.SORT_SHUFFLE_PULL_BASED
