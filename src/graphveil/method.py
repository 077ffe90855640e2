"""What a method is: public hyper-parameters, a plan that says what it will ask, and a fit that asks it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from torch import Tensor

from graphveil.core import Adjacency, Described, Plan, Reading, Unit, Unsupported

if TYPE_CHECKING:
    from graphveil.arcs import Csr
    from graphveil.graph import Public
    from graphveil.session import Session

State = Mapping[str, Tensor]
"""Everything a method releases: weights, and the outputs that predictions need. Saved as it is."""


class Serves(StrEnum):
    """What a prediction reads, and so what it costs."""

    RELEASED = "released state only"
    OWN_FEATURES = "released weights and the queried node's own features"
    HELD_OUT = "released weights, and the features of the nodes outside training and the edges among them"
    PUBLIC_GRAPH = "released weights, and the features and edges of a public graph"


@dataclass(frozen=True)
class Method(Described):
    """A frozen dataclass whose fields are public hyper-parameters.

    A reader sees the theorem in `plan` and the algorithm in `fit`.
    """

    units: ClassVar[frozenset[Unit]]
    """The protected units under which `plan` has a meaning."""
    refuses: ClassVar[Mapping[Unit, str]] = MappingProxyType({})
    """Why another unit that users may expect is not among them."""
    serves: ClassVar[Serves] = Serves.RELEASED
    needs_public: ClassVar[bool] = False
    """Whether it learns from a public graph beside the private one (`Public.public_graph`)."""

    @abstractmethod
    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        """What will be asked of the private data. Pure: sees public data only."""

    @abstractmethod
    def fit(self, session: Session) -> State:
        """Train. Private data is reached only through `session.release`."""

    def serve(self, session: Session, state: State) -> State:  # noqa: ARG002
        """Release what predictions on the session's (new) graph need, under the same plan as `fit`."""
        raise Unsupported(
            f"{self.name()} predicts from {self.serves.value}; call release.predict(graph), which is free"
        )

    def chosen(self, state: State) -> tuple[Method, State]:
        """Which method predicts, and its state: this one, unless it chose among others."""
        return self, state

    def logits(self, state: State, x: Tensor, heard: Csr) -> Tensor:  # noqa: ARG002
        """Class scores [n, c] from released state and, where `serves` says so, from features [n, d].

        `heard`: the arcs among these n nodes that may be read; none unless the method serves HELD_OUT, and all of a
        public graph whose method serves PUBLIC_GRAPH.
        """
        return state["logits"]

    @classmethod
    def name(cls) -> str:
        """The name on the command line."""
        return cls.__name__.lower()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        """Small, quick instances for the conformance tests."""
        return (cls(),)
