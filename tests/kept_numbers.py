"""Numbers that a page may print: those of the kept results, as they are, in per cent, as means over seeds."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
ASIDE = {"seconds", "peak_mb", "params", "tuned", "std", "stderr", "interval", "delta", "validation", "noise"}
"""What no page quotes: with it nearly every number would be found somewhere."""


def leaves(held: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number of a file by where it stands."""
    if isinstance(held, dict):
        for key in held.keys() - ASIDE:
            yield from leaves(held[key], (*path, str(key)))
    elif isinstance(held, list):
        for index, value in enumerate(held):
            yield from leaves(value, (*path, str(index)))
    elif isinstance(held, int | float) and not isinstance(held, bool):
        yield path, float(held)


def means(held: Any) -> Iterator[float]:
    """Where every entry of a list is of one seed: the means of entries that share all their words and epsilon."""
    if isinstance(held, dict):
        for part in held.values():
            yield from means(part)
    if not (isinstance(held, list) and held and all(isinstance(row, dict) and "seed" in row for row in held)):
        return
    groups: dict[Any, list[float]] = defaultdict(list)
    for row in held:
        told = {key: value for key, value in row.items() if isinstance(value, str) or key == "epsilon"}
        words = tuple(sorted((key, str(value)) for key, value in told.items()))
        for path, value in leaves({**row, "seed": None}):
            groups[words, path].append(value)
    yield from (statistics.fmean(values) for values in groups.values())


@cache
def printed(name: str) -> frozenset[str]:
    """All forms, with one to four decimals, of the numbers of a kept file."""
    held = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    known = [*(value for _, value in leaves(held)), *means(held)]
    return frozenset(
        f"{abs(form):.{digits}f}" for value in known for form in (value, 100 * value) for digits in (1, 2, 3, 4)
    )


def decimals(text: str) -> list[str]:
    """The numbers with decimals of a text, but for those in code, links and comparisons of versions."""
    return re.findall(r"(?<![\w.])\d+\.\d+(?![\w.])", re.sub(r"`[^`]*`|\]\([^)]*\)", " ", text))
