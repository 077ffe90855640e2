"""What several releases reveal together about one dataset."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphveil.errors import Tampered, Unsupported
from graphveil.privacy import accounting
from graphveil.vocabulary import Adjacency, Plan, Reading

if TYPE_CHECKING:
    from graphveil.release.certificate import Certificate


@dataclass(frozen=True)
class Guarantee:
    """What a release and all that it descends from reveal together about one dataset."""

    dataset: str
    adjacency: Adjacency
    epsilon: float
    sound_epsilon: float
    delta: float
    releases: int
    """How many releases read the private part of the dataset."""


def guarantee_of(certificate: Certificate, family: Sequence[Certificate], deadline: float) -> Guarantee:
    """Epsilons of releases on the same data add up, each at its share of delta, whatever made one choose the next.

    Under different adjacencies they do not: what one protects, another reads as it is.
    """
    spending = [one for one in family if one.plan.steps and not one.provenance.released]
    delta = certificate.delta if certificate in family else family[0].delta
    same_unit = len({one.plan.adjacency for one in family}) == 1
    proven = _together([one.sound or one.plan for one in spending], delta, deadline) if same_unit else math.inf
    published = same_unit and certificate.plan.reading is Reading.PUBLISHED
    return Guarantee(
        dataset=family[0].data.dataset,
        adjacency=family[0].plan.adjacency,
        epsilon=_together([one.plan for one in spending], delta, deadline) if published else proven,
        sound_epsilon=proven,
        delta=delta,
        releases=len(spending),
    )


def _together(plans: Sequence[Plan], delta: float, deadline: float) -> float:
    """An epsilon at `delta` for all plans."""
    if len(plans) == 1:
        return accounting.epsilon(plans[0], delta, deadline)
    try:
        return sum((accounting.epsilon(plan, delta / len(plans), deadline) for plan in plans), start=0.0)
    except Unsupported:  # a share that is too small to resolve proves nothing
        return math.inf


def families(ancestry: Sequence[Certificate]) -> list[list[Certificate]]:
    """Certificates that speak of the same data, together; the family of the first one first."""
    found: list[list[Certificate]] = []
    for one in ancestry:
        kin = [any(_akin(one, each) for each in family) for family in found]
        place = kin.index(True) if True in kin else len(found)
        joined = [*itertools.chain.from_iterable(itertools.compress(found, kin)), one]
        found = [family for family, same in zip(found, kin, strict=True) if not same]
        found.insert(place, joined)
    return found


def _akin(child: Certificate, other: Certificate) -> bool:
    """Whether the guarantees of two certificates are about the same data."""
    handed_down = any(a.provenance.descends and _same_run(a.parents[0], b) for a, b in ((child, other), (other, child)))
    return handed_down or child.data.same_data(other.data)


def _same_run(one: Certificate, other: Certificate) -> bool:
    return one.provenance.run == other.provenance.run


def ancestry_of(certificate: Certificate) -> tuple[Certificate, ...]:
    """The certificate, its parents, theirs and so on, each run once."""
    found: list[Certificate] = []
    runs: dict[str, list[Certificate]] = {}
    waiting = [certificate]
    while waiting:
        one = waiting.pop(0)
        same_run = runs.setdefault(one.provenance.run, [])
        if not same_run:
            found.append(one)
            waiting += one.parents
        for other in same_run:
            _require_one_run(one, other)
        same_run.append(one)
    return tuple(found)


def _require_one_run(one: Certificate, other: Certificate) -> None:
    """Two certificates of a run are alike, or are periods of one stream: both are paid for by what one plan spends."""
    mine, theirs = one.provenance, other.provenance
    if (one.plan, one.sound, one.delta, mine.period > 0) != (other.plan, other.sound, other.delta, theirs.period > 0):
        raise Tampered("two certificates of one run have different plans: one of them was altered")
    if mine.period == theirs.period and mine.period_token != theirs.period_token:
        raise Tampered(
            f"a stream went different ways from period {mine.period} on or before: a copy of its journal was used, and "
            "both together cost more than either says"
        )
