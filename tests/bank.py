"""A bank's tables, small: accounts with a balance, an age and a label, and payments among them."""

from __future__ import annotations

from typing import Any

import numpy as np

ACCOUNTS = 60


def accounts(seed: int = 0, count: int = ACCOUNTS) -> dict[str, Any]:
    """Columns of the node table. A fraud has a low balance and a high age; every fifth account has no label."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(count) < 0.4
    labels = np.where(fraud, "fraud", "ok").astype(object)
    labels[::5] = ""
    return {
        "id": np.array([f"acc{seed}-{k}" for k in range(count)]),
        "label": labels,
        "balance": np.where(fraud, 1.0, 5.0) + rng.normal(size=count),
        "age": np.where(fraud, 30.0, 3.0) + rng.normal(size=count),
    }


def payments(seed: int = 0, count: int = ACCOUNTS) -> dict[str, Any]:
    """Columns of the edge table: a ring and some chords, each once."""
    rng = np.random.default_rng(seed)
    ring = {(k, (k + 1) % count) for k in range(count)}
    chords = {(int(a), int(b)) for a, b in rng.integers(count, size=(count, 2)) if a + 1 < b}
    pairs = sorted(ring | {pair for pair in chords if pair != (0, count - 1)})
    return {
        side: np.array([f"acc{seed}-{pair[place]}" for pair in pairs])
        for place, side in enumerate(("source", "target"))
    }


def written(table: dict[str, Any], order: list[str] | None = None) -> str:
    """A table as a CSV file with its columns in this order."""
    names = order or list(table)
    rows = zip(*(table[name] for name in names), strict=True)
    return "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)]) + "\n"
