"""Graphs kept in FacebookPagePage's npz container because PyG has no class of their own.

Facebook100 (Traud et al. 2012) by the recipes of GAP and ProGAP, and NIFTY's credit graphs
(Agarwal et al. 2021), whose columns are in raw units: scale them before use.
"""

from __future__ import annotations

from graphveil.data.datasets.source import SplitName
from graphveil.data.datasets.stored import Stored, pyg_reader


def _source(origin: str, folder: str, nodes: int, edges: int, splits: tuple[SplitName, ...]) -> Stored:
    return Stored(
        origin=origin,
        nodes=nodes,
        edges=edges,
        splits=splits,
        folder=f"{folder}/raw",
        files=("facebook.npz",),
        reader=pyg_reader("FacebookPagePage", folder),
        # The class would download another graph.
        downloads=False,
    )


_BOTH: tuple[SplitName, ...] = ("random", "per_class")

SOURCES = {
    "rutgers89": _source("Facebook100", "Facebook100/Rutgers89", 20_021, 609_731, _BOTH),
    "fb100-union": _source("Facebook100, eight schools", "Facebook100/Union", 95_368, 2_577_065, _BOTH),
    "german": _source("NIFTY", "NIFTY/german", 1_000, 21_742, ("random",)),
    "credit": _source("NIFTY", "NIFTY/credit", 30_000, 137_377, _BOTH),
}
