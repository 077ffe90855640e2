"""What officers file of a release: an entry of a deployment registry, a Hugging Face model card, a page in Markdown.

Every fact is taken from the release in one place, `entry`; the other forms show it. What no release can know, such as
the purpose and why this epsilon, is left to the user: null in the entry, and listed in `to_be_filled`.
"""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Any

from graphveil.codec import plain, rounded
from graphveil.methods.baseline.best import Best
from graphveil.methods.method import Method
from graphveil.release.certificate import Certificate, Guarantee
from graphveil.release.edges import ReleasedEdges
from graphveil.release.release import Release
from graphveil.release.statement import even_odds
from graphveil.report.run import card_page
from graphveil.vocabulary import Adjacency, Reading, Unit

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
    told = entry(release)
    if form is Filing.REGISTRY:
        return json.dumps(told, indent=2)
    return _model_card(told) if form is Filing.HUGGINGFACE else _page(told)


# The facts


def entry(release: Release | ReleasedEdges) -> dict[str, Any]:
    """All that is filed, as plain values: docs/filings/registry.schema.json says what each is."""
    certificate, method = release.certificate, release.method
    told = {
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
            {
                "name": step.name,
                "times": step.times,
                "act": str(step.act),
                "charged": str(step.claim),
                "proof": step.why,
            }
            for step in certificate.plan.steps
        ],
        "composition": _composition(certificate),
        "tuning": {"charged": isinstance(method, Best), "how": None},
        "implementation": _implementation(certificate),
        "audit": None if not isinstance(release, Release) or release.audit is None else release.audit.describe(),
        "warnings": certificate.warnings(),
    }
    answers = [{"question": question, "answer": answer} for question, answer in _questions(told).items()]
    made: dict[str, Any] = plain({**told, "nist_sp_800_226": answers, "to_be_filled": _blanks(told, answers)})
    return made


def _data(release: Release | ReleasedEdges) -> dict[str, Any]:
    origin = release.certificate.provenance
    sizes = dict(zip(("nodes", "features", "classes"), origin.sizes or (None, None, None), strict=True))
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


def _questions(told: dict[str, Any]) -> dict[str, str | None]:
    """What NIST SP 800-226 asks a guarantee to answer, from the top of its pyramid down, in words of our own."""
    privacy, made = told["privacy"], told["implementation"]
    steps = "; ".join(
        f"{step['name']} x {step['times']}: {step['act']} [{step['proof']}]" for step in told["mechanisms"]
    )
    counted = told["composition"]["ledger_entry"]
    tuned = "it was charged from the same budget" if told["tuning"]["charged"] else None
    return {
        "Which definition of privacy, and which parameters?": " ".join(map(_sentence, privacy["guarantees"])),
        "What is the unit of privacy: how do two neighbouring datasets differ?": privacy["neighbours"],
        "What does the guarantee not cover?": "; ".join(privacy["unprotected"]),
        "Why is this epsilon enough for these data and this purpose?": None,
        "Which mechanisms run, and who has proven what they cost?": steps or "none: no private data is read",
        "What does the proof assume?": "; ".join(privacy["assumes"]) or "nothing beyond the definition",
        "Is the claim known to be false?": "; ".join(privacy["refuted"]) or "no refutation is known",
        "How is privacy loss added up over releases?": (
            f"{told['composition']['accountant']}; "
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
    proven = one["proven_epsilon"]
    if proven == math.inf:
        return f"For {one['dataset']!r} nothing is proven: no protection."
    claimed = "" if one["epsilon"] == proven else f" (claimed: {rounded(one['epsilon'], infinite='infinity')})"
    return (
        f"For {one['dataset']!r}: epsilon {rounded(proven, places=4)}{claimed} at delta {one['delta']:.3g}; even odds "
        f"about one unit become at most {even_odds(proven, one['delta'])}."
    )


def _blanks(told: dict[str, Any], answers: list[dict[str, Any]]) -> list[str]:
    """What is left to the user, by its place in the entry."""
    found = [f"deployment.{name}" for name, value in told["deployment"].items() if value is None]
    found += [] if told["tuning"]["charged"] else ["tuning.how"]
    return [*found, *(f"nist_sp_800_226: {each['question']}" for each in answers if each["answer"] is None)]


# Forms of them


def _model_card(told: dict[str, Any]) -> str:
    """README.md of a model repository: metadata in YAML, of which JSON's texts are a part, and the page."""
    kind, unit = told["release"]["type"], told["privacy"]["unit"]
    tags = ["differential-privacy", "graph-neural-network", "graphveil", f"dp-unit-{unit}", told["release"]["method"]]
    tags += [] if told["implementation"]["secret_noise"] else ["not-for-release"]
    head = [
        "---",
        "library_name: graphveil",
        f"pipeline_tag: {json.dumps('graph-ml')}",
        f"tags: {json.dumps([*tags, 'node-classification'] if kind == 'model' else tags)}",
        "# license: yours to choose",
        "---",
    ]
    read = "gv.load" if kind == "model" else "gv.ReleasedEdges.load"
    use = [
        "## Use",
        "",
        "```python",
        "import graphveil as gv",
        "",
        f'release = {read}("FOLDER")  # checks it first',
        "```",
    ]
    return "\n".join([*head, "", _page(told), "", *use])


def _page(told: dict[str, Any]) -> str:
    """A page in Markdown; what a user has named stands in code, so that it is shown and never read as markup."""
    privacy, release = told["privacy"], told["release"]
    settings = ", ".join(f"{name}={value}" for name, value in release["settings"].items())
    lines = [
        f"# {'A private model' if release['type'] == 'model' else 'A private graph'}: {release['method']} on "
        f"{_code(told['data']['name'])}",
        "",
        *(f"> **{warning}**\n>" for warning in map(_safe, told["warnings"])),
        *(["> **The claim of this reading is refuted; the proven epsilon counts.**"] * bool(privacy["refuted"])),
        "",
        *(f"{_safe(_sentence(_numbers(one)))}\n" for one in privacy["guarantees"]),
        f"Protected: {privacy['neighbours']}. Claim by the {privacy['reading']} reading"
        f"{': proven' if privacy['reading'] == Reading.SOUND.value else ''}.",
        "",
        "Not protected:",
        "",
        *(f"- {_safe(words)}" for words in privacy["unprotected"]),
        "",
        f"Settings: {_code(settings)}",
        "",
        "## Questions of NIST SP 800-226",
        "",
        *(f"**{each['question']}** {_answer(each['answer'])}\n" for each in told["nist_sp_800_226"]),
        "## To be filled in",
        "",
        *(f"- {blank}" for blank in told["to_be_filled"]),
    ]
    return "\n".join(lines)


def _numbers(one: dict[str, Any]) -> dict[str, Any]:
    """A guarantee of the entry with its infinities as numbers again."""
    return {**one, **{name: float(one[name]) for name in ("epsilon", "proven_epsilon", "delta")}}


def _answer(text: str | None) -> str:
    return "*left to you*" if text is None else _safe(text)


def _code(text: str) -> str:
    return f"`{text.replace('`', chr(39))}`"


def _safe(text: str) -> str:
    """Text in which nothing is markup."""
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>#|&" else sign for sign in text)
