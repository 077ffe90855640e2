"""Answers whose noise is known: what to ask, against sums over all answers, and what is learnt from them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from graphveil.mechanisms.prior_response import PriorResponse
from graphveil.nn import noisy_labels
from graphveil.nn.noisy_labels import corrected, joined, learn_from_answers, likeliness, most_telling, shared_out
from graphveil.privacy.noise import Seeded


def information(prior: Tensor, candidates: tuple[int, ...], epsilon: float) -> float:
    """Of a truth drawn from `prior` [c] and what is said of it among candidates, by listing both."""
    law = torch.zeros(len(prior), len(prior), dtype=torch.float64)
    for truth, said in itertools.product(range(len(prior)), candidates):
        weight = math.exp(epsilon) if said == truth else 1.0
        whole = math.exp(epsilon) + len(candidates) - 1 if truth in candidates else len(candidates)
        law[truth, said] = prior[truth] * weight / whole
    apart = prior[:, None] * law.sum(dim=0)
    return float((law[law > 0] * (law[law > 0] / apart[law > 0]).log()).sum())


def random_priors(classes: int, count: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    scale = torch.linspace(0, 4, count, dtype=torch.float64)[:, None]
    return (scale * torch.randn(count, classes, generator=draw, dtype=torch.float64)).softmax(dim=1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_no_other_candidates_tell_more(classes: int, epsilon: float) -> None:
    priors = random_priors(classes, 12)
    sets = [some for size in range(1, classes + 1) for some in itertools.combinations(range(classes), size)]
    for prior, chosen in zip(priors, most_telling(priors, epsilon), strict=True):
        found = information(prior, tuple(chosen.nonzero().ravel().tolist()), epsilon)
        # Among as many classes, the likeliest: other sets of them may tell more, and are not asked.
        likeliest = prior.argsort(descending=True).tolist()
        best = max(information(prior, tuple(likeliest[:size]), epsilon) for size in range(1, classes + 1))
        assert found == pytest.approx(best, abs=1e-7)
        assert found >= 0.8 * max(information(prior, some, epsilon) for some in sets) - 1e-7


def test_all_classes_are_candidates_where_nothing_is_known_and_answers_are_true() -> None:
    assert bool(most_telling(torch.full((3, 6), 1 / 6), 8.0).all())
    assert bool(most_telling(random_priors(6, 20), 40.0).all())


def test_fewer_are_where_much_is_known_and_answers_are_noise() -> None:
    peaked = torch.tensor([[0.48, 0.48, 0.01, 0.01, 0.01, 0.01]], dtype=torch.float64)
    assert most_telling(peaked, 0.2).tolist() == [[True, True, False, False, False, False]]
    sizes = [int(most_telling(peaked, epsilon).sum()) for epsilon in (0.2, 2.0, 4.0, 8.0)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == 6


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.5, 5.0, 1e3, math.inf])
@pytest.mark.parametrize("classes", [1, 2, 7])
def test_there_is_always_a_candidate_and_it_is_among_the_likeliest(classes: int, epsilon: float) -> None:
    priors = torch.cat([random_priors(classes, 20), torch.eye(classes, dtype=torch.float64)])
    chosen = most_telling(priors, epsilon)
    assert chosen.shape == priors.shape
    assert bool(chosen.any(dim=1).all())
    assert bool(((priors >= priors.masked_fill(~chosen, 2.0).amin(dim=1, keepdim=True)) | ~chosen).all())
    assert bool((priors.masked_fill(chosen, 0.0).amax(dim=1) <= priors.masked_fill(~chosen, 2.0).amin(dim=1)).all())


def said(y: Tensor, epsilon: float, classes: int, seed: int = 0) -> Tensor:
    """ln Pr[answer | class] [m, c] of answers of randomised response to y, int64 [m]."""
    act, everybody = PriorResponse(epsilon, classes), torch.ones(len(y), classes, dtype=torch.bool)
    source = Seeded(seed)
    honest = torch.from_numpy(source.uniform(len(y))) < math.exp(epsilon) / (math.exp(epsilon) + classes - 1)
    other = (y + 1 + (torch.from_numpy(source.uniform(len(y))) * (classes - 1)).long()) % classes
    return act.log_chances(everybody, torch.where(honest, y, other)).float()


def ruled(count: int, classes: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Rows [n, 5], classes that are a rule of them, int64 [n], and log posteriors that know nothing, [n, c]."""
    x = torch.randn(count, 5, generator=torch.Generator().manual_seed(seed))
    return x, x[:, :classes].argmax(dim=1), torch.full((count, classes), -math.log(classes))


def test_a_rule_is_learnt_from_answers_of_which_half_are_wrong() -> None:
    torch.manual_seed(0)
    x, y, start = ruled(1800)
    nodes = torch.randperm(1800)[:1200]
    chances = said(y[nodes], 0.7, 3)
    assert 0.4 < float((chances.argmax(dim=1) == y[nodes]).float().mean()) < 0.6
    found = corrected(x, start, chances, nodes, shared_out(len(nodes)))
    assert found.gain > 3 * found.doubt > 0
    assert torch.allclose(found.beliefs.exp().sum(dim=1), torch.ones(1800), atol=1e-5)
    unseen = torch.ones(1800, dtype=torch.bool)
    unseen[nodes] = False
    assert float((found.beliefs.argmax(dim=1) == y)[unseen].float().mean()) > 0.75
    # Answers that nobody learnt from are likelier, and so are those of nodes whose networks did not see them.
    fresh = said(y, 0.7, 3, seed=1)
    assert (
        float(likeliness(found.beliefs, fresh)[unseen].mean()) > float(likeliness(start, fresh)[unseen].mean()) + 0.02
    )
    own = likeliness(found.beliefs[nodes], chances).mean() - likeliness(start[nodes], chances).mean()
    assert float(own) == pytest.approx(found.gain, rel=0.05)


def test_what_was_believed_before_is_corrected_and_not_forgotten() -> None:
    torch.manual_seed(1)
    _, y, _ = ruled(1500)
    start = (2.0 * torch.nn.functional.one_hot(y, 3) + torch.randn(1500, 3)).log_softmax(dim=1)
    nodes = torch.arange(300)
    found = corrected(torch.randn(1500, 5), start, said(y[nodes], 1.0, 3), nodes, shared_out(len(nodes)))
    right = [float((beliefs.argmax(dim=1) == y).float().mean()) for beliefs in (start, found.beliefs)]
    assert right[1] > right[0] - 0.05 > 0.6


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["alike", "lone candidates"])
def test_answers_that_say_nothing_change_nothing_at_all(kind: str, seed: int) -> None:
    torch.manual_seed(seed)
    x, start, nodes = torch.randn(400, 6), torch.randn(400, 5).log_softmax(dim=1), torch.arange(0, 400, 2)
    chances = torch.full((200, 5), -1.7)
    if kind == "lone candidates":
        only = torch.arange(200) % 5
        candidates = torch.nn.functional.one_hot(only, 5).bool()
        chances = PriorResponse(0.8, 5).log_chances(candidates, only).float()
    found = corrected(x, start, chances, nodes, shared_out(len(nodes)))
    assert torch.equal(found.beliefs, start)
    assert (found.gain, found.doubt) == (0.0, 0.0)


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_nodes_teach_nothing(count: int) -> None:
    x, y, start = ruled(6)
    nodes = torch.arange(count)
    assert torch.equal(corrected(x, start, said(y[nodes], 5.0, 3), nodes, shared_out(len(nodes))).beliefs, start)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_two_nodes_are_enough_to_run(count: int) -> None:
    torch.manual_seed(0)
    x, y, start = ruled(6)
    nodes = torch.arange(count)
    assert bool(corrected(x, start, said(y[nodes], 5.0, 3), nodes, shared_out(len(nodes))).beliefs.isfinite().all())


def test_a_node_is_judged_by_the_network_that_did_not_learn_from_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer has a say in when all of them stop, and in nothing else that is believed of it; here all run on."""
    monkeypatch.setattr(noisy_labels, "_PASSES", 3)
    x, y, start = ruled(400)
    nodes = torch.arange(0, 400, 2)
    chances = said(y[nodes], 3.0, 3)
    moved = chances.clone()
    moved[7] = chances[7].roll(1)
    found = []
    for answers in (chances, moved):
        torch.manual_seed(0)
        found.append(corrected(x, start, answers, nodes, shared_out(len(nodes))).beliefs)
    assert not torch.equal(found[0], start)
    same = (found[0] == found[1]).all(dim=1)
    assert bool(same[nodes[7]])
    # So it is for the quarter of the nodes that share its network; all others hear of the answer.
    assert int(same[nodes].sum()) == 50
    assert not bool(same[1::2].any())


def test_a_prior_counts_as_much_as_the_judges_answers_bear_out() -> None:
    truth = torch.arange(30) % 3
    right, wrong = 4.0 * torch.eye(3)[truth], 4.0 * torch.eye(3)[(truth + 1) % 3]
    heard, judges = torch.log(0.1 + 0.7 * torch.eye(3)[truth]), torch.arange(10)
    for network, prior, expected in ((wrong, right, wrong + right), (right, wrong, right)):
        assert torch.equal(joined(network, prior, heard, judges), expected.log_softmax(dim=1))
    assert torch.equal(joined(wrong, right, heard, torch.arange(0)), wrong.log_softmax(dim=1)), "without judges, none"


@pytest.mark.parametrize("rates", [(0.05, 0.0), (0.0, 0.05)])
def test_answers_left_out_choose_the_rate(rates: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noisy_labels, "_OWN_RATES", rates)
    torch.manual_seed(0)
    truth = torch.arange(300) % 3
    x, heard = torch.eye(3)[truth], torch.log(0.1 + 0.7 * torch.eye(3)[truth])
    module = nn.Linear(3, 3)
    judges = learn_from_answers(module, lambda: module(x), heard, torch.arange(200))
    assert len(judges) == 40
    assert bool((module(x).argmax(dim=1) == truth).all())
    assert not module.training
