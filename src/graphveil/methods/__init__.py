"""Private methods and the baselines they are compared with: one file each, named as their papers name them.

A class of any file in this folder is reachable here by its name: `methods.Gap`, `methods.DpSgd`, ...
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from graphveil import plugins

    for item in plugins.methods().values():
        if item.__name__ == name:
            return item
    raise AttributeError(f"graphveil has no method {name!r}; it has: {', '.join(__dir__())}")


def __dir__() -> list[str]:
    from graphveil import plugins

    return sorted(item.__name__ for item in plugins.methods().values())
