"""Facebook pages and Twitch gamers (Rozemberczki et al. 2021); the self-loops in the raw files are dropped.

The 128 features are an SVD of bags of words, fitted on all nodes outside any privacy guarantee.
"""

from __future__ import annotations

from graphveil.data.datasets.stored import Stored, pyg_reader


def _twitch(language: str, nodes: int, edges: int) -> Stored:
    return Stored(
        origin="MUSAE Twitch friendships",
        nodes=nodes,
        edges=edges,
        splits=("random", "per_class"),
        folder=f"Twitch/{language}/raw",
        files=(f"{language}.npz",),
        reader=pyg_reader("Twitch", "Twitch", language),
    )


SOURCES = {
    "facebook": Stored(
        origin="MUSAE Facebook pages",
        nodes=22_470,
        edges=170_823,
        splits=("random", "per_class"),
        folder="FacebookPagePage/raw",
        files=("facebook.npz",),
        reader=pyg_reader("FacebookPagePage", "FacebookPagePage"),
    ),
    "twitch-de": _twitch("DE", 9_498, 153_138),
    "twitch-en": _twitch("EN", 7_126, 35_324),
    "twitch-es": _twitch("ES", 4_648, 59_382),
    "twitch-fr": _twitch("FR", 6_549, 112_666),
    "twitch-pt": _twitch("PT", 1_912, 31_299),
    "twitch-ru": _twitch("RU", 4_385, 37_304),
}
