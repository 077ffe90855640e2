"""What attackers play. Two games: which of two neighbouring graphs was used, and who was in the one that was used.

In the first the attacker knows both graphs, the method and its settings, all public chance, and sees everything that
was released: the strongest attacker that a guarantee speaks of. In the second a trained model is attacked as published
attacks do, and the result is how well that goes, not a bound.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from graphveil.auditing.bounds import Scores
from graphveil.auditing.sampled import exact_evidence
from graphveil.codec import Serializable
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.additive import Additive, certain
from graphveil.methods.method import Method
from graphveil.plugins import Parts
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.release.release import Release
from graphveil.run import train
from graphveil.runtime.compute import HERE, USUAL, Compute, Run
from graphveil.runtime.engine import each, one_thread
from graphveil.runtime.folders import write_whole
from graphveil.vocabulary import UNLABELLED, Adjacency, Floats, Mechanism, Plan, Query, Reading, Unit

_PIECE = 64
"""Runs of a game that one worker plays at a time."""


@dataclass(frozen=True, eq=False)
class Pair:
    """Two neighbouring graphs: `graph`, and one with the private parts x, y and adj; `what` differs, in words."""

    graph: Graph
    x: Tensor
    y: Tensor
    adj: Csr
    what: str

    @classmethod
    def without_edge(cls, graph: Graph, source: int, target: int) -> Pair:
        """The graph, and the graph without the edge (or arc) between two nodes."""
        sources, targets = graph.adj.indices, graph.adj.targets()
        gone = (sources == source) & (targets == target)
        if graph.undirected:
            gone |= (sources == target) & (targets == source)
        if not gone.any():
            raise InvalidInput(f"{graph.name!r} has no edge from {source} to {target}")
        rest = Csr.from_edge_index(sources[~gone], targets[~gone], graph.num_nodes)
        return cls(graph, graph.x, graph.y, rest, f"the edge {source} - {target}")

    @classmethod
    def without_node(cls, graph: Graph, node: int) -> Pair:
        """The graph, and the graph in which a node is blank: no features, no label, no edges."""
        sources, targets = graph.adj.indices, graph.adj.targets()
        kept = (sources != node) & (targets != node)
        x, y = graph.x.clone(), graph.y.clone()
        x[node], y[node] = 0.0, UNLABELLED
        rest = Csr.from_edge_index(sources[kept], targets[kept], graph.num_nodes)
        return cls(graph, x, y, rest, f"node {node} with its features, label and edges")

    @classmethod
    def with_other(cls, graph: Graph, node: int, row: Tensor, label: int) -> Pair:
        """The graph, and the graph in which a node has other features [d] and another label."""
        x, y = graph.x.clone(), graph.y.clone()
        x[node], y[node] = row, label
        return cls(graph, x, y, graph.adj, f"what node {node} is")

    def worlds(self, adjacency: Adjacency) -> tuple[Public, Sealed, Sealed]:
        """What both graphs show, and the two behind their gates."""
        public, here = self.graph.seal(adjacency)
        return public, here, Sealed(self.x, self.y, self.adj, public)


class AllTold(Exception):
    """Nothing more will be released: whatever follows is post-processing."""


Weigh = Callable[[Mechanism, Sealed, Sealed, Query, Tensor, int | None], float]
"""By how much, as a logarithm, an answer is likelier on the first of two graphs: see `Mechanism.evidence`."""


def everything(act: Mechanism, here: Sealed, there: Sealed, query: Query, answer: Tensor, uses: int | None) -> float:
    """The attacker who looks at all of an answer, and goes through all samples where they are few."""
    found = exact_evidence(act, here, there, query, answer)
    return act.evidence(here, there, query, answer, uses) if found is None else found


class Witness(Session):
    """A session on one of two known graphs that adds up what its answers tell about which one it is."""

    def __init__(
        self,
        public: Public,
        used: Sealed,
        worlds: tuple[Sealed, Sealed],
        plan: Plan,
        source: Seeded,
        weigh: Weigh = everything,
        stop: bool = True,
    ) -> None:
        super().__init__(public, used, plan, source)
        self._worlds = worlds
        self._weigh = weigh
        self._stop = stop
        self._noises: dict[int, Tensor] = {}
        """Sketches of all noises so far, if the first graph was used and if the second was, [2, k, 64] by size."""
        self.log_ratio = 0.0
        """How much likelier all answers are on the first graph, as a logarithm."""

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        answer = super().release(name, query, uses)
        here, there = self._worlds
        act = self.plan.step(name).act
        with here.opened(), there.opened():
            plain = self._weigh is everything and type(act).evidence is Additive.evidence
            if plain and isinstance(act, Additive) and answer.is_floating_point():
                self.log_ratio += self._of_sum(
                    act, act.bounded(here, query), act.bounded(there, query), answer.double()
                )
            else:
                self.log_ratio += self._weigh(act, here, there, query, answer, uses)
        if self._stop and not any(self.left(step.name) for step in self.plan.steps):
            raise AllTold
        return answer

    def _of_sum(self, act: Additive, high: Tensor, low: Tensor, answer: Tensor) -> float:
        """The evidence of a noisy sum, and certainty if its noise came before: then only one of the graphs fits."""
        rest, size = answer - low, answer.numel()
        ratios = act.log_ratio(rest, high.double() - low)
        noise = torch.stack([_sketch(answer - high), _sketch(rest)]).unsqueeze(1)
        before = self._noises.get(size, noise[:, :0])
        near, far = (noise - before).norm(dim=2)
        least = torch.minimum(near, far)
        # Fresh noise is never this close to another; float32 answers are no closer than this.
        again = (least < 1e-4 * noise[1].norm()) & (torch.maximum(near, far) > 10 * least)
        if bool(again.any()):
            ratios = certain(float((far - near)[again][-1]))
        self._noises[size] = torch.cat([before, noise], dim=1)
        return ratios


def _sketch(noise: Tensor) -> Tensor:
    """So few numbers that all noises of a run can be kept, and yet they differ if the noises do, float64 [64]."""
    places, signs = _hashes(noise.numel())
    return torch.zeros(64, dtype=torch.float64).index_add_(0, places, signs * noise.flatten().double())


@lru_cache(maxsize=8)
def _hashes(size: int) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(size)
    return torch.from_numpy(rng.integers(64, size=size)), torch.from_numpy(rng.choice([-1.0, 1.0], size=size))


class _Asked(Exception):
    """The first question of a method, and torch's state when it was asked."""

    def __init__(self, name: str, query: Query, uses: int | None) -> None:
        super().__init__(name)
        self.question = name, query, uses
        self.state = torch.get_rng_state()


class _Curious(Session):
    """Answers nothing: it is there to hear the first question."""

    def release(self, name: str, query: Query, uses: int | None = None) -> Tensor:
        raise _Asked(name, query, uses)


@dataclass(frozen=True, eq=False)
class Game:
    """A pair of graphs and a plan of `method`: which graph was used? `chance` seeds public draws."""

    pair: Pair
    method: Method
    plan: Plan
    chance: int = 0
    weigh: Weigh = everything

    def log_ratios(self, present: bool, seeds: Sequence[int]) -> Floats:
        """What the releases of one run per seed tell, float64 [k]; `present`: the pair's own graph is used."""
        public, here, there = self.pair.worlds(self.plan.adjacency)
        used = here if present else there
        run: Callable[[Session], Any] = self.method.fit
        with torch.random.fork_rng(devices=[]):
            if sum(step.times for step in self.plan.steps) == 1:
                run = self._only_question(public, used)
            ratios = []
            for seed in seeds:
                witness = Witness(public, used, (here, there), self.plan, Seeded(seed), self.weigh)
                self._reseed()
                with suppress(AllTold):
                    run(witness)
                # An answer that is not a number is a symbol of its own.
                ratios.append(witness.log_ratio if not math.isnan(witness.log_ratio) else math.inf)
        return np.array(ratios)

    def _reseed(self) -> None:
        # Not torch.manual_seed: that leaves a note for every accelerator, each time, until one is used.
        torch.default_generator.manual_seed(self.chance)

    def _only_question(self, public: Public, used: Sealed) -> Callable[[Session], Any]:
        """What a method does that asks once. It asks before it was told anything: the same in every run of a game."""
        self._reseed()
        try:
            self.method.fit(_Curious(public, used, self.plan, Seeded(0)))
        except _Asked as asked:
            question, state = asked.question, asked.state

            def ask(session: Session) -> None:
                torch.set_rng_state(state)
                session.release(*question)

            return ask
        return self.method.fit

    def play(self, runs: int, seed: int, folder: Path | None = None, run: Run = HERE) -> Scores:
        """`runs` runs on each graph, on the engine of `run`; the same for any number of workers.

        With a `folder` every piece is written there as soon as it is known, and none is played twice. Scores follow
        from the private graph: the folder is as private as that.
        """
        if runs < 1:
            raise InvalidInput(f"a game needs at least one run, got {runs}")
        drawn = np.random.SeedSequence((seed, 0xA77A)).generate_state(2 * runs, np.uint64) >> np.uint64(1)
        pieces = [
            (present, [int(one) for one in drawn[start : min(start + _PIECE, stop)]])
            for present, first, stop in ((True, 0, runs), (False, runs, 2 * runs))
            for start in range(first, stop, _PIECE)
        ]
        found = {
            place: ratios for place, piece in enumerate(pieces) if (ratios := self._kept(folder, piece)) is not None
        }
        missing = [place for place in range(len(pieces)) if place not in found]
        if len(missing) > 1:
            with one_thread():
                # What a method learns from public data then travels to the workers with the graph.
                self.log_ratios(True, [0])
        unplayed = [pieces[place] for place in missing]
        played = each(run.engine, _played, (self, folder), unplayed, "games", run.progress)
        found |= dict(zip(missing, played, strict=True))
        for place in missing:
            self._keep(folder, pieces[place], found[place])
        present, absent = (
            np.concatenate([found[place] for place, (side, _) in enumerate(pieces) if side is world])
            for world in (True, False)
        )
        return Scores(present, absent)

    @cached_property
    def key(self) -> str:
        """SHA-256 of everything that determines a game but for its seeds."""
        graph, pair, beside = self.pair.graph, self.pair, self.pair.graph.public_graph
        arrays = (pair.x.numpy(), pair.y.numpy(), pair.adj.indptr, pair.adj.indices)
        said = {
            "graph": [graph.fingerprint(), graph.split_hash(), graph.num_classes],
            "degrees": None if graph.degrees is None else graph.degrees.tolist(),
            "beside": None if beside is None else [beside.fingerprint(), beside.split_hash()],
            "other": [hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest() for array in arrays],
            "method": self.method.describe(),
            "plan": self.plan.describe(),
            "chance": self.chance,
            "weigh": f"{self.weigh.__module__}.{self.weigh.__qualname__}",
            "version": version("graphveil"),
            "code": _code(),
        }
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def _place(self, folder: Path, piece: _Piece) -> Path:
        return folder / f"{hashlib.sha256(json.dumps([self.key, piece]).encode()).hexdigest()[:32]}.json"

    def _kept(self, folder: Path | None, piece: _Piece) -> Floats | None:
        """What was told in a piece that is in the folder; one that is damaged is played again."""
        if folder is None:
            return None
        try:
            ratios = np.array([float.fromhex(value) for value in json.loads(self._place(folder, piece).read_bytes())])
        except (OSError, ValueError, TypeError):
            return None
        return ratios if len(ratios) == len(piece[1]) else None

    def _keep(self, folder: Path | None, piece: _Piece, ratios: Floats) -> None:
        if folder is not None and self._kept(folder, piece) is None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self._place(folder, piece), [float(value).hex() for value in ratios], private=True)


@lru_cache(maxsize=1)
def _code() -> str:
    """SHA-256 of this package's sources: what was played by other code is played again."""
    home = Path(__file__).parents[1]
    files = sorted(home.rglob("*.py"))
    return hashlib.sha256(
        b"".join(file.relative_to(home).as_posix().encode() + file.read_bytes() for file in files)
    ).hexdigest()


_Piece = tuple[bool, list[int]]
"""Whether the pair's own graph is used, and the seeds of the runs."""


def _played(shared: tuple[Game, Path | None], piece: _Piece) -> Floats:
    game, folder = shared
    ratios = game.log_ratios(*piece)
    # The worker writes, so that losing the parent loses nothing.
    game._keep(folder, piece, ratios)
    return ratios


@dataclass(frozen=True, eq=False)
class Target:
    """How the attacked model is made: enough to make it, and others like it."""

    graph: Graph
    method: Method
    unit: Unit
    epsilon: float | None = None
    noise: float | None = None
    delta: float | None = None
    reading: Reading = Reading.SOUND
    seed: int = 0
    compute: Compute = USUAL
    """How it is made."""

    def release(self) -> Release:
        """The attacked model."""
        return train(
            self.graph,
            self.method,
            epsilon=self.epsilon,
            noise=self.noise,
            delta=self.delta,
            unit=self.unit,
            reading=self.reading,
            seed=self.seed,
            compute=self.compute,
        )

    def on(self, graph: Graph, seed: int) -> Target:
        """The same recipe for another graph: a shadow model."""
        return replace(self, graph=graph, seed=seed)


@dataclass(frozen=True)
class Attack(Serializable, ABC):
    """A frozen dataclass whose fields are the attacker's settings."""

    units: ClassVar[frozenset[Unit]]
    """Whose presence it attacks."""

    @classmethod
    def name(cls) -> str:
        """The name on the command line: that of its file."""
        return cls.__module__.rpartition(".")[2]


@dataclass(frozen=True)
class Canary(Attack):
    """Chooses neighbouring graphs that a method finds hardest to hide; the game itself is always the same."""

    @abstractmethod
    def pairs(self, graph: Graph, adjacency: Adjacency, seed: int) -> Sequence[Pair]:
        """Neighbouring graphs made of `graph`, the most promising first; none where it has nothing to offer.

        Both graphs may differ from `graph`: an attacker chooses everything but the method. What differs is said without
        naming ids, for a certificate may repeat it.
        """


@dataclass(frozen=True)
class Inference(Attack):
    """Attacks a trained model as published attacks do, and scores many targets."""

    @abstractmethod
    def scores(self, target: Target, seed: int) -> Scores:
        """A score for everybody who was there, and for everybody who was not."""

    def floors(self) -> dict[str, Inference]:
        """Attackers who see nothing private and judge the same targets: what a result must be compared with."""
        return {}


ATTACKS = Parts(Attack, "graphveil.auditing.attacks", "[a-z]*.py", "graphveil.attacks")
"""Every attack: a file in their folder, whose shared parts lie in a folder within."""
