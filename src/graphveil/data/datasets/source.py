"""What a dataset is: where it comes from, how it is opened and how it can be split."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput

SplitName = Literal["random", "random_80_20", "public", "per_class", "two_graphs", "two_graphs_exchanged"]
"""How a graph can be split, by name; see `datasets.load`."""
DRAWN: tuple[SplitName, ...] = ("random", "random_80_20", "per_class")
"""Splits that a seed draws of any graph with enough labels."""
TWO_GRAPHS: tuple[SplitName, ...] = ("two_graphs", "two_graphs_exchanged")
"""A private graph with a public one beside it."""

PublicSplit = Callable[[int], Graph]
"""The graph under the dataset's own split; the seed chooses where there are several."""


@dataclass(frozen=True)
class DatasetSource(ABC):
    """One dataset; `edges` counts an undirected edge once and is what `Graph.num_edges` will say.

    Its population are the nodes it has, so every id of its graph is present.
    """

    origin: str
    nodes: int
    edges: int
    splits: tuple[SplitName, ...]

    @abstractmethod
    def present(self, root: str | Path | None) -> bool:
        """Whether it can be opened on this machine."""

    @abstractmethod
    def open(self, name: str, root: str | Path | None) -> tuple[Graph, PublicSplit | None]:
        """The graph without a split, and its public split if it has one."""

    @abstractmethod
    def fetch(self, name: str, into: Path) -> Path | None:
        """Download what it needs below the folder `into`, and return where; None where nothing has to be on disk."""


@dataclass(frozen=True)
class Generated(DatasetSource):
    """A dataset made on the spot."""

    make: Callable[[], Graph]
    public: Callable[[Graph, int], Graph] | None = None

    def present(self, root: str | Path | None) -> bool:  # noqa: ARG002  # nothing has to be on disk
        """Always."""
        return True

    def open(
        self,
        name: str,  # noqa: ARG002  # the maker names the graph
        root: str | Path | None,  # noqa: ARG002
    ) -> tuple[Graph, PublicSplit | None]:
        """Make it."""
        graph, split = self.make(), self.public
        return graph, None if split is None else lambda seed: split(graph, seed)

    def fetch(self, name: str, into: Path) -> Path | None:  # noqa: ARG002
        """Nothing has to be on disk."""
        return None


def drawn(graph: Graph, split: str, seed: int) -> Graph:
    """The graph under one of the splits `DRAWN`."""
    if split == "per_class":
        return graph.per_class_split(seed=seed)
    if split == "random_80_20":
        return graph.random_split(0.7, 0.1, 0.2, seed)
    if split == "random":
        return graph.random_split(seed=seed)
    known = ", ".join(DRAWN)
    raise InvalidInput(f"your own graph has no split {split!r}; use one of: {known}; or give it a split column")
