"""Scores of classes, and the seam: a second task is one file, here this one, and nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pytest
import torch
from torch import Tensor

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public
from graphveil.errors import Unsupported
from graphveil.mechanisms.unprotected import exposing_plan
from graphveil.methods.baseline.parts.exposed_gnn import expose
from graphveil.methods.method import Method, PredictionReads
from graphveil.privacy.session import Session
from graphveil.tasks.node_classification import NodeClassification
from graphveil.tasks.task import Task
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Unit


class Regression(Task):
    """y is a number; a node has one score, the number itself."""

    name = "regression"

    def width(self, sizes: tuple[int, ...]) -> int:  # noqa: ARG002
        return 1

    def probabilities(self, scores: Tensor) -> Tensor:  # noqa: ARG002
        raise Unsupported("a number has no probabilities; call predict")

    def predictions(self, scores: Tensor) -> Tensor:
        return scores[:, 0]

    def judge(self, scores: Tensor, targets: Tensor, sizes: tuple[int, ...]) -> dict[str, Any]:  # noqa: ARG002
        return {"rmse": float((self.predictions(scores) - targets).square().mean().sqrt())}


@dataclass(frozen=True)
class LeastSquares(Method):
    """min |X w - y|^2 + ridge |w|^2 on the training nodes. Not private."""

    units = frozenset(Unit)
    reads = PredictionReads.OWN_FEATURES
    task: ClassVar[Task] = Regression()

    ridge: float = 0.1

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:  # noqa: ARG002
        return exposing_plan(adjacency, reading, frozenset({"x", "y"}))

    def fit(self, session: Session) -> State:
        mask = session.public.train
        x, y = expose(session, "x")[mask].double(), expose(session, "y")[mask].double()
        gram = x.T @ x + self.ridge * torch.eye(x.shape[1], dtype=torch.float64)
        return {"weights": torch.linalg.solve(gram, x.T @ y).float()}

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:  # noqa: ARG002
        return (x @ state["weights"])[:, None]

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return (cls(),)


@pytest.fixture
def counted() -> Graph:
    """y: how often, in 0 .. 9, as a linear function of the features."""
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(0))
    y = (x @ torch.tensor([1.0, 0.5, -1.0, 0.2]) + 5).round().clamp(0, 9).long()
    none = torch.zeros(200, dtype=torch.bool)
    x = torch.cat([x, torch.ones(200, 1)], dim=1)
    return Graph(x, Csr.empty(200), y, 10, True, none, none, none, "counted", "none").random_split()


def test_a_second_task_trains_saves_loads_predicts_and_scores(counted: Graph, tmp_path: Path) -> None:
    release = gv.train(counted, LeastSquares(), noise=1.0, unit="edge", seed=0)
    loaded = gv.load(release.save(tmp_path / "model"))
    told = loaded.predict(counted)
    assert told.shape == (200,)
    assert told.dtype == torch.float32
    assert torch.equal(told, release.predict())
    assert loaded.evaluate("test", counted)["rmse"] < 0.5 < float(counted.y.float().std())
    with pytest.raises(Unsupported, match="call predict"):
        loaded.predict_proba(counted)
    assert isinstance(gv.verify(tmp_path / "model", counted), gv.Release)


def test_weights_of_another_task_are_refused(counted: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gv.train(counted, LeastSquares(), noise=1.0, unit="edge", seed=0).save(tmp_path / "model")
    monkeypatch.setattr(LeastSquares, "task", NodeClassification())
    with pytest.raises(gv.Tampered, match=r"give scores \[2, 1\], not \[2, 10\]"):
        gv.load(tmp_path / "model")


def test_the_likeliest_class_is_predicted() -> None:
    scores = torch.tensor([[0.0, 2.0, 1.0], [3.0, 3.0, 0.0]])
    task = NodeClassification()
    assert task.predictions(scores).tolist() == [1, 0]
    assert torch.allclose(task.probabilities(scores).sum(dim=1), torch.ones(2))
    assert task.width((9, 8, 7)) == 7
