"""PrivGNN (Olatunji, Funke & Khosla, TMLR 2023): teachers on private samples label public nodes, node level."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Self, cast

import numpy as np
import torch
from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.arcs import Ids
from graphveil.data.sealing import PUBLIC_GRAPH_APART, Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.laplace import LaplaceCurve
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax
from graphveil.mechanisms.poisson import Poisson, PoissonCurve, SampledOnce
from graphveil.mechanisms.renyi import MomentsCurve
from graphveil.mechanisms.shared_curves import require_rate
from graphveil.methods.public_graph.parts.teacher_student import TeacherStudent, drawn
from graphveil.nn.features import Scaling
from graphveil.nn.inductive import inductive
from graphveil.nn.nearest import nearest
from graphveil.nn.public_embedding import learnt_view
from graphveil.nn.student import kept_of
from graphveil.nn.teachers import Known, SageTeachers, Teacher, VotingTeachers, vertices
from graphveil.privacy.session import Session
from graphveil.runtime.compute import Run
from graphveil.runtime.engine import each
from graphveil.vocabulary import Adjacency, Curve, Plan, Query, Reading, State, Step

_WHY = "docs/methods/privgnn.md"
_TURN = 100
"""Queries that share a call: enough to train their teachers side by side, few enough to show progress."""
_PIECE = 20
"""Queries that one worker answers at a time."""
_FEWEST = 10
"""Queries a class: with fewer of them a student learns nothing, however true they are."""
_ODDS = 2.0
"""Where noise is not spent on lambda, e^lambda is this times one more than there are classes."""
_ORDERS = 32
"""The authors try Renyi orders up to this one."""
_CHOICES = {"spend": ("rate", "noise"), "argmax": ("gumbel", "laplace"), "teacher": ("votes", "sage")}
_SENSITIVITY = f"Theorem 7 takes 1 for the L1 sensitivity of a posterior, which is 2 [{_WHY}]"
_ONE_SAMPLE = f"one sample serves all queries, so that it amplifies none of them [{_WHY}]"


@dataclass(frozen=True)
class Spending:
    """What a noise is spent on: how many queries, the chance that a private node is sampled for one, and lambda."""

    queries: int
    rate: float
    strength: float


@dataclass(frozen=True)
class PrivGnn(TeacherStudent):
    """For every query: a Poisson sample, its nodes nearest to the query, a teacher on them, a noisy argmax; a student.

    The paper's own: spend=noise, argmax=laplace, sharp=False, teacher=sage, student=sage.
    """

    subtitle = "noisy teacher labels for a public graph"

    rate: float = 0.3
    """Chance in (0, 1] that a private node is sampled for a query, at most."""
    neighbours: int = 750
    """Sampled nodes nearest to the query that a teacher learns from; 0: all of them (the paper's KNNREM)."""
    spend: Annotated[str, _CHOICES["spend"]] = "rate"
    """What noise lowers. rate: the sampling rate, then the number of queries, at last lambda (see `spending`); noise:
    lambda = 1 / noise, the paper's.
    """
    least: int = 20
    """Nodes of a sample below which spend=rate lowers the number of queries instead, at least 1."""
    argmax: Annotated[str, _CHOICES["argmax"]] = "gumbel"
    """How a class is named. gumbel: the exponential mechanism; laplace: the paper's noise."""
    sharp: bool = True
    """Whether all of a teacher's weight goes to its first choice."""
    teacher: Annotated[str, _CHOICES["teacher"]] = "votes"
    """votes: chosen nodes vote; sage: the paper's network learns from them."""
    temperature: float = 0.1
    """How evenly nodes vote with teacher=votes, above 0: near 0 the nearest ones alone."""
    single: bool = False
    """One sample and one network for all queries (SINGLEGNN)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "neighbours", "least")
        require_rate(self.rate)
        if self.least < 1 or self.neighbours < 0:
            raise InvalidInput("privgnn needs least of at least 1 and neighbours of at least 0")
        for name, values in _CHOICES.items():
            if getattr(self, name) not in values:
                raise InvalidInput(f"privgnn: {name} is {' or '.join(values)}, got {getattr(self, name)!r}")
        if not self.temperature > 0:
            raise InvalidInput(f"temperature must be above 0, got {self.temperature}")
        if self.single and (self.neighbours, self.spend, self.teacher) != (0, "noise", "sage"):
            raise InvalidInput("single=True is one network for all queries: neighbours=0, spend=noise, teacher=sage")
        if self.spend != "rate":
            self.require_default("least", unless="spend=rate")
        if self.teacher != "votes":
            self.require_default("temperature", unless="teacher=votes")

    @property
    def network_teachers(self) -> bool:
        """Whether teachers are networks; if not, they read the view of the public graph."""
        return self.teacher == "sage"

    def spending(self, public: Public, noise: float) -> Spending:
        """What `noise` is spent on; no part grows with it, and so neither does epsilon.

        With spend=rate e^lambda = 2 (classes + 1), and noise divides `rate`; where it would leave less than `least`
        nodes in a sample it divides the square root of `queries` instead, and at last lambda.
        """
        most = self.most_queries(public)
        if self.spend == "noise":
            return Spending(most, float(self.rate), 1 / noise if noise else math.inf)
        stretch = math.log(_ODDS * (public.num_classes + 1))
        if noise <= 1:
            return Spending(most, float(self.rate), stretch / noise if noise else math.inf)
        # What the rate takes of the noise, and then the queries, each down to the fewest that are of any use.
        in_rate = min(noise, max(self.rate * _training(public) / self.least, 1.0))
        in_queries = min(noise / in_rate, max(math.sqrt(most / (_FEWEST * public.num_classes)), 1.0))
        left = noise / (in_rate * in_queries)
        return Spending(max(math.floor(most / in_queries**2 + 1e-9), 1), self.rate / in_rate, stretch / left)

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        spent = self.spending(public, noise)
        inner = (NoisyMax if self.argmax == "gumbel" else LaplaceMax)(1 / spent.strength, public.num_classes)
        act = (SampledOnce if self.single else Poisson)(inner, spent.rate, _training(public))
        claim, refuted = act.curve(1), ""
        if reading is Reading.PUBLISHED:
            claim, refuted = self._published(inner.curve(1), spent)
        return Plan(
            adjacency,
            reading,
            (Step("label", act, claim, spent.queries, why=_WHY, assumes=(PUBLIC_GRAPH_APART,), refuted=refuted),),
        )

    def _published(self, inner: Curve, spent: Spending) -> tuple[Curve, str]:
        """What the authors charge; both ablations cost what the whole does (section 5.5)."""
        if self.argmax == "gumbel" or inner.infinite:
            return PoissonCurve(inner, spent.rate), _ONE_SAMPLE if self.single else ""
        claim = MomentsCurve(PoissonCurve(LaplaceCurve(spent.strength), spent.rate), _ORDERS)
        return claim, _ONE_SAMPLE if self.single else _SENSITIVITY

    def fit(self, session: Session) -> State:
        public = session.public
        step = session.plan.step("label")
        asked = drawn(public.require_public_graph(), step.times)
        # One call where one sample serves all queries.
        turns = [asked] if self.single else np.split(asked, range(_TURN, len(asked), _TURN))
        run = session.run
        query_of = self._one_teacher(public) if self.single else self._many_teachers(public, run)
        shown = run.progress.track(turns, "teachers")
        answers = [session.release("label", query_of(turn), len(turn)) for turn in shown]
        inner = cast(NoisyMax | LaplaceMax, cast(Poisson, step.act).inner)
        kept = kept_of(inner.epsilon(), public.num_classes) if self.sharp else 1.0
        return self.learn(public, asked, torch.cat(answers), kept, run.progress)

    def _many_teachers(self, public: Public, run: Run) -> Callable[[Ids], Query]:
        public_graph, ids = public.require_public_graph(), public.train.nonzero().flatten().numpy()
        scaled = Scaling.fit(public_graph.x, self.scale)(public_graph.x)
        teacher: Teacher = (
            VotingTeachers(
                learnt_view(public, self.width, self.scale), public_graph.x, public_graph.adj, float(self.temperature)
            )
            if self.teacher == "votes"
            else SageTeachers(scaled, public_graph.adj, self.recipe())
        )
        # A public number: what teachers draw must not depend on private data, nor move torch's stream.
        seed = torch.initial_seed()

        def posteriors(sealed: Sealed, batches: list[Tensor], turn: Ids) -> Tensor:
            known = self.known(sealed, public_graph)
            chosen = [
                self._chosen(known, ids[batch.numpy()], scaled[node]) for batch, node in zip(batches, turn, strict=True)
            ]
            read = known if self.teacher == "sage" else Known(sealed.x, sealed.y, sealed.adj, known.classes)
            starts = range(0, len(turn), _PIECE)
            pieces = [(chosen[start : start + _PIECE], turn[start : start + _PIECE]) for start in starts]
            found = torch.cat(each(run.engine, _taught, (teacher, read, seed), pieces, "teachers", run.progress))
            return vertices(found) if self.sharp else found

        return lambda turn: partial(posteriors, turn=turn)

    def _chosen(self, known: Known, sampled: Ids, point: Tensor) -> Ids:
        """The nodes of a sample that are there, and of them the nearest to the query."""
        present = sampled[known.y.numpy()[sampled] >= 0]
        return nearest(known.x, present, point, self.neighbours) if self.neighbours else present

    def _one_teacher(self, public: Public) -> Callable[[Ids], Query]:
        public_graph, ids, seed = (
            public.require_public_graph(),
            public.train.nonzero().flatten().numpy(),
            torch.initial_seed(),
        )
        scaled = Scaling.fit(public_graph.x, self.scale)(public_graph.x)

        def posteriors(sealed: Sealed, batch: Tensor, turn: Ids) -> Tensor:
            known = self.known(sealed, public_graph)
            found = inductive(known, ids[batch.numpy()], scaled, public_graph.adj, self.recipe(), True, seed)
            found = found[torch.from_numpy(turn)].double()
            return vertices(found) if self.sharp else found

        return lambda turn: partial(posteriors, turn=turn)

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(queries=6)
        paper = replace(
            small, spend="noise", argmax="laplace", sharp=False, teacher="sage", student="sage", hidden=4, epochs=2
        )
        return (
            replace(small, width=3, least=2),
            replace(paper, neighbours=2),
            replace(paper, neighbours=0, single=True),
        )


def _taught(shared: tuple[Teacher, Known, int], piece: tuple[list[Ids], Ids]) -> Tensor:
    """Posteriors of a few queries, [k, c]: a piece of work for an engine."""
    teacher, known, seed = shared
    chosen, asked = piece
    with torch.random.fork_rng(devices=[]):
        return teacher.answers(known, chosen, asked, seed)


def _training(public: Public) -> int:
    """How many private ids teach, present or not."""
    return max(int(public.train.sum()), 1)
