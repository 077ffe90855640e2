"""What methods share that teach a public graph with noisily named labels: whom they ask, and the student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from graphveil.checks import parse, require_positive, require_whole
from graphveil.data.arcs import Csr, Ids
from graphveil.data.sealing import Public, PublicGraph, Sealed
from graphveil.errors import InvalidInput
from graphveil.methods.method import Method, PredictionReads
from graphveil.nn.features import Scale, Scaling
from graphveil.nn.public_embedding import PublicEmbedding, learnt_view
from graphveil.nn.sage_teacher import SageRecipe
from graphveil.nn.student import RidgeStudent, SageStudent, ridge_logits, sage_logits
from graphveil.nn.teachers import Known
from graphveil.runtime.progress import QUIET, Progress
from graphveil.vocabulary import State, Unit

_STUDENTS = ("ridge", "sage")


@dataclass(frozen=True)
class TeacherStudent(Method):
    """Asks about public nodes, then trains a student on the answers and the public graph."""

    units = frozenset({Unit.NODE})
    reads = PredictionReads.PUBLIC_GRAPH
    needs_public = True

    queries: int = 1000
    """Public nodes that are asked about, at least 1; all that may be where that is fewer."""
    student: Annotated[str, _STUDENTS] = "ridge"
    """Who learns from the answers. ridge: closed form on what the view of the public graph shows; sage: the paper's
    network.
    """
    scale: Annotated[str, Scale] = "rows"
    """How features are scaled: fitted to public features, and applied to private rows one at a time."""
    width: int = 32
    """Coordinates of the view of the public graph, at least 1."""
    ridge: float = 3.0
    """Penalty of student=ridge on the squares of its weights, above 0."""
    hidden: int = 64
    """Width of the hidden layers of networks, teachers' and students', at least 1."""
    epochs: int = 200
    """Passes that train a network, teacher or student, at least 1."""
    learning_rate: float = 0.01
    """Step size of Adam, for every network, above 0."""
    dropout: float = 0.5
    """Share of a hidden layer's entries that networks silence in training, in [0, 1)."""
    pretraining: int = 0
    """Epochs without labels before student=sage learns from the answers (appendix D.7), at least 0."""

    def __post_init__(self) -> None:
        require_whole(self, "queries", "width", "hidden", "epochs", "pretraining")
        if min(self.queries, self.width) < 1:
            raise InvalidInput(f"{self.name()} needs queries and width of at least 1")
        if self.student not in _STUDENTS:
            raise InvalidInput(f"{self.name()}: student is ridge or sage, got {self.student!r}")
        require_positive(self.ridge, "ridge")
        parse(Scale, self.scale, "scale")
        self.recipe()
        self.sage_student()
        self._require_readers()

    @property
    def network_teachers(self) -> bool:
        """Whether teachers are networks; if not, they read the view of the public graph."""
        return True

    def _require_readers(self) -> None:
        """Settings of the student and of the teachers that are not there would change nothing."""
        if self.student == "sage":
            self.require_default("ridge", unless="student=ridge")
            if self.network_teachers:
                self.require_default("width", unless="somebody who reads a view, as student=ridge does")
            return
        self.require_default("pretraining", unless="student=sage")
        if not self.network_teachers:
            self.require_default(
                "hidden", "epochs", "learning_rate", "dropout", unless="a network, student=sage or teacher=sage"
            )

    def recipe(self) -> SageRecipe:
        """How the networks of teachers are trained."""
        return SageRecipe(self.hidden, self.epochs, float(self.learning_rate), float(self.dropout))

    def sage_student(self, kept: float = 1.0) -> SageStudent:
        """The student that is a network; kept: see there."""
        rate, dropout = float(self.learning_rate), float(self.dropout)
        return SageStudent(self.hidden, self.epochs, rate, dropout, kept, self.pretraining)

    def most_queries(self, public: Public) -> int:
        """`queries`, or as many public nodes as may be queried."""
        beside = public.public_graph
        return self.queries if beside is None else min(self.queries, int(beside.queryable.sum()))

    def known(self, sealed: Sealed, public_graph: PublicGraph) -> Known:
        """The private graph as teachers read it, its features scaled as the public ones are; behind the gate."""
        scaling = Scaling.fit(public_graph.x, self.scale)
        return sealed.derived(
            f"taught {self.scale}",
            lambda inner: Known(scaling(inner.x), inner.y, inner.adj, inner.public.num_classes),
        )

    def learn(self, public: Public, asked: Ids, answers: Tensor, kept: float, progress: Progress = QUIET) -> State:
        """The student. kept: how far an answer is a teacher's own beyond guessing, 1 if that is not known."""
        public_graph = public.require_public_graph()
        if self.student == "sage":
            scaling = Scaling.fit(public_graph.x, self.scale)
            student = self.sage_student(kept)
            x = scaling(public_graph.x)
            trained = student.fit(x, public_graph.adj, asked, answers, public.num_classes, progress)
            return {**trained, **scaling.state()}
        view = learnt_view(public, self.width, self.scale)
        rows = view.context(public_graph.x, public_graph.adj)
        weights = RidgeStudent(float(self.ridge)).fit(rows, asked, answers, public.num_classes)
        return {**view.state(), "student.weights": weights}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        if self.student == "sage":
            return sage_logits(self.sage_student(), state, Scaling.restore(state, self.scale)(x), visible_arcs)
        return ridge_logits(
            state["student.weights"], PublicEmbedding.restore(state, self.scale).context(x, visible_arcs)
        )


def drawn(public_graph: PublicGraph, count: int) -> Ids:
    """`count` public nodes that may be asked about, in random order, int64 [count]."""
    ids = public_graph.queryable.nonzero().flatten()
    return ids[torch.randperm(len(ids))[:count]].numpy()
