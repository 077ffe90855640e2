"""Co-authorships with keyword features (Shchur et al. 2018)."""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader

SOURCES = {
    "cs": Stored(
        origin="Coauthor",
        nodes=18_333,
        edges=81_894,
        splits=("random", "per_class"),
        folder="Coauthor/CS/raw",
        files=("ms_academic_cs.npz",),
        reader=pyg_reader("Coauthor", "Coauthor", "CS"),
    )
}
