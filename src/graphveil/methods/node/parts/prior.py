"""Shares of the classes, and whether a model serves training nodes better than naming the largest one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graphveil.data.sealing import Sealed
from graphveil.methods.class_sums import ClassSums
from graphveil.nn.aggregate import clip_rows


def class_counts(sealed: Sealed) -> ClassSums:
    """Query: how many training nodes each class has."""
    labels = sealed.y[sealed.public.train]
    return ClassSums(torch.ones(len(labels), 1, device=labels.device), labels, sealed.public.num_classes)


def log_shares(counts: Tensor, noise: float) -> Tensor:
    """Log shares of classes, [c], from noisy counts; none is believed to be rarer than the noise allows to tell."""
    least = counts.clamp(min=max(noise, 1.0))
    return (least / least.sum()).log()


@dataclass(frozen=True, eq=False)
class Gains:
    """What training nodes gain from each of k models over naming the largest class, as `Contributions`.

    named: classes that the models name, int64 [m, k]; largest: a class; labels: int64 [m], -1 adds nothing.
    """

    named: Tensor
    largest: Tensor
    labels: Tensor

    def clipped_sum(self, clip: float) -> Tensor:
        """Sum over nodes of 1 where a model is right and the largest class is wrong, less the opposite, [k]."""
        labels = self.labels[:, None]
        gains = (self.named == labels).double() - (self.largest == labels).double()
        return clip_rows(gains * (labels >= 0), clip).sum(dim=0)
