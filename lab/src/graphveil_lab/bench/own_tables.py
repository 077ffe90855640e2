"""A graph of one's own as a dataset of an experiment: two tables that the spec names."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Self

import torch
from pydantic import BaseModel, ConfigDict

from graphveil.data.datasets.source import DRAWN, TWO_GRAPHS, SplitName, drawn
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput


class OwnTables(BaseModel):
    """An edge table and a node table, .csv or .parquet, and which column is what; see `Graph.from_edges`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    edges: str
    nodes: str
    directed: bool = False
    clean: bool = False
    id: str | None = None
    label: str | None = None
    source: str | None = None
    target: str | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    encode: str | None = None
    categories: str | None = None
    encoding: str = "utf-8"
    digest: str = ""
    """SHA-256 of the files: other tables under the same name are another task. Filled in when a spec is read."""

    def found(self, folder: Path) -> Self:
        """The same with files as seen from `folder`, that of the spec, and with their digest."""
        names = ("edges", "nodes", "categories")
        paths = {name: str(folder / value) for name in names if (value := getattr(self, name)) is not None}
        told = hashlib.sha256()
        for name, path in paths.items():
            try:
                with open(path, "rb") as file:
                    told.update(f"{name} {hashlib.file_digest(file, 'sha256').hexdigest()} ".encode())
            except OSError as error:
                raise InvalidInput(f"{name} {path} cannot be read: {error.strerror or error}") from None
        return self.model_copy(update={**paths, "digest": told.hexdigest()})

    def require_split(self, name: str, split: SplitName) -> None:
        """Refuse a split that the tables do not have: `public` is that of their column `split`."""
        known = (*DRAWN, *TWO_GRAPHS, *(("public",) if whole(self, name).split != "none" else ()))
        if split not in known:
            raise InvalidInput(f"the tables of {name!r} have no split {split!r}; use one of: {', '.join(known)}")

    def load(self, name: str, split: SplitName, seed: int) -> Graph:
        """The graph, split as `datasets.load` would."""
        self.require_split(name, split)
        graph = whole(self, name)
        if split == "public":
            return graph
        if split in TWO_GRAPHS:
            half, rest = graph.num_nodes // 2, (graph.num_nodes - graph.num_nodes // 2) // 2
            return graph.split_public(half, rest, rest, seed, exchanged=split == "two_graphs_exchanged")
        nobody = torch.zeros(graph.num_nodes, dtype=torch.bool)
        return drawn(graph.with_split(nobody, nobody, nobody, "none"), split, seed)


@lru_cache(maxsize=4)
def whole(tables: OwnTables, name: str) -> Graph:
    """The graph of both tables, with the split of its column if there is one."""
    columns = tables.model_dump(exclude={"edges", "nodes", "directed", "digest"})
    return Graph.from_edges(tables.edges, tables.nodes, undirected=not tables.directed, name=name, **columns)
