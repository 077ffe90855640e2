"""What a release can reveal: a plan, what it costs, and where the release came from."""

from __future__ import annotations

import itertools
import json
import math
import time
from dataclasses import InitVar, dataclass
from functools import cached_property
from typing import Any

from graphveil.checks import require_delta
from graphveil.codec import plain
from graphveil.data.graph import Graph
from graphveil.data.identity import ids_digest, public_digest, public_graph_digest
from graphveil.data.schema import Schema
from graphveil.errors import InvalidInput, Tampered
from graphveil.mechanisms.described import rebuild_plan
from graphveil.mechanisms.geometric_count import Tally
from graphveil.methods.described import foreign_words
from graphveil.methods.method import Method
from graphveil.privacy import accounting
from graphveil.release import card as cards
from graphveil.release.guarantee import Guarantee, ancestry_of, families, guarantee_of
from graphveil.release.provenance import Provenance
from graphveil.release.statement import PrivacyStatement
from graphveil.runtime import html
from graphveil.runtime.safe_json import parse_json, plain_json, require_agreement, require_schema
from graphveil.vocabulary import Mechanism, Plan, Reading, Unit

SCHEMA = 1
"""Version of the release folder. Raise it when its layout, or the wording of the card, changes."""

_MAX_GENERATIONS = 16
"""Releases that may be made of one another in turn: their certificates nest in one file."""

_MAX_MEMBERS = 64
"""Certificates in one file at most, this one and all that it descends from."""

PATIENCE = 60.0
"""Seconds that the plans of one file may take to be charged; the slowest of our own took 14."""

_ENFORCED = (
    "by graphveil: which steps run, how often, and what they add up to; the bounds and the noise of its own mechanisms"
)
"""Of a method that is not part of graphveil."""

_TWICE = "whoever is in two of these datasets, or a link that is, is protected by the sum of epsilons"


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
        """This certificate, its parents, theirs and so on, each run once."""
        return ancestry_of(self)

    @cached_property
    def elsewhere(self) -> tuple[Certificate, ...]:
        """Those of the ancestry that speak of other data."""
        return tuple(itertools.chain.from_iterable(families(self.ancestry)[1:]))

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One for every dataset that is protected; that of `provenance` first."""
        return self._guaranteed(math.inf)

    def _guaranteed(self, deadline: float) -> tuple[Guarantee, ...]:
        return tuple(guarantee_of(self, family, deadline) for family in families(self.ancestry))

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
            "lineage": ((origin.descends, origin.released), (graph.lineage is not None, graph.adj.origin is not None)),
            "public graph": (origin.public_graph_digest, public_graph_digest(graph)),
        }
        if origin.sizes == graph.sizes:
            facts["public parts"] = (origin.public_digest, public_digest(graph, adjacency))
        if origin.descends and graph.lineage is not None:
            facts["released graph"] = (self.parents[0], Certificate.from_json(graph.lineage.certificate))
        if self.schema is not None:
            facts["names of columns and classes"] = (self.schema, graph.schema)
        if origin.ids_digest and graph.ids is not None:
            facts["ids"] = (origin.ids_digest, ids_digest(graph))
        return ", ".join(what for what, (ours, theirs) in facts.items() if ours != theirs)

    @property
    def statements(self) -> tuple[PrivacyStatement, ...]:
        """What every guarantee means for a person, by what is proven; of several first what all of them together do."""
        return cards.statements(self)

    @property
    def reservation(self) -> str:
        """What must be said before any statement; nothing where noise is secret and all code is graphveil's."""
        return cards.reservation(self)

    @property
    def statement(self) -> str:
        """All statements in a paragraph, with what must be said before."""
        return self.reservation + " ".join(one.sentence for one in self.statements)

    def card(self) -> str:
        """The certificate in words: a sentence that can be signed, who is protected, then all that was done."""
        return cards.text(self)

    def facts(self) -> list[tuple[str, str]]:
        """The numbers that a page shows first, by name."""
        return cards.facts(self)

    def warnings(self) -> list[str]:
        """What a reader must not overlook, of this release and of all that it descends from."""
        return cards.warnings(self)

    def _repr_html_(self) -> str:
        sentences = " ".join(f"{self.reservation}{one.sentence}" for one in self.statements)
        return html.facts("Certificate", self.facts(), sentences)

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
            "provenance": self.provenance.describe(),
            "parents": [parent.describe() for parent in self.parents],
        }

    @classmethod
    def from_json(cls, text: str | bytes) -> Certificate:
        """Rebuild and check a certificate; raises `Tampered` when the numbers do not follow from the plan."""
        return cls.rebuild(parse_json(text, SCHEMA))

    @classmethod
    def rebuild(cls, described: Any, deadline: float | None = None) -> Certificate:
        """Inverse of `describe`. deadline: see `accounting.epsilon`; if it is None, `PATIENCE` from now."""
        deadline = time.thread_time() + PATIENCE if deadline is None else deadline
        try:
            require_schema(described, SCHEMA)
            sound = described["sound"]
            made = cls(
                rebuild_plan(described["plan"]),
                float(described["delta"]),
                Provenance.rebuild(described["provenance"]),
                None if sound is None else rebuild_plan(sound),
                tuple(cls.rebuild(parent, deadline) for parent in described["parents"]),
                deadline,
            )
            _require_named_code(made)
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
        require_agreement(described, made.describe(), "the certificate")
        return made


def _require_named_code(certificate: Certificate) -> None:
    """A method or a mechanism that is not part of graphveil must be named as such."""
    told = [plain_json(certificate.provenance.method)]
    told += [part.describe() for step in certificate.plan.steps for part in (step.act, step.claim)]
    if not certificate.provenance.others and (strange := set().union(*map(foreign_words, told))):
        raise Tampered(f"{min(strange)} is not part of graphveil, and the file does not say so: it was altered")


def _counts_once(plan: Plan) -> bool:
    """Whether a plan is that of a stream: one count of both ends of every edge, or of the one of an arc."""
    acts = [(step.act, step.times) for step in plan.steps]
    if plan.reading is not Reading.SOUND or len(acts) != 1:
        return False
    act, times = acts[0]
    return isinstance(act, Tally) and act.marks == 1 + plan.adjacency.undirected and times == 1


def _acts(plan: Plan) -> list[tuple[str, Mechanism, int]]:
    return [(step.name, step.act, step.times) for step in plan.steps]


def described_method(method: Method) -> str:
    """A method and its settings as JSON, the same text for the same settings."""
    return json.dumps(method.describe(), sort_keys=True)
