"""The guarantee and the thing it speaks of: `Certificate` and `Release`, saved together or not at all."""

from __future__ import annotations

import hashlib
import json
import math
import os
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from graphveil import accounting, discover
from graphveil.arcs import Csr, Ids
from graphveil.core import (
    Adjacency,
    InvalidInput,
    Mechanism,
    Plan,
    Reading,
    Relation,
    Step,
    Tampered,
    Unit,
    Unsupported,
    plain,
    require_delta,
    rounded,
)
from graphveil.folders import MANIFEST, parse_json, read_public, require_only, require_schema, write_public
from graphveil.graph import Graph
from graphveil.method import Method, Serves, State

if TYPE_CHECKING:
    from graphveil.bounds import Finding

SCHEMA = 1
"""Version of the release folder. Raise it when its layout, or the wording of the card, changes."""

_BLOCK = 1 << 16
"""Nodes that are scored at a time, so that copies of their features stay small."""

_FILES = ("release.json", "weights.safetensors", "card.txt")
_AUDIT = "audit.json"
"""There if the release was audited."""


@dataclass(frozen=True)
class Provenance:
    """Where a release came from. Holds public facts only: no count or hash of private data.

    Where labels are private the split's hash is withheld: a split covers labelled ids, so the hash together with
    the split's seed would confirm a guess about who has a label.
    """

    dataset: str
    split: str
    split_hash: str
    noise: float
    source: str
    secure: bool
    seed: int | None
    version: str
    created: str
    ledger_entry: str = ""
    public: str = ""
    """The public graph beside the private one, in words; empty where there is none."""


@dataclass(frozen=True)
class Certificate:
    """What a release can reveal. Epsilon is computed from the plan; there is nothing to fill in by hand.

    `sound` is the plan we stand behind for the same acts, given when `plan` charges the published proof.
    """

    plan: Plan
    delta: float
    provenance: Provenance
    sound: Plan | None = None

    def __post_init__(self) -> None:
        require_delta(self.delta)
        if self.sound is None:
            if self.plan.reading is Reading.PUBLISHED:
                raise InvalidInput("a PUBLISHED certificate must carry the SOUND plan of the same run")
        elif self.sound.reading is not Reading.SOUND or self.sound.adjacency != self.plan.adjacency:
            raise InvalidInput("both readings of a certificate must protect the same unit, one of them SOUND")
        elif _acts(self.sound) != _acts(self.plan):
            raise InvalidInput("the SOUND plan of a certificate must charge the very acts that its plan runs")

    @cached_property
    def epsilon(self) -> float:
        """Epsilon of the charged plan at `delta`."""
        return accounting.epsilon(self.plan, self.delta)

    @cached_property
    def sound_epsilon(self) -> float:
        """Epsilon that we can prove for the same run, whatever reading was charged."""
        return accounting.epsilon(self.sound or self.plan, self.delta)

    def card(self) -> str:
        """The certificate in words."""
        plan, origin = self.plan, self.provenance
        lines = [
            "graphveil certificate",
            f"  guarantee   epsilon {_show(self.epsilon)} at delta {self.delta:.3g}",
            f"  protects    {plan.adjacency}",
            f"  reading     {plan.reading.value}",
        ]
        if plan.reading is Reading.PUBLISHED:
            lines += [f"  REFUTED     {reason}" for reason in plan.refuted]
            lines.append(f"  provable    epsilon {_show(self.sound_epsilon)} for this very run")
        lines += [_step_line(step) for step in plan.steps] or ["  steps       none: no private data is read"]
        lines += [f"  assumes     {item}" for item in plan.assumes]
        lines += [
            f"  data        {origin.dataset}, split {origin.split} ({origin.split_hash[:12] or 'hash withheld'})",
            *([f"  public      {origin.public}, not protected"] if origin.public else []),
            f"  noise       {origin.source}, multiplier {origin.noise:.6g}",
            f"  ledger      {origin.ledger_entry or 'not entered: nobody counts further releases'}",
            f"  made        {origin.created} by graphveil {origin.version}",
        ]
        by_label = origin.split.startswith("per_class") or " balanced" in origin.split
        if by_label and "y" in plan.adjacency.private:
            lines.append("  WARNING     the split was drawn by looking at labels; the guarantee holds given the split")
        if not origin.secure and plan.steps:
            lines.append("  WARNING     seeded noise can be subtracted by whoever knows the seed: NOT FOR RELEASE")
        return "\n".join(lines)

    def to_json(self) -> str:
        """Machine-readable form; `from_json` inverts it."""
        return json.dumps(self.describe(), indent=2)

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON. The epsilons are for readers; loading recomputes and compares them."""
        return {
            "schema": SCHEMA,
            "epsilon": plain(self.epsilon),
            "sound_epsilon": plain(self.sound_epsilon),
            "delta": self.delta,
            "plan": describe_plan(self.plan),
            "sound": None if self.sound is None else describe_plan(self.sound),
            "provenance": asdict(self.provenance),
        }

    @classmethod
    def from_json(cls, text: str) -> Certificate:
        """Rebuild and check a certificate; raises `Tampered` when the numbers do not follow from the plan."""
        return cls.rebuild(parse_json(text, SCHEMA))

    @classmethod
    def rebuild(cls, described: Any) -> Certificate:
        """Inverse of `describe`."""
        try:
            require_schema(described, SCHEMA)
            sound = described["sound"]
            made = cls(
                rebuild_plan(described["plan"]),
                float(described["delta"]),
                Provenance(**described["provenance"]),
                None if sound is None else rebuild_plan(sound),
            )
            stated = (float(described["epsilon"]), float(described["sound_epsilon"]))
            spent = (made.epsilon, made.sound_epsilon)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError, Unsupported) as error:
            raise Tampered(f"the certificate is incomplete or altered: {error!r}") from error
        for said, true in zip(stated, spent, strict=True):
            if not math.isclose(said, true, rel_tol=1e-6):
                raise Tampered(f"the certificate says epsilon {said}, its plan spends {true:.6g}")
        return made


def _acts(plan: Plan) -> list[tuple[str, Mechanism, int]]:
    return [(step.name, step.act, step.times) for step in plan.steps]


def describe_plan(plan: Plan) -> dict[str, Any]:
    """A plan as plain values for JSON."""
    return {
        "adjacency": asdict(plan.adjacency),
        "reading": plan.reading.value,
        "steps": [
            {
                "name": step.name,
                "act": step.act.describe(),
                "claim": step.claim.describe(),
                "times": step.times,
                "why": step.why,
                "assumes": list(step.assumes),
                "refuted": step.refuted,
            }
            for step in plan.steps
        ],
    }


def rebuild_plan(described: dict[str, Any]) -> Plan:
    """Inverse of `describe_plan`; runs no code from the file."""
    near = described["adjacency"]
    adjacency = Adjacency(Unit(near["unit"]), Relation(near["relation"]), bool(near["undirected"]))
    steps = tuple(
        Step(
            name=step["name"],
            act=discover.rebuild_mechanism(step["act"]),
            claim=discover.rebuild_curve(step["claim"]),
            times=int(step["times"]),
            why=step["why"],
            assumes=tuple(step["assumes"]),
            refuted=step["refuted"],
        )
        for step in described["steps"]
    )
    return Plan(adjacency, Reading(described["reading"]), steps)


@dataclass(frozen=True)
class Release:
    """A trained model with its certificate. An uncertified model has no type."""

    method: Method
    state: State
    certificate: Certificate
    _graph: Graph | None = field(default=None, repr=False, compare=False)
    audit: Finding | None = None
    """What an audit of the same plan found; see `graphveil.audit`."""

    def __post_init__(self) -> None:
        if self.audit is None:
            return
        same = math.isclose(self.audit.claimed, self.certificate.epsilon, rel_tol=1e-6)
        if not same or self.audit.delta != self.certificate.delta:
            raise InvalidInput("the audit is of another claim than the certificate's")
        if self.audit.subject != audited(self.method, self.certificate.plan):
            raise InvalidInput(
                "the audit is of another method or plan than the release's, or was made on the graph itself; "
                "graphveil.audit(folder, graph) makes one that may go into a release"
            )

    def card(self) -> str:
        """The certificate in words, and what an audit found."""
        if self.audit is None:
            return self.certificate.card()
        found = self.audit
        share = f"{100 * found.confidence:.6g} % confidence over {found.runs} runs"
        above = rounded(found.lower, up=False, places=4, infinite="every number")
        lines = (
            f"  audited     epsilon is above {above} with {share}: {found.verdict}",
            f"  by          {found.attack}",
            "  of          the same plan, run again with other noise on a stand-in for the graph, made of public parts",
        )
        return "\n".join([self.certificate.card(), *lines])

    @property
    def prediction_cost(self) -> str:
        """What `predict` reads and what that costs."""
        private = "x" in self.certificate.plan.adjacency.private
        if self.method.serves is Serves.OWN_FEATURES and private:
            return (
                f"epsilon 0 for the training nodes: reads {self.method.serves.value}; it tells something about the "
                "queried node itself, so give it to that node only"
            )
        if self.method.serves is Serves.PUBLIC_GRAPH:
            return f"epsilon 0 for the private nodes: reads {self.method.serves.value}, which gets no protection"
        if self.method.serves is Serves.HELD_OUT and private:
            return (
                f"epsilon 0 for the training nodes: reads {self.method.serves.value}; it tells something about those "
                "nodes outside training, which the certificate does not cover there (a training node is scored from "
                "its own features alone: give that to that node only); the graph must have the split of the training"
            )
        return f"epsilon 0 beyond the certificate: reads {self.method.serves.value}"

    def predict_proba(self, graph: Graph | None = None) -> Tensor:
        """Class probabilities [n, c]; see `predict`."""
        subject = graph if graph is not None else self._graph
        if self.method.serves is Serves.RELEASED:
            if graph is not None and graph is not self._graph:
                self._require_same_nodes(graph)
            return self.method.logits(self.state, Tensor(), Csr.empty(0)).softmax(dim=1)
        if subject is None:
            raise InvalidInput("this release was loaded from disk; call predict(graph) with the nodes to label")
        if self.method.serves is Serves.HELD_OUT:
            return self._held_out_logits(subject).softmax(dim=1)
        if self.method.serves is Serves.PUBLIC_GRAPH:
            public = self._labelled(subject)
            return self.method.logits(self.state, public.x, public.adj).softmax(dim=1)
        return self._alone(subject, np.arange(subject.num_nodes)).softmax(dim=1)

    def _labelled(self, graph: Graph) -> Graph:
        """The graph whose nodes get labels: `graph`, or the public one beside it if the method serves that."""
        if self.method.serves is not Serves.PUBLIC_GRAPH:
            return graph
        if graph.beside is not None:
            return graph.beside
        trained = self._graph
        same = trained is not None and graph.x.shape == trained.x.shape and torch.equal(graph.x, trained.x)
        if same or graph.name == self.certificate.provenance.dataset:
            raise Unsupported(
                f"{self.method.name()} labels public nodes, and {graph.name!r} is the private graph of the training; "
                "give that with its public graph beside it, or a public graph of another name"
            )
        return graph

    def _alone(self, graph: Graph, nodes: Ids) -> Tensor:
        """Class scores of some nodes, int64 [k], each from its own features, a block at a time to spare memory."""
        blocks = np.split(nodes, range(_BLOCK, len(nodes), _BLOCK))
        return torch.cat([self.method.logits(self.state, graph.rows(b), Csr.empty(len(b))) for b in blocks])

    def _held_out_logits(self, graph: Graph) -> Tensor:
        """Nodes outside training hear one another; training nodes are not there, and are scored alone."""
        self._require_same_training(graph)
        training = graph.train.numpy()
        outside = np.flatnonzero(~training)
        alone = self._alone(graph, np.flatnonzero(training))
        scores = alone.new_empty(graph.num_nodes, alone.shape[1])
        scores[graph.train] = alone
        if len(outside):
            # The arcs first: finding them takes memory that the features would be in the way of.
            heard = graph.adj.within(~training)
            scores[~graph.train] = self.method.logits(self.state, graph.rows(outside), heard)
        return scores

    def _require_same_training(self, graph: Graph) -> None:
        """On the dataset of the training the split must be that of the training, as far as that can be told."""
        trained = self.certificate.provenance
        if graph.name != trained.dataset:
            return
        known = self._graph
        moved = known is not None and graph.num_nodes == known.num_nodes and not torch.equal(graph.train, known.train)
        if graph.split != trained.split or moved:
            raise Unsupported(
                f"{graph.name!r} is split as {graph.split!r}, but the release was trained on {trained.split!r}, or on "
                "other ids: its training nodes would be read as if they were outside training; give the split of the "
                "training"
            )

    def predict(self, graph: Graph | None = None) -> Tensor:
        """Predicted class of every node, int64 [n]. Free: see `prediction_cost`.

        Without `graph`, the training graph's nodes. A method whose predictions read private edges released them
        for the training graph; another graph needs `graphveil.infer`, which charges that graph's budget. A method that
        learns from a public graph labels the nodes of the public graph beside `graph`, or of a public `graph`.
        """
        return self.predict_proba(graph).argmax(dim=1)

    def evaluate(self, part: str = "test", graph: Graph | None = None) -> dict[str, float]:
        """Accuracy and macro F1 on "train", "val" or "test". For the data holder's eyes.

        Under NODE, FEATURES and LABEL the scores are statistics of private labels that no certificate covers, unless
        the nodes are those of a public graph.
        """
        subject = graph if graph is not None else self._graph
        if subject is None:
            raise InvalidInput("this release was loaded from disk; call evaluate(part, graph)")
        if part not in ("train", "val", "test"):
            raise InvalidInput(f"unknown part {part!r}; use one of: train, val, test")
        subject = self._labelled(subject)
        mask: Tensor = getattr(subject, part)
        if not bool(mask.any()):
            raise InvalidInput(f"the graph has no {part} nodes; split it first, e.g. graph.random_split()")
        return score(self.predict(graph)[mask], subject.y[mask], subject.num_classes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the release folder: weights, method and certificate, sealed by content hashes."""
        target = Path(path)
        require_replaceable(target)
        contents = {
            "release.json": json.dumps(self._describe(), indent=2).encode(),
            "weights.safetensors": save_tensors({k: v.contiguous() for k, v in self.state.items()}),
            "card.txt": (self.card() + "\n").encode(),
        }
        if self.audit is not None:
            contents[_AUDIT] = json.dumps({"schema": SCHEMA, **self.audit.describe()}, indent=2).encode()
        write_public(target, contents, SCHEMA)
        return target

    def _describe(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "method": self.method.describe(),
            "certificate": self.certificate.describe(),
        }

    def _require_same_nodes(self, graph: Graph) -> None:
        trained = self.certificate.provenance
        known = (trained.dataset, trained.split_hash, len(self.state["logits"]))
        split = graph.split_hash() if trained.split_hash else ""
        if (graph.name, split, graph.num_nodes) != known:
            raise Unsupported(
                f"{self.method.name()} released predictions for {trained.dataset!r} only; for another graph "
                "call graphveil.infer(release, graph, epsilon=...), which spends that graph's budget"
            )


def audited(method: Method, plan: Plan) -> str:
    """SHA-256 of what an audit is about."""
    said = json.dumps({"method": method.describe(), "plan": describe_plan(plan)}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def load(path: str | os.PathLike[str]) -> Release:
    """Read a release folder, checking every hash and the certificate's arithmetic. Executes no code from it."""
    folder = Path(path)
    contents = read_public(folder, _FILES, SCHEMA, optional=(_AUDIT,))
    described = parse_json(contents["release.json"], SCHEMA)
    try:
        method = discover.rebuild_method(described["method"])
        certificate = Certificate.rebuild(described["certificate"])
        state = load_tensors(contents["weights.safetensors"])
    except (KeyError, TypeError, SafetensorError) as error:
        raise Tampered(f"{folder} is incomplete: {error!r}") from error
    try:
        made = Release(method, state, certificate, audit=_finding(contents.get(_AUDIT)))
    except (InvalidInput, ValueError) as error:
        raise Tampered(f"{folder / _AUDIT} was altered: {error}") from error
    if contents["card.txt"].decode(errors="replace") != made.card() + "\n":
        raise Tampered(f"{folder / 'card.txt'} does not say what the certificate says")
    return made


def _finding(body: bytes | None) -> Finding | None:
    if body is None:
        return None
    from graphveil.bounds import Finding

    return Finding.rebuild(parse_json(body, SCHEMA))


def score(predicted: Tensor, truth: Tensor, num_classes: int) -> dict[str, float]:
    """Accuracy and macro F1, over the classes that occur, of predicted classes, both int64 [n]."""
    hits = predicted == truth
    f1 = [class_f1(predicted, truth, label) for label in range(num_classes) if bool((truth == label).any())]
    return {"accuracy": float(hits.double().mean()), "f1": sum(f1) / len(f1)}


def class_f1(predicted: Tensor, truth: Tensor, label: int) -> float:
    """F1 of one class against the rest, both int64 [n]; 0 if nobody has the class or is said to."""
    said, is_ = predicted == label, truth == label
    return 2 * float((said & is_).sum()) / max(float(said.sum() + is_.sum()), 1.0)


def require_replaceable(path: Path) -> None:
    """`path` is free, an empty folder, or holds exactly a release: saving there loses nothing else."""
    require_only(path, (*_FILES, MANIFEST), "a release folder", optional=(_AUDIT,))


def _show(value: float) -> str:
    return rounded(value, places=4, infinite="infinity (no protection)")


def _step_line(step: Step) -> str:
    return f"  step        {step.name} x {step.times}: {step.act} charged as {step.claim} [{step.why}]"
