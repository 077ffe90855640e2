"""Numbers that a page may print: those of the kept results, as they are, in per cent, as means over seeds."""

from __future__ import annotations

import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from graphveil.codec import rounded
from graphveil_lab.bench.kept import half_width

RESULTS = Path(__file__).parents[1] / "lab" / "results"
SPREAD = {"std", "stderr", "interval"}
ASIDE = SPREAD | {"seconds", "peak_mb", "params", "tuned", "delta", "validation", "noise"}
"""What no page quotes as a score: with it nearly every number would be found somewhere."""
FILLED = re.compile(r"<!-- (?P<end>/?)(?:results|measured|methods|edge-attacks|node-attacks|privgnn-programmed)\b")
"""Blocks that scripts fill, which other tests compare with what they are filled from."""
MEASURED = {
    "measured: figure 5": "eclipse.json",
    "measured: figure 6": "eclipse-twitch.json",
    "measured: figure 11": "eclipse-rank.json",
}
"""Blocks of docs/methods/eclipse.md, and what they show."""
NAMED = r"(?:Python |torch |Triton |Apache-|arXiv:|Theorem |[Ss]ection )"
"""What stands before a number that is a name."""


def leaves(held: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], float]]:
    """Every number of a file by where it stands."""
    if isinstance(held, dict):
        for key, value in held.items():
            if key not in ASIDE or (key == "seconds" and isinstance(value, dict)):
                yield from leaves(value, (*path, str(key)))
    elif isinstance(held, list):
        for index, value in enumerate(held):
            yield from leaves(value, (*path, str(index)))
    elif isinstance(held, int | float) and not isinstance(held, bool):
        yield path, float(held)


def by_seed(held: Any) -> bool:
    """Whether this is a list whose entries are of one seed each."""
    return isinstance(held, list) and bool(held) and all(isinstance(row, dict) and "seed" in row for row in held)


def groups(held: Any) -> Iterator[list[float]]:
    """Where every entry of a list is of one seed: the numbers of entries that share all their words and epsilon."""
    if isinstance(held, dict):
        for part in held.values():
            yield from groups(part)
    if not by_seed(held):
        return
    found: dict[Any, list[float]] = defaultdict(list)
    for row in held:
        told = {key: value for key, value in row.items() if isinstance(value, str) or key == "epsilon"}
        words = tuple(sorted((key, str(value)) for key, value in told.items()))
        for path, value in leaves({**row, "seed": None}):
            found[words, path].append(value)
    yield from found.values()


def scores(held: Any) -> Iterator[float]:
    """Every number of a file; where entries are of one seed each, the means over seeds alone."""
    if by_seed(held):
        yield from map(statistics.fmean, groups(held))
    elif isinstance(held, list) and held and isinstance(held[0], dict):
        for row in held:
            yield from scores(row)
    elif isinstance(held, dict) and any(map(by_seed, held.values())):
        for part in held.values():
            yield from scores(part)
    else:
        yield from (value for _, value in leaves(held))


def spreads(held: Any) -> Iterator[float]:
    """What may stand after a plus-minus sign: the spreads of lines; of seeds the deviation, or half of the interval."""
    if isinstance(held, list):
        for row in held:
            yield from spreads(row)
    elif isinstance(held, dict):
        for key, value in held.items():
            if key in SPREAD and isinstance(value, float):
                yield value
            else:
                yield from spreads(value)
    for values in groups(held):
        if len(values) > 1:
            deviation = statistics.stdev(values)
            yield from (deviation, half_width(deviation, len(values)) or 0.0)


def forms(values: Iterable[float]) -> frozenset[str]:
    """Numbers as they are and in per cent, with one to four decimals; halves of the last one rounded either way."""
    both = (abs(form) for value in values for form in (value, 100 * value))
    return frozenset(f"{form + tie:.{digits}f}" for form in both for digits in (1, 2, 3, 4) for tie in (-1e-9, 1e-9))


@cache
def read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text(encoding="utf-8"))


def labels(row: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The words of an entry by field, with `epsilon 4` and `seed 0`; what made it tells no entries apart."""
    for key, value in row.items():
        if key in ("epsilon", "seed"):
            yield key, f"{key} {float(value):g}"
        elif isinstance(value, str) and key not in ("made_by", "data", "audit", "source", "failure"):
            yield key, value


@cache
def vocabulary(name: str) -> dict[str, frozenset[str]]:
    """All words of the entries of a kept file by field."""
    words: dict[str, set[str]] = defaultdict(set)

    def collect(held: Any) -> None:
        for part in held.values() if isinstance(held, dict) else held if isinstance(held, list) else ():
            collect(part)
        if isinstance(held, dict):
            for key, word in labels(held):
                words[key].add(word)

    collect(read(name))
    return {key: frozenset(found) for key, found in words.items()}


def begins(word: str, label: str) -> bool:
    return re.match(rf"{re.escape(word)}(?!\w)", label) is not None


@cache
def narrowed(name: str, words: frozenset[str]) -> Any:
    """A kept file with those entries alone whose fields begin with one of the words, where a word is of that field."""
    wanted = {
        key: [word for word in words if any(begins(word, label) for label in known)]
        for key, known in vocabulary(name).items()
    }

    def fits(row: Any) -> bool:
        return not isinstance(row, dict) or all(
            any(begins(word, label) for word in wanted[key]) for key, label in labels(row) if wanted[key]
        )

    def cut(held: Any) -> Any:
        if isinstance(held, list):
            return [cut(row) for row in held if fits(row)]
        return {key: cut(value) for key, value in held.items()} if isinstance(held, dict) else held

    return cut(read(name))


@cache
def printed(name: str, words: frozenset[str] = frozenset()) -> frozenset[str]:
    """All forms of the numbers of a kept file, or of their means over seeds; what is charged is also rounded up."""
    held = narrowed(name, words)
    charged = (value for path, value in leaves(held) if path[-1].endswith("epsilon"))
    return forms(scores(held)) | frozenset(rounded(value) for value in charged)


@cache
def printed_spreads(name: str, words: frozenset[str] = frozenset()) -> frozenset[str]:
    """All forms of the spreads of a kept file."""
    return forms(spreads(narrowed(name, words)))


def told(text: str) -> Iterator[tuple[str, bool]]:
    """The numbers with decimals of a text, but for code, links and names, and whether they follow a plus-minus sign."""
    plain = re.sub(rf"`[^`]*`|\]\([^)]*\)|{NAMED}[\d.]+", " ", text)
    for match in re.finditer(r"(±|\+-)? ?(?<![\w.])(\d+\.\d+)(?!\d|\.\w)", plain):
        yield match[2], match[1] is not None


def decimals(text: str) -> list[str]:
    """The numbers with decimals of a text."""
    return [number for number, _ in told(text)]
