"""Would the court notice half of the noise? Every sound claim is heard with a plan that draws less than it charges for.

    python lab/benchmarks/court_power.py --seed 21 --jobs 2 --json lab/results/court-power.json     # as long as a court
    python lab/benchmarks/court_power.py [--share 0.5] [--seed 30] [--only gap,drw]

A plan is caught if one of its pairs of graphs refutes it, at the confidence, deltas and runs of the court itself.
Prints a line per case, then the plans that are not caught. Pairs, settings and runs were chosen by looking at other
seeds than 21. The case of growing graphs has a test of its own (tests/evidence/test_court.py).
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import each
from graphveil_lab import kept_files
from graphveil_lab.court import court
from graphveil_lab.court.sound_cases import SoundClaim


def heard(shared: tuple[float, int, float], case: SoundClaim) -> dict[str, Any]:
    """What the court would say of a case that draws a share of its noise."""
    share, seed, confidence = shared
    started = time.process_time()
    scores = case.with_less_noise(share).play(case.runs, zlib.crc32(case.name.encode()) + (seed << 32))
    found = case.judge(scores, confidence)
    return {
        "case": case.name,
        "plan": f"{case.adjacency.unit.value} {json.dumps(case.method.describe())}",
        "pair": case.pair.what,
        "claimed": found.claimed,
        "delta": found.delta,
        "certified": found.lower,
        "auc": found.auc,
        "runs": found.runs,
        "caught": found.verdict == "refuted",
        "seconds": round(time.process_time() - started, 2),
    }


def main() -> None:
    """Hear the cases and say who is caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--seed", type=int, default=30, help="not that of a kept court: it would be their draws")
    parser.add_argument("--only", default="", help="cases of these names, or whose names begin with them: NAME,NAME")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    known = court.cases()
    chosen = [case for case in court.called(asked.only or None, known) if isinstance(case, SoundClaim)]
    with Compute(jobs=asked.jobs).opened() as run:
        shared = asked.share, asked.seed, 1 - court.ERROR / len(known)
        rows = each(run.engine, heard, shared, chosen, "cases", run.progress)
    for row in rows:
        print(
            "{case:22s} {claimed:.3f} at {delta}: {certified:.3f}, auc {auc:.3f}, {seconds:.1f} s".format(**row), end=""
        )
        print("  caught" if row["caught"] else "")
    name_plans(rows)
    plans = by_plan(rows)
    free = [same for same in plans.values() if not any(row["caught"] for row in same)]
    print(f"{len(plans) - len(free)} of {len(plans)} plans are caught; not: ", end="")
    print(", ".join(" / ".join(row["case"] for row in same) for same in free) or "none")
    if asked.json:
        kept_files.write(asked.json, {"seed": asked.seed, "share": asked.share, "cases": rows})


def by_plan(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The cases of every plan: one for each pair of graphs."""
    plans = defaultdict(list)
    for row in rows:
        plans[row["plan"]].append(row)
    return dict(plans)


def name_plans(rows: Sequence[dict[str, Any]]) -> None:
    """A plan is called after its first case."""
    for same in by_plan(rows).values():
        for row in same:
            row["plan"] = same[0]["case"]


if __name__ == "__main__":
    main()
