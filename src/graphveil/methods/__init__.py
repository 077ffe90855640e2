"""Private methods and the baselines they are compared with: one file each, named as their papers name them.

A class of any file in a group's folder is reachable here by its name: `methods.Gap`, `methods.DpSgd`, ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphveil.vocabulary import Unit

if TYPE_CHECKING:
    from graphveil.methods.method import Method

FLAGSHIPS = {Unit.EDGE: "hearsay", Unit.NODE: "whisper", Unit.FEATURES: "probe", Unit.LABEL: "probe"}
"""The method that is taken where a unit is named and no method."""


def flagship(unit: Unit) -> type[Method]:
    """The flagship of a unit."""
    from graphveil.methods.method import METHODS

    return METHODS.find(FLAGSHIPS[unit])


def __getattr__(name: str) -> Any:
    from graphveil.methods.method import METHODS

    found = METHODS.by_class(name)
    if found is None:
        raise AttributeError(f"graphveil has no method {name!r}; it has: {', '.join(__dir__())}")
    return found


def __dir__() -> list[str]:
    from graphveil.methods.method import METHODS

    return sorted(item.__name__ for item in METHODS.ours().values())
