"""Forms of a release for privacy officers: an entry of a deployment registry, a Hugging Face card, a Markdown page.

Every fact is taken from the release in `entry`; the other forms show the entry. What the release does not contain, such
as the purpose and why this epsilon, is left to the user: null in the entry, and listed in `to_be_filled`.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Any

from graphveil.codec import plain, rounded
from graphveil.methods.baseline.best import Best
from graphveil.methods.method import Method
from graphveil.release.certificate import Certificate
from graphveil.release.edges import ReleasedEdges
from graphveil.release.guarantee import Guarantee
from graphveil.release.release import Release
from graphveil.release.statement import even_odds
from graphveil.report.run import card_page
from graphveil.report.templates import render
from graphveil.vocabulary import Adjacency, Unit

SCHEMA = 1
"""Version of the entry: docs/filings/registry.schema.json."""

_PARTS = {"x": "the features of nodes", "y": "the labels of nodes", "edges": "the edges"}

_ALWAYS = (
    "the list of ids, and how many nodes, features and classes there are",
    "which ids train, validate and test",
    "the names of columns and classes, and how cells became numbers",
)
"""What every unit leaves public."""

_TIMING = "none: how long a run takes, and other side channels of the machine that trains, are out of scope"
_GRID = "noise is rounded to a grid, and the rounding is charged; what remains is the error of sampling in doubles"
_SEEDED = "none: the noise follows from a seed, and whoever knows it can subtract it"
_NOTHING = "not needed: nothing private is read, and no noise is drawn"
_UNPROTECTED = "not applicable: nothing is protected"


class Filing(StrEnum):
    """The forms that there are."""

    TEXT = "text"
    HTML = "html"
    REGISTRY = "registry"
    HUGGINGFACE = "huggingface"
    MARKDOWN = "markdown"


def filed(release: Release | ReleasedEdges, form: Filing) -> str:
    """The release in one of the forms; TEXT is the card of its folder."""
    if form is Filing.HTML:
        return card_page(release)
    if form is Filing.TEXT:
        return release.card()
    facts = entry(release)
    if form is Filing.REGISTRY:
        return json.dumps(facts, indent=2)
    return _page(facts, card=form is Filing.HUGGINGFACE)


# The facts


def entry(release: Release | ReleasedEdges) -> dict[str, Any]:
    """All that is filed, as plain values: docs/filings/registry.schema.json says what each is."""
    certificate, method = release.certificate, release.method
    facts = {
        "schema": SCHEMA,
        "deployment": dict.fromkeys(("title", "organisation", "contact", "purpose", "justification")),
        "data": _data(release),
        "release": {
            "type": "model" if isinstance(release, Release) else "graph",
            "method": method.name(),
            "settings": {name: value for name, value in method.describe().items() if name != "kind"},
            "predictions_read": method.reads.value if isinstance(release, Release) else None,
            "created": certificate.provenance.created,
        },
        "privacy": _privacy(certificate, method),
        "mechanisms": [
            {"name": one.name, "times": one.times, "act": str(one.act), "charged": str(one.claim), "proof": one.why}
            for one in certificate.plan.steps
        ],
        "composition": _composition(certificate),
        "tuning": {"charged": isinstance(method, Best), "how": None},
        "implementation": _implementation(certificate),
        "audit": None if not isinstance(release, Release) or release.audit is None else release.audit.describe(),
        "warnings": certificate.warnings(),
    }
    answers = [{"question": question, "answer": answer} for question, answer in _questions(facts).items()]
    made: dict[str, Any] = plain({**facts, "nist_sp_800_226": answers, "to_be_filled": _blanks(facts, answers)})
    return made


def _data(release: Release | ReleasedEdges) -> dict[str, Any]:
    origin = release.certificate.provenance
    sizes = dict(zip(("nodes", "features", "classes"), origin.sizes, strict=True))
    kept = isinstance(release, Release) and release.ids is not None
    return {"name": origin.dataset, **sizes, "split": origin.split, "public_graph": origin.public or None, "ids": kept}


def _privacy(certificate: Certificate, method: Method) -> dict[str, Any]:
    plan = certificate.plan
    return {
        "definition": "(epsilon, delta)-differential privacy",
        "model": "central: whoever trains sees the data",
        "unit": plan.adjacency.unit.value,
        "neighbours": str(plan.adjacency),
        "reading": plan.reading.value,
        "guarantees": [_guarantee(one) for one in certificate.guarantees],
        "refuted": list(dict.fromkeys(reason for one in certificate.ancestry for reason in one.plan.refuted)),
        "unprotected": unprotected(plan.adjacency, method, certificate.provenance.public),
        "assumes": list(dict.fromkeys(item for one in certificate.ancestry for item in one.plan.assumes)),
    }


def _guarantee(one: Guarantee) -> dict[str, Any]:
    """Of one dataset; `epsilon` is what the reading claims, `proven_epsilon` what can be proven for the same acts."""
    return {
        "dataset": one.dataset,
        "neighbours": str(one.adjacency),
        "epsilon": one.epsilon,
        "proven_epsilon": one.sound_epsilon,
        "delta": one.delta,
        "releases": one.releases,
    }


def unprotected(adjacency: Adjacency, method: Method, public_graph: str) -> list[str]:
    """What the guarantee does not cover, each in a few words."""
    found = [words for part, words in _PARTS.items() if part not in adjacency.private]
    if method.reads.outside_training and adjacency.unit is not Unit.EDGE:
        found.append("nodes outside training: predictions read their features and the edges among them")
    if public_graph:
        found.append(f"the public graph beside the private one: {public_graph}")
    return [*found, *_ALWAYS]


def _composition(certificate: Certificate) -> dict[str, Any]:
    return {
        "accountant": "privacy loss distributions, rounded up; releases of the same data add up",
        "releases_of_the_same_data": certificate.guarantees[0].releases,
        "ledger_entry": certificate.provenance.ledger_entry or None,
        "descends_from": [one.provenance.dataset for one in certificate.ancestry[1:]],
    }


def _implementation(certificate: Certificate) -> dict[str, Any]:
    origin = certificate.provenance
    digits = _GRID if origin.secure else _SEEDED
    if not certificate.plan.steps:
        digits = _NOTHING
    elif certificate.sound_epsilon == math.inf:
        digits = _UNPROTECTED
    return {
        "software": "graphveil",
        "version": origin.version,
        "noise": origin.source,
        "noise_multiplier": origin.noise,
        "secret_noise": origin.secure,
        "floating_point": digits,
        "timing": _TIMING,
    }


def _questions(facts: dict[str, Any]) -> dict[str, str | None]:
    """What NIST SP 800-226 asks a guarantee to answer, from the top of its pyramid down, in words of our own."""
    privacy, made = facts["privacy"], facts["implementation"]
    steps = "; ".join(
        f"{step['name']} x {step['times']}: {step['act']} [{step['proof']}]" for step in facts["mechanisms"]
    )
    counted = facts["composition"]["ledger_entry"]
    tuned = "it was charged from the same budget" if facts["tuning"]["charged"] else None
    return {
        "Which definition of privacy, and which parameters?": " ".join(map(_sentence, privacy["guarantees"])),
        "What is the unit of privacy: how do two neighbouring datasets differ?": privacy["neighbours"],
        "What does the guarantee not cover?": "; ".join(privacy["unprotected"]),
        "Why is this epsilon enough for these data and this purpose?": None,
        "Which mechanisms run, and who has proven what they cost?": steps or "none: no private data is read",
        "What does the proof assume?": "; ".join(privacy["assumes"]) or "nothing beyond the definition",
        "Is the claim known to be false?": "; ".join(privacy["refuted"]) or "no refutation is known",
        "How is privacy loss added up over releases?": (
            f"{facts['composition']['accountant']}; "
            f"{f'counted as {counted} in a ledger' if counted else 'no ledger counts further releases'}"
        ),
        "Was the choice of settings charged?": tuned,
        "How useful are the results, and for whom less?": None,
        "Whom must one trust?": privacy["model"],
        "Where does the noise come from?": f"{made['noise']}, multiplier {made['noise_multiplier']:.6g}",
        "How is floating point dealt with?": made["floating_point"],
        "Which side channels are closed?": made["timing"],
        "Who may read the data, and how are they kept and collected?": None,
    }


def _sentence(one: dict[str, Any]) -> str:
    """A guarantee with what it bounds for an attacker; the proven number is the one to rely on."""
    claimed, proven, delta = (float(one[name]) for name in ("epsilon", "proven_epsilon", "delta"))
    if proven == math.inf:
        return f"For {one['dataset']!r} nothing is proven: no protection."
    claim = "" if claimed == proven else f" (claimed: {rounded(claimed, infinite='infinity')})"
    return (
        f"For {one['dataset']!r}: epsilon {rounded(proven, places=4)}{claim} at delta {delta:.3g}; even odds "
        f"about one unit become at most {even_odds(proven, delta)}."
    )


def _blanks(facts: dict[str, Any], answers: list[dict[str, Any]]) -> list[str]:
    """What is left to the user, by its place in the entry."""
    found = [f"deployment.{name}" for name, value in facts["deployment"].items() if value is None]
    found += [] if facts["tuning"]["charged"] else ["tuning.how"]
    return [*found, *(f"nist_sp_800_226: {each['question']}" for each in answers if each["answer"] is None)]


# The page


def _page(facts: dict[str, Any], card: bool = False) -> str:
    """A page in Markdown; `card` adds the metadata and the use that a model repository asks for."""
    release, is_model = facts["release"], facts["release"]["type"] == "model"
    unit = f"dp-unit-{facts['privacy']['unit']}"
    tags = ["differential-privacy", "graph-neural-network", "graphveil", unit, release["method"]]
    tags += [] if facts["implementation"]["secret_noise"] else ["not-for-release"]
    return render(
        "filing.md.jinja",
        filing=facts,
        card=card,
        is_model=is_model,
        tags=json.dumps([*tags, "node-classification"] if is_model else tags),
        settings=", ".join(f"{name}={value}" for name, value in release["settings"].items()),
        sentences=[_sentence(one) for one in facts["privacy"]["guarantees"]],
    ).rstrip()
