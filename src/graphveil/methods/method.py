"""What a method is: public hyper-parameters, a plan that says what it will ask, and a fit that asks it."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import Tensor, nn

from graphveil.checks import is_number, quoted
from graphveil.codec import Serializable
from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.nn.own_network import OwnNetwork
from graphveil.plugins import Parts
from graphveil.runtime.memory import MemoryEstimate
from graphveil.tasks.node_classification import NodeClassification
from graphveil.tasks.task import Task
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit

if TYPE_CHECKING:
    from graphveil.data.arcs import Csr
    from graphveil.data.sealing import Public
    from graphveil.privacy.session import Session


class PredictionReads(StrEnum):
    """What a prediction reads, and so what it costs."""

    RELEASED = "released state only"
    OWN_FEATURES = "released weights and the queried node's own features"
    HELD_OUT = "released weights, and the features of the nodes outside training and the edges among them"
    PUBLIC_GRAPH = "released weights, and the features and edges of a public graph"

    @property
    def stored(self) -> bool:
        """Whether predictions are part of the release, so that no graph is read."""
        return self is PredictionReads.RELEASED

    @property
    def public_nodes(self) -> bool:
        """Whether the nodes of a public graph get predictions, and no others."""
        return self is PredictionReads.PUBLIC_GRAPH

    @property
    def outside_training(self) -> bool:
        """Whether nodes outside training read one another, and training nodes are left out."""
        return self is PredictionReads.HELD_OUT


@dataclass(frozen=True)
class Method(Serializable):
    """A frozen dataclass whose fields are public hyper-parameters.

    A reader sees the theorem in `plan` and the algorithm in `fit`.
    """

    subtitle: ClassVar[str] = ""
    """What it does in at most eight words, shown beside its name."""
    units: ClassVar[frozenset[Unit]]
    """The protected units under which `plan` has a meaning."""
    refuses: ClassVar[Mapping[Unit, str]] = MappingProxyType({})
    """Why another unit that users may expect is not among them."""
    revision: ClassVar[int] = 1
    """Raised by whoever changes what its runs give: results that an earlier revision made are stale until run again."""
    reads: ClassVar[PredictionReads] = PredictionReads.RELEASED
    task: ClassVar[Task] = NodeClassification()
    """What its scores stand for."""
    on_gpu: ClassVar[bool] = False
    """Whether `fit` and `serve` run on a GPU and gain by it; others stay on the CPU, and say so."""
    reads_short: ClassVar[bool] = False
    """Whether it reads features of 16 bits as they are; others get a copy of 32 bits."""
    needs_public: ClassVar[bool] = False
    """Whether it learns from a public graph beside the private one (`Public.public_graph`)."""

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Refuses settings of another kind than their defaults, before anything is computed from them."""
        known = {item.name: item.default for item in fields(cls)}
        for name, value in (*zip(known, values, strict=False), *named.items()):
            own = name == "network" and isinstance(value, OwnNetwork)
            if name in known and not own and not _alike(value, known[name]):
                kind = "a finite number" if isinstance(known[name], float) else f"of type {type(known[name]).__name__}"
                raise InvalidInput(f"{cls.name()}: {name} must be {kind}, got {quoted(value)}")
        return super().__new__(cls)

    @abstractmethod
    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        """What will be asked of the private data. Pure: sees public data only."""

    def standing(self) -> tuple[str, ...]:
        """What each of its plans assumes, whatever the graph: a certificate that does not say so was altered."""
        return ()

    def networks(self) -> tuple[OwnNetwork, ...]:
        """The networks in it that are somebody's own."""
        own = getattr(self, "network", None)
        return (own,) if isinstance(own, OwnNetwork) else ()

    def with_networks(self, given: Callable[[OwnNetwork], OwnNetwork]) -> Self:
        """The same method, in which `given(own)` stands for every network `own` of somebody's own."""
        found = self.networks()
        return replace(self, network=given(found[0])) if found else self  # type: ignore[call-arg]  # it has one

    def counts_in_parts(self) -> bool:
        """Whether all it asks of edges are counts and sums that workers make where they lie (`Graph.edge_parts`)."""
        return False

    def counts_once(self) -> bool:
        """Whether all it asks of edges is to count each once, so that a growing graph can be extended."""
        return False

    @abstractmethod
    def fit(self, session: Session) -> State:
        """Train. Private data is reached only through `session.release`."""

    def room(self, public: Public, block: int | None = None) -> MemoryEstimate:  # noqa: ARG002
        """Memory that a run takes beside the graph, at least; none if nobody knows. block: rows at a time."""
        return MemoryEstimate()

    def serve(self, session: Session, state: State) -> State:  # noqa: ARG002
        """Release what predictions on the session's (new) graph need, under the same plan as `fit`."""
        raise Unsupported(f"{self.name()} predicts from {self.reads.value}; call release.predict(graph), which is free")

    def chosen(self, state: State) -> tuple[Method, State]:
        """Which method predicts, and its state: this one, unless it chose among others."""
        return self, state

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        """Scores [n, c] for the task, from released state and, where `reads` says so, from features [n, d].

        `visible_arcs`: the arcs among these n nodes that may be read. None unless the method reads HELD_OUT; all of a
        public graph if it reads PUBLIC_GRAPH.
        """
        return state["logits"]

    def scorer(self, state: State) -> nn.Module:  # noqa: ARG002
        """`logits` of a node's own features as a torch module, x [n, d] -> [n, c], where `reads` is OWN_FEATURES."""
        raise Unsupported(f"{self.name()} cannot be taken elsewhere as a module of torch; give it `scorer`")

    def require_default(self, *names: str, unless: str, error: type[GraphveilError] = InvalidInput) -> None:
        """Refuse settings that would change nothing; `unless` says what would give them a meaning."""
        for item in fields(self):
            if item.name in names and (value := getattr(self, item.name)) != item.default:
                raise error(f"{self.name()}: {item.name}={value} changes nothing without {unless}; leave it out")

    @classmethod
    def name(cls) -> str:
        """The name on the command line."""
        return cls.__name__.lower()

    @classmethod
    def title(cls) -> str:
        """The name with the subtitle, if there is one."""
        return f"{cls.name()}: {cls.subtitle}" if cls.subtitle else cls.name()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        """Small, quick instances for the conformance tests."""
        return (cls(),)


def _alike(value: object, default: object) -> bool:
    """Whether a setting is of the kind of its default, and fits 64 bits. A whole number will do for any number."""
    if isinstance(default, float):
        return is_number(value) and abs(value) < math.inf  # type: ignore[arg-type]  # a number
    if not isinstance(default, int | str):
        return True  # a setting that has parts is checked by its method
    if isinstance(value, int) and abs(value) >= 1 << 63:
        return False
    return isinstance(value, type(default)) and isinstance(value, bool) == isinstance(default, bool)


METHODS = Parts(Method, "graphveil.methods", "*/[a-z]*.py", "graphveil.methods")
"""Every method: a file in the folder of its group, whose parts lie in a folder within."""
