"""What an audit found about a claim: part of a release that was audited."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Literal, Self

from graphveil.checks import parse, require_cost
from graphveil.codec import plain, rounded
from graphveil.errors import InvalidInput


class Law(StrEnum):
    """What the caller knows before looking at the scores; it settles which bound counts."""

    ANY = "any"
    """Nothing."""
    GDP = "gdp"
    """The claim is that the mechanism is mu-GDP for some mu; scores may have any law."""
    GAUSSIAN = "gaussian"
    """Scores are normal with the same variance in both worlds: a linear function of a Gaussian release."""


MAY_COUNT = {
    Law.ANY: ("rank_test", "clopper_pearson", "one_run"),
    Law.GDP: ("gaussian_test", "one_run_fdp"),
    Law.GAUSSIAN: ("gaussian_fit", "one_run_fdp"),
}
"""Which bounds are certificates under a law."""


@dataclass(frozen=True)
class AuditResult:
    """A certified lower bound beside a claimed upper one."""

    attack: str
    claimed: float
    """Epsilon that is claimed at `delta`."""
    delta: float
    confidence: float
    law: Law
    bounds: Mapping[str, float]
    """Every bound that was computed, each at `confidence` on its own; "bayesian" is a belief, and no certificate."""
    counts: str
    """Which of them counts: settled by the law and the threshold, never by the scores."""
    auc: float
    tpr_01: float
    """TPR at 0.1 % FPR."""
    tpr_1: float
    """TPR at 1 % FPR."""
    runs: int
    """Scores of both worlds together, or canaries of one run."""
    needed: int | None
    """Runs after which the claim would be refuted if the frequencies seen here were exact, which they are not.

    `None` if they agree with the claim at any number.
    """

    subject: str = ""
    """Hash of the audited method and plan, for a finding that may go into a release; empty for all others."""

    def __post_init__(self) -> None:
        rates = (self.auc, self.tpr_01, self.tpr_1)
        inside = 0 <= self.delta < 1 and 0 < self.confidence < 1 and all(0 <= rate <= 1 for rate in rates)
        if self.counts not in MAY_COUNT[self.law] or self.counts not in self.bounds:
            raise InvalidInput(f"{self.counts!r} does not count for scores of the law {self.law.value!r}")
        if not inside or self.runs < 1 or not self.attack.isprintable():
            raise InvalidInput("a finding needs rates and confidence that are chances, runs, and an attack in one line")

    @property
    def lower(self) -> float:
        """The certified bound: epsilon at `delta` is above it, with `confidence`."""
        return self.bounds[self.counts]

    @property
    def verdict(self) -> Literal["refuted", "consistent"]:
        """Whether the claim is refuted."""
        return "refuted" if self.lower > self.claimed else "consistent"

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; `rebuild` inverts it. Infinity becomes the string "inf"."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        values |= {"bounds": dict(self.bounds), "law": self.law.value, "lower": self.lower, "verdict": self.verdict}
        return {name: plain(value) for name, value in values.items()}

    @classmethod
    def rebuild(cls, values: Mapping[str, Any]) -> Self:
        """The finding that `describe` wrote; refuses one whose lower bound or verdict do not follow."""
        try:
            given = {item.name: values[item.name] for item in fields(cls)}
            given["bounds"] = MappingProxyType({name: float(value) for name, value in given["bounds"].items()})
            given |= {
                "claimed": require_cost(float(given["claimed"]), "claimed epsilon"),
                "law": parse(Law, given["law"], "law"),
            }
            made = cls(**given)
            agrees = float(values["lower"]) == made.lower and values["verdict"] == made.verdict
        except (KeyError, TypeError, AttributeError) as fault:
            raise InvalidInput(f"not a finding: {fault!r}") from None
        if not agrees:
            raise InvalidInput("the finding's lower bound or verdict does not follow from its bounds")
        return made

    def __str__(self) -> str:
        # What was seen is partly accident: so many runs would tell which part.
        more = "" if self.needed is None or self.verdict == "refuted" else f"; {self.needed} runs would tell more"
        return (
            f"{self.attack}: {self.verdict}: epsilon {rounded(self.claimed, places=4)} claimed,"
            f" above {rounded(self.lower, up=False, places=4)} certified"
            f" ({self.counts}, {self.confidence:.4g} confidence, delta {self.delta:.3g}, {self.runs} runs,"
            f" AUC {self.auc:.3f}{more})"
        )
