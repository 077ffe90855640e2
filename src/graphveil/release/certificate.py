"""The guarantee and the thing it speaks of: `Certificate` and `Release`, saved together or not at all."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args, get_type_hints

import numpy as np
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor
from torch.nn.modules.module import register_module_parameter_registration_hook

from graphveil import discover
from graphveil.core import (
    Adjacency,
    InvalidInput,
    Mechanism,
    Plan,
    Reading,
    Relation,
    State,
    Step,
    Tampered,
    Unit,
    Unsupported,
    plain,
    require_delta,
    rounded,
    timely,
)
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.graph import Graph
from graphveil.methods.bases.method import Method, PredictionReads
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.runtime.folders import CARD, MANIFEST, read_public, require_only, write_public
from graphveil.runtime.untrusted import parse_json, require_agreement, require_plain, require_schema

if TYPE_CHECKING:
    from graphveil.evidence.bounds import Finding

SCHEMA = 2
"""Version of the release folder. Raise it when its layout, or the wording of the card, changes."""

UNTRACED = 1
"""The version that did not record what a release descends from; it is still read, and its card says so."""

READABLE = (UNTRACED, SCHEMA)
"""Versions that can be read."""

_MOST_GENERATIONS = 16
"""Releases that may be made of one another in turn: their certificates nest in one file."""

_MOST_MEMBERS = 64
"""Certificates in one file at most, this one and all that it descends from."""

PATIENCE = 60.0
"""Seconds that the plans of one file may take to be charged; the slowest of our own took 14."""

_MOST_STEPS = 1000
_MOST_TIMES = 10**6
"""Steps of a plan, and uses of a step, at most, when it comes from a file: charging more could take for ever."""

_MOST_NODES = 10**12
_MOST_WEIGHTS = 1 << 27
"""Nodes, and features times classes, at most in a file: weights are tried on zeros of such a size."""

_FIRST_FACTS = (
    "dataset", "split", "split_hash", "noise", "source", "secure", "seed", "version", "created", "ledger_entry",
    "public",
)  # fmt: skip
"""What the first version of a file said of where a release came from."""

_BLOCK = 1 << 16
"""Nodes that are scored at a time, so that copies of their features stay small."""

_UNTRACED = "made by a version that did not record what a release descends from"

_FILES = ("release.json", "weights.safetensors", CARD)
_AUDIT = "audit.json"
"""There if the release was audited."""


@dataclass(frozen=True)
class Provenance:
    """Where a release came from. Holds public facts only: no count or hash of private data.

    A split deals out ids and is public. Where labels are private and it was drawn by looking at them its hash is
    withheld: with the split's seed the hash would confirm a guess about labels.
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
    public_graph_digest: str = ""
    """SHA-256 of that graph; empty where there is none, and in a file that did not say."""
    run: str = ""
    """A random number that tells this run from all others; empty in a file that did not say."""
    method: str = ""
    """What planned the run: the method's description as JSON; empty in a file that did not say."""
    sizes: tuple[int, ...] = ()
    """Nodes, features and classes; empty in a file that did not say."""
    public_digest: str = ""
    """SHA-256 of the sizes and of the parts that are public; empty in a file that did not say."""
    descends: bool = False
    """Whether the graph is one that the first parent released, as it was or with other edges."""
    released: bool = False
    """Whether its edges are the very ones that the first parent told: reading them costs nothing more."""
    traced: bool = True
    """Whether the file says what the release descends from: a first version of it did not."""
    split_reads_labels: bool | None = None
    """Whether the split was drawn by looking at labels; None in a file that did not say."""

    @property
    def drawn_by_label(self) -> bool:
        """Whether the split was drawn by looking at labels; of a file that did not say, as its name has it."""
        if self.split_reads_labels is not None:
            return self.split_reads_labels
        return self.split.startswith("per_class") or " balanced" in self.split or self.split == "public"

    def same_data(self, other: Provenance) -> bool:
        """Whether both may speak of the same data: a name or the public parts alike, or one of them does not say."""
        known = self.public_digest != "" != other.public_digest
        return not known or self.public_digest == other.public_digest or self.dataset == other.dataset


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


@dataclass(frozen=True)
class Certificate:
    """What a release can reveal. Epsilon is computed from the plan; there is nothing to fill in by hand.

    `sound` is the plan we stand behind for the same acts, given when `plan` charges the published proof. `parents` are
    the releases whose weights or edges are part of this one, or made it.
    """

    plan: Plan
    delta: float
    provenance: Provenance
    sound: Plan | None = None
    parents: tuple[Certificate, ...] = ()

    def __post_init__(self) -> None:
        require_delta(self.delta)
        origin = self.provenance
        if (origin.released and not origin.descends) or (origin.descends and not self.parents):
            raise InvalidInput("a certificate on a released graph must have that of the release as its first parent")
        edges = self.plan.adjacency.unit is Unit.EDGE
        if origin.descends and not (edges and self.parents[0].plan.adjacency == self.plan.adjacency):
            raise InvalidInput("a graph of released edges is protected as these were: edges, directed or not")
        if self.generations > _MOST_GENERATIONS or self.members > _MOST_MEMBERS:
            raise InvalidInput(
                f"this release would descend from {_MOST_GENERATIONS} generations of others, or {_MOST_MEMBERS} in "
                "all; train on the data instead"
            )
        if self.sound is None:
            if self.plan.reading is Reading.PUBLISHED:
                raise InvalidInput("a PUBLISHED certificate must carry the SOUND plan of the same run")
        elif self.sound.reading is not Reading.SOUND or self.sound.adjacency != self.plan.adjacency:
            raise InvalidInput("both readings of a certificate must protect the same unit, one of them SOUND")
        elif _acts(self.sound) != _acts(self.plan):
            raise InvalidInput("the SOUND plan of a certificate must charge the very acts that its plan runs")

    @cached_property
    def plan_epsilon(self) -> float:
        """Epsilon of the charged plan alone at `delta`."""
        return accounting.epsilon(self.plan, self.delta)

    @property
    def epsilon(self) -> float:
        """What is charged for the dataset at `delta`, by this plan and by those on the same data that came before."""
        return self.guarantees[0].epsilon

    @property
    def sound_epsilon(self) -> float:
        """Epsilon that we can prove for the same releases, whatever reading was charged."""
        return self.guarantees[0].sound_epsilon

    @property
    def generations(self) -> int:
        """How many releases, one made of the other, led to this one."""
        return 1 + max((parent.generations for parent in self.parents), default=0)

    @cached_property
    def members(self) -> int:
        """This certificate and all that it descends from, each as often as it was handed down."""
        return 1 + sum(parent.members for parent in self.parents)

    @cached_property
    def ancestry(self) -> tuple[Certificate, ...]:
        """This certificate, its parents, theirs and so on, each once; all of those that do not say of which run."""
        found: list[Certificate] = []
        runs: set[str] = set()
        waiting = [self]
        while waiting:
            one = waiting.pop(0)
            if one.provenance.run not in runs:
                found.append(one)
                waiting += one.parents
            runs |= {one.provenance.run} - {""}
        return tuple(found)

    @cached_property
    def elsewhere(self) -> tuple[Certificate, ...]:
        """Those of the ancestry that speak of other data."""
        return tuple(itertools.chain.from_iterable(_families(self.ancestry)[1:]))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One for every dataset that is protected; that of `provenance` first."""
        return tuple(_guarantee(self, family) for family in _families(self.ancestry))

    @property
    def data(self) -> Provenance:
        """Whose private part the plan reads: a released graph's is that of the graph it was made of."""
        return self.parents[0].data if self.provenance.released else self.provenance

    def differences(self, graph: Graph) -> str:
        """In which public facts another graph or split than that of the run shows, in words; empty if in none."""
        origin, adjacency = self.provenance, self.plan.adjacency
        facts = {
            "name": (origin.dataset, graph.name),
            "sizes": (origin.sizes, graph.sizes),
            "direction of edges": (adjacency.undirected, graph.undirected),
            "split": (origin.split, graph.split),
            "split's ids": (origin.split_hash, graph.split_hash() if origin.split_hash else ""),
        }
        if origin.traced:
            facts["lineage"] = (
                (origin.descends, origin.released),
                (graph.lineage is not None, graph.arcs_were_released()),
            )
            facts["public graph"] = (origin.public_graph_digest, graph.public_graph_digest())
        if origin.public_digest and origin.sizes == graph.sizes:
            facts["public parts"] = (origin.public_digest, graph.public_digest(adjacency))
        if origin.descends and graph.lineage is not None:
            facts["released graph"] = (self.parents[0], Certificate.from_json(graph.lineage.certificate))
        unknown = set() if origin.sizes else {"sizes"}
        return ", ".join(what for what, (ours, theirs) in facts.items() if ours != theirs and what not in unknown)

    def card(self) -> str:
        """The certificate in words."""
        plan, origin = self.plan, self.provenance
        own, *others = self.guarantees
        lines = [
            "graphveil certificate",
            f"  guarantee   epsilon {_show(own.epsilon)} at delta {own.delta:.3g}{self._about(own)}",
            f"  protects    {plan.adjacency}",
            f"  reading     {plan.reading.value}",
        ]
        if plan.reading is Reading.PUBLISHED:
            refuted = dict.fromkeys(reason for one in self.ancestry for reason in one.plan.refuted)
            lines += [f"  REFUTED     {reason}" for reason in refuted]
            lines.append(f"  provable    epsilon {_show(self.sound_epsilon)} for this very run{self._with_others(own)}")
        lines += [
            f"  guarantee   epsilon {_show(one.sound_epsilon)} at delta {one.delta:.3g} for {one.dataset!r}: "
            f"{one.adjacency}"
            for one in others
        ]
        free = " (of released edges: not charged)" if origin.released else ""
        lines += [_step_line(step) + free for step in plan.steps] or ["  steps       none: no private data is read"]
        lines += [f"  assumes     {item}" for item in self._assumes()]
        lines += [
            f"  data        {origin.dataset}, split {origin.split} ({origin.split_hash[:12] or 'hash withheld'})",
            *([f"  public      {origin.public}, not protected"] if origin.public else []),
            f"  noise       {origin.source}, multiplier {origin.noise:.6g}",
            f"  ledger      {origin.ledger_entry or 'not entered: nobody counts further releases'}",
            f"  made        {origin.created} by graphveil {origin.version}",
        ]
        lines += [f"  made of     {_descent(one)}" for one in self.ancestry[1:]]
        return "\n".join(lines + [f"  WARNING     {warning}" for warning in self.warnings()])

    def _about(self, own: Guarantee) -> str:
        """Whom the first guarantee is about, where that is more than this run and its data."""
        if self.provenance.released:
            return f" for {own.dataset!r}: spent when its edges were released, and this run adds nothing"
        if own.releases > 1:
            return f" for {own.dataset!r}: {_show(self.plan_epsilon)} by this run{self._with_others(own)}"
        return f" for {own.dataset!r}" if len(self.guarantees) > 1 else ""

    def _with_others(self, own: Guarantee) -> str:
        """How many runs on the same data count beside this one."""
        others = own.releases - (0 if self.provenance.released else 1)
        return f", and what {others} earlier release{'s' * (others > 1)} of the same data spent" if others > 0 else ""

    def _assumes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(item for one in self.ancestry for item in one.plan.assumes))

    def warnings(self) -> list[str]:
        """What a reader must not overlook, of this release and of all that it descends from."""
        found = []
        if len(self.guarantees) > 1:
            found.append("whoever is in two of these datasets, or a link that is, is protected by the sum of epsilons")
        if any(len(kinds) > 1 for kinds in ({one.plan.adjacency for one in each} for each in _families(self.ancestry))):
            found.append("releases of one dataset protect different things here: they have no guarantee in common")
        for one in self.ancestry:
            origin = one.provenance
            which = "" if one is self else f" (of {origin.dataset!r}, made {origin.created})"
            if origin.drawn_by_label and "y" in one.plan.adjacency.private:
                found.append(f"the split was drawn by looking at labels; the guarantee holds given the split{which}")
            if not origin.secure and one.plan.steps:
                found.append(f"seeded noise can be subtracted by whoever knows the seed: NOT FOR RELEASE{which}")
            if not origin.traced:
                found.append(
                    f"{_UNTRACED}: if it came from `infer`, or was trained on a released graph, more was revealed than "
                    f"is said here; take it for unprotected unless you know how it was made{which}"
                )
        return found

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
            "provenance": {**asdict(self.provenance), "sizes": list(self.provenance.sizes)},
            "parents": [parent.describe() for parent in self.parents],
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Rebuild and check a certificate; raises `Tampered` when the numbers do not follow from the plan."""
        return cls.rebuild(parse_json(text, READABLE))

    @classmethod
    @timely(PATIENCE)
    def rebuild(cls, described: Any) -> Certificate:
        """Inverse of `describe`."""
        try:
            require_schema(described, READABLE)
            sound = described["sound"]
            made = cls(
                rebuild_plan(described["plan"]),
                float(described["delta"]),
                _rebuild_provenance(described),
                None if sound is None else rebuild_plan(sound),
                tuple(cls.rebuild(parent) for parent in described.get("parents", ())),
            )
            stated = (float(described["epsilon"]), float(described["sound_epsilon"]))
            spent = (made.epsilon, made.sound_epsilon)
        except Tampered:
            raise
        # Whatever else breaks while a stranger's plan is charged, the file did it.
        except Exception as error:
            raise Tampered(f"the certificate is incomplete or altered: {error!r}") from error
        for said, true in zip(stated, spent, strict=True):
            if not math.isclose(said, true, rel_tol=1e-6):
                raise Tampered(f"the certificate says epsilon {said}, its plan spends {true:.6g}")
        require_agreement(described, _in_version(made.describe(), described), "the certificate")
        return made


def _in_version(said: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """What `Certificate.describe` says, as the file's version has it; the earliest knew no public graph."""
    schema = described["schema"]
    if schema == SCHEMA:
        return said
    known = [name for name in _FIRST_FACTS if name != "public" or name in described["provenance"]]
    facts = {name: said["provenance"][name] for name in known}
    return {**{name: said[name] for name in said if name != "parents"}, "schema": schema, "provenance": facts}


def _rebuild_provenance(described: dict[str, Any]) -> Provenance:
    origin = dict(described["provenance"])
    if described["schema"] == UNTRACED:
        origin["traced"] = False
    made = Provenance(**{**origin, "sizes": tuple(origin.get("sizes", ()))})
    for name, kind in get_type_hints(Provenance).items():
        value = getattr(made, name)
        whole = isinstance(value, tuple) and all(type(size) is int and size >= 0 for size in value)
        if not whole and type(value) not in (get_args(kind) or (kind,)):
            raise TypeError(f"{name} is {value!r}")
    if made.secure == made.source.startswith(Seeded.label):
        raise TypeError(f"noise is said to be {made.source!r} and secure={made.secure}")
    if made.traced and not (len(made.sizes) == 3 and min(made.sizes) > 0 and made.method and made.run):
        raise TypeError("the sizes of the graph, the method and the run are not said")
    if made.sizes:
        nodes, features, classes = made.sizes
        if nodes > _MOST_NODES or features * classes > _MOST_WEIGHTS:
            raise Tampered(f"no graph has {nodes:,} nodes, {features:,} features and {classes:,} classes")
    return made


def _families(ancestry: Sequence[Certificate]) -> list[list[Certificate]]:
    """Certificates that speak of the same data, together; the family of the first one first."""
    families: list[list[Certificate]] = []
    for one in ancestry:
        kin = [any(_akin(one, each) for each in family) for family in families]
        place = kin.index(True) if True in kin else len(families)
        joined = [*itertools.chain.from_iterable(itertools.compress(families, kin)), one]
        families = [family for family, same in zip(families, kin, strict=True) if not same]
        families.insert(place, joined)
    return families


def _akin(child: Certificate, other: Certificate) -> bool:
    """Whether the guarantees of two certificates are about the same data."""
    handed_down = any(a.provenance.descends and _same_run(a.parents[0], b) for a, b in ((child, other), (other, child)))
    return handed_down or child.data.same_data(other.data)


def _same_run(one: Certificate, other: Certificate) -> bool:
    return one is other or one.provenance.run == other.provenance.run != ""


def _guarantee(certificate: Certificate, family: Sequence[Certificate]) -> Guarantee:
    """Epsilons of releases on the same data add up, each at its share of delta, whatever made one choose the next.

    Under different adjacencies they do not: what one protects, another reads as it is.
    """
    spending = [one for one in family if one.plan.steps and not one.provenance.released]
    delta = certificate.delta if certificate in family else family[0].delta
    alike = len({one.plan.adjacency for one in family}) == 1
    proven = _together([one.sound or one.plan for one in spending], delta) if alike else math.inf
    published = alike and certificate.plan.reading is Reading.PUBLISHED
    return Guarantee(
        dataset=family[0].data.dataset,
        adjacency=family[0].plan.adjacency,
        epsilon=_together([one.plan for one in spending], delta) if published else proven,
        sound_epsilon=proven,
        delta=delta,
        releases=len(spending),
    )


def _together(plans: Sequence[Plan], delta: float) -> float:
    """An epsilon at `delta` for all plans."""
    if len(plans) == 1:
        return accounting.epsilon(plans[0], delta)
    try:
        return sum((accounting.epsilon(plan, delta / len(plans)) for plan in plans), start=0.0)
    except Unsupported:  # a share that is too small to resolve proves nothing
        return math.inf


def _descent(one: Certificate) -> str:
    origin, spent = one.provenance, _show(accounting.epsilon(one.sound or one.plan, one.delta))
    entry = f", ledger {origin.ledger_entry}" if origin.ledger_entry else ""
    return f"{origin.dataset}, split {origin.split}: epsilon {spent} at delta {one.delta:.3g}, {origin.created}{entry}"


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


def rebuild_plan(described: Any) -> Plan:
    """Inverse of `describe_plan`; runs no code from the file. What no method would plan is `Tampered`."""
    try:
        require_plain(described)
        near = described["adjacency"]
        kinds = {"unit": Unit(near["unit"]), "relation": Relation(near["relation"])}
        adjacency = Adjacency(**discover.require_fields(Adjacency, {**near, **kinds}))
        if len(described["steps"]) > _MOST_STEPS:
            raise Tampered(f"a saved plan of {len(described['steps']):,} steps; at most {_MOST_STEPS:,} are charged")
        return Plan(adjacency, Reading(described["reading"]), tuple(map(_rebuild_step, described["steps"])))
    except (KeyError, TypeError, ValueError) as error:
        raise Tampered(f"a saved plan is incomplete or altered: {error!r}") from error


def _rebuild_step(described: dict[str, Any]) -> Step:
    parts = {
        "act": discover.rebuild_mechanism(described["act"]),
        "claim": discover.rebuild_curve(described["claim"]),
        "assumes": tuple(described["assumes"]),
    }
    made = Step(**discover.require_fields(Step, {**described, **parts}))
    if made.times > _MOST_TIMES:
        raise Tampered(f"a saved step runs {made.times:,} times; at most {_MOST_TIMES:,} are charged")
    return made


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
        same = math.isclose(self.audit.claimed, self.certificate.plan_epsilon, rel_tol=1e-6)
        if not same or self.audit.delta != self.certificate.delta:
            raise InvalidInput("the audit is of another claim than the certificate's")
        if self.audit.subject != audited(self.method, self.certificate.plan):
            raise InvalidInput(
                "the audit is of another method or plan than the release's, or was made on the graph itself; "
                "graphveil.audit(folder, graph) makes one that may go into a release"
            )

    def __getstate__(self) -> dict[str, Any]:
        """For pickles and copies: the private graph stays behind, and so does memory that a tensor is a view of."""
        kept = {**self.__dict__, "_graph": None}
        return {**kept, "state": {name: part.detach().clone() for name, part in self.state.items()}}

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
        if self.method.reads is PredictionReads.OWN_FEATURES and private:
            return (
                f"epsilon 0 for the training nodes: reads {self.method.reads.value}; it tells something about the "
                "queried node itself, so give it to that node only"
            )
        if self.method.reads is PredictionReads.PUBLIC_GRAPH:
            return f"epsilon 0 for the private nodes: reads {self.method.reads.value}, which gets no protection"
        if self.method.reads is PredictionReads.HELD_OUT and private:
            return (
                f"epsilon 0 for the training nodes: reads {self.method.reads.value}; it tells something about those "
                "nodes outside training, which the certificate does not cover there (a training node is scored from "
                "its own features alone: give that to that node only); the graph must have the split of the training"
            )
        return f"epsilon 0 beyond the certificate: reads {self.method.reads.value}"

    def predict_proba(self, graph: Graph | None = None) -> Tensor:
        """Class probabilities [n, c]; see `predict`."""
        subject = graph if graph is not None else self._graph
        if self.method.reads is PredictionReads.RELEASED:
            if graph is not None and graph is not self._graph:
                self._require_same_nodes(graph)
            return self.method.logits(self.state, Tensor(), Csr.empty(0)).softmax(dim=1)
        if subject is None:
            raise InvalidInput("this release was loaded from disk; call predict(graph) with the nodes to label")
        if self.method.reads is PredictionReads.HELD_OUT:
            return self._held_out_logits(subject).softmax(dim=1)
        if self.method.reads is PredictionReads.PUBLIC_GRAPH:
            public = self._labelled(subject)
            return self.method.logits(self.state, public.x, public.adj).softmax(dim=1)
        return self._alone(subject, np.arange(subject.num_nodes)).softmax(dim=1)

    def _labelled(self, graph: Graph) -> Graph:
        """The graph whose nodes get labels: `graph`, or the public one beside it if the method serves that."""
        if self.method.reads is not PredictionReads.PUBLIC_GRAPH:
            return graph
        if graph.public_graph is not None:
            return graph.public_graph
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
            visible = graph.adj.within(~training)
            scores[~graph.train] = self.method.logits(self.state, graph.rows(outside), visible)
        return scores

    def _require_same_training(self, graph: Graph) -> None:
        """On the dataset of the training the split must be that of the training, as far as that can be told."""
        trained = self.certificate.provenance
        if graph.name != trained.dataset:
            return
        known = self._graph
        moved = known is not None and graph.num_nodes == known.num_nodes and not torch.equal(graph.train, known.train)
        other = known is None and trained.split_hash not in ("", graph.split_hash())
        if graph.split != trained.split or moved or other:
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
        mask = subject.labelled(part)
        if not bool(mask.any()):
            raise InvalidInput(f"the graph has no {part} nodes with a label; split it first, e.g. graph.random_split()")
        return score(self.predict(graph)[mask], subject.y[mask], subject.num_classes)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the release folder: weights, method and certificate, sealed by content hashes.

        A save that fails leaves what was there, and this release as it is: save it elsewhere.
        """
        target = Path(path)
        require_finite(self.method, self.state)
        contents = {
            "release.json": json.dumps(self._describe(), indent=2).encode(),
            "weights.safetensors": save_tensors({k: v.contiguous() for k, v in self.state.items()}),
            CARD: (self.card() + "\n").encode(),
        }
        if self.audit is not None:
            contents[_AUDIT] = json.dumps({"schema": SCHEMA, **self.audit.describe()}, indent=2).encode()
        write_public(target, contents, SCHEMA, require_replaceable)
        return target

    def _describe(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "method": self.method.describe(),
            "certificate": self.certificate.describe(),
        }

    def _require_same_nodes(self, graph: Graph) -> None:
        if strange := self.certificate.differences(graph):
            raise Unsupported(
                f"{self.method.name()} released predictions for {self.certificate.provenance.dataset!r} as it was, and "
                f"{graph.name!r} differs in {strange}; for another graph call graphveil.infer(release, graph, "
                "epsilon=...), which spends that graph's budget"
            )


def require_finite(method: Method, state: State) -> None:
    """Refuse to certify what is no model: its predictions would be NaN, and nobody would know why."""
    if broken := nonfinite(state):
        raise Unsupported(
            f"{method.name()} ended in numbers that are not finite ({', '.join(broken)}): training diverged, so there "
            "is no model to release. Take a smaller learning rate or less noise, or scale the features"
        )


def nonfinite(state: State) -> list[str]:
    """The names of the parts that hold NaN or infinity."""
    return [name for name, part in state.items() if part.is_floating_point() and not bool(part.isfinite().all())]


def described_method(method: Method) -> str:
    """A method and its settings as JSON, the same text for the same settings."""
    return json.dumps(method.describe(), sort_keys=True)


def audited(method: Method, plan: Plan) -> str:
    """SHA-256 of what an audit is about."""
    said = json.dumps({"method": method.describe(), "plan": describe_plan(plan)}, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


@timely(PATIENCE)
def load(path: str | os.PathLike[str]) -> Release:
    """Read a release folder, checking every hash and the certificate's arithmetic. Executes no code from it."""
    folder = Path(path)
    contents = read_public(folder, _FILES, READABLE, optional=(_AUDIT,))
    described = parse_json(contents["release.json"], READABLE)
    try:
        method = discover.rebuild_method(described["method"])
        certificate = Certificate.rebuild(described["certificate"])
    except (KeyError, TypeError) as error:
        raise Tampered(f"{folder} is incomplete: {error!r}") from error
    if certificate.provenance.method not in ("", described_method(method)):
        raise Tampered(f"{folder} is of {method.name()}, and its certificate of another method or other settings")
    state = _weights(contents["weights.safetensors"])
    if broken := nonfinite(state):
        raise Tampered(f"{folder} holds weights that are not finite: {', '.join(broken)}")
    _require_speaking(method, state, certificate.provenance.sizes)
    try:
        made = Release(method, state, certificate, audit=_finding(contents.get(_AUDIT)))
    except (InvalidInput, ValueError) as error:
        raise Tampered(f"{folder / _AUDIT} was altered: {error}") from error
    stated = {"schema": described["schema"], "method": made.method.describe(), "certificate": described["certificate"]}
    require_agreement(described, stated, f"{folder / 'release.json'}")
    require_card(contents[CARD], made.card(), certificate)
    return made


def require_card(body: bytes, card: str, certificate: Certificate) -> None:
    """The card in the file is the one that follows from it; the first version worded assumptions otherwise."""
    stated, due = body, f"{card}\n".encode()
    if not certificate.provenance.traced:
        stated, due = (b"\n".join(_settled_words(words)) for words in (stated, due))
    if stated != due:
        raise Tampered(f"{CARD} does not say what the certificate says")


def _settled_words(card: bytes) -> list[bytes]:
    """The lines that both versions of a card have."""
    other = (b"  assumes     ", f"  WARNING     {_UNTRACED}".encode())
    return [
        line
        for line in card.split(b"\n")
        if not (line.startswith(other) and line.decode(errors="replace").isprintable())
    ]


def _weights(body: bytes) -> State:
    try:
        return load_tensors(body)
    # Whatever breaks, the file did it: the library and torch raise several kinds.
    except Exception as error:
        raise Tampered(f"weights.safetensors was altered: {error!r}") from error


def _require_speaking(method: Method, state: State, sizes: tuple[int, ...]) -> None:
    """The weights are those of the method: it predicts with them, as many classes as there are."""
    if not sizes:
        return
    nodes, features, classes = sizes
    rows = nodes if method.reads is PredictionReads.RELEASED else 2
    try:
        with torch.no_grad(), no_more_weights_than(state):
            scores = method.logits(state, torch.zeros(2, features), Csr.empty(2))
    except Exception as error:  # whatever breaks, the weights did it: the same method spoke when it was saved
        raise Tampered(f"the weights are not those of {method.name()}: {type(error).__name__}: {error}") from None
    if scores.shape != (rows, classes) or not scores.is_floating_point():
        raise Tampered(f"the weights of {method.name()} give scores {list(scores.shape)}, not [{rows}, {classes}]")


@contextmanager
def no_more_weights_than(state: State) -> Iterator[None]:
    """Networks that are built inside hold no more than the file does: hyper-parameters from a file may say anything."""
    left, here = sum(part.numel() for part in state.values()), threading.get_ident()

    def count(_: torch.nn.Module, __: str, weights: torch.nn.Parameter | None) -> None:
        nonlocal left
        if weights is not None and threading.get_ident() == here:
            left -= weights.numel()
            if left < 0:
                raise Tampered("the method is larger than its weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _finding(body: bytes | None) -> Finding | None:
    if body is None:
        return None
    from graphveil.evidence.bounds import Finding

    described = parse_json(body, READABLE)
    found = Finding.rebuild(described)
    require_agreement(described, {"schema": described["schema"], **found.describe()}, _AUDIT)
    return found


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
