"""Teachers: the batched passes are the plain network's, and a teacher knows its chosen nodes alone."""

from __future__ import annotations

import math
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch_geometric.nn import SAGEConv

from graphveil.arcs import Csr, Ids
from graphveil.core import InvalidInput
from graphveil.datasets.synthetic import social
from graphveil.graph import Graph
from graphveil.nn import teachers
from graphveil.nn.teachers import (
    Known,
    SageRecipe,
    SageTeachers,
    Start,
    Teacher,
    VotingTeachers,
    dropout_factors,
    vertices,
)
from graphveil.nn.view import View

RECIPE = SageRecipe(hidden=8, epochs=5)
CLASSES = 3


def two_graphs(words: bool) -> tuple[Known, Tensor, Csr]:
    """A private graph, and public features and arcs; binary features if `words`."""
    graph, other = halves()
    private, public = ((x > 0).float() if words else x for x in (graph.x, other.x))
    return Known(private, graph.y.clone(), graph.adj, CLASSES), public, other.adj


def halves() -> tuple[Graph, Graph]:
    graph = social(270, CLASSES, 20, 8.0).split_public(150, 60, 60)
    assert graph.beside is not None
    return graph, graph.beside


def questions(count: int = 6, seed: int = 0) -> tuple[list[Ids], Ids]:
    rng = np.random.default_rng(seed)
    return [np.flatnonzero(rng.random(150) < 0.4) for _ in range(count)], rng.permutation(120)[:count]


class Plain(nn.Module):
    """The same teacher, written with PyG's layers and torch's autograd, in double precision."""

    def __init__(self, start: Start) -> None:
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
    start = Start.draw(seed, node, known.x.shape[1], CLASSES, recipe)
    net, inside = Plain(start), np.zeros(len(known.x), dtype=bool)
    inside[ids] = True
    rows, labels = known.x[torch.from_numpy(ids)].double(), known.y[torch.from_numpy(ids)]
    arcs, silenced = known.adj.within(inside).edge_index(), round(256 * recipe.dropout)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    for epoch in range(recipe.epochs):
        factors = torch.from_numpy(dropout_factors(np.uint64(start.key), epoch, len(ids), recipe.hidden, silenced))
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
def test_a_batch_of_teachers_is_the_loop_over_plain_ones(words: bool, recipe: SageRecipe) -> None:
    known, x, adj = two_graphs(words)
    known.y[::7] = -1
    chosen, asked = questions()
    found = SageTeachers(x, adj, recipe).answers(known, chosen, asked, 3)
    wanted = torch.stack(
        [plain_answer(known, ids, x, adj, int(v), 3, recipe) for ids, v in zip(chosen, asked, strict=True)]
    )
    assert torch.allclose(found, wanted, atol=2e-4)


def test_scaled_words_use_bits_too_and_agree_with_dense_products() -> None:
    known, x, adj = two_graphs(words=True)
    unit = Known(nn.functional.normalize(known.x, dim=1), known.y, known.adj, CLASSES)
    chosen, asked = questions()
    teacher = SageTeachers(x, adj, RECIPE)
    bits = teacher.answers(unit, chosen, asked, 0)
    with mock.patch.object(teachers, "_Flat", teachers._Dense):
        assert torch.allclose(bits, teacher.answers(unit, chosen, asked, 0), atol=1e-4)


def all_teachers(words: bool) -> list[tuple[Known, Teacher]]:
    known, x, adj = two_graphs(words)
    return [(known, SageTeachers(x, adj, RECIPE)), (known, VotingTeachers(View.of(x, adj, 6), x, adj))]


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_answers_lie_on_the_simplex_and_nobody_is_answered_evenly(words: bool, place: int) -> None:
    known, teacher = all_teachers(words)[place]
    chosen, asked = questions()
    chosen[1] = np.empty(0, np.int64)
    known.y[chosen[2]] = -1
    found = teacher.answers(known, chosen, asked, 0)
    assert found.dtype == torch.float64
    assert found.shape == (6, CLASSES)
    assert bool((found >= 0).all())
    assert torch.allclose(found.sum(dim=1), torch.ones(6, dtype=torch.float64))
    assert torch.allclose(found[1:3], torch.full((2, CLASSES), 1 / CLASSES, dtype=torch.float64))


def blank(known: Known, node: int) -> Known:
    """Without the node's arcs and label, and with features that break everything they touch."""
    kept = np.ones(len(known.x), dtype=bool)
    kept[node] = False
    arcs = known.adj.edge_index().numpy()
    arcs = arcs[:, kept[arcs[0]] & kept[arcs[1]]]
    x, y = known.x.clone(), known.y.clone()
    x[node], y[node] = math.nan, -1
    return Known(x, y, Csr.from_edge_index(arcs[0], arcs[1], len(x)), known.classes)


@pytest.mark.parametrize("words", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_a_node_that_was_not_chosen_leaves_no_trace(words: bool, place: int) -> None:
    known, teacher = all_teachers(words)[place]
    chosen, asked = questions()
    node = int(chosen[0][3])
    apart = [node not in ids for ids in chosen]
    assert any(apart)
    before = teacher.answers(known, chosen, asked, 0)
    # Batched with a teacher that meets the broken node, too.
    after = teacher.answers(blank(known, node), chosen, asked, 0)
    assert torch.equal(before[apart], after[apart])


@pytest.mark.parametrize("words", [True, False])
def test_an_answer_is_the_same_in_every_batch_and_leaves_torchs_stream_alone(words: bool) -> None:
    known, teacher = all_teachers(words)[0]
    chosen, asked = questions()
    torch.manual_seed(5)
    state = torch.get_rng_state()
    together = teacher.answers(known, chosen, asked, 0)
    assert torch.equal(state, torch.get_rng_state())
    for i in range(len(asked)):
        assert torch.equal(together[i : i + 1], teacher.answers(known, chosen[i : i + 1], asked[i : i + 1], 0))
    with mock.patch.object(teachers, "_ENTRIES", 6000):
        assert torch.equal(together, teacher.answers(known, chosen, asked, 0))
    assert not torch.equal(together, teacher.answers(known, chosen, asked, 1))


def test_voters_are_right_where_classes_are_apart() -> None:
    known, x, adj = two_graphs(words=False)
    y = halves()[1].y
    chosen, asked = questions(100)
    found = VotingTeachers(View.of(x, adj, 6), x, adj).answers(known, chosen, asked, 0)
    right = (found.argmax(dim=1) == y[torch.from_numpy(asked)]).double().mean()
    assert float(right) > 1.5 / CLASSES


def test_a_vertex_tells_the_first_choice_best_at_the_same_cost() -> None:
    rng = np.random.default_rng(0)
    posteriors = torch.from_numpy(rng.dirichlet(np.ones(4), size=200))
    sharp = vertices(posteriors)
    assert torch.equal(sharp.argmax(dim=1), posteriors.argmax(dim=1))
    assert torch.equal(sharp.sort(dim=1).values, torch.tensor([[0.0, 0, 0, 1]]).double().expand(200, 4))
    first = posteriors.argmax(dim=1)
    for strength in (0.1, 1.0, 2.2, 8.0):
        told = {
            name: torch.softmax(strength * rows, dim=1)[torch.arange(200), first]
            for name, rows in (("soft", posteriors), ("sharp", sharp))
        }
        assert bool((told["sharp"] > told["soft"]).all())
        # The cost is the largest ratio over all pairs of points: no pair exceeds two vertices.
        chances = torch.softmax(strength * torch.cat([posteriors, torch.eye(4).double()]), dim=1).log()
        spread = chances.amax(dim=0) - chances.amin(dim=0)
        assert torch.allclose(spread, torch.full((4,), strength, dtype=torch.float64))


def test_an_even_posterior_stays_even() -> None:
    even = torch.full((1, 3), 1 / 3, dtype=torch.float64)
    assert torch.equal(vertices(even), even)


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
