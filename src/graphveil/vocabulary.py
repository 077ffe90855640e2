"""The vocabulary: who is protected, what runs, what it costs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor
from graphveil.checks import parse, quoted, require_whole
from graphveil.codec import Serializable
from graphveil.errors import GraphveilError, InvalidInput, PrivateAccess, Unsupported

T = TypeVar("T")

Floats = NDArray[np.float64]
"""A one- or two-dimensional array of doubles."""

UNLABELLED = -1
"""The class id of a node without a label."""

ROLES = ("train", "val", "test")
"""The parts of a split."""

MAX_USES = 10**15
"""A step that runs more often cannot be counted in doubles."""


class Unit(StrEnum):
    """Who is protected: the thing whose presence or content must stay hidden."""

    EDGE = "edge"
    NODE = "node"
    FEATURES = "features"
    LABEL = "label"


class Relation(StrEnum):
    """How a neighbouring graph is made: one unit appears/disappears, or its content changes."""

    ADD_REMOVE = "add_remove"
    REPLACE = "replace"


class Reading(StrEnum):
    """Whose proof is charged: the authors' printed one, or the one we can prove."""

    PUBLISHED = "published"
    SOUND = "sound"


_PRIVATE_PARTS = {
    Unit.EDGE: frozenset({"edges"}),
    Unit.NODE: frozenset({"x", "y", "edges"}),
    Unit.FEATURES: frozenset({"x", "y"}),
    Unit.LABEL: frozenset({"y"}),
}


@dataclass(frozen=True)
class Adjacency:
    """Exactly how two neighbouring graphs differ.

    NODE is the fixed-population definition: the ids 0..n-1 are public, and a neighbour blanks one id
    (its features, its label and all its edges vanish) or fills a blank one. So n is public.
    """

    unit: Unit
    relation: Relation
    undirected: bool

    @classmethod
    def of(cls, unit: Unit | str, undirected: bool = True) -> Adjacency:
        """The usual relation of a unit: EDGE and NODE add/remove, FEATURES and LABEL replace."""
        known = parse(Unit, unit, "unit")
        absent = known in (Unit.EDGE, Unit.NODE)
        return cls(known, Relation.ADD_REMOVE if absent else Relation.REPLACE, undirected)

    @property
    def private(self) -> frozenset[str]:
        """Which of the parts `x`, `y`, `edges` are sealed."""
        return _PRIVATE_PARTS[self.unit]

    def __str__(self) -> str:
        what = "edge" if self.unit is Unit.EDGE else f"node's {self.unit.value}"
        if self.unit is Unit.NODE:
            what = "node with its features, label and edges"
        elif self.unit is Unit.FEATURES:
            what = "node's features and label"
        kind = ("undirected " if self.undirected else "directed ") if self.unit is Unit.EDGE else ""
        verb = "added or removed" if self.relation is Relation.ADD_REMOVE else "replaced"
        return f"one {kind}{what} {verb}"


class Curve(Serializable):
    """Privacy of ONE use of a mechanism. A leaf never composes itself: `accounting` does.

    A curve answers in whichever of the three languages it can; `None` means "not in this one".
    `remove` is the divergence of the world WITH the unit from the world without it; `add` the reverse.
    """

    @property
    def infinite(self) -> bool:
        """True when nothing is protected."""
        return False

    def gdp(self) -> float | None:
        """mu, when the mechanism is EXACTLY dominated by N(0,1) against N(mu,1)."""
        return None

    def deltas(self, epsilons: Floats) -> tuple[Floats, Floats] | None:  # noqa: ARG002
        """Hockey-stick divergences H_{e^epsilon} in both directions (remove, add), each [k]."""
        return None

    def refine(self) -> tuple[Curve, ...]:
        """Cases of which one holds in every use, each charged less loosely than `self`; empty when nothing is lost.

        For a bound that covers many cases at once (say, every out-degree). The accountant charges the worst case.
        """
        return ()

    def orders(self) -> Floats | None:
        """The Renyi orders that a published bound is read at; `None` leaves them to the accountant."""
        return None

    def mironov_conversion(self) -> bool:
        """Whether a published bound turns Renyi orders into epsilon by Mironov 2017, Proposition 3, which is looser."""
        return False

    def atom(self) -> float | None:
        """A loss with point mass, which the accountant puts on its grid; `None` if losses are continuous."""
        return None

    def rdp(self, orders: Floats) -> Floats | None:  # noqa: ARG002
        """Renyi divergence at each integer order >= 2 (or at `orders`), the worse of both directions, [k]."""
        return None

    @classmethod
    @abstractmethod
    def specimens(cls) -> tuple[Self, ...]:
        """A few instances for the conformance tests."""


State = Mapping[str, "Tensor"]
"""Everything a method releases: weights, and the outputs that predictions need. Saved as it is."""


class Contributions(Protocol):
    """Many vectors, one per protected contribution, known only through their clipped sum."""

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum of the vectors, each first scaled down to length at most `clip`."""
        ...


class SealedGraph(Protocol):
    """A graph whose private parts can be read inside `Session.release` alone; see `graph.sealing.Sealed`."""

    public: Any

    @property
    def x(self) -> Tensor:
        """Features, float32 [n, d]."""
        ...

    @property
    def y(self) -> Tensor:
        """Labels, int64 [n]."""
        ...

    @property
    def adj(self) -> Any:
        """Arcs."""
        ...

    def derived(self, name: str, build: Callable[[Any], T]) -> T:
        """`build(self)`, computed once and kept behind the gate."""
        ...


class Source(Protocol):
    """Where a mechanism's randomness comes from: a seeded or a cryptographic stream; see `privacy.noise`."""

    def uniform(self, count: int) -> Floats:
        """`count` independent draws from the open unit interval."""
        ...

    def normal(self, count: int) -> Floats:
        """`count` independent standard normal draws."""
        ...

    def words(self, count: int) -> NDArray[np.uint64]:
        """`count` independent words of 64 fair bits."""
        ...

    def laplace(self, count: int) -> Floats:
        """`count` independent standard Laplace draws."""
        ...

    def gumbel(self, count: int) -> Floats:
        """`count` independent standard Gumbel draws."""
        ...

    def coins(self, count: int, rate: float) -> Tensor:
        """`count` independent coins that come up True with probability `rate`, bool [count]."""
        ...

    def digits(self, count: int, chances: Sequence[float], device: Any = ...) -> Tensor:
        """`count` whole numbers whose binary digit j is 1 with chance j, int64 [count], on `device`."""
        ...

    def handed(self, uniforms: int) -> Source:
        """A source of the next `uniforms` uniforms alone, which can be sent; every copy of it draws the same."""
        ...

    def handed_normals(self, count: int) -> Source:
        """The same for `count` normal draws."""
        ...

    def skips(self, count: int, rate: float) -> NDArray[np.int64]:
        """How many coins of probability `rate` < 1 fail before one comes up, int64 [count]."""
        ...

    def choose(self, count: int, size: int) -> Tensor:
        """A uniformly random subset of range(count) with `size` members, sorted, int64 [size]."""
        ...

    def subset(self, count: int, size: int) -> NDArray[np.int64]:
        """As `choose`, in O(size) draws."""
        ...

    def add_gaussian(self, total: Tensor, std: float, unit: float, entries: int | None = ...) -> Tensor:
        """`total` plus N(0, std^2) on every entry; `unit` is the smallest L2 move that is charged.

        entries: of the whole sum, where `total` is a part of it.
        """
        ...

    def add_laplace(self, total: Tensor, scale: float, unit: float) -> Tensor:
        """`total` plus Laplace(scale) on every entry; `unit` is the smallest L1 move that is charged."""
        ...


Query = Callable[..., Any]
"""What a method asks of the sealed graph; each mechanism documents the form it expects."""


class Mechanism(Serializable):
    """What runs on private data, beside what it costs. It enforces the bounds it declares."""

    least_moved: ClassVar[float | None] = 1.0
    """The least sensitivity that a plan can charge: one contribution moves; None where any number may be right."""

    @abstractmethod
    def apply(self, sealed: SealedGraph, query: Query, source: Source) -> Tensor:
        """Draw, bound, sum, perturb."""

    def apply_many(self, sealed: SealedGraph, query: Query, source: Source, uses: int) -> Tensor:  # noqa: ARG002
        """`uses` uses at once, each with draws of its own: row i of the answer, [uses, *], is what use i releases."""
        raise Unsupported(f"{type(self).__name__} answers one use at a time; release it without `uses`")

    def evidence(
        self,
        here: SealedGraph,  # noqa: ARG002
        there: SealedGraph,  # noqa: ARG002
        query: Query,  # noqa: ARG002
        answer: Tensor,  # noqa: ARG002
        uses: int | None = None,  # noqa: ARG002
    ) -> float:
        """For audits: by how much, as a logarithm, `answer` is likelier if `here` was asked than if `there` was.

        The attacker's side: a number about two graphs that are known to whoever asks, and never part of a release.
        Exact where the law allows it; elsewhere any number that is larger for answers from `here`. `answer` is what
        `apply` released, or `apply_many` for so many `uses`.
        """
        raise Unsupported(f"{type(self).__name__} cannot tell two graphs apart yet; give it `evidence`")

    @abstractmethod
    def curve(self, sensitivity: float) -> Curve:
        """Cost of one use when a neighbour moves the bounded query by `sensitivity` bounds."""

    @classmethod
    @abstractmethod
    def specimens(cls) -> tuple[Self, ...]:
        """A few instances for the conformance tests."""


M = TypeVar("M", bound=Mechanism)


@dataclass(frozen=True)
class Step:
    """One line of a plan: `act` runs at most `times`, each use charged by `claim`."""

    name: str
    act: Mechanism
    claim: Curve
    times: int
    why: str
    assumes: tuple[str, ...] = ()
    refuted: str = ""

    def __post_init__(self) -> None:
        require_whole(self, "times")
        if not 1 <= self.times <= MAX_USES:
            raise InvalidInput(f"step {self.name!r} must run 1 to {MAX_USES:.0e} times, got {quoted(self.times)}")

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "name": self.name,
            "act": self.act.describe(),
            "claim": self.claim.describe(),
            "times": self.times,
            "why": self.why,
            "assumes": list(self.assumes),
            "refuted": self.refuted,
        }


@dataclass(frozen=True)
class Plan:
    """Everything that will be asked of the private data: the one place a guarantee comes from."""

    adjacency: Adjacency
    reading: Reading
    steps: tuple[Step, ...]

    def __post_init__(self) -> None:
        names = [step.name for step in self.steps]
        if len(set(names)) != len(names):
            raise InvalidInput(f"step names must be unique, got {names}")

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON; `mechanisms.described.rebuild_plan` inverts it."""
        return {
            "adjacency": asdict(self.adjacency),
            "reading": self.reading.value,
            "steps": [step.describe() for step in self.steps],
        }

    def step(self, name: str) -> Step:
        """The step called `name`."""
        for step in self.steps:
            if step.name == name:
                return step
        planned = ", ".join(step.name for step in self.steps) or "none"
        raise PrivateAccess(f"step {name!r} was not planned; planned steps: {planned}")

    def act(self, name: str, kind: type[M]) -> M:
        """What runs in the step `name`, which is of this kind: for what a method reads off its own plan."""
        found = self.step(name).act
        if not isinstance(found, kind):
            raise GraphveilError(f"step {name!r} runs {type(found).__name__}, not {kind.__name__}")
        return found

    @property
    def assumes(self) -> tuple[str, ...]:
        """Every assumption of every step, once each, after those that the protected unit itself brings."""
        standing: tuple[str, ...] = ()
        if self.steps and "y" in self.adjacency.private:
            standing = ("the set of classes, and which ids are in which split, are public",)
        return tuple(dict.fromkeys([*standing, *(item for step in self.steps for item in step.assumes)]))

    @property
    def refuted(self) -> tuple[str, ...]:
        """Why the charged proof is known to be false; empty for a SOUND plan."""
        return tuple(dict.fromkeys(step.refuted for step in self.steps if step.refuted))
