"""Where a release came from: public facts of its run, as its certificate carries them."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args, get_type_hints

from graphveil.data.schema import Schema
from graphveil.errors import InvalidInput, Tampered
from graphveil.privacy.noise import Seeded

_MAX_NODES = 10**12
_MAX_WEIGHTS = 1 << 27
"""Nodes, and features times classes, at most in a file: weights are tried on zeros of such a size."""


@dataclass(frozen=True)
class Provenance:
    """Public facts about a run: no count or hash of private data.

    A split deals out ids and is public. Where labels are private and it was drawn by looking at them its hash is
    withheld: with the split's seed the hash would confirm a guess about labels.
    """

    dataset: str
    split: str
    split_hash: str
    split_reads_labels: bool
    """Whether the split was drawn by looking at labels."""
    noise: float
    source: str
    secure: bool
    seed: int | None
    version: str
    created: str
    run: str
    """A random number that tells this run from all others."""
    method: str
    """The method's description as JSON."""
    sizes: tuple[int, ...]
    """Nodes, features and classes."""
    public_digest: str
    """SHA-256 of the sizes and of the parts that are public."""
    ledger_entry: str = ""
    public: str = ""
    """The public graph beside the private one, in words; empty where there is none."""
    public_graph_digest: str = ""
    """SHA-256 of that graph; empty where there is none."""
    descends: bool = False
    """Whether the graph is one that the first parent released, as it was or with other edges."""
    released: bool = False
    """Whether its edges are exactly those that the first parent released: reading them costs nothing more."""
    schema: str = ""
    """Names of columns and classes and how cells became numbers, as JSON (`Schema`); empty where there are none."""
    ids_digest: str = ""
    """SHA-256 of the ids in their order, which every unit leaves public; empty where there are none."""
    others: str = ""
    """The code of the method that is not part of graphveil (`Planned.others`); empty if all is."""
    period: int = 0
    """Of a growing graph, how often it was counted, this time included; 0 for a graph that is released once."""
    period_token: str = ""
    """A random number that tells this period from all others, and the journal knows; all periods are one `run`."""

    def __post_init__(self) -> None:
        if not (len(self.sizes) == 3 and min(self.sizes) > 0):
            raise InvalidInput("a provenance needs the numbers of nodes, features and classes")
        if not (self.method and self.run and self.public_digest):
            raise InvalidInput("a provenance needs the method, the run and the digest of what is public")

    def same_data(self, other: Provenance) -> bool:
        """Whether both may speak of the same data: alike in name, ids or public parts."""
        if self.dataset == other.dataset or self.public_digest == other.public_digest:
            return True
        return self.ids_digest == other.ids_digest != ""

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {**asdict(self), "sizes": list(self.sizes)}

    @classmethod
    def rebuild(cls, described: dict[str, Any]) -> Provenance:
        """Inverse of `describe`; an error for facts that no run has."""
        types = get_type_hints(cls)
        if described.keys() != types.keys():
            raise ValueError(f"a provenance has the facts {sorted(types)}")
        made = cls(**{**described, "sizes": tuple(described["sizes"])})
        for name, kind in types.items():
            value = getattr(made, name)
            whole = isinstance(value, tuple) and all(type(size) is int for size in value)
            if not whole and type(value) not in (get_args(kind) or (kind,)):
                raise TypeError(f"{name} is {value!r}")
        if made.secure == made.source.startswith(Seeded.label):
            raise ValueError(f"noise is said to be {made.source!r} and secure={made.secure}")
        nodes, features, classes = made.sizes
        if nodes > _MAX_NODES or features * classes > _MAX_WEIGHTS:
            raise Tampered(f"no graph has {nodes:,} nodes, {features:,} features and {classes:,} classes")
        if made.schema:
            named = Schema.from_text(made.schema)
            if (named.width, len(named.classes)) != (features, classes):
                raise ValueError("the names of columns and classes are not those of so many")
        return made
