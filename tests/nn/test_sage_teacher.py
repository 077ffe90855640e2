"""A GraphSAGE trained by hand: its passes are the plain network's."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch_geometric.nn import SAGEConv

from graphveil.data.arcs import Csr, Ids
from graphveil.errors import InvalidInput
from graphveil.nn import sage_teacher
from graphveil.nn.sage_teacher import DenseInputs, SageRecipe, TeacherStart, dropout_factors
from graphveil.nn.teachers import Known, SageTeachers
from two_graphs import known_and_public, questions

RECIPE = SageRecipe(hidden=8, epochs=5)
CLASSES = 3


class Plain(nn.Module):
    """The same teacher, written with PyG's layers and torch's autograd, in double precision."""

    def __init__(self, start: TeacherStart) -> None:
        super().__init__()
        width, hidden = start.own.shape
        self.lower, self.norm = SAGEConv(width, hidden, bias=False), nn.BatchNorm1d(hidden)
        self.upper = SAGEConv(hidden, CLASSES)
        self.lower.lin_r.weight.data = torch.from_numpy(start.own.T)
        self.lower.lin_l.weight.data = torch.from_numpy(start.near.T)
        self.upper.lin_r.weight.data = torch.from_numpy(start.upper[:CLASSES])
        self.upper.lin_l.weight.data = torch.from_numpy(start.upper[CLASSES:])
        self.upper.lin_l.bias.data = torch.from_numpy(start.bias)
        self.double()

    def forward(self, x: Tensor, arcs: Tensor, factors: Tensor) -> Tensor:
        logits: Tensor = self.upper(relu(self.norm(self.lower(x, arcs))) * factors, arcs)
        return logits


def plain_answer(known: Known, ids: Ids, x: Tensor, adj: Csr, node: int, seed: int, recipe: SageRecipe) -> Tensor:
    start = TeacherStart.draw(seed, node, known.x.shape[1], CLASSES, recipe)
    net, inside = Plain(start), np.zeros(len(known.x), dtype=bool)
    inside[ids] = True
    rows, labels = known.x[torch.from_numpy(ids)].double(), known.y[torch.from_numpy(ids)]
    arcs, dropped = known.adj.within(inside).edge_index(), round(256 * recipe.dropout)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    for epoch in range(recipe.epochs):
        factors = torch.from_numpy(dropout_factors(np.uint64(start.key), epoch, len(ids), recipe.hidden, dropped))
        optimiser.zero_grad()
        cross_entropy(net(rows, arcs, factors.double()), labels, ignore_index=-1).backward()
        optimiser.step()
    net.eval()
    with torch.no_grad():
        ones = torch.ones(len(x), recipe.hidden, dtype=torch.float64)
        answer: Tensor = net(x.double(), adj.edge_index(), ones)[node].softmax(dim=0)
    return answer


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("recipe", [RECIPE, SageRecipe(hidden=5, epochs=8, learning_rate=0.03, dropout=0.0)])
def test_a_teacher_is_the_plain_network(words: bool, recipe: SageRecipe) -> None:
    known, x, adj = known_and_public(words)
    known.y[::7] = -1
    chosen, asked = questions()
    found = SageTeachers(x, adj, recipe).answers(known, chosen, asked, 3)
    wanted = torch.stack(
        [plain_answer(known, ids, x, adj, int(v), 3, recipe) for ids, v in zip(chosen, asked, strict=True)]
    )
    assert torch.allclose(found, wanted, atol=2e-4)


def test_scaled_words_use_bits_too_and_agree_with_dense_products() -> None:
    known, x, adj = known_and_public(words=True)
    unit = Known(nn.functional.normalize(known.x, dim=1), known.y, known.adj, CLASSES)
    chosen, asked = questions()
    teacher = SageTeachers(x, adj, RECIPE)
    bits = teacher.answers(unit, chosen, asked, 0)
    with mock.patch.object(sage_teacher.BinaryInputs, "of", lambda x, _: DenseInputs(x)):
        assert torch.allclose(bits, teacher.answers(unit, chosen, asked, 0), atol=1e-4)


def test_dropout_silences_its_share_and_keeps_the_mean() -> None:
    factors = dropout_factors(np.uint64(7), 0, 500, 30, 128)
    assert set(np.unique(factors)) == {0.0, 2.0}
    assert abs(factors.mean() - 1) < 0.03
    assert not np.array_equal(factors, dropout_factors(np.uint64(7), 1, 500, 30, 128))
    assert np.all(dropout_factors(np.uint64(7), 0, 5, 3, 0) == 1)


@pytest.mark.parametrize("bad", [{"hidden": 0}, {"epochs": 0}, {"dropout": 1.0}, {"learning_rate": math.nan}])
def test_a_recipe_that_cannot_be_followed_is_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidInput):
        SageRecipe(**bad)
