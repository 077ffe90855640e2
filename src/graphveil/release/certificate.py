"""The guarantee and the thing it speaks of: `Certificate` and `Release`, saved together or not at all."""

from __future__ import annotations

import itertools
import json
import math
import time
from collections.abc import Sequence
from dataclasses import InitVar, asdict, dataclass, replace
from functools import cached_property
from typing import Any, get_args, get_type_hints

from graphveil.checks import require_delta
from graphveil.codec import plain, rounded
from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, public_digest, public_graph_digest
from graphveil.data.schema import Schema
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.mechanisms.described import rebuild_plan
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.described import foreign_words
from graphveil.methods.method import Method
from graphveil.planning import cautions, unproven
from graphveil.privacy import accounting
from graphveil.privacy.noise import Seeded
from graphveil.release.statement import DIRECTION, PrivacyStatement, in_lines
from graphveil.runtime.folders import CARD
from graphveil.runtime.html import facts
from graphveil.runtime.safe_json import parse_json, plain_json, require_agreement, require_schema
from graphveil.vocabulary import Adjacency, Mechanism, Plan, Reading, Step, Unit

SCHEMA = 5
"""Version of the release folder. Raise it when its layout, or the wording of the card, changes."""

UNTRACED = 1
"""The version that did not record what a release descends from; it is still read, and its card says so."""

NAMELESS = 2
"""The version that did not keep the names of columns, classes and ids; it is still read."""

UNPROMISED = 3
"""The version whose card began with the numbers, and not with a sentence; it is still read."""

APART = 4
"""The version whose card did not say what is in several datasets, or that direction is public; it is still read."""

_PASSED = f"up to version {APART} data with the same ids passed for others"

READABLE = (UNTRACED, NAMELESS, UNPROMISED, APART, SCHEMA)
"""Versions that can be read."""

_MAX_GENERATIONS = 16
"""Releases that may be made of one another in turn: their certificates nest in one file."""

_MAX_MEMBERS = 64
"""Certificates in one file at most, this one and all that it descends from."""

PATIENCE = 60.0
"""Seconds that the plans of one file may take to be charged; the slowest of our own took 14."""

_MAX_NODES = 10**12
_MAX_WEIGHTS = 1 << 27
"""Nodes, and features times classes, at most in a file: weights are tried on zeros of such a size."""

_FIRST_FACTS = (
    "dataset", "split", "split_hash", "noise", "source", "secure", "seed", "version", "created", "ledger_entry",
    "public",
)  # fmt: skip
"""What the first version of a file said of where a release came from."""

_NAMES = ("schema", "ids_digest")
"""Facts that a nameless file does not have."""

_STREAM = ("period", "period_token")
"""Facts that only the file of a growing graph has."""

_HEADING = "graphveil certificate"

_ENFORCED = (
    "by graphveil: which steps run, how often, and what they add up to; the bounds and the noise of its own mechanisms"
)
"""Of a method that is not part of graphveil."""

_TWICE = "whoever is in two of these datasets, or a link that is, is protected by the sum of epsilons"

_UNTRACED = "made by a version that did not record what a release descends from"


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
    schema: str = ""
    """Names of columns and classes and how cells became numbers, as JSON (`Schema`); empty where there are none."""
    ids_digest: str = ""
    """SHA-256 of the ids in their order, which every unit leaves public; empty where there are none."""
    others: str = ""
    """The code of the method that is not part of graphveil (`Planned.others`); empty, and not written, if all is."""
    period: int = 0
    """Of a growing graph, how often it was counted, this time included; 0 for a graph that is released once."""
    period_token: str = ""
    """A random number that tells this period from all others, and the journal knows; all periods are one `run`."""

    @property
    def drawn_by_label(self) -> bool:
        """Whether the split was drawn by looking at labels; of a file that did not say, as its name has it."""
        if self.split_reads_labels is not None:
            return self.split_reads_labels
        return self.split.startswith("per_class") or " balanced" in self.split or self.split == "public"

    def same_data(self, other: Provenance) -> bool:
        """Whether both may speak of the same data: alike in name, ids or public parts, or one of them does not say."""
        if self.dataset == other.dataset or "" in (self.public_digest, other.public_digest):
            return True
        return self.public_digest == other.public_digest or self.ids_digest == other.ids_digest != ""


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
    deadline: InitVar[float] = math.inf
    """By when a certificate from a file must be charged: see `accounting.epsilon`."""

    def __post_init__(self, deadline: float) -> None:
        require_delta(self.delta)
        origin = self.provenance
        if origin.period < 0 or (origin.period > 0) != bool(origin.period_token):
            raise InvalidInput("a period of a stream has a number above 0 and a token")
        if origin.period and (self.plan.adjacency.unit is not Unit.EDGE or self.parents):
            raise InvalidInput("a stream protects edges, and is made of no other release")
        if origin.period and (origin.others or not _counts_once(self.plan)):
            raise InvalidInput("a stream counts the ends of edges, each once, and does nothing else")
        if (origin.released and not origin.descends) or (origin.descends and not self.parents):
            raise InvalidInput("a certificate on a released graph must have that of the release as its first parent")
        edges = self.plan.adjacency.unit is Unit.EDGE
        if origin.descends and not (edges and self.parents[0].plan.adjacency == self.plan.adjacency):
            raise InvalidInput("a graph of released edges is protected as these were: edges, directed or not")
        if self.generations > _MAX_GENERATIONS or self.members > _MAX_MEMBERS:
            raise InvalidInput(
                f"this release would descend from {_MAX_GENERATIONS} generations of others, or {_MAX_MEMBERS} in "
                "all; train on the data instead"
            )
        if self.sound is None:
            if self.plan.reading is Reading.PUBLISHED:
                raise InvalidInput("a PUBLISHED certificate must carry the SOUND plan of the same run")
        elif self.sound.reading is not Reading.SOUND or self.sound.adjacency != self.plan.adjacency:
            raise InvalidInput("both readings of a certificate must protect the same unit, one of them SOUND")
        elif _acts(self.sound) != _acts(self.plan):
            raise InvalidInput("the SOUND plan of a certificate must charge the very acts that its plan runs")
        if deadline < math.inf:
            # Now, and kept: later there is no deadline.
            vars(self)["plan_epsilon"] = accounting.epsilon(self.plan, self.delta, deadline)
            vars(self)["guarantees"] = self._guaranteed(deadline)

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
        runs: dict[str, list[Certificate]] = {}
        waiting = [self]
        while waiting:
            one = waiting.pop(0)
            kin = runs.setdefault(one.provenance.run, []) if one.provenance.run else []
            if not kin:
                found.append(one)
                waiting += one.parents
            for other in kin:
                _require_one_run(one, other)
            kin.append(one)
        return tuple(found)

    @cached_property
    def elsewhere(self) -> tuple[Certificate, ...]:
        """Those of the ancestry that speak of other data."""
        return tuple(itertools.chain.from_iterable(_families(self.ancestry)[1:]))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One for every dataset that is protected; that of `provenance` first."""
        return self._guaranteed(math.inf)

    def _guaranteed(self, deadline: float) -> tuple[Guarantee, ...]:
        return tuple(_guarantee(self, family, deadline) for family in _families(self.ancestry))

    @property
    def data(self) -> Provenance:
        """Whose private part the plan reads: a released graph's is that of the graph it was made of."""
        return self.parents[0].data if self.provenance.released else self.provenance

    @cached_property
    def schema(self) -> Schema | None:
        """The names of columns and classes that the run had; None where it knew none."""
        return Schema.from_text(self.provenance.schema) if self.provenance.schema else None

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
                (graph.lineage is not None, graph.adj.origin is not None),
            )
            facts["public graph"] = (origin.public_graph_digest, public_graph_digest(graph))
        if origin.public_digest and origin.sizes == graph.sizes:
            facts["public parts"] = (origin.public_digest, public_digest(graph, adjacency))
        if origin.descends and graph.lineage is not None:
            facts["released graph"] = (self.parents[0], Certificate.from_json(graph.lineage.certificate))
        if self.schema is not None:
            facts["names of columns and classes"] = (self.schema, graph.schema)
        if origin.ids_digest and graph.ids is not None:
            facts["ids"] = (origin.ids_digest, ids_digest(graph))
        unknown = set() if origin.sizes else {"sizes"}
        return ", ".join(what for what, (ours, theirs) in facts.items() if ours != theirs and what not in unknown)

    @property
    def promises(self) -> tuple[PrivacyStatement, ...]:
        """What every guarantee means for a person, by what is proven; of several first what all of them together do."""
        if len(self.guarantees) == 1:
            return (self._promise(self.guarantees[0], ""),)
        return (self._alike(), *(self._promise(one, f"in {one.dataset!r}") for one in self.guarantees))

    def _promise(self, one: Guarantee, where: str) -> PrivacyStatement:
        assumes, public = self._assumes(), self.provenance.public
        return PrivacyStatement(
            one.adjacency, one.sound_epsilon, one.delta, where, assumes, public, reads=one.releases > 0
        )

    def _alike(self) -> PrivacyStatement:
        """For whatever is the same in all datasets, as most links are from one month to the next: epsilons add up."""
        first = self.guarantees[0]
        common = len({one.adjacency for one in self.guarantees}) == 1
        epsilon = sum(one.sound_epsilon for one in self.guarantees) if common else math.inf
        delta = min(1.0, sum(one.delta for one in self.guarantees))
        releases = sum(one.releases for one in self.guarantees)
        both = replace(first, sound_epsilon=epsilon, delta=delta, releases=releases)
        return self._promise(both, f"in {' and in '.join(repr(one.dataset) for one in self.guarantees)} alike")

    @property
    def reservation(self) -> str:
        """What must be said before any promise; nothing where noise is secret and the file says whence it came."""
        claimed = "As far as its method's author is right, which is not proven here: " if self._others() else ""
        if any(one.plan.steps and not one.provenance.secure for one in self.ancestry):
            return (
                f"NOT FOR RELEASE, its noise can be subtracted by whoever knows the seed. With secret noise: {claimed}"
            )
        traced = all(one.provenance.traced for one in self.ancestry)
        return claimed if traced else f"As far as its file tells: {claimed}"

    def _others(self) -> list[str]:
        """The code of this release, and of all that it descends from, that is not part of graphveil."""
        return list(dict.fromkeys(one.provenance.others for one in self.ancestry if one.provenance.others))

    @property
    def promised(self) -> str:
        """All promises in a paragraph, with what must be said before."""
        return self.reservation + " ".join(one.sentence for one in self.promises)

    def card(self) -> str:
        """The certificate in words: a sentence that can be signed, who is protected, then all that was done."""
        return "\n".join([*in_lines(self.promises, self.reservation), "", self._proof()])

    def _repr_html_(self) -> str:
        return facts(
            "Certificate", self.facts(), " ".join(f"{self.reservation}{one.sentence}" for one in self.promises)
        )

    def facts(self) -> list[tuple[str, str]]:
        """The numbers that a page shows first, by name."""
        rows = [
            ("epsilon", f"{_show(self.epsilon)} at delta {self.delta:.3g}"),
            ("protects", str(self.plan.adjacency)),
            ("reading", self.plan.reading.value),
            ("data", f"{self.provenance.dataset}, split {self.provenance.split}"),
            ("noise", self.provenance.source),
        ]
        return rows + [("warning", warning) for warning in self.warnings()]

    def _proof(self) -> str:
        """The numbers, the steps and where they come from."""
        plan, origin = self.plan, self.provenance
        own, *others = self.guarantees
        lines = [
            _HEADING,
            f"  guarantee   epsilon {_show(own.epsilon)} at delta {own.delta:.3g}{self._about(own)}",
            f"  protects    {plan.adjacency}",
            f"  reading     {plan.reading.value}{', by the claim of its author' if origin.others else ''}",
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
        if origin.others:
            lines += [f"  code        {origin.others}", f"  enforced    {_ENFORCED}"]
        lines += self._stream_lines()
        lines += [f"  made of     {_descent(one)}" for one in self.ancestry[1:]]
        return "\n".join(lines + _warned(self.warnings()))

    def _stream_lines(self) -> list[str]:
        """What a growing graph's card says of all periods."""
        period = self.provenance.period
        if not period:
            return []
        return [
            f"  stream      period {period}: if its one journal was kept, an edge is counted once in its life, so that "
            "the guarantee is for all periods together, those so far and those to come [docs/streams.md]",
            "  uncovered   who is a node and when it arrives, labels and features at any time, which rows were counted "
            "anew when",
        ]

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
            alike = self.promises[0]
            found.append(f"{_TWICE}: {_show(alike.epsilon)} at delta {alike.delta:.3g}")
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
        return found + [unproven(code) for code in self._others()] + self.cautions()

    def cautions(self, alone: bool = False) -> list[str]:
        """What an epsilon or a delta that protects hardly anybody means; `alone`: but for what other datasets add."""
        sizes, first = self.provenance.sizes, self.promises[0]
        spent = (self.epsilon, self.delta) if alone else (max(self.epsilon, first.epsilon), first.delta)
        return cautions(*spent, sizes[0] if sizes else None) if self.plan.steps else []

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
            "plan": self.plan.describe(),
            "sound": None if self.sound is None else self.sound.describe(),
            "provenance": _described(self.provenance),
            "parents": [parent.describe() for parent in self.parents],
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Rebuild and check a certificate; raises `Tampered` when the numbers do not follow from the plan."""
        return cls.rebuild(parse_json(text, READABLE))

    @classmethod
    def rebuild(cls, described: Any, deadline: float | None = None) -> Certificate:
        """Inverse of `describe`. deadline: see `accounting.epsilon`; if it is None, `PATIENCE` from now."""
        deadline = time.thread_time() + PATIENCE if deadline is None else deadline
        try:
            require_schema(described, READABLE)
            sound = described["sound"]
            made = cls(
                rebuild_plan(described["plan"]),
                float(described["delta"]),
                _rebuild_provenance(described),
                None if sound is None else rebuild_plan(sound),
                tuple(cls.rebuild(parent, deadline) for parent in described.get("parents", ())),
                deadline,
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
                hint = f"; {_PASSED}" if described["schema"] <= APART and said < true else ""
                raise Tampered(f"the certificate says epsilon {said}, its plan spends {true:.6g}{hint}")
        require_agreement(described, _in_version(made.describe(), described), "the certificate")
        return made


def _described(origin: Provenance) -> dict[str, Any]:
    """Plain values; code of others, and periods of a growing graph, are told where there are any."""
    facts = {**asdict(origin), "sizes": list(origin.sizes)}
    unsaid = {*(() if origin.others else ("others",)), *(() if origin.period else _STREAM)}
    return {name: facts[name] for name in facts if name not in unsaid}


def _in_version(said: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """What `Certificate.describe` says, as the file's version has it, and so the parents; the earliest had none."""
    schema, facts = described["schema"], said["provenance"]
    if schema == UNTRACED:
        known = [name for name in _FIRST_FACTS if name != "public" or name in described["provenance"]]
        facts = {name: facts[name] for name in known}
        return {**{name: said[name] for name in said if name != "parents"}, "schema": schema, "provenance": facts}
    if schema == NAMELESS:
        facts = {name: facts[name] for name in facts if name not in _NAMES}
    parents = [_in_version(*pair) for pair in zip(said["parents"], described["parents"], strict=True)]
    return {**said, "schema": schema, "provenance": facts, "parents": parents}


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
    told = [made.method and plain_json(made.method)]
    told += [part for step in described["plan"]["steps"] for part in (step["act"], step["claim"])]
    if not made.others and (strange := set().union(*map(foreign_words, told))):
        raise Tampered(
            f"{min(strange)} is not part of graphveil, and the file does not say so: it was altered, or is old"
        )
    if made.schema:
        named = Schema.from_text(made.schema)
        if (named.width, len(named.classes)) != made.sizes[1:]:
            raise TypeError("the names of columns and classes are not those of so many")
    if made.sizes:
        nodes, features, classes = made.sizes
        if nodes > _MAX_NODES or features * classes > _MAX_WEIGHTS:
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


def _counts_once(plan: Plan) -> bool:
    """Whether a plan is that of a stream: one count of both ends of every edge, or of the one of an arc."""
    acts = [(step.act, step.times) for step in plan.steps]
    if plan.reading is not Reading.SOUND or len(acts) != 1:
        return False
    act, times = acts[0]
    return isinstance(act, Tally) and act.marks == 1 + plan.adjacency.undirected and times == 1


def _guarantee(certificate: Certificate, family: Sequence[Certificate], deadline: float) -> Guarantee:
    """Epsilons of releases on the same data add up, each at its share of delta, whatever made one choose the next.

    Under different adjacencies they do not: what one protects, another reads as it is.
    """
    spending = [one for one in family if one.plan.steps and not one.provenance.released]
    delta = certificate.delta if certificate in family else family[0].delta
    alike = len({one.plan.adjacency for one in family}) == 1
    proven = _together([one.sound or one.plan for one in spending], delta, deadline) if alike else math.inf
    published = alike and certificate.plan.reading is Reading.PUBLISHED
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


def _descent(one: Certificate) -> str:
    origin, spent = one.provenance, _show(accounting.epsilon(one.sound or one.plan, one.delta))
    entry = f", ledger {origin.ledger_entry}" if origin.ledger_entry else ""
    return f"{origin.dataset}, split {origin.split}: epsilon {spent} at delta {one.delta:.3g}, {origin.created}{entry}"


def _acts(plan: Plan) -> list[tuple[str, Mechanism, int]]:
    return [(step.name, step.act, step.times) for step in plan.steps]


def described_method(method: Method) -> str:
    """A method and its settings as JSON, the same text for the same settings."""
    return json.dumps(method.describe(), sort_keys=True)


def require_card(body: bytes, card: str, certificate: Certificate, version: int = SCHEMA) -> None:
    """The card in the file is the one that follows from it; earlier versions began with the numbers.

    The first ones worded assumptions otherwise, and did not warn of weak numbers either.
    """
    # No name holds a new line.
    if version <= APART:
        card = _before_direction(card)
        card = _before_together(card, certificate) if len(certificate.guarantees) > 1 else card
    if version <= UNPROMISED:
        card = _HEADING + card.partition(f"\n\n{_HEADING}")[2]
    if version <= NAMELESS:
        unsaid = set(_warned(certificate.cautions(alone=True)))
        card = "\n".join(line for line in card.split("\n") if line not in unsaid)
    stated, due = body, f"{card}\n".encode()
    if not certificate.provenance.traced:
        stated, due = (b"\n".join(_settled_words(words)) for words in (stated, due))
    if stated != due:
        earlier = f"; {_PASSED}" if version <= APART and certificate.parents else ""
        raise Tampered(f"{CARD} does not say what the certificate says{earlier}")


def _before_together(card: str, certificate: Certificate) -> str:
    """A card of several datasets that went by each alone."""
    together, (alike,) = set(_warned(certificate.cautions())), _warned([_TWICE])
    lines = [alike if line.startswith(alike) else line for line in card.split("\n")[1:] if line not in together]
    return "\n".join(lines + _warned(certificate.cautions(alone=True)))


def _warned(words: Sequence[str]) -> list[str]:
    return [f"  WARNING     {warning}" for warning in words]


def _before_direction(card: str) -> str:
    """A card that did not say that direction is public."""
    lines = card.split("\n")
    return "\n".join(line.replace(DIRECTION, "") if line.startswith("  unprotected  ") else line for line in lines)


def _settled_words(card: bytes) -> list[bytes]:
    """The lines that both versions of a card have."""
    other = (b"  assumes     ", f"  WARNING     {_UNTRACED}".encode())
    return [
        line
        for line in card.split(b"\n")
        if not (line.startswith(other) and line.decode(errors="replace").isprintable())
    ]


def _show(value: float) -> str:
    return rounded(value, places=4, infinite="infinity (no protection)")


def _step_line(step: Step) -> str:
    return f"  step        {step.name} x {step.times}: {step.act} charged as {step.claim} [{step.why}]"
