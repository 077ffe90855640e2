"""Students: what is learnt on the public graph from the few of its nodes that were labelled, with noise.

An answer equals the teacher's first choice with chance `kept` + (1 - kept)/c, and is any other class with chance
(1 - kept)/c each: the noise of a sharp answer is known exactly, and it is the same for every class. So the mean answer
at a place is an increasing function of how often teachers choose a class there, and a least-squares fit to one-hot
answers needs no correction; a likelihood does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import BatchNorm, SageLayer, mean_operator
from graphveil.nn.mlp import Dropout, restore, with_prefix
from graphveil.runtime.progress import QUIET, Progress
from graphveil.vocabulary import State


def kept_of(strength: float, classes: int) -> float:
    """The chance that the exponential mechanism tells a vertex as it is, beyond guessing: (e^l - 1) / (e^l + c - 1)."""
    # Far below 700, where e^l is no longer a double, it is 1 to the last digit.
    return 1.0 if strength > 700 else math.expm1(strength) / (math.expm1(strength) + classes)


@dataclass(frozen=True)
class RidgeStudent:
    """Ridge regression of one-hot answers on the context of the nodes: closed form, and noise averages out.

        B = argmin sum_q |(r_q, 1) B - (onehot_q - mean)|^2 + ridge |B|^2,    logits_i = (r_i, 1) B + mean

    r: unit rows [m, p] of a `PublicEmbedding`.
    """

    ridge: float = 3.0

    def fit(self, rows: Tensor, asked: Ids, answers: Tensor, classes: int) -> Tensor:
        """B with the mean answer in its last row, float32 [p + 1, c]; answers: int64 [q]."""
        known = torch.cat([rows[torch.from_numpy(asked)], torch.ones(len(asked), 1)], dim=1).double()
        targets = torch.nn.functional.one_hot(answers, classes).double()
        gram = known.T @ known + self.ridge * torch.eye(known.shape[1], dtype=torch.float64)
        weights: Tensor = torch.linalg.solve(gram, known.T @ (targets - targets.mean(dim=0)))
        weights[-1] += targets.mean(dim=0)
        return weights.float()


def ridge_logits(weights: Tensor, rows: Tensor) -> Tensor:
    """[m, c], from B [p + 1, c] and rows [m, p]."""
    return rows @ weights[:-1] + weights[-1]


class SageNet(nn.Module):
    """The paper's student (appendix G.1): two GraphSAGE layers, batch normalisation and dropout between them."""

    def __init__(self, width: int, hidden: int, out: int, dropout: float) -> None:
        super().__init__()
        self.lower, self.norm = SageLayer(width, hidden), BatchNorm(hidden)
        self.dropout, self.upper = Dropout(dropout), SageLayer(hidden, out)

    def forward(self, x: Tensor, operator: Operator) -> Tensor:
        """[m, width] -> [m, out]."""
        logits: Tensor = self.upper(self.dropout(torch.relu(self.norm(self.lower(x, operator)))), operator)
        return logits


@dataclass(frozen=True)
class SageStudent:
    """`SageNet` trained on the answers by Adam, transductively on the whole public graph (section 3.1.3).

    kept < 1: the loss is the likelihood of the noisy answer, -log(kept p + (1 - kept)/c) (forward correction, Patrini
    et al. 2017); 1 is the paper's plain likelihood. `pretraining`: epochs of the unsupervised objective of Hamilton et
    al. 2017 on the public graph, after which the first layer is kept (appendix D.7).
    """

    hidden: int = 64
    epochs: int = 200
    learning_rate: float = 0.01
    dropout: float = 0.5
    kept: float = 1.0
    pretraining: int = 0

    def __post_init__(self) -> None:
        if min(self.hidden, self.epochs) < 1 or self.pretraining < 0 or not 0 <= self.dropout < 1:
            raise InvalidInput("a student needs hidden and epochs of at least 1, and dropout in [0, 1)")
        if not (self.learning_rate > 0 and 0 < self.kept <= 1):
            raise InvalidInput("a student needs a learning rate above 0, and kept in (0, 1]")

    def fit(self, x: Tensor, adj: Csr, asked: Ids, answers: Tensor, classes: int, progress: Progress = QUIET) -> State:
        """Trained weights. x: [m, d], scaled as the student shall see it; answers: int64 [q], of the nodes `asked`."""
        operator, places = mean_operator(adj), torch.from_numpy(asked)
        net = SageNet(x.shape[1], self.hidden, classes, self.dropout)
        if self.pretraining and adj.num_arcs:
            self._pretrain(net, x, adj, operator, progress)
        optimiser = torch.optim.Adam(net.parameters(), lr=self.learning_rate)
        for _ in progress.track(range(self.epochs), "student"):
            optimiser.zero_grad()
            chances = torch.softmax(net(x, operator)[places], dim=1)
            targets = (self.kept * chances + (1 - self.kept) / classes)[torch.arange(len(places)), answers]
            (-targets.clamp(min=1e-12).log().mean()).backward()  # type: ignore[no-untyped-call]  # torch does not type it
            optimiser.step()
        return with_prefix("student.", net.eval().state_dict())

    def _pretrain(self, net: SageNet, x: Tensor, adj: Csr, operator: Operator, progress: Progress) -> None:
        """Embeddings of neighbours become alike, and of random pairs unlike: -log s(z_i z_j) - log s(-z_i z_k)."""
        embedding = SageNet(x.shape[1], self.hidden, self.hidden, self.dropout)
        arcs = adj.edge_index()
        optimiser = torch.optim.Adam(embedding.parameters(), lr=self.learning_rate)
        for _ in progress.track(range(self.pretraining), "pretraining"):
            picked = arcs[:, torch.randint(arcs.shape[1], (min(arcs.shape[1], 1 << 14),))]
            strangers = torch.randint(adj.num_nodes, (picked.shape[1],))
            optimiser.zero_grad()
            rows = embedding(x, operator)
            near, far = (rows[picked[0]] * rows[other] for other in (picked[1], strangers))
            loss = -nn.functional.logsigmoid(near.sum(1)).mean() - nn.functional.logsigmoid(-far.sum(1)).mean()
            loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
            optimiser.step()
        net.lower.load_state_dict(embedding.lower.state_dict())
        net.norm.load_state_dict(embedding.norm.state_dict())


def sage_logits(student: SageStudent, state: State, x: Tensor, adj: Csr) -> Tensor:
    """What a trained `SageStudent` says of the nodes of a graph, [m, c]."""
    classes = state["student.upper.own.bias"].shape[0]
    net = restore(SageNet(x.shape[1], student.hidden, classes, student.dropout), state, "student.")
    with torch.no_grad():
        logits: Tensor = net(x, mean_operator(adj))
    return logits
