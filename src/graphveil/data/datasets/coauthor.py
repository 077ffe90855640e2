"""Co-authorships with keyword features (Shchur et al. 2018)."""

from __future__ import annotations

from typing import Any

from graphveil.data.datasets.stored import Stored


def _read(root: str) -> Any:
    from torch_geometric.datasets import Coauthor

    return Coauthor(f"{root}/Coauthor", "CS")


SOURCES = {
    "cs": Stored(
        origin="Coauthor",
        nodes=18_333,
        edges=81_894,
        splits=("random", "per_class"),
        folder="Coauthor/CS/raw",
        files=("ms_academic_cs.npz",),
        reader=_read,
    )
}
