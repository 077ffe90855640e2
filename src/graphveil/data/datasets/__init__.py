"""Datasets by name. A new file in this folder that exports `SOURCES` adds to them.

So does an installed distribution with an entry point of the group `graphveil.datasets`: a name and a `DatasetSource`.
"""

from __future__ import annotations

import difflib
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any

from graphveil import plugins
from graphveil.data.datasets.source import TWO_GRAPHS, DatasetSource, drawn
from graphveil.data.datasets.stored import download_root
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput

__all__ = ["describe", "get", "load", "names", "num_nodes", "require_split"]

GROUP = "graphveil.datasets"
"""The entry points under which others register datasets."""

_TWO_GRAPHS = {"computers": (2500, 3000, 3000), "rutgers89": (10_010, 8009, 2002), "credit": (10_818, 7500, 7500)}
"""Private, query and test nodes of PrivGNN's paper (Olatunji et al. 2023, Table 11 and appendix F).

Its Amazon is `computers`. Its Facebook graph is that of another school, in halves, with a fifth of the public one for
testing: so is `rutgers89` here.
"""

_BALANCED = frozenset({"computers"})
"""Drawn with as many private nodes of every class, as the authors' code does and the edges in Table 11 bear out."""


def load(name: str, *, root: str | Path | None = None, split: str = "random", seed: int = 0) -> Graph:
    """The dataset `name` under the split "random" (75/10/15), "public" or "per_class" (20 each, 500, 1000).

    "random_80_20" is 70/10/20: four fifths to learn from, of which one eighth chooses hyper-parameters.
    "two_graphs" gives a private graph with a public one beside it (`Graph.split_public`), in the published sizes where
    there are any, else in halves, with half of the public nodes for testing; "two_graphs_exchanged" gives the same two
    graphs with the public one in the private one's place.
    `root` holds the raw files (default: GRAPHVEIL_DATA); `seed` draws the split, never the graph.
    """
    key, source = _named(name)
    require_split(key, split)
    if split in TWO_GRAPHS:
        half = source.nodes // 2
        sizes = _TWO_GRAPHS.get(key, (half, (source.nodes - half) // 2, (source.nodes - half) // 2))
        exchanged = split == "two_graphs_exchanged"
        return source.open(key, root)[0].split_public(*sizes, seed, balanced=key in _BALANCED, exchanged=exchanged)
    graph, public = source.open(key, root)
    if split == "public" and public is not None:
        return public(seed)
    return drawn(graph, split, seed)


def get(name: str, into: str | Path | None = None) -> Path | None:
    """Download the raw files of `name` by PyG's own classes, and say where they are; None if it needs none.

    into: the root, default GRAPHVEIL_DATA, else a folder of the cache, where `load` finds them.
    """
    key, source = _named(name)
    return source.fetch(key, download_root() if into is None else Path(into).expanduser())


def _named(name: str) -> tuple[str, DatasetSource]:
    """The dataset called `name` in any case, or an error that suggests one."""
    ours = _sources()
    key = name.lower()
    if key in ours:
        return key, ours[key]
    known = plugins.others(GROUP, ours)
    one = known.get(key)
    if one is None:
        close = difflib.get_close_matches(key, [*ours, *known])
        cure = f"did you mean {', '.join(close)}?" if close else "`graphveil datasets` lists them"
        raise InvalidInput(f"unknown dataset {name!r}; {cure}")
    if isinstance(one, InvalidInput):
        raise one
    found = one.load()
    if not isinstance(found, DatasetSource):
        raise InvalidInput(f"{key!r} of {one.distribution} is no dataset: register a DatasetSource, say Generated(...)")
    return key, found


def require_split(name: str, split: str) -> None:
    """Refuse a split that the dataset `name` does not have, without opening it."""
    known = (*_named(name)[1].splits, "random_80_20", *TWO_GRAPHS)
    if split not in known:
        raise InvalidInput(f"dataset {name!r} has no split {split!r}; use one of: {', '.join(known)}")


def num_nodes(name: str) -> int:
    """How many nodes the dataset `name` has, without opening it."""
    return _named(name)[1].nodes


def names() -> list[str]:
    """Every dataset that `load` knows, sorted."""
    ours = _sources()
    return sorted([*ours, *(key for key in plugins.others(GROUP, ours) if key not in ours)])


def describe(root: str | Path | None = None) -> list[dict[str, Any]]:
    """One row per dataset: name, source, nodes, edges, whether it is present here, its splits."""
    return [_row(name, root) for name in names()]


def _row(name: str, root: str | Path | None) -> dict[str, Any]:
    try:
        _, source = _named(name)
    except InvalidInput as error:  # an installed one that does not load must not hide the others
        origin = f"DOES NOT LOAD: {error}"
        return {"name": name, "source": origin, "nodes": 0, "edges": 0, "present": False, "splits": []}
    return {
        "name": name,
        "source": source.origin,
        "nodes": source.nodes,
        "edges": source.edges,
        "present": source.present(root),
        "splits": list(source.splits),
    }


def _sources() -> dict[str, DatasetSource]:
    """What the modules of this folder export."""
    found: dict[str, DatasetSource] = {}
    for module in pkgutil.iter_modules(__path__):
        exported = getattr(import_module(f"{__name__}.{module.name}"), "SOURCES", {})
        twice = found.keys() & exported.keys()
        if twice:
            raise InvalidInput(f"dataset {min(twice)!r} of {module.name}.py exists already; rename it")
        found |= exported
    return found
