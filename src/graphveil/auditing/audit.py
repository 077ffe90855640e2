"""The verb `audit`: attack a claim in the strongest way we know, and certify what that shows.

An audit plays the game of game.py many times on two neighbouring graphs of its own choice. It can refute a claim; it
cannot prove one, because there may be a worse pair of graphs. See docs/audit.md.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from graphveil.auditing.bounds import Scores, finding
from graphveil.auditing.game import ATTACKS, Canary, Game, Pair
from graphveil.checks import require_seed
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, Unsupported
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import Method
from graphveil.planning import Planned, Terms, plan_of, planned
from graphveil.release.audit_result import AuditResult, Law
from graphveil.release.release import Release, audited, load
from graphveil.release.verify import require_own_plan
from graphveil.runtime.compute import HERE, USUAL, Compute, Run
from graphveil.runtime.folders import require_folder
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit

_PILOT = 20
"""A twentieth of the runs is played on each graph of every candidate pair; fresh runs audit the most telling one."""
_PILOT_RUNS = 16
"""But at least so many."""
_CERTAIN = 50.0
"""Evidence beyond this is as good as certain: a pilot compares means, and one outlier must not decide."""


@dataclass(frozen=True, eq=False)
class Claim:
    """What is audited: that `plan`, which `method` made with this noise, is (epsilon, delta)-DP."""

    method: Method
    plan: Plan
    noise: float
    epsilon: float
    delta: float

    @classmethod
    def of_release(cls, release: Release, graph: Graph) -> Claim:
        """The certificate's claim, on a graph that gives the release's plan."""
        certificate = release.certificate
        plan, noise = certificate.plan, certificate.provenance.noise
        require_own_plan(release.method, certificate, graph)
        return cls(release.method, plan, noise, certificate.plan_epsilon, certificate.delta)

    @classmethod
    def of_plan(cls, made: Planned) -> Claim:
        """What a training with this plan would claim."""
        return cls(made.method, made.plan, made.noise, made.epsilon, made.delta)

    def require_refutable(self) -> None:
        """Something is released, and something is claimed about it."""
        if not self.plan.steps:
            raise Unsupported(
                f"nothing is released about what is protected ({self.plan.adjacency}): there is nothing to audit"
            )
        if self.epsilon == math.inf:
            raise Unsupported("epsilon is infinite: no protection is claimed, and there is nothing to refute")

    def game(self, pair: Pair, chance: int) -> Game | None:
        """The claim's plan on a pair of graphs; `None` where the method would plan otherwise."""
        adjacency, reading = self.plan.adjacency, self.plan.reading
        if plan_of(self.method, pair.worlds(adjacency)[0], adjacency, reading, self.noise) != self.plan:
            return None
        return Game(pair, self.method, self.plan, chance)

    @property
    def law(self) -> Law:
        """What is known of the scores before they are seen.

        Evidence is normal, with one variance, if all that is released is one noisy sum of Gaussian noise. Later sums
        may depend on the noise of earlier ones, and then it is not. But claims of mu-GDP compose to one of their kind,
        whatever was told before, and such a claim can be refuted as one.
        """
        steps = self.plan.steps
        if any(type(step.act) is not Gaussian for step in steps):
            return Law.ANY
        if len(steps) == steps[0].times == 1:
            return Law.GAUSSIAN
        return Law.ANY if any(step.claim.gdp() is None for step in steps) else Law.GDP


def audit(
    subject: Method | Release | str | os.PathLike[str],
    graph: Graph,
    *,
    epsilon: float | None = None,
    noise: float | None = None,
    delta: float | None = None,
    unit: Unit | str | None = None,
    reading: Reading | str = Reading.SOUND,
    runs: int = 1000,
    attack: str | Canary | None = None,
    confidence: float = 0.99,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    compute: Compute | None = None,
) -> AuditResult:
    """A certified lower bound on the epsilon of `subject`, beside the one that is claimed.

    A method is audited with the settings that `train` would have. A release is audited with its own plan, on any graph
    that leads to it. What is found on a private graph is a statistic of it, which no certificate covers. So a release
    that is given as a path is audited on a stand-in, of which only the public parts are the graph's: its folder gets
    the finding, and its card says so. A claim that was refuted there stays refuted. `runs` are those of both
    neighbouring graphs together. With a `folder`, what was played is kept there, and an audit that was interrupted goes
    on.
    """
    if not isinstance(graph, Graph):
        raise InvalidInput("an audit needs a graphveil Graph to play on")
    if not isinstance(runs, int) or isinstance(runs, bool) or runs < 2:
        raise InvalidInput(f"an audit needs at least 2 runs, one on each graph, got {runs!r}")
    require_seed(seed)
    if folder is not None:
        require_folder(Path(folder), Path(folder), private=True)
    release = subject if isinstance(subject, Release) else None
    if isinstance(subject, str | os.PathLike):
        release = load(subject)
        # What goes into the folder is given away with it: nothing private may be in it.
        graph = graph.stand_in(release.certificate.plan.adjacency)
    if release is not None:
        if any(given is not None for given in (epsilon, noise, delta, unit)):
            raise InvalidInput("a release is audited as it was made: epsilon, noise, delta and unit are its own")
        claim = Claim.of_release(release, graph)
    elif isinstance(subject, Method):
        if unit is None:
            raise InvalidInput("say who is protected: unit is edge, node, features or label")
        claim = Claim.of_plan(planned(subject, graph, Terms(unit, epsilon, noise, delta, reading)))
    else:
        raise InvalidInput("audit a method, a release, or the folder of one")
    claim.require_refutable()
    with (compute or USUAL).opened() as run:
        found = _audited(claim, graph, runs, attack, confidence, seed, None if folder is None else Path(folder), run)
    if isinstance(subject, str | os.PathLike) and release is not None:
        # Only a finding that was made on the stand-in says whom it is about: no other can be put into a release.
        found = replace(found, subject=audited(claim.method, claim.plan))
        if release.audit is None or release.audit.verdict == "consistent":
            replace(release, audit=found).save(subject)
    return found


def canaries(attack: str | Canary | None, adjacency: Adjacency) -> list[Canary]:
    """The attack that was asked for, or all that attack what the adjacency protects."""
    if isinstance(attack, Canary):
        return [attack]
    kinds = ATTACKS.ours().values() if attack is None else [ATTACKS.find(attack)]
    found = [kind() for kind in kinds if issubclass(kind, Canary) and adjacency.unit in kind.units]
    if not found:
        known = sorted(name for name, kind in ATTACKS.ours().items() if issubclass(kind, Canary))
        raise Unsupported(
            f"{attack or 'no attack'} audits nothing about {adjacency.unit.value!r}; attacks with canaries: "
            f"{', '.join(known)}"
        )
    return found


def _audited(
    claim: Claim,
    graph: Graph,
    runs: int,
    attack: str | Canary | None,
    confidence: float,
    seed: int,
    folder: Path | None,
    run: Run,
) -> AuditResult:
    pairs = {
        f"{canary.name()} on {graph.name}: {pair.what}": pair
        for canary in canaries(attack, claim.plan.adjacency)
        for pair in canary.pairs(graph, claim.plan.adjacency, seed)
    }
    return judge(claim, pairs, runs, confidence, seed, folder, run)


def judge(
    claim: Claim,
    pairs: Mapping[str, Pair],
    runs: int,
    confidence: float = 0.99,
    seed: int = 0,
    folder: Path | None = None,
    run: Run = HERE,
) -> AuditResult:
    """What the most telling of some pairs of neighbouring graphs certifies; a few runs of each decide which it is."""
    chance, pilot, final = (
        int(n >> np.uint64(1)) for n in np.random.SeedSequence((seed, 0xAD17)).generate_state(3, np.uint64)
    )
    games = {name: game for name, pair in pairs.items() if (game := claim.game(pair, chance)) is not None}
    if not games:
        raise Unsupported(f"there are no neighbouring graphs on which {claim.method.name()} plans alike")
    best = _most_telling(games, min(runs, max(runs // _PILOT, _PILOT_RUNS)), pilot, folder, run)
    # Fresh runs: those of the pilot have chosen the pair.
    scores = games[best].play(runs // 2, final, folder, run)
    try:
        return finding(best, scores, claim.epsilon, claim.delta, confidence, law=claim.law)
    except InvalidInput:
        # Scores that are not normal where they must be come from a build that does not do what it plans.
        return finding(best, scores, claim.epsilon, claim.delta, confidence)


def _most_telling(games: dict[str, Game], runs: int, seed: int, folder: Path | None, run: Run) -> str:
    if len(games) == 1:
        return next(iter(games))
    return max(games, key=lambda name: _gap(games[name].play(runs, seed, folder, run)))


def _gap(scores: Scores) -> float:
    """How far the means lie apart, in standard deviations."""
    sides = [np.clip(side, -_CERTAIN, _CERTAIN) for side in (scores.present, scores.absent)]
    spread = math.sqrt(sum(float(side.var()) for side in sides) / 2)
    return float(sides[0].mean() - sides[1].mean()) / max(spread, 1e-9)
