"""What a case of the court is: a claim, an attack on it, and the verdict that is expected."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from graphveil.auditing.bounds import Scores, finding
from graphveil.auditing.game import Game, Pair
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import Method
from graphveil.privacy import accounting
from graphveil.release.audit_result import AuditResult
from graphveil.vocabulary import Adjacency, Curve, Plan, Reading, Step, Unit

Verdict = Literal["refuted", "consistent"]


@dataclass(frozen=True, eq=False)
class Case(ABC):
    """A claim, an attack on it, and the verdict that is expected. The docstring of a case says why.

    `delta`, `threshold` (a score above it says "there"; without one the ranks of the scores are tested) and the numbers
    of runs are fixed here, before any run: a claim is a curve and may be refuted at any delta.
    """

    name: str
    claim: str
    source: str
    delta: float
    runs: int
    """Runs on each of the two inputs."""
    quick: int
    """The same where time is short; 0 for a case that is then left out."""
    expected: Verdict = "refuted"
    threshold: float | None = None

    @abstractmethod
    def claimed(self) -> float:
        """Epsilon at `delta`, as the claim has it."""

    @abstractmethod
    def play(self, runs: int, seed: int) -> Scores:
        """`runs` independent runs on each input."""

    def judge(self, scores: Scores, confidence: float) -> AuditResult:
        """What these scores certify, and what is claimed."""
        return finding(self.name, scores, self.claimed(), self.delta, confidence, self.threshold)


@dataclass(frozen=True, eq=False)
class Played(Case):
    """A case about a plan, played by running that plan on two neighbouring graphs."""

    @abstractmethod
    def game(self) -> Game:
        """The graphs, the method, and the plan whose claim is heard."""

    def claimed(self) -> float:
        return accounting.epsilon(self.game().plan, self.delta)

    def play(self, runs: int, seed: int) -> Scores:
        return self.game().play(runs, seed)


def game_of(pair: Pair, method: Method, unit: Unit, noise: float) -> Game:
    """A game about the published claim of a method."""
    adjacency = Adjacency.of(unit)
    return Game(pair, method, method.plan(pair.worlds(adjacency)[0], adjacency, Reading.PUBLISHED, noise))


def as_charged(claim: Curve, times: int, delta: float) -> float:
    """Epsilon at `delta` of a claim for each of `times` uses, as the accountant composes it."""
    step = Step("use", Gaussian(1.0), claim, times, why="the claim of a case")
    return accounting.epsilon(Plan(Adjacency.of("node"), Reading.PUBLISHED, (step,)), delta)
