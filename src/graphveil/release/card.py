"""A certificate in words: sentences that can be signed, who is protected, every step, and what to beware of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from graphveil.codec import rounded
from graphveil.errors import Tampered
from graphveil.planning import cautions, unproven
from graphveil.privacy import accounting
from graphveil.release.guarantee import Guarantee, families
from graphveil.release.statement import PrivacyStatement, in_lines
from graphveil.runtime.folders import CARD
from graphveil.vocabulary import Reading, Step

if TYPE_CHECKING:
    from graphveil.release.certificate import Certificate

_ENFORCED = (
    "by graphveil: which steps run, how often, and what they add up to; the bounds and the noise of its own mechanisms"
)
"""Of a method that is not part of graphveil."""

_TWICE = "whoever is in two of these datasets, or a link that is, is protected by the sum of epsilons"


def text(certificate: Certificate) -> str:
    """The card: a sentence that can be signed, who is protected, then all that was done."""
    head = in_lines(statements(certificate), reservation(certificate))
    return "\n".join([*head, "", *_proof(certificate), *_warned(warnings(certificate))])


def require_card(body: bytes, card: str) -> None:
    """The card in the file is the one that follows from what it describes."""
    if body != f"{card}\n".encode():
        raise Tampered(f"{CARD} does not say what the certificate says")


def statements(certificate: Certificate) -> tuple[PrivacyStatement, ...]:
    """What every guarantee means for a person, by what is proven; of several first what all of them together do."""
    guarantees = certificate.guarantees
    if len(guarantees) == 1:
        return (_statement(certificate, guarantees[0], ""),)
    each = (_statement(certificate, one, f"in {one.dataset!r}") for one in guarantees)
    return (_together(certificate), *each)


def _statement(certificate: Certificate, one: Guarantee, where: str) -> PrivacyStatement:
    assumes, public = _assumes(certificate), certificate.provenance.public
    return PrivacyStatement(one.adjacency, one.sound_epsilon, one.delta, where, assumes, public, reads=one.releases > 0)


def _together(certificate: Certificate) -> PrivacyStatement:
    """For whatever is the same in all datasets, as most links are from one month to the next: epsilons add up."""
    guarantees = certificate.guarantees
    common = len({one.adjacency for one in guarantees}) == 1
    both = replace(
        guarantees[0],
        sound_epsilon=sum(one.sound_epsilon for one in guarantees) if common else math.inf,
        delta=min(1.0, sum(one.delta for one in guarantees)),
        releases=sum(one.releases for one in guarantees),
    )
    return _statement(certificate, both, f"in {' and in '.join(repr(one.dataset) for one in guarantees)} alike")


def reservation(certificate: Certificate) -> str:
    """What must be said before any statement; nothing where noise is secret and all code is graphveil's."""
    claimed = "As far as its method's author is right, which is not proven here: " if _others(certificate) else ""
    if any(one.plan.steps and not one.provenance.secure for one in certificate.ancestry):
        return f"NOT FOR RELEASE, its noise can be subtracted by whoever knows the seed. With secret noise: {claimed}"
    return claimed


def _others(certificate: Certificate) -> list[str]:
    """The code of this release, and of all that it descends from, that is not part of graphveil."""
    return list(dict.fromkeys(one.provenance.others for one in certificate.ancestry if one.provenance.others))


def facts(certificate: Certificate) -> list[tuple[str, str]]:
    """The numbers that a page shows first, by name."""
    plan, origin = certificate.plan, certificate.provenance
    rows = [
        ("epsilon", f"{_show(certificate.epsilon)} at delta {certificate.delta:.3g}"),
        ("protects", str(plan.adjacency)),
        ("reading", plan.reading.value),
        ("data", f"{origin.dataset}, split {origin.split}"),
        ("noise", origin.source),
    ]
    return rows + [("warning", warning) for warning in warnings(certificate)]


def _proof(certificate: Certificate) -> list[str]:
    """The numbers, the steps and where they come from."""
    plan, origin = certificate.plan, certificate.provenance
    own, *others = certificate.guarantees
    lines = [
        "graphveil certificate",
        f"  guarantee   epsilon {_show(own.epsilon)} at delta {own.delta:.3g}{_about(certificate, own)}",
        f"  protects    {plan.adjacency}",
        f"  reading     {plan.reading.value}{', by the claim of its author' if origin.others else ''}",
    ]
    if plan.reading is Reading.PUBLISHED:
        refuted = dict.fromkeys(reason for one in certificate.ancestry for reason in one.plan.refuted)
        lines += [f"  REFUTED     {reason}" for reason in refuted]
        proven, also = _show(certificate.sound_epsilon), _with_others(certificate, own)
        lines.append(f"  provable    epsilon {proven} for this very run{also}")
    lines += [
        f"  guarantee   epsilon {_show(one.sound_epsilon)} at delta {one.delta:.3g} for {one.dataset!r}: "
        f"{one.adjacency}"
        for one in others
    ]
    free = " (of released edges: not charged)" if origin.released else ""
    lines += [_step_line(step) + free for step in plan.steps] or ["  steps       none: no private data is read"]
    lines += [f"  assumes     {item}" for item in _assumes(certificate)]
    return [*lines, *_origin_lines(certificate)]


def _origin_lines(certificate: Certificate) -> list[str]:
    """The data, the noise, the ledger, and what the release descends from."""
    origin = certificate.provenance
    lines = [
        f"  data        {origin.dataset}, split {origin.split} ({origin.split_hash[:12] or 'hash withheld'})",
        *([f"  public      {origin.public}, not protected"] if origin.public else []),
        f"  noise       {origin.source}, multiplier {origin.noise:.6g}",
        f"  ledger      {origin.ledger_entry or 'not entered: nobody counts further releases'}",
        f"  made        {origin.created} by graphveil {origin.version}",
    ]
    if origin.others:
        lines += [f"  code        {origin.others}", f"  enforced    {_ENFORCED}"]
    if origin.period:
        lines += [
            f"  stream      period {origin.period}: if its one journal was kept, an edge is counted once in its life, "
            "so that the guarantee is for all periods together, those so far and those to come [docs/streams.md]",
            "  uncovered   who is a node and when it arrives, labels and features at any time, in which period each "
            "node's counts were refreshed",
        ]
    return lines + [f"  made of     {_descent(one)}" for one in certificate.ancestry[1:]]


def _about(certificate: Certificate, own: Guarantee) -> str:
    """Whom the first guarantee is about, where that is more than this run and its data."""
    if certificate.provenance.released:
        return f" for {own.dataset!r}: spent when its edges were released, and this run adds nothing"
    if own.releases > 1:
        return f" for {own.dataset!r}: {_show(certificate.plan_epsilon)} by this run{_with_others(certificate, own)}"
    return f" for {own.dataset!r}" if len(certificate.guarantees) > 1 else ""


def _with_others(certificate: Certificate, own: Guarantee) -> str:
    """How many runs on the same data count beside this one."""
    others = own.releases - (0 if certificate.provenance.released else 1)
    return f", and what {others} earlier release{'s' * (others > 1)} of the same data spent" if others > 0 else ""


def _assumes(certificate: Certificate) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for one in certificate.ancestry for item in one.plan.assumes))


def warnings(certificate: Certificate) -> list[str]:
    """What a reader must not overlook, of this release and of all that it descends from."""
    found = []
    first = statements(certificate)[0]
    if len(certificate.guarantees) > 1:
        found.append(f"{_TWICE}: {_show(first.epsilon)} at delta {first.delta:.3g}")
    if any(len({one.plan.adjacency for one in each}) > 1 for each in families(certificate.ancestry)):
        found.append("releases of one dataset protect different things here: they have no guarantee in common")
    for one in certificate.ancestry:
        origin = one.provenance
        which = "" if one is certificate else f" (of {origin.dataset!r}, made {origin.created})"
        if origin.split_reads_labels and "y" in one.plan.adjacency.private:
            found.append(f"the split was drawn by looking at labels; the guarantee holds given the split{which}")
        if not origin.secure and one.plan.steps:
            found.append(f"seeded noise can be subtracted by whoever knows the seed: NOT FOR RELEASE{which}")
    found += [unproven(code) for code in _others(certificate)]
    worst = max(certificate.epsilon, first.epsilon)
    return found + (cautions(worst, first.delta, certificate.provenance.sizes[0]) if certificate.plan.steps else [])


def _descent(one: Certificate) -> str:
    origin, spent = one.provenance, _show(accounting.epsilon(one.sound or one.plan, one.delta))
    entry = f", ledger {origin.ledger_entry}" if origin.ledger_entry else ""
    return f"{origin.dataset}, split {origin.split}: epsilon {spent} at delta {one.delta:.3g}, {origin.created}{entry}"


def _warned(words: Sequence[str]) -> list[str]:
    return [f"  WARNING     {warning}" for warning in words]


def _show(value: float) -> str:
    return rounded(value, places=4, infinite="infinity (no protection)")


def _step_line(step: Step) -> str:
    return f"  step        {step.name} x {step.times}: {step.act} charged as {step.claim} [{step.why}]"
