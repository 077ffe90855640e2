"""Records as they lie in results/, small, for the tests of the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graphveil_lab.bench.revisions import made_by


def row(**changes: Any) -> dict[str, Any]:
    """One line of a bench table, as before the later columns but for what made it."""
    return {
        "best": 0.6, "best_seed": 0, "certificate_epsilon": 1.0, "dataset": "cora", "delta": 1e-5, "difference": None,
        "epsilon": 1.0, "failed": 0, "failure": "", "method": "gap", "params": {}, "published": None,
        "reading": "sound", "seeds": 5, "selection": "fixed", "sound_epsilon": 1.0, "source": "", "std": 0.02,
        "stderr": 0.009, "test": 0.55, "tuned": {}, "unit": "edge", "validation": 0.5,
        "made_by": made_by("gap"), **changes,
    }  # fmt: skip


def edge_attacks() -> list[dict[str, Any]]:
    """Two methods at two epsilons, one without privacy; one seed each."""
    return [
        {
            "part": "figure 7", "dataset": "cora", "method": method, "epsilon": epsilon, "sound epsilon": 1.0,
            "seed": 0, "accuracy": 0.7,
            "attacks": {"lpa": {"auc": auc, "tpr at 1 %": 0.1}, "features alone": {"auc": 0.8}},
        }
        for method, epsilon, auc in (
            ("gap", 1.0, 0.812), ("gap", 8.0, 0.85), ("eclipse", 1.0, 0.79), ("gcn", "inf", 0.95),
        )
    ]  # fmt: skip


NODES = [
    {
        "part": "table4", "dataset": "cora", "row": "privgnn, default", "epsilon": "nan", "charged": 4.0, "sound": 4.0,
        "seed": seed, "attacks": {"gmia": {"auc": auc, "tpr_1%": 0.02}, "gmia: features alone": {"auc": 0.5}},
    }
    for seed, auc in ((0, 0.55), (1, 0.65))
]  # fmt: skip

COURT = {
    "version": "0.1.0", "seed": 0, "quick": False, "confidence": 0.999, "as_expected": True,
    "rulings": [
        {
            "name": name, "claim": "a claim", "source": "a source", "expected": verdict, "as_expected": True,
            "seconds": 1.5,
            "finding": {
                "attack": name, "claimed": 1.0, "delta": 0.05, "confidence": 0.999, "law": "any", "auc": 0.75,
                "bounds": {"rank_test": lower}, "counts": "rank_test", "lower": lower, "tpr_01": 0.25, "tpr_1": 0.5,
                "runs": 1000, "needed": None, "subject": "", "verdict": verdict,
            },
        }
        for name, verdict, lower in (("case-one", "refuted", 2.5), ("case-two", "consistent", 0.25))
    ],
}  # fmt: skip


MADE = {"command": "a command", "version": "0.1.0", "commit": "", "date": "2026-01-01T00:00:00+00:00"}


def kept(held: Any) -> str:
    """The text of a kept file: lines if the first entry looks like one, else runs."""
    lines = isinstance(held, list) and "reading" in held[0]
    return json.dumps({"made": MADE, "lines" if lines else "runs": held})


def write(path: Path, held: Any) -> Path:
    path.write_text(kept(held))
    return path
