"""No knob of a method does nothing: every field changes the plan or the predictions, or is refused.

A new file in methods/ is found here without editing anything. A value that is refused is not silent; but where any is
accepted, some value must show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from neighbours import Sketch, adjacencies
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.methods.described import rebuild_method
from graphveil.methods.edge.parts import edge_method
from graphveil.methods.method import METHODS, Method, PredictionReads
from graphveil.methods.settings import Setting, settings
from graphveil.nn.fit import Recipe
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading
from own_modules import RowsOnly

_NETWORK = {"queries": 6, "hidden": 4, "epochs": 2}
CORNERS: list[Method] = [
    gv.methods.Caribou(hidden=4, head=4, epochs=2),
    gv.methods.DpSgd(hidden=4, steps=4),
    gv.methods.Eclipse(layers=1, epochs=2, rank=3),
    gv.methods.Eclipse(hidden=4, epochs=2, basis="posteriors", use="graph"),
    gv.methods.Gcn(layers=1, epochs=2),
    gv.methods.Mlp(layers=1, epochs=2),
    gv.methods.Ndp(hidden=3, steps=3, batch=2, layers=2),
    gv.methods.Pate(voters=3, student="sage", **_NETWORK),
    gv.methods.PrivGnn(student="sage", least=2, **_NETWORK),
    gv.methods.PrivGnn(teacher="sage", least=2, **{**_NETWORK, "epochs": 10}),
    gv.methods.PrivGraph(hidden=4, epochs=2, communities="louvain", move_share=0.4, group=2),
]
"""Settings beside the specimens that leave other fields without a meaning."""

PLAN_NOISE = 3.0
"""Enough for a rule that spends noise on something."""
RUNS = [(seed, noise) for seed in range(4) for noise in (0.3, 1.0, 0.1)]
"""Seeds and noise of trainings. A field that shows in one of them is not silent: few votes or epochs may not move."""


class Bench:
    """One method under one adjacency, where fields are changed."""

    def __init__(self, method: Method, adjacency: Adjacency) -> None:
        self.method, self.adjacency = method, adjacency
        self.graph = learnable(adjacency.undirected).beside_public()
        self._known: dict[tuple[int, float], Tensor] = {}

    def plans(self, method: Method) -> list[Plan | None] | None:
        """What is asked in both readings, `None` for a published one that does not exist; or that it is refused."""
        public, _ = self.graph.seal(self.adjacency)
        found: list[Plan | None] = []
        for reading in (Reading.SOUND, Reading.PUBLISHED):
            try:
                found.append(method.plan(public, self.adjacency, reading, PLAN_NOISE))
            except (InvalidInput, Unsupported):
                found.append(None)
        return found if found[0] else None

    def scores(self, method: Method, seed: int, noise: float) -> Tensor:
        """What it predicts after a seeded training, for whichever nodes it predicts."""
        public, sealed = self.graph.seal(self.adjacency)
        plan = method.plan(public, self.adjacency, Reading.SOUND, noise)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            state = method.fit(Session(public, sealed, plan, Seeded(seed)))
        if method.reads is PredictionReads.PUBLIC_GRAPH:
            beside = public.require_public_graph()
            return method.logits(state, beside.x, beside.adj)
        heard = self.graph.adj if method.reads is PredictionReads.HELD_OUT else Csr.empty(self.graph.num_nodes)
        return method.logits(state, self.graph.x, heard)

    def silent(self) -> list[str]:
        """The fields that may be set, and show in nothing."""
        return [one.name for one in settings(type(self.method)) if self._is_silent(one)]

    def _is_silent(self, setting: Setting) -> bool:
        tried = [replaced(self.method, setting.name, other) for other in others(setting, self._value(setting))]
        accepted = [one for one in tried if one and self.plans(one)]
        return bool(accepted) and not any(self._shows(one, run) for run in RUNS for one in accepted)

    def _value(self, setting: Setting) -> Any:
        return getattr(self.method, setting.name)

    def _shows(self, changed: Method, run: tuple[int, float]) -> bool:
        if self.plans(changed) != self.plans(self.method):
            return True
        if run not in self._known:
            self._known[run] = self.scores(self.method, *run)
        return not torch.equal(self.scores(changed, *run), self._known[run])


def learnable(undirected: bool, nodes: int = 24) -> Sketch:
    """Features and edges that tell the class, so that whatever is trained differently predicts differently."""
    rng, ids = np.random.default_rng(0), np.arange(nodes)
    y = (ids + ids // 6) % 3
    links = np.triu(rng.random((nodes, nodes)) < np.where(y[:, None] == y, 0.3, 0.05), 1)
    x = np.eye(4)[y] + 0.3 * rng.standard_normal((nodes, 4))
    return Sketch(
        links | links.T if undirected else links, torch.from_numpy(x).float(), torch.from_numpy(y), undirected
    )


def others(setting: Setting, value: Any) -> Iterator[Any]:
    """Other values of a field: every choice, or numbers near and far, of which not all need be possible."""
    if isinstance(value, bool):
        found = [not value]
    elif value is None:
        found = [gv.OwnNetwork.of(RowsOnly)]
    elif setting.choices:
        found = list(setting.choices)
    elif isinstance(value, int):
        found = [value + 1, value - 1, 1, 2, 3, 0, 2 * value + 9]
    elif isinstance(value, float):
        found = [value / 2, 1.5 * value, 0.1, 0.9, 0.0, 4 * value + 3]
    else:
        found = [value[::-1]]
    return (other for other in found if other != value)


def replaced(method: Method, name: str, value: Any) -> Method | None:
    """The method with another setting, or `None` if it is refused."""
    try:
        return replace(method, **{name: value})
    except (InvalidInput, Unsupported):
        return None


def benches(kind: type[Method], undirected: bool) -> Iterator[Bench]:
    """Specimens and corners under every unit for which they have a plan."""
    for method in (*kind.specimens(), *(one for one in CORNERS if type(one) is kind)):
        for adjacency in adjacencies(kind.units):
            bench = Bench(method, adjacency)
            if adjacency.undirected is undirected and bench.plans(method):
                yield bench


@pytest.fixture(autouse=True)
def _short_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty passes tell two heads apart, and two hundred take long."""
    monkeypatch.setattr(edge_method, "Recipe", lambda epochs, *rest, **more: Recipe(min(epochs, 20), *rest, **more))


@pytest.mark.parametrize("undirected", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in METHODS.ours().items()])
def test_no_knob_is_silent(kind: type[Method], undirected: bool) -> None:
    found = {f"{bench.method} under {bench.adjacency}": bench.silent() for bench in benches(kind, undirected)}
    assert not [f"{where}: {', '.join(names)}" for where, names in found.items() if names]


def test_what_changes_nothing_is_refused_from_files_too() -> None:
    silent = {**gv.methods.Hearsay().describe(), "degree": 0.5}
    with pytest.raises(InvalidInput, match="changes nothing"):
        gv.methods.Hearsay(degree=0.5)
    with pytest.raises(Tampered, match="changes nothing"):
        rebuild_method(silent)
