"""What outsiders heard is evidence as far as it stands out of the noise."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.node.parts.vote_evidence import VoteEvidence

NODES, CLASSES, NOISE = 400, 20, 7.0


def links() -> sp.csr_array:
    """About 16 to every outsider."""
    drawn = sp.random_array((NODES, NODES), density=0.02, rng=np.random.default_rng(0), format="csr")
    return sp.csr_array(((drawn + drawn.T) > 0).astype(np.float64))


def moved(told: torch.Tensor, beliefs: torch.Tensor) -> float:
    """How far what was heard moves scores on average."""
    shift = VoteEvidence.of(links(), told, Gaussian(NOISE)).posterior(beliefs, passed_on=False) - beliefs
    return float((shift - shift.mean(dim=1, keepdim=True)).abs().mean())


def test_noise_alone_is_no_evidence() -> None:
    """It moved scores by 0.8 where regression took no noise to deviate by more than labels do."""
    chance = torch.Generator().manual_seed(0)
    noise = NOISE * torch.randn(NODES, CLASSES, generator=chance, dtype=torch.float64)
    beliefs = (3 * torch.randn(NODES, CLASSES, generator=chance, dtype=torch.float64)).log_softmax(dim=1)
    assert moved(4 / CLASSES + noise, beliefs) < 0.01
    own = torch.nn.functional.one_hot(beliefs.argmax(dim=1), CLASSES)
    assert moved(40 * own + noise, beliefs) > 1
