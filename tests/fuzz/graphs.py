"""Trains every method on odd graphs under every unit, and counts what must not happen.

A case is an odd graph (one node, no edges, features of 1e38, a class that nobody has, ...), a small method, a unit and
an amount of noise. It may end in a release or in a refusal in words. It must not end in another exception, nor run for
longer than LIMIT seconds, nor refuse after the private data was reached (a refusal that depends on private data tells
of it, and one that does not comes too late: the budget is spent), nor hold numbers that are not finite without saying
so.

    python tests/fuzz/graphs.py [--count 588] [--seed 0] [--only METHOD] [--graph NAME] [--all]

prints what each kind of ending was met by, one line for every case that ended badly, and exits with 1 if there are any.
`--all` runs every pair of a graph and a small method under every unit once, and `--count` is not read.
"""

from __future__ import annotations

import argparse
import math
import signal
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import torch

import graphveil as gv
from graphveil import run
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.errors import GraphveilError, InvalidInput
from graphveil.methods.method import METHODS, Method
from graphveil.runtime.compute import Compute
from graphveil.runtime.progress import Progress
from graphveil.vocabulary import Unit

LIMIT = 20
"""Seconds that a case may take."""
NOISES: list[dict[str, float]] = [
    {"noise": 1.0},
    {"noise": 1e-9},
    {"noise": 1e9},
    {"noise": 30.0},
    {"noise": 0.0},
    {"epsilon": 1.0},
    {"epsilon": 1e-3},
    {"epsilon": 100.0},
    {"epsilon": math.inf},
]
PATIENT = {"heterpoisson"}
"""Methods whose calibration takes a minute at some epsilon, whatever the graph is: they get an amount of noise."""
BAD = ("raw", "late", "silent", "slow")
"""Endings that must not be met."""


class TooLong(BaseException):
    """Not an `Exception`, so that nothing on the way handles it."""


@dataclass(frozen=True)
class Case:
    """One training, of which odd seeds draw cryptographic noise and fix the rest."""

    graph: str
    method: Method
    unit: Unit
    noise: dict[str, float]
    seed: int

    def __str__(self) -> str:
        own = {item.name: (getattr(self.method, item.name), item.default) for item in fields(self.method)}
        changed = ", ".join(f"{name}={value}" for name, (value, usual) in own.items() if value != usual)
        amount = ", ".join(f"{name}={value:g}" for name, value in self.noise.items())
        return f"{self.method.name()}({changed}) on {self.graph}, {self.unit.value}, {amount}, seed={self.seed}"


@dataclass(frozen=True)
class Ending:
    """released, warned (numbers that are not finite, and it was said), refused, or one of BAD; and in which words."""

    kind: str
    said: str = ""


def made(
    x: Any,
    edges: Any = (),
    y: Any = None,
    classes: int | None = None,
    train: Any = None,
    val: Any = (),
    test: Any = (),
    directed: bool = False,
    name: str = "odd",
) -> Graph:
    """A graph of features [n, d] and edges [m, 2]; two classes by turns and all ids training, unless told.

    Every id is stated to be present; who makes a graph with blank ids says otherwise.
    """
    features = torch.as_tensor(np.asarray(x, np.float32))
    n = len(features)
    labels = np.arange(n) % 2 if y is None else np.asarray(y)
    pairs = np.asarray(edges, np.int64).reshape(-1, 2)
    arcs = pairs if directed else np.unique(np.concatenate([pairs, pairs[:, ::-1]]), axis=0)
    chosen = [np.isin(np.arange(n), np.asarray(list(part), np.int64)) for part in (val, test)]
    learning = ~chosen[0] & ~chosen[1] if train is None else np.isin(np.arange(n), list(train))
    return Graph(  # type: ignore[call-arg]
        features,
        Csr.from_edge_index(arcs[:, 0], arcs[:, 1], n),
        torch.as_tensor(labels, dtype=torch.int64),
        int(labels.max(initial=0)) + 1 if classes is None else classes,
        not directed,
        *(torch.from_numpy(part) for part in (learning, *chosen)),
        name,
        "odd",
    ).with_every_id_present()


def drawn(n: int, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d))


def links(n: int, rate: float = 0.2, seed: int = 0) -> np.ndarray:
    """Random edges [m, 2], source below target."""
    return np.argwhere(np.triu(np.random.default_rng(seed).random((n, n)) < rate, 1))


def arcs(n: int, rate: float = 0.2, seed: int = 0) -> np.ndarray:
    """Random arcs [m, 2], some with their opposites."""
    found = np.random.default_rng(seed).random((n, n)) < rate
    np.fill_diagonal(found, val=False)
    return np.argwhere(found)


def usual(n: int = 24, **changed: Any) -> Graph:
    """Nothing odd but what is changed."""
    return made(**{"x": drawn(n), "edges": links(n), "val": range(n - 8, n - 4), "test": range(n - 4, n), **changed})


def filled(value: float, n: int = 24) -> np.ndarray:
    return np.full((n, 6), value)


def spread(scale: float, n: int = 24) -> np.ndarray:
    """Features up to `scale`, of both signs."""
    return np.random.default_rng(0).uniform(-scale, scale, (n, 6))


def blanked(ids: range) -> Graph:
    """Without the records of these ids, who keep their roles in the split."""
    gone, edges = list(ids), links(24)
    x, y = drawn(24), np.arange(24) % 2
    x[gone], y[gone] = 0.0, -1
    return usual(x=x, y=y, classes=2, edges=edges[~np.isin(edges, gone).any(axis=1)]).with_degrees(24)


GRAPHS: dict[str, Callable[[], Graph]] = {
    "one node": lambda: made(drawn(1)),
    "one node, two classes": lambda: made(drawn(1), classes=2),
    "two nodes alone": lambda: made(drawn(2)),
    "two nodes joined": lambda: made(drawn(2), [(0, 1)]),
    "two nodes, one trains": lambda: made(drawn(2), [(0, 1)], test=[1]),
    "three nodes, one of each role": lambda: made(drawn(3), [(0, 1), (1, 2)], val=[1], test=[2]),
    "no edges": lambda: usual(edges=()),
    "complete": lambda: usual(edges=links(24, 2.0)),
    "star": lambda: usual(edges=[(0, leaf) for leaf in range(1, 24)]),
    "star whose hub is tested": lambda: usual(edges=[(23, leaf) for leaf in range(23)]),
    "disconnected": lambda: usual(edges=[(i, i + 1) for i in range(0, 24, 2)]),
    "edges among tested nodes alone": lambda: usual(edges=[(20, 21), (21, 22), (22, 23)]),
    "directed": lambda: usual(edges=arcs(24), directed=True),
    "directed, no arcs": lambda: usual(edges=(), directed=True),
    "directed star": lambda: usual(edges=[(leaf, 0) for leaf in range(1, 24)], directed=True),
    "directed, all arcs": lambda: usual(edges=arcs(24, 2.0), directed=True),
    "one class": lambda: usual(y=np.zeros(24, int)),
    "one class of three": lambda: usual(y=np.zeros(24, int), classes=3),
    "60 classes": lambda: usual(80, y=np.arange(80) % 60),
    "a class that is only tested": lambda: usual(y=np.r_[np.arange(20) % 2, np.full(4, 2)]),
    "nobody has the last class": lambda: usual(classes=5),
    "one labelled node": lambda: made(drawn(24), links(24), np.r_[0, np.full(23, -1)], classes=2),
    "half without labels": lambda: made(drawn(24), links(24), np.where(np.arange(24) % 4 < 2, np.arange(24) % 2, -1)),
    "nobody who trains has a label": lambda: usual(y=np.r_[np.full(16, -1), np.arange(8) % 2]),
    "nobody has a label": lambda: usual(y=np.full(24, -1), classes=2),
    "half of the ids are blank": lambda: blanked(range(0, 24, 2)),
    "all ids but one are blank": lambda: blanked(range(1, 24)),
    "all ids are blank": lambda: blanked(range(24)),
    "degrees are stated as 1,000": lambda: usual().with_degrees(1000),
    "nothing is stated of degrees": lambda: replace(usual(), every_id_present=False),
    "all train": lambda: usual(val=(), test=()),
    "no validation": lambda: usual(val=()),
    "no test": lambda: usual(test=()),
    "one trains": lambda: usual(train=[0]),
    "one trains alone": lambda: usual(train=[0], edges=links(23) + 1),
    "features are all 0": lambda: usual(x=filled(0.0)),
    "features are all 1": lambda: usual(x=filled(1.0)),
    "features are all 1e38": lambda: usual(x=filled(1e38)),
    "features to 1e30": lambda: usual(x=spread(1e30)),
    "features to 1e38": lambda: usual(x=spread(1e38)),
    "features to 3.4e38": lambda: usual(x=spread(3.4e38)),
    "features to 1e-30": lambda: usual(x=spread(1e-30)),
    "features to 1e-44": lambda: usual(x=spread(1e-44)),
    "one row of 1e38": lambda: usual(x=np.r_[filled(1e38, 1), drawn(23)]),
    "one column of 1e38": lambda: usual(x=np.c_[filled(1e38)[:, :1], drawn(24, 5)]),
    "rows that are all alike but one": lambda: usual(x=np.r_[filled(3.0, 23), filled(4.0, 1)]),
    "one feature": lambda: usual(x=drawn(24, 1)),
    "one feature, all 0": lambda: usual(x=np.zeros((24, 1))),
    "5,000 features": lambda: usual(x=drawn(24, 5000)),
    "words": lambda: usual(x=drawn(24, 40) > 1),
}
"""Odd graphs by name."""

BESIDE: dict[str, Callable[[Graph], Graph]] = {
    "usual": lambda graph: beside(graph, 20, links(20), test=range(14, 20)),
    "one node": lambda graph: beside(graph, 1),
    "two nodes, one tested": lambda graph: beside(graph, 2, [(0, 1)], test=[1]),
    "no edges": lambda graph: beside(graph, 20, test=range(14, 20)),
    "complete": lambda graph: beside(graph, 20, links(20, 2.0), test=range(14, 20)),
    "no labels": lambda graph: beside(graph, 20, links(20), y=np.full(20, -1)),
    "all tested but one": lambda graph: beside(graph, 20, links(20), test=range(1, 20)),
    "all tested": lambda graph: beside(graph, 20, links(20), test=range(20)),
    "features of 0": lambda graph: beside(graph, 20, links(20), x=np.zeros((20, graph.num_features))),
    "features of 1e38": lambda graph: beside(graph, 20, links(20), x=np.full((20, graph.num_features), 1e38)),
}
"""Odd public graphs by name, to put beside a private one."""


def beside(graph: Graph, n: int, edges: Any = (), **changed: Any) -> Graph:
    """A public graph of n nodes with the private one's features, classes and direction."""
    x = np.random.default_rng(1).standard_normal((n, graph.num_features)) * float(graph.x.abs().max())
    told = {"x": np.clip(x, -3e38, 3e38), "y": np.arange(n) % max(graph.num_classes, 1), **changed}
    return made(edges=edges, directed=not graph.undirected, name="public", **told)


@cache
def graph_of(name: str) -> Graph:
    """`private` or `private beside public`."""
    private, _, public = name.partition(" beside ")
    graph = GRAPHS[private]()
    return graph.with_public(BESIDE[public](graph)) if public else graph


@cache
def small(kind: type[Method]) -> tuple[Method, ...]:
    """Specimens, and the defaults with as little work as their fields allow."""
    short = {"epochs": 2, "steps": 3, "queries": 5, "folds": 2}
    known = {item.name: item.default for item in fields(kind)}
    fewer = {name: value for name, value in short.items() if isinstance(known.get(name), int | float)}
    if not fewer:
        return kind.specimens()
    made = kind()
    for name, value in fewer.items():
        with suppress(InvalidInput):  # what the defaults do not read cannot be set
            made = replace(made, **{name: value})
    return *kind.specimens(), made


def graphs_for(kind: type[Method]) -> list[str]:
    """Methods that learn from a public graph meet odd private and odd public ones."""
    if not kind.needs_public:
        return list(GRAPHS)
    odd = [f"{name} beside usual" for name in GRAPHS] + [f"complete beside {name}" for name in BESIDE]
    return [*odd, "one node beside one node", "complete"]


def noises(kind: type[Method]) -> list[dict[str, float]]:
    """The amounts that a method is tried with."""
    return [one for one in NOISES if kind.name() not in PATIENT or "noise" in one]


def every() -> Iterator[Case]:
    """Every pair of a graph and a small method under every unit it may be asked about, with noise by turns."""
    for number, (kind, unit) in enumerate(product(METHODS.ours().values(), Unit)):
        # One that is not supported is refused whatever the graph is.
        names = graphs_for(kind) if unit in kind.units else graphs_for(kind)[:1]
        for turn, (name, method) in enumerate(product(names, small(kind))):
            yield Case(name, method, unit, noises(kind)[(number + turn) % len(noises(kind))], turn)


def some(count: int, seed: int) -> list[Case]:
    """Cases at random: every method and unit that goes with it as often, graphs and noise as they come."""
    rng = np.random.default_rng(seed)
    pairs = [(kind, unit) for kind in METHODS.ours().values() for unit in Unit if unit in kind.units]
    found = []
    for turn in range(count):
        kind, unit = pairs[turn % len(pairs)]
        if rng.random() < 0.05:
            unit = list(Unit)[rng.integers(len(Unit))]
        options: tuple[list[Any], ...] = graphs_for(kind), list(small(kind)), noises(kind)
        graph, method, noise = (parts[rng.integers(len(parts))] for parts in options)
        found.append(Case(graph, method, unit, noise, int(rng.integers(1000))))
    return found


def ending(case: Case) -> Ending:
    """How the case ends."""
    with warnings.catch_warnings(record=True) as said, _reached() as reached:
        warnings.simplefilter("always")
        try:
            with _limited(LIMIT):
                graph, secure = graph_of(case.graph), bool(case.seed % 2)
                told = {"unit": case.unit, "seed": case.seed, "secure": secure, "compute": Compute(quiet=True)}
                release = gv.train(graph, case.method, **told, **case.noise)
                predicted = release.predict()
        except TooLong:
            return Ending("slow", "".join(traceback.format_exc().splitlines()[-4:-1]).strip())
        except GraphveilError as error:
            return Ending("late" if reached else "refused", f"{type(error).__name__}: {error}")
        except Exception as error:  # Whatever it is, it is what we look for.
            last = traceback.extract_tb(error.__traceback__)[-1]
            return Ending("raw", f"{type(error).__name__}: {error} ({Path(last.filename).name}:{last.lineno})")
    broken = [name for name, part in release.state.items() if part.is_floating_point() and not part.isfinite().all()]
    if not broken:
        return Ending("released", f"{len(predicted)} predictions")
    warned = any("not finite" in str(one.message) for one in said)
    return Ending("warned" if warned else "silent", f"not finite: {', '.join(broken)}")


@contextmanager
def _reached() -> Iterator[list[bool]]:
    """Filled as soon as a session begins, before which the budget is spent."""
    found: list[bool] = []
    before = run.Session  # type: ignore[attr-defined]

    class Watched(before):  # type: ignore[misc,valid-type]
        def __init__(self, *given: Any, **named: Any) -> None:
            found.append(True)
            super().__init__(*given, **named)

    run.Session = Watched  # type: ignore[attr-defined]
    try:
        yield found
    finally:
        run.Session = before  # type: ignore[attr-defined]


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=588)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="this method alone")
    parser.add_argument("--graph", help="graphs whose name has these words")
    parser.add_argument("--all", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    cases = [
        case
        for case in (every() if given.all else some(given.count, given.seed))
        if given.only in (None, case.method.name()) and (given.graph or "") in case.graph
    ]
    found: Counter[str] = Counter()
    for case in Progress().track(cases, "odd graphs"):
        end = ending(case)
        found[end.kind] += 1
        if end.kind in (*BAD, "warned"):
            print(f"{end.kind}: {case}: {end.said}", flush=True)
    print(f"{len(cases)} cases: {', '.join(f'{kind} {count}' for kind, count in sorted(found.items()))}")
    sys.exit(any(found[kind] for kind in BAD))


if __name__ == "__main__":
    main()
