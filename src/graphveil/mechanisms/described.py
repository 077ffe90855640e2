"""Mechanisms, curves and plans as files describe them, read back without running code from the file."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, TypeVar

from graphveil import plugins
from graphveil.codec import Serializable, kinds_in, rebuild, require_fields
from graphveil.errors import Tampered
from graphveil.runtime.safe_json import require_plain
from graphveil.vocabulary import Adjacency, Curve, Mechanism, Plan, Reading, Relation, Step, Unit

D = TypeVar("D", bound=Serializable)

GROUP = "graphveil.mechanisms"
"""The entry points under which others register mechanisms and curves."""

_MAX_STEPS = 1000
_MAX_TIMES = 10**6
"""Steps of a plan, and uses of a step, at most, when it comes from a file: charging more could take for ever."""


@lru_cache
def mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism by its word in files."""
    return {item.kind(): item for item in plugins.classes("graphveil.mechanisms", Mechanism).values()}


@lru_cache
def curves() -> dict[str, type[Curve]]:
    """Every curve by its word in files."""
    return {item.kind(): item for item in plugins.classes("graphveil.mechanisms", Curve).values()}


def rebuild_curve(described: Any) -> Curve:
    """A curve from its JSON description."""
    return rebuild(described, _readable(Curve, curves(), described), _parts(described))


def rebuild_mechanism(described: Any) -> Mechanism:
    """A mechanism from its JSON description."""
    return rebuild(described, _readable(Mechanism, mechanisms(), described), _parts(described))


def rebuild_plan(described: Any) -> Plan:
    """Inverse of `Plan.describe`. What no method would plan is `Tampered`."""
    try:
        require_plain(described)
        near = described["adjacency"]
        kinds = {"unit": Unit(near["unit"]), "relation": Relation(near["relation"])}
        adjacency = Adjacency(**require_fields(Adjacency, {**near, **kinds}))
        if len(described["steps"]) > _MAX_STEPS:
            raise Tampered(f"a saved plan of {len(described['steps']):,} steps; at most {_MAX_STEPS:,} are charged")
        return Plan(adjacency, Reading(described["reading"]), tuple(map(_rebuild_step, described["steps"])))
    except (KeyError, TypeError, ValueError) as error:
        raise Tampered(f"a saved plan is incomplete or altered: {error!r}") from error


def _rebuild_step(described: dict[str, Any]) -> Step:
    parts = {
        "act": rebuild_mechanism(described["act"]),
        "claim": rebuild_curve(described["claim"]),
        "assumes": tuple(described["assumes"]),
    }
    made = Step(**require_fields(Step, {**described, **parts}))
    if made.times > _MAX_TIMES:
        raise Tampered(f"a saved step runs {made.times:,} times; at most {_MAX_TIMES:,} are charged")
    return made


def _parts(described: Any) -> dict[str, type[Any]]:
    """What a mechanism or a curve may be made of."""
    return {**_readable(Curve, curves(), described), **_readable(Mechanism, mechanisms(), described)}


def _readable(base: type[D], ours: dict[str, type[D]], described: Any) -> dict[str, type[D]]:
    """Classes by the word that a file may use for them: ours, which none can replace, and those that are registered.

    What somebody has merely imported is not read: a ledger must be readable for whoever opens it.
    """
    unknown = kinds_in(described) - mechanisms().keys() - curves().keys()
    return {**plugins.registered_classes(GROUP, base, unknown), **ours}
