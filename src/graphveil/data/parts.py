"""Edges in Parquet files that no single process reads, and a graph that refers to them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput, Unsupported
from graphveil.runtime.engine import GROUP, IN_PROCESS, Columns, Engine, GroupBy

_BLOCK = 1 << 16
"""Targets whose arcs are checked in one place."""


@dataclass(frozen=True, eq=False)
class EdgeParts:
    """Parquet files of edges, each listed once; source, target: their columns; ids: Arrow text [n], of the nodes.

    clean: loops and repeated edges are accepted, and ignored. in_order: the ids are 0, 1, 2, ... engine: whose workers
    read the files.
    """

    files: tuple[str, ...]
    source: str
    target: str
    ids: Any
    undirected: bool
    clean: bool = False
    in_order: bool = False
    engine: Engine = IN_PROCESS

    @classmethod
    def of(
        cls,
        pattern: str | os.PathLike[str],
        ids: Any,
        source: str | None = None,
        target: str | None = None,
        *,
        undirected: bool = True,
        clean: bool = False,
    ) -> EdgeParts:
        """The files that match; their schemas are read, their edges are not."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        from graphveil.data.columns import edge_columns
        from graphveil.data.tables import part_files

        files = part_files(Path(pattern), "edges")
        pick = edge_columns(pattern, ids, source, target, None)
        try:
            columns_of = [list(pick(pq.read_schema(file).names)) for file in files]
        except (OSError, ValueError) as error:
            raise InvalidInput(f"edges: {pattern} cannot be read as Parquet files: {error}") from None
        if any(head != columns_of[0] for head in columns_of):
            raise InvalidInput(f"edges: the files of {pattern} name their columns differently; write all parts alike")
        in_order = ids.equals(pa.array(np.arange(len(ids))).cast(ids.type))
        # Workers run in folders of their own.
        paths = tuple(str(file.resolve()) for file in files)
        return cls(paths, columns_of[0][0], columns_of[0][1], ids, undirected, clean, in_order)

    @property
    def columns(self) -> tuple[str, str]:
        """The columns that are read."""
        return self.source, self.target

    def ends(self, table: Any) -> tuple[Ids, Ids]:
        """Positions of both ends of some edges, int64 [m] each, from an Arrow table of `columns`; -1 for no node."""
        source, target = (self._places(table[name], name) for name in self.columns)
        return source, target

    def _places(self, column: Any, name: str) -> Ids:
        from graphveil.data.columns import places
        from graphveil.data.tables import read_table

        if self.in_order and str(column.type) in ("int64", "int32") and not column.null_count:
            # Ids are their own places, and need not be looked up as text.
            found = column.to_numpy().astype(np.int64)
            return np.where((found >= 0) & (found < len(self.ids)), found, -1)
        return places(read_table({name: column}, "edges")[name], self.ids, name)

    def arcs(self, table: Any) -> tuple[Ids, Ids]:
        """Sources and targets of the arcs, int64 [k] each: both arcs of an undirected edge; no loops or unknown ids."""
        source, target = self.ends(table)
        valid = (source >= 0) & (target >= 0) & (source != target)
        source, target = source[valid], target[valid]
        if not self.undirected:
            return source, target
        return np.concatenate([source, target]), np.concatenate([target, source])

    def require_clean(self) -> None:
        """Every end is a node, and no edge is a loop or listed twice: checked for the data holder before spending.

        The workers of the engine count the faults.
        """
        groups = -(-len(self.ids) // _BLOCK)
        work = GroupBy(self.files, self.columns, groups, _Keys(self), _Faults())
        found = list(self.engine.grouped(work))
        unknown, loops, repeats = (
            sum(int(faults[name].sum()) for faults in found) for name in ("unknown", "loops", "repeats")
        )
        if unknown:
            raise InvalidInput(f"edges: {unknown:,} rows have an end that is not in the node table; add the nodes")
        # Both arcs of a repeated edge are repeated.
        repeats = repeats // (1 + self.undirected)
        if (loops or repeats) and not self.clean:
            raise InvalidInput(
                f"edges: {loops:,} self-loops and {repeats:,} repeated edges in the files; remove them, or let them "
                "pass (--clean, clean=True)"
            )


@dataclass(frozen=True, eq=False)
class _Keys:
    """From some edges to a number for every arc, by its target; faults have numbers below 0, in the first group."""

    parts: EdgeParts

    def __call__(self, table: Any) -> Columns:
        source, target = self.parts.ends(table)
        outside = (source < 0) | (target < 0)
        loops = ~outside & (source == target)
        sources, targets = self.parts.arcs(table)
        keys = [np.full(int(outside.sum()), -1), np.full(int(loops.sum()), -2), targets * len(self.parts.ids) + sources]
        groups = [np.zeros(len(keys[0]) + len(keys[1]), np.int64), targets // _BLOCK]
        return {GROUP: np.concatenate(groups), "key": np.concatenate(keys)}


class _Faults:
    """From the arcs of some targets to how many faults there are."""

    def __call__(self, group: int, rows: Columns) -> Columns:  # noqa: ARG002
        keys = rows["key"]
        arcs = keys[keys >= 0]
        counts = {
            "unknown": (keys == -1).sum(),
            "loops": (keys == -2).sum(),
            "repeats": len(arcs) - len(np.unique(arcs)),
        }
        return {name: np.array([count]) for name, count in counts.items()}


class ScatteredArcs(Csr):
    """The arcs of `parts`, which cannot be read here: `indptr` and `indices` raise `Unsupported`."""

    def __init__(self, parts: EdgeParts) -> None:
        vars(self).update(parts=parts, origin=None)

    parts: EdgeParts

    def _refuse(self) -> NoReturn:
        raise Unsupported(
            "the edges lie in Parquet files, and no process holds their arcs: use hearsay (channel counts or sums), "
            "gap or lpgnet, or read the graph as a whole (--engine local, in_parts=False)"
        )

    @property
    def indptr(self) -> Ids:
        """Refused."""
        self._refuse()

    @property
    def indices(self) -> Ids:
        """Refused."""
        self._refuse()

    @property
    def num_nodes(self) -> int:
        return len(self.parts.ids)

    def has_loops(self) -> bool:
        """None that count: see `EdgeParts.arcs`."""
        return False

    def is_symmetric(self) -> bool:
        """By construction, if edges are undirected."""
        return self.parts.undirected

    def read_by(self, engine: Engine) -> ScatteredArcs:
        """The same arcs, for the workers of another engine."""
        return ScatteredArcs(replace(self.parts, engine=engine))

    def __repr__(self) -> str:
        return f"ScatteredArcs(num_nodes={self.num_nodes}, files={len(self.parts.files)})"
