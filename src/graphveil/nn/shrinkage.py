"""A linear classifier from noisy class sums: regression whose shrinkage is fitted to what was released."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from graphveil.vocabulary import Floats


def shrunk_weights(sums: Tensor, gram: Tensor, noise: float) -> Tensor:
    """W [q, c] such that rows @ W are shares of classes, from S = R^T Y + N(0, noise^2); float64.

    gram: R^T R [q, q], or what stands for it. With its eigenvectors U and values g, weights that are N(0, tau) and
    labels that deviate by s from what is linear, entry i of U^T S has variance v_i = g_i^2 tau + g_i s^2 + noise^2, and
        (U^T W)_i = tau g_i / v_i (U^T S)_i
    is the posterior mean. tau and s^2 maximise the likelihood of S: no noise is taken for a signal.
    """
    values, vectors = (part.numpy() for part in torch.linalg.eigh(gram.double().cpu()))
    values = np.maximum(values, 1e-9 * max(float(values.max(initial=0.0)), 1e-300))
    seen = vectors.T @ sums.double().cpu().numpy()
    squares, classes = np.square(seen).sum(axis=1), seen.shape[1]

    def variances(logs: Floats) -> Floats:
        spread, rest = np.exp(np.clip(logs, -40, _MAX))
        return np.asarray(values**2 * spread + values * rest + noise**2 + 1e-12)

    def loss(logs: Floats) -> float:
        found = variances(logs)
        return float(0.5 * (classes * np.log(found) + squares / found).sum())

    starts = [np.array([spread, rest]) for spread in (-4.0, 0.0) for rest in (-3.0, 0.0)]
    best = min((minimize(loss, start, method="Nelder-Mead") for start in starts), key=lambda found: float(found.fun))
    factors = np.exp(np.clip(best.x, -40, _MAX)[0]) * values / variances(best.x)
    return torch.from_numpy(vectors @ (factors[:, None] * seen)).to(sums.device)


def posteriors(scores: Tensor) -> Tensor:
    """Scores that estimate shares of classes as probabilities, none of them 0, [n, c]."""
    classes = scores.shape[1]
    shares = scores.clamp(min=_MIN / classes)
    return shares / shares.sum(dim=1, keepdim=True)


_MAX = np.array([40.0, 0.0])
"""ln tau and ln s^2: labels are 0 or 1 and deviate by no more than 1, else s could explain away any signal."""
_MIN = 0.1
"""Before they sum to 1, none is less than this share of an even chance."""
