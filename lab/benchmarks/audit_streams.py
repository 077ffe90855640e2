"""An audit of a whole stream, undirected, directed, and of a journal that forgets.

    python lab/benchmarks/audit_streams.py --json lab/results/stream-audit.json
    python lab/benchmarks/audit_streams.py [--runs 2000] [--epsilon 2]

Two streams of five periods differ in one edge, which arrives in the first, vanishes and comes back. Its ends are
counted in different periods. The attacker knows everything else, sees what every period tells, and weighs all of it by
the exact likelihood. The certified lower bound must stay below the claim of one release. The journal that forgets does
not know what was counted, so that the edge counts in every period: the same audit must refute the claim.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np

from graphveil.auditing.bounds import finding
from graphveil.release.audit_result import AuditResult
from graphveil.streams.journal import Journal
from graphveil_lab import kept_files
from graphveil_lab.court.stream_case import Lifetime


def audit(runs: int, epsilon: float, undirected: bool = True, broken: bool = False, seed: int = 0) -> AuditResult:
    """What `runs` runs on each of two neighbouring streams certify."""
    noise = (2 if undirected else 1) / epsilon * (1 + 1e-9)
    case = Lifetime(noise=noise, undirected=undirected, delta=1e-5)
    with ExitStack() as stack:
        if broken:
            stack.enter_context(patch.object(Journal, "uncounted", lambda _, rows, __: np.ones(len(rows), bool)))
        scores = case.play(runs, seed)
    return finding("the whole stream, by exact likelihood", scores, case.claimed(), case.delta)


STREAMS = {"undirected": {}, "directed": {"undirected": False}, "undirected, the journal forgets": {"broken": True}}


def main() -> None:
    """Print a line for every stream."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--json", type=Path, help="also keep what was found")
    given = parser.parse_args()
    rows = []
    for stream, kind in STREAMS.items():
        found = audit(given.runs, given.epsilon, **kind)
        print(
            f"{stream}: claimed {found.claimed:.4f}, certified above {found.lower:.4f} over {found.runs} runs:", end=" "
        )
        print(found.verdict, flush=True)
        said = {"claimed": found.claimed, "certified": found.lower, "runs": found.runs, "verdict": found.verdict}
        rows.append({"stream": stream, **said})
    if given.json:
        kept_files.write(given.json, rows)


if __name__ == "__main__":
    main()
