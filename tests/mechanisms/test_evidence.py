"""What an answer tells an attacker: log-likelihood ratios, put to the test on samples of what mechanisms release.

If t = ln f(answer)/h(answer) exactly, then E_h[g(t) e^t] = E_f[g(t)] for every g. With g(t) = 1/(1 + e^(t - c)) both
sides are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
import torch
from scipy.special import expit

from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.mechanisms.community_assignment import Settling, Unsettled
from graphveil.mechanisms.contractive import Contractive
from graphveil.mechanisms.described import mechanisms
from graphveil.mechanisms.fixed_size import FixedSize
from graphveil.mechanisms.flipped_edges import Asked, FlippedEdges
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.mechanisms.geometric_count import Marks, Tally
from graphveil.mechanisms.heterpoisson import HeterPoissonSampling
from graphveil.mechanisms.laplace import Laplace
from graphveil.mechanisms.noisy_max import LaplaceMax, NoisyMax
from graphveil.mechanisms.noisy_votes import NoisyVotes
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.poisson import Poisson, SampledOnce
from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.mechanisms.randomised_response import RandomisedResponse
from graphveil.mechanisms.singular_values import SingularValues
from graphveil.mechanisms.sml import Sml
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.mechanisms.top_pairs import Ranked, TopPairs
from graphveil.mechanisms.unprotected import Exposed
from graphveil.nn.aggregate import NeighbourSums
from graphveil.privacy.noise import Seeded
from graphveil.vocabulary import Floats, Mechanism, Query

HERE, THERE = cast(Sealed, True), cast(Sealed, False)
RUNS = 600


@dataclass(frozen=True, eq=False)
class Rows:
    rows: torch.Tensor

    def clipped_sum(self, clip: float) -> torch.Tensor:  # noqa: ARG002
        return self.rows.double().sum(dim=0)


def named(part: Any) -> str:
    """A test's name must be the same in every process: functions have none."""
    return str(part) if isinstance(part, Mechanism) else ""


def joined(yes: Any, nodes: int = 5) -> Csr:
    """A path, whose first edge is there if `yes`."""
    ends = np.arange(0 if yes else 1, nodes - 1)
    return Csr.from_edge_index(np.r_[ends, ends + 1], np.r_[ends + 1, ends], nodes)


def moved(yes: Any, width: int = 3) -> Rows:
    return Rows(torch.full((1, width), 0.6 * bool(yes)))


def unsettled(yes: Any) -> Unsettled:
    lean = np.random.default_rng(0).normal(size=(5, 3))
    return Unsettled(joined(yes), np.array([0, 1, 2, 0, 1]), lean, np.array([3, 0, 4, 1, 2]))


def sampled(yes: Any, batch: torch.Tensor) -> Rows:
    return Rows(0.9 * (batch == 0).double()[:, None].repeat(1, 2) * bool(yes))


def posteriors(yes: Any, uses: int = 1) -> torch.Tensor:
    return torch.tensor([[0.7, 0.2, 0.1]] if yes else [[0.1, 0.6, 0.3]]).repeat(uses, 1)


def taught(yes: Any, batches: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([posteriors(yes and bool((batch == 0).any())) for batch in batches])


def taught_once(yes: Any, batch: torch.Tensor) -> torch.Tensor:
    return posteriors(yes and bool((batch == 0).any()), 3)


def votes(yes: Any) -> torch.Tensor:
    return torch.tensor([[0, 0, 1, 2, 1 if yes else 0]])


def staged(yes: Any, changed: int) -> Stages:
    """Two records in two stages; the second may choose what the first said, and the class after that."""
    truths = torch.tensor([2, 1])
    truths[changed] = 2 if yes else 0

    def candidates(said: torch.Tensor) -> torch.Tensor:
        following = torch.stack([said[0], (said[0] + 1) % 3]).clamp(min=0)
        return torch.ones(2, 3).bool() if said[0] < 0 else torch.zeros(2, 3).bool().index_fill(1, following, True)

    return Stages(truths, torch.tensor([0, 1]), candidates)


CANDIDATES = torch.tensor([[True, False, True], [True, True, True]])
EXACT: list[tuple[Mechanism, Query, int | None]] = [
    (Gaussian(1.0), moved, None),
    (Gaussian(4.0, clip=0.5), moved, None),
    (Laplace(1.5), lambda yes: moved(yes).rows, None),
    (Sml(1.0), partial(moved, width=1), None),
    (Sml(2.0), partial(moved, width=3), None),
    (Sml(10.0, clip=0.5), partial(moved, width=400), None),
    (Tally(2.0, marks=2), lambda yes: Marks(np.array([[0, 1], [2, 2], [3, 1]])[0 if yes else 1 :], 5), None),
    (RandomisedResponse(1.0, 4), lambda yes: torch.tensor([2 if yes else 0, 1]), None),
    (PriorResponse(1.0, 3), lambda yes: Choices(torch.tensor([2 if yes else 0, 1]), CANDIDATES), None),
    (PriorResponse(0.5, 3), lambda yes: Choices(torch.tensor([1, 2 if yes else -1]), CANDIDATES), None),
    (StagedResponse(1.0, 3), partial(staged, changed=0), None),
    (StagedResponse(0.7, 3), partial(staged, changed=1), None),
    (OneBit(1.5), lambda yes: torch.tensor([0.8 if yes else -0.3, 0.1]), None),
    (FlippedEdges(1.0), lambda yes: Asked(joined(yes), 0.7), None),
    (FlippedEdges(0.5, undirected=False), lambda yes: Asked(joined(yes), 1.0), None),
    (NoisyMax(0.5, 3), posteriors, None),
    (LaplaceMax(0.5, 3), posteriors, None),
    (NoisyVotes(1.0, 3), votes, None),
    (NoisyVotes(2.0, 3, gaussian=True), votes, None),
    (Settling(1.0), unsettled, None),
    (Poisson(Gaussian(1.0), 0.3, 6), sampled, None),
    (Poisson(Laplace(1.0), 0.3, 6), lambda yes, batch: sampled(yes, batch).rows, None),
    (Poisson(NoisyMax(0.4, 3), 0.4, 6), taught, 4),
    (SampledOnce(NoisyMax(0.4, 3), 0.4, 6), taught_once, 3),
    (Contractive(0.5, 1), lambda yes: NeighbourSums(joined(yes), torch.eye(5)[:, :2]), None),
]
ROUGH: list[tuple[Mechanism, Query, int | None]] = [
    (FixedSize(Gaussian(1.0), 3, 6), lambda yes, batch: Rows(sampled(True, batch).rows * (1 if yes else -1)), None),
    (Contractive(0.3, 4, lipschitz=0.8), lambda yes: NeighbourSums(joined(yes), torch.eye(5)[:, :2]), None),
    (TopPairs(0.5), lambda yes: Ranked(joined(yes), 4), None),
    (SingularValues(1.0, 2), lambda yes: joined(yes), None),
    (Exposed(), lambda yes: joined(yes).edge_index(), None),
]


def told(act: Mechanism, query: Query, uses: int | None, used: Sealed, runs: int) -> Floats:
    """What `runs` releases about one of the two worlds tell."""
    source = Seeded(7 + bool(used))
    many: Callable[[], torch.Tensor] = (
        (lambda: act.apply(used, query, source))
        if uses is None
        else (lambda: act.apply_many(used, query, source, uses))
    )
    return np.array([act.evidence(HERE, THERE, query, many(), uses) for _ in range(runs)])


@pytest.mark.parametrize(("act", "query", "uses"), EXACT, ids=named)
def test_told_is_the_log_likelihood_ratio(act: Mechanism, query: Query, uses: int | None) -> None:
    here, there = (told(act, query, uses, used, RUNS) for used in (HERE, THERE))
    assert here.std() > 0
    for shift in (-1.0, 0.0, 1.0):
        left, right = np.exp(shift) * expit(there - shift), expit(shift - here)
        error = np.hypot(left.std(), right.std()) / RUNS**0.5
        assert abs(left.mean() - right.mean()) < 5 * error + 1e-9
    assert here.mean() > there.mean()


@pytest.mark.parametrize(("act", "query", "uses"), ROUGH, ids=named)
def test_told_is_larger_for_answers_from_here(act: Mechanism, query: Query, uses: int | None) -> None:
    here, there = (told(act, query, uses, used, 400) for used in (HERE, THERE))
    assert (here[:, None] > there).mean() + (here[:, None] == there).mean() / 2 > 0.55


@pytest.mark.parametrize(("act", "query", "uses"), [case for case in EXACT + ROUGH if case[0] != Exposed()], ids=named)
def test_equal_graphs_cannot_be_told_apart(act: Mechanism, query: Query, uses: int | None) -> None:
    """At epsilon 0, where both graphs are the same, nothing is told whatever is released."""

    def blind(_: Any, **given: Any) -> Any:
        return query(HERE, **given)

    np.testing.assert_allclose(told(act, blind, uses, HERE, 5), 0.0, atol=1e-9)


def test_no_noise_is_told_with_certainty() -> None:
    for act in (Gaussian(0.0), Sml(0.0)):
        assert told(act, moved, None, HERE, 1) == np.inf
        assert told(act, moved, None, THERE, 1) == -np.inf


def star(yes: Any, nodes: int = 12) -> Sealed:
    """Node 0 is heard by all others if `yes`, and is not there otherwise."""
    others = np.arange(1, nodes)
    adj = Csr.from_edge_index(np.zeros_like(others), others, nodes) if yes else Csr.empty(nodes)
    public = Public.blank(nodes, 1, 2, undirected=False, num_train=nodes)
    public = Public(**{**vars(public), "degrees": np.r_[nodes - 1, np.zeros(nodes - 1, np.int64)]})
    labels = torch.zeros(nodes, dtype=torch.int64)
    labels[0] = 0 if yes else -1
    return Sealed(torch.zeros(nodes, 1), labels, adj, public)


def test_kept_nodes_of_subgraphs_are_told() -> None:
    act = HeterPoissonSampling(Gaussian(0.5, clip=0.5), 0.4, 4.0, 1.0, 12)
    here, there = star(True), star(False)

    def kept(_: Sealed, batch: Any) -> Rows:
        return Rows((batch.nodes == 0).sum() * torch.ones(1, 2) * 0.5)

    scores = {}
    for used in (here, there):
        source = Seeded(3)
        with here.opened(), there.opened():
            answers = [act.apply(used, kept, source) for _ in range(150)]
            scores[used is here] = np.array([act.evidence(here, there, kept, answer) for answer in answers])
    assert (scores[True][:, None] > scores[False]).mean() > 0.6


def test_every_mechanism_can_be_audited() -> None:
    known = {type(act) for act, _, _ in EXACT + ROUGH} | {HeterPoissonSampling}
    assert set(mechanisms().values()) == known
