"""Datasets whose raw files lie in a folder: read by PyG's own classes, offline, then cached as npz.

The raw folder may be read-only and several processes may open a dataset at once, so PyG works in a scratch
folder with a link to the raw files, and the result moves into the cache in one atomic step.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from graphveil.data.arcs import Csr
from graphveil.data.datasets.source import DatasetSource, PublicSplit
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, MissingData, Unsupported
from graphveil.vocabulary import ROLES

CACHE_FORMAT = 1
"""Raise it when the cached arrays, or the way they are cleaned, change."""

Arrays = dict[str, NDArray[Any]]
Reader = Callable[[str], Any]
"""Opens a PyG dataset below the given root."""


def pyg_reader(kind: str, folder: str, *args: str) -> Reader:
    """Opens the PyG dataset of class `kind`, which lies in `folder` below the root."""

    def read(root: str) -> Any:
        from torch_geometric import datasets

        return getattr(datasets, kind)(f"{root}/{folder}", *args)

    return read


def find_root(root: str | Path | None = None) -> Path:
    """The data folder: the argument, else GRAPHVEIL_DATA, else `shared/data` beside here or the checkout.

    Else the folder that downloads go to.
    """
    given = root if root is not None else os.environ.get("GRAPHVEIL_DATA")
    beside = [Path.cwd().parent / "shared" / "data", Path(__file__).parents[4] / "shared" / "data", download_root()]
    for folder in beside if given is None else [Path(given).expanduser()]:
        if folder.is_dir():
            return folder.resolve()
    looked = f"there is no folder {given}" if given is not None else "no data folder is known"
    raise MissingData(
        f"{looked}; set GRAPHVEIL_DATA to the root that holds the raw datasets, pass root=, or download with "
        "`graphveil data get NAME`"
    )


def download_root() -> Path:
    """Where downloads go by default: GRAPHVEIL_DATA, else a folder of the cache."""
    given = os.environ.get("GRAPHVEIL_DATA")
    return _cache_path() / "data" if given is None else Path(given).expanduser()


def _cache_path() -> Path:
    return Path(os.environ.get("GRAPHVEIL_CACHE", "~/.cache/graphveil")).expanduser()


def cache_folder() -> Path:
    """Where opened datasets are kept: GRAPHVEIL_CACHE, else ~/.cache/graphveil."""
    folder = _cache_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(f"cannot make the cache {folder} ({error}); set GRAPHVEIL_CACHE") from None
    return folder


@dataclass(frozen=True)
class Stored(DatasetSource):
    """Raw files in `folder` below the root, and the PyG class that reads them.

    Self-loops and duplicate arcs in the raw data are dropped; features are as stored. public_reads_labels: the public
    split was drawn by looking at labels. downloads: the PyG class fetches these very files where they are missing.
    """

    folder: str
    files: tuple[str, ...]
    reader: Reader
    undirected: bool = True
    public_reads_labels: bool = False
    downloads: bool = True

    def present(self, root: str | Path | None) -> bool:
        """Whether every raw file is there."""
        try:
            self._raw_files(find_root(root))
        except MissingData:
            return False
        return True

    def open(self, name: str, root: str | Path | None) -> tuple[Graph, PublicSplit | None]:
        """From the cache if the raw files have not changed since, else through PyG."""
        base = find_root(root)
        raw = self._raw_files(base)
        cached = cache_folder() / f"{name}-{_stamp(raw)}.npz"
        arrays = _read_cache(cached)
        if arrays is None:
            arrays = self._read(base, raw)
            _write_cache(cached, arrays)
        graph = _unpack(arrays, name)
        roles = arrays["roles"]
        return graph, (lambda seed: _public(graph, roles, seed, self.public_reads_labels)) if len(roles) else None

    def fetch(self, name: str, into: Path) -> Path | None:
        """Download the raw files by PyG's own class, all of them or none, and read them once to see that they fit."""
        if self.present(into):
            return into / self.folder
        if not self.downloads:
            raise Unsupported(
                f"PyG has no class that downloads {name!r}: put {', '.join(self.files)} into {into / self.folder}"
            )
        target = into / self.folder
        if target.is_dir() and any(target.iterdir()):
            raise InvalidInput(f"{target} lacks some of {', '.join(self.files)}; move it away, then download again")
        try:
            into.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=into) as scratch:
                self.reader(scratch)
                target.parent.mkdir(parents=True, exist_ok=True)
                # An empty folder gives way.
                os.replace(Path(scratch, self.folder), target)
        # A missing network, a full disk, another file in its place: each class and library has errors of its own.
        except Exception as error:
            raise MissingData(
                f"{name} could not be downloaded ({type(error).__name__}: {error}); on a machine with a network run "
                f"`graphveil data get {name} --into data`, and copy data/{self.folder} to {into / self.folder}"
            ) from error
        self.open(name, into)
        return target

    def _raw_files(self, base: Path) -> list[Path]:
        raw = [base / self.folder / file for file in self.files]
        absent = [path.name for path in raw if not path.is_file()]
        if absent:
            raise MissingData(
                f"{base / self.folder} lacks {', '.join(absent)}; "
                "GRAPHVEIL_DATA (or root=) must point to the root that holds the raw datasets; `graphveil data get` "
                "downloads most of them"
            )
        return raw

    def _read(self, base: Path, raw: list[Path]) -> Arrays:
        _check_sums(base, raw)
        try:
            with self._scratch(base) as scratch, redirect_stderr(io.StringIO()):
                data = self.reader(scratch)[0]
                roles = _roles(data)
                for role in ROLES:
                    data[f"{role}_mask"] = None  # a graph has one split; the public ones are kept aside
                graph = Graph.from_pyg(data, undirected=self.undirected, clean=True)
                self._check_counts(graph)
        # PyG's readers let pickle, zip, numpy and text errors through: whatever breaks, the raw files did it.
        except Exception as error:
            files = ", ".join(str(path) for path in raw)
            raise InvalidInput(f"corrupted raw data ({error!r}); restore one of {files}") from error
        return _pack(graph, roles)

    def _check_counts(self, graph: Graph) -> None:
        """Compare with the known sizes: a text file that was cut short can still be read."""
        found, known = (graph.num_nodes, graph.num_edges), (self.nodes, self.edges)
        if found != known:
            raise InvalidInput(f"expected {known[0]} nodes and {known[1]} edges, found {found[0]} and {found[1]}")

    @contextmanager
    def _scratch(self, base: Path) -> Iterator[str]:
        """A writable root for PyG: the raw folder is linked, everything else is deleted afterwards."""
        with tempfile.TemporaryDirectory(dir=cache_folder()) as scratch:
            link = Path(scratch, self.folder)
            link.parent.mkdir(parents=True)
            link.symlink_to(base / self.folder, target_is_directory=True)
            yield scratch


def _stamp(raw: list[Path]) -> str:
    """Changes when a raw file moves or is written to."""
    states = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in raw]
    return hashlib.sha256(repr((CACHE_FORMAT, states)).encode()).hexdigest()[:16]


def _check_sums(base: Path, raw: list[Path]) -> None:
    """Compare with SHA256SUMS where the root has one; it can name the damaged file among many."""
    sums = base / "SHA256SUMS"
    lines = sums.read_text().splitlines() if sums.is_file() else []
    wanted = {base / file: digest for digest, file in (line.split(maxsplit=1) for line in lines)}
    for path in raw:
        if path in wanted and hashlib.sha256(path.read_bytes()).hexdigest() != wanted[path]:
            raise InvalidInput(f"corrupted raw data: {path} differs from {sums.name}; restore the file")


def _roles(data: Any) -> NDArray[np.int8]:
    """PyG's masks, [n] or [n, k], as k public splits [k, n]: 0 unused, 1 train, 2 val, 3 test."""
    roles = np.zeros((0, data.num_nodes), dtype=np.int8)
    for number, role in enumerate(ROLES, start=1):
        mask = data.get(f"{role}_mask")
        if mask is None:
            return roles
        columns = mask.numpy().reshape(data.num_nodes, -1).T
        roles = roles if len(roles) else np.zeros(columns.shape, dtype=np.int8)
        roles[columns] = number
    return roles


def _public(graph: Graph, roles: NDArray[np.int8], seed: int, reads_labels: bool) -> Graph:
    """Public split number `seed`, counted round."""
    number = seed % len(roles)
    train, val, test = (torch.from_numpy(roles[number] == role) for role in (1, 2, 3))
    how = "public" if len(roles) == 1 else f"public(column={number})"
    return graph.with_split(train, val, test, how, reads_labels=reads_labels)


def _pack(graph: Graph, roles: NDArray[np.int8]) -> Arrays:
    """Plain arrays; mostly-zero features as a sparse triple, which is tens of times smaller."""
    arrays: Arrays = {"indptr": graph.adj.indptr, "indices": graph.adj.indices, "y": graph.y.numpy()}
    arrays |= {"undirected": np.array(graph.undirected), "roles": roles}
    x = graph.x.numpy()
    if np.count_nonzero(x) * 3 > x.size:
        return arrays | {"x": x}
    sparse = sp.csr_array(x)
    triple = {"x_data": sparse.data, "x_indices": sparse.indices, "x_indptr": sparse.indptr}
    return arrays | triple | {"x_shape": np.array(x.shape)}


def _unpack(arrays: Arrays, name: str) -> Graph:
    """Inverse of `_pack`, without a split."""
    x = arrays.get("x")
    if x is None:
        triple = (arrays["x_data"], arrays["x_indices"], arrays["x_indptr"])
        x = sp.csr_array(triple, shape=tuple(arrays["x_shape"])).toarray()
    y = torch.from_numpy(arrays["y"])
    none = torch.zeros(len(y), dtype=torch.bool)
    return Graph(
        x=torch.from_numpy(x),
        adj=Csr(arrays["indptr"], arrays["indices"]),
        y=y,
        num_classes=int(y.max()) + 1,
        undirected=bool(arrays["undirected"]),
        train=none,
        val=none,
        test=none,
        name=name,
        split="none",
        every_id_present=True,
    )


def _read_cache(path: Path) -> Arrays | None:
    """The cached arrays; None if there are none, or a failing disk spoilt them."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            return dict(stored)
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def _write_cache(path: Path, arrays: Arrays) -> None:
    """All of it or nothing: readers never see a half-written file."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
        try:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub mistakes them for allow_pickle
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise
