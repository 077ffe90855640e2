"""Teachers: a teacher knows its chosen nodes alone, and answers the same in every batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from graphveil.data.arcs import Csr
from graphveil.nn.public_embedding import PublicEmbedding
from graphveil.nn.sage_teacher import SageRecipe
from graphveil.nn.teachers import Known, SageTeachers, Teacher, VotingTeachers, vertices
from graphveil.runtime.engine import one_thread
from two_graphs import known_and_public, pair, questions

RECIPE = SageRecipe(hidden=8, epochs=5)
CLASSES = 3


def all_teachers(words: bool) -> list[tuple[Known, Teacher]]:
    known, x, adj = known_and_public(words)
    return [(known, SageTeachers(x, adj, RECIPE)), (known, VotingTeachers(PublicEmbedding.of(x, adj, 6), x, adj))]


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
    with one_thread():
        assert torch.equal(together, teacher.answers(known, chosen, asked, 0))
    assert not torch.equal(together, teacher.answers(known, chosen, asked, 1))


def test_voters_are_right_where_classes_are_apart() -> None:
    known, x, adj = known_and_public(words=False)
    beside = pair().public_graph
    assert beside is not None
    chosen, asked = questions(100)
    found = VotingTeachers(PublicEmbedding.of(x, adj, 6), x, adj).answers(known, chosen, asked, 0)
    right = (found.argmax(dim=1) == beside.y[torch.from_numpy(asked)]).double().mean()
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
