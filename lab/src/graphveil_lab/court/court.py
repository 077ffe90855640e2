"""The soundness court: one executable case per claim that is known to be false, and one per sound claim of ours.

A case plays a game on two neighbouring inputs and certifies, from what an attacker said, a lower bound on epsilon. A
claim that lies below it is refuted. All verdicts of a court together are wrong with probability `ERROR` at most.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Self, get_args

from graphveil import plugins
from graphveil.checks import quoted, require_cost, require_printable, require_seed
from graphveil.codec import rounded
from graphveil.errors import InvalidInput
from graphveil.release.audit_result import AuditResult
from graphveil.runtime.compute import Compute
from graphveil.runtime.engine import each
from graphveil_lab.court.case import Case, Verdict
from graphveil_lab.court.sound_cases import upheld
from graphveil_lab.court.stream_case import Lifetime

ERROR = 0.01
"""Chance that a court refutes any true claim at all; its cases share it evenly."""


@dataclass(frozen=True)
class Ruling:
    """How a case was decided."""

    name: str
    claim: str
    source: str
    expected: Verdict
    finding: AuditResult
    seconds: float
    """Of processor time."""

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the expected one."""
        return self.finding.verdict == self.expected

    def row(self) -> dict[str, str]:
        """A line of the table; claims are rounded up and bounds down, so that no verdict gains by it."""
        found = self.finding
        return {
            "case": self.name,
            "claim": self.claim,
            "source": self.source,
            "claimed": rounded(found.claimed, infinite="infinite"),
            "delta": f"{found.delta:g}",
            "certified": rounded(found.lower, up=False, infinite="infinite"),
            "runs": f"{found.runs:,}",
            "verdict": found.verdict,
            "expected": self.expected if self.as_expected else f"NOT {self.expected}",
        }

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; `rebuild` inverts it, but for the digits of `seconds`."""
        return {
            "name": self.name,
            "claim": self.claim,
            "source": self.source,
            "expected": self.expected,
            "as_expected": self.as_expected,
            "seconds": round(self.seconds, 3),
            "finding": self.finding.describe(),
        }

    @classmethod
    def rebuild(cls, values: Mapping[str, Any]) -> Self:
        """The ruling that `describe` wrote."""
        try:
            name, claim, source = (require_printable(values[key], f"a {key}") for key in ("name", "claim", "source"))
            expected, finding = values["expected"], AuditResult.rebuild(values["finding"])
            seconds = require_cost(values["seconds"], "the seconds of a ruling")
        except (KeyError, TypeError) as fault:
            raise InvalidInput(f"not a ruling: {fault!r}") from None
        if expected not in get_args(Verdict):
            raise InvalidInput(f"{name} expects {quoted(expected)}; a verdict is {' or '.join(get_args(Verdict))}")
        return cls(name, claim, source, expected, finding, seconds)


@dataclass(frozen=True)
class Court:
    """All rulings of a court, in the order of its cases."""

    seed: int
    quick: bool
    confidence: float
    """Of every single case."""
    rulings: tuple[Ruling, ...]

    @property
    def as_expected(self) -> bool:
        """Whether every case was decided as expected."""
        return all(ruling.as_expected for ruling in self.rulings)

    def footer(self) -> str:
        """What the table's numbers mean, in words."""
        refuted = sum(ruling.finding.verdict == "refuted" for ruling in self.rulings)
        wrong = [ruling.name for ruling in self.rulings if not ruling.as_expected]
        decided = f"NOT decided as expected: {', '.join(wrong)}" if wrong else "every case was decided as expected"
        return (
            f"{len(self.rulings)} cases, {refuted} refuted; {decided}. Seed {self.seed}. Each bound is certified at "
            f"{self.confidence:.4%} confidence, so that the whole court refutes a true claim with probability "
            f"{ERROR:.0%} at most."
        )

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; `rebuild` inverts it."""
        head = {"version": version("graphveil"), "seed": self.seed, "quick": self.quick}
        rulings = [ruling.describe() for ruling in self.rulings]
        return {**head, "confidence": self.confidence, "as_expected": self.as_expected, "rulings": rulings}

    @classmethod
    def rebuild(cls, values: Mapping[str, Any]) -> Self:
        """The court that `describe` wrote."""
        try:
            rulings = tuple(map(Ruling.rebuild, values["rulings"]))
            made = cls(require_seed(values["seed"]), bool(values["quick"]), float(values["confidence"]), rulings)
        except (KeyError, TypeError, AttributeError) as fault:
            raise InvalidInput(f"not a court: {fault!r}") from None
        if not 0 < made.confidence < 1:
            raise InvalidInput(f"a court's confidence must lie strictly between 0 and 1, got {made.confidence}")
        return made


def cases() -> list[Case]:
    """Every case: false claims from the folder `cases`, then every sound claim of every method, and of a stream."""
    false = [kind() for kind in plugins.classes("graphveil_lab.court.cases", Case).values()]  # type: ignore[call-arg]  # all have defaults
    return [*false, *upheld(), Lifetime()]


def hold(seed: int = 0, quick: bool = False, only: str | None = None, compute: Compute | None = None) -> Court:
    """Hear all cases, or those whose names are or begin with one of `only` ("gap,drw-features").

    The same for any number of workers; what a case says does not depend on which others are heard.
    """
    require_seed(seed)
    known = cases()
    confidence = 1 - ERROR / len(known)
    chosen = called(only, [case for case in known if case.quick or not quick])
    with (compute or Compute()).opened() as run:
        rulings = each(run.engine, _heard, (seed, quick, confidence), chosen, "cases", run.progress)
    return Court(seed, quick, confidence, tuple(rulings))


def called(only: str | None, known: Sequence[Case]) -> list[Case]:
    """The cases whose names are or begin with one of some names, which commas part; all if it is None."""
    if only is None:
        return list(known)
    wanted = {name.strip() for name in only.split(",")}
    found = {name: [case for case in known if f"{case.name}-".startswith(f"{name}-")] for name in sorted(wanted)}
    if lost := [name for name, cases in found.items() if not cases]:
        raise InvalidInput(f"no case is called {lost[0]!r}; there are: {', '.join(case.name for case in known)}")
    return [case for case in known if any(case in cases for cases in found.values())]


def _heard(shared: tuple[int, bool, float], case: Case) -> Ruling:
    """A piece of work for an engine."""
    seed, quick, confidence = shared
    started = time.process_time()
    # Cases must not share their draws: a seed is one case's alone.
    scores = case.play(case.quick if quick else case.runs, zlib.crc32(case.name.encode()) + (seed << 32))
    found = case.judge(scores, confidence)
    return Ruling(case.name, case.claim, case.source, case.expected, found, time.process_time() - started)
