"""Attacks the claims of an experiment, so that every epsilon of its table has a certified lower bound beside it.

What is attacked is the method with the table's hyper-parameters, unit, reading, epsilon and delta, on the small graphs
of the court (`sound_cases.pairs`, undirected), where one unit moves a release as far as it can and hundreds of runs
take seconds. So a bound is about the claim on these graphs, not about the run on a dataset: noise and sampling rates
are others there if the plan depends on the number of nodes. Each bound holds with `CONFIDENCE` on its own: of a
hundred, one may be too high. A finding counts until the method's revision is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from graphveil.auditing.audit import Claim, judge
from graphveil.codec import rounded
from graphveil.methods.described import rebuild_method
from graphveil.methods.method import METHODS, Method
from graphveil.planning import Terms, planned
from graphveil.release.audit_result import AuditResult
from graphveil.runtime.compute import Compute
from graphveil.runtime.folders import write_whole
from graphveil_lab.bench.revisions import made_by
from graphveil_lab.bench.runner import methods_of
from graphveil_lab.bench.spec import BenchTask, Claimed, Model, Spec, digest
from graphveil_lab.court import sound_cases

RUNS = 400
"""On both graphs together. Such a number certifies 4.04 at most, unless all that is released is one Gaussian sum."""
CONFIDENCE = 0.99
FOLDER = "audits"
"""Where audits lie in the folder of an experiment's records."""


class LineClaim(Claimed):
    """What a line of a table claims: two lines on different datasets may claim the same."""

    @classmethod
    def of(cls, task: BenchTask) -> LineClaim:
        """The claim of a training run."""
        return cls(**{name: getattr(task, name) for name in cls.model_fields})

    def key(self) -> str:
        """SHA-256 of the claim."""
        return digest(self.model_dump(mode="json"))


class Audit(Model):
    """A claim, and what attacking it certified, or why it was not attacked."""

    claim: LineClaim
    finding: dict[str, Any] | None
    failure: str = ""
    made_by: str = ""
    """The revision of the method that was attacked."""

    def found(self) -> AuditResult | None:
        """The finding, if there is one."""
        return None if self.finding is None else AuditResult.rebuild(self.finding)

    def row(self) -> dict[str, Any]:
        """A line for people."""
        claim, found = self.claim, self.found()
        return {
            "method": claim.method,
            "unit": claim.unit.value,
            "reading": claim.reading.value,
            "epsilon": claim.epsilon,
            "above": "" if found is None else rounded(found.lower, up=False),
            "verdict": self.failure if found is None else found.verdict,
            "pair of graphs": "" if found is None else found.attack,
        }


def claims(spec: Spec) -> list[LineClaim]:
    """Every finite claim of `spec`, once."""
    found = (LineClaim.of(task) for task in spec.tasks())
    return list({claim.key(): claim for claim in found if claim.epsilon < math.inf}.values())


def run(spec: Spec, *, out: Path, compute: Compute | None = None, runs: int = RUNS) -> list[Audit]:
    """Attack every claim of `spec` that has no finding of so many runs in `out` yet; give all of them."""
    folder = out / FOLDER
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(exist_ok=True)
    wanted = claims(spec)
    # Both graphs get the same number of runs: of an odd number one is not played.
    enough = runs - runs % 2
    done = {
        audit.claim.key(): audit
        for audit in finished(spec, out=out)
        if (found := audit.found()) and found.runs >= enough
    }
    pending = [claim for claim in wanted if claim.key() not in done]
    shared = runs, methods_of(pending)
    with (compute or Compute()).opened() as run_on, closing(run_on.engine.stream(_attack, shared, pending)) as stream:
        for _ in run_on.progress.track(range(len(pending)), f"{spec.title}: audits"):
            _, audit = next(stream)
            done[audit.claim.key()] = audit
            write_whole(folder / f"{audit.claim.key()}.json", audit.model_dump(mode="json"))
    return [done[claim.key()] for claim in wanted]


def finished(spec: Spec, *, out: Path) -> list[Audit]:
    """The audits of `spec` that are in `out` already."""
    known = (_read(out / FOLDER / f"{claim.key()}.json", claim) for claim in claims(spec))
    return [audit for audit in known if audit is not None]


def by_claim(audits: Iterable[Audit]) -> dict[str, AuditResult]:
    """Findings by the key of what they are about."""
    return {audit.claim.key(): found for audit in audits if (found := audit.found()) is not None}


def _read(path: Path, claim: LineClaim) -> Audit | None:
    """The audit of `claim`, unless it is missing, damaged, or made by another revision."""
    try:
        audit = Audit.model_validate_json(path.read_bytes())
        audit.found()
    except (OSError, ValueError):
        return None
    return audit if audit.claim == claim and audit.made_by == _code(claim) else None


def _code(claim: LineClaim) -> str:
    return made_by(claim.method, claim.params)


def _attack(shared: tuple[int, tuple[type[Method], ...]], claim: LineClaim) -> Audit:
    """One claim on the court's small graphs; the seed is its own, so that no two audits share their luck."""
    runs, _ = shared
    code = _code(claim)
    try:
        kind = METHODS.written(claim.method).__name__
        method = rebuild_method({"kind": kind, **claim.params})
        pairs = {pair.what: pair for pair in sound_cases.pairs(claim.unit)}
        graph = next(iter(pairs.values())).graph
        made = Claim.of_plan(planned(method, graph, Terms(claim.unit, claim.epsilon, None, claim.delta, claim.reading)))
        made.require_refutable()
        found = judge(made, pairs, runs, CONFIDENCE, int(claim.key()[:12], 16))
    except Exception as error:  # Whatever it is, it must not cost the other audits.
        return Audit(claim=claim, finding=None, failure=f"{type(error).__name__}: {error}", made_by=code)
    return Audit(claim=claim, finding=found.describe(), made_by=code)
