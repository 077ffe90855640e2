"""Full-batch training of a torch module on data that is already public or released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from graphveil.runtime.progress import track


class ClassWeight(StrEnum):
    """What a node counts in the loss. EQUAL: all nodes alike; BALANCED: all classes alike, however many have them."""

    EQUAL = "equal"
    BALANCED = "balanced"

    def of(self, y: Tensor) -> Tensor | None:
        """For nodes with labels y, n / (classes that occur * nodes of the same class), in y's shape; None: all alike.

        Their mean is 1. What is learnt from here is public or released, so counting it costs nothing.
        """
        if self is ClassWeight.EQUAL:
            return None
        counts = torch.bincount(y.flatten())
        return y.numel() / (int((counts > 0).sum()) * counts[y].float())


@dataclass(frozen=True)
class Recipe:
    """How to train: Adam on cross-entropy, keeping the weights of the best validation epoch."""

    epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    patience: int = 50
    class_weight: str = "equal"


@dataclass(frozen=True, eq=False)
class Part:
    """A set of nodes to learn from or to check on: `logits()` [k, c] beside their labels `y` [k]."""

    logits: Callable[[], Tensor]
    y: Tensor


def fit(module: nn.Module, train: Part, val: Part, recipe: Recipe) -> None:
    """Train `module` on `train`, keeping the weights of the epoch that is best on `val`.

    Without validation nodes the last weights are kept.
    """
    learnt, checked = (ClassWeight(recipe.class_weight).of(part.y) for part in (train, val))
    optimiser = torch.optim.Adam(module.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    best, best_state, waited = (-1.0, 0.0), None, 0
    for _ in track(range(recipe.epochs), "training"):
        module.train()
        optimiser.zero_grad()
        _loss(train.logits(), train.y, learnt).backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimiser.step()
        if not len(val.y):
            continue
        quality = _quality(module, val, checked)
        waited = 0 if quality > best else waited + 1
        if quality > best:
            best = quality
            best_state = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
        if waited >= recipe.patience:
            break
    if best_state is not None:
        module.load_state_dict(best_state)
    module.eval()


def fit_rows(module: nn.Module, x: Tensor, y: Tensor, train: Tensor, val: Tensor, recipe: Recipe) -> None:
    """`fit` for a module that maps rows [n, d] to logits one by one.

    `train` and `val` are masks [n], in which ids without a label do not count.
    """
    train, val = train & (y >= 0), val & (y >= 0)
    x_train, x_val = x[train], x[val]
    fit(module, Part(lambda: module(x_train), y[train]), Part(lambda: module(x_val), y[val]), recipe)


@dataclass(frozen=True)
class Sweeps:
    """How to train in batches: `passes` over the data, `least` steps at least, and one cycle of the learning rate.

    Far fewer passes than full-batch training needs, so much less time, and no epoch has to be chosen.
    """

    passes: int = 10
    learning_rate: float = 3e-3
    weight_decay: float = 5e-4
    least: int = 100
    class_weight: str = "equal"

    def batches(self, rows: Tensor) -> Tensor:
        """Which rows every step reads, int64 [steps, batch, *]: each pass shuffles `rows` [k, *] anew."""
        size = min(max(len(rows) // 16, 16), 512, len(rows))
        each = len(rows) // size
        passes = max(self.passes, -(-self.least // each))
        orders = [rows[torch.randperm(len(rows))[: each * size]] for _ in range(passes)]
        return torch.cat(orders).view(-1, size, *rows.shape[1:])


def fit_in_batches(module: nn.Module, x: Tensor, y: Tensor, rows: Tensor, sweeps: Sweeps) -> None:
    """Train a module from inputs x [n, d] to logits on the nodes `rows`, int64 [k].

    rows may be [k, m] for a module of m networks that takes [batch, m, d] and gives [batch, m, c].
    """
    batches, counted = sweeps.batches(rows), ClassWeight(sweeps.class_weight).of(y[rows])
    by_node = None if counted is None else torch.ones(len(y)).index_put((rows,), counted)
    optimiser = torch.optim.Adam(module.parameters(), weight_decay=sweeps.weight_decay, fused=True)
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, sweeps.learning_rate, total_steps=len(batches))
    module.train()
    for step in track(range(len(batches)), "training"):
        batch = batches[step]
        optimiser.zero_grad()
        weights = None if by_node is None else by_node[batch].flatten()
        loss = _loss(module(x[batch]).flatten(0, -2), y[batch].flatten(), weights, "sum")
        (loss / len(batch)).backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimiser.step()
        cycle.step()
    module.eval()


def _loss(logits: Tensor, y: Tensor, counted: Tensor | None, reduction: str = "mean") -> Tensor:
    """Mean or sum of the cross-entropies of logits [k, c], by what every node counts, [k]."""
    if counted is None:
        return cross_entropy(logits, y, reduction=reduction)
    total = cross_entropy(logits, y, reduction="none") @ counted
    return total if reduction == "sum" else total / counted.sum()


def _quality(module: nn.Module, val: Part, counted: Tensor | None) -> tuple[float, float]:
    """(accuracy, -loss) on the validation nodes, by what each of them counts, [k]: loss breaks ties."""
    module.eval()
    with torch.no_grad():
        logits = val.logits()
        right = (logits.argmax(dim=1) == val.y).double()
        accuracy = right.mean() if counted is None else right @ counted.double() / counted.sum()
        return float(accuracy), -float(_loss(logits, val.y, counted))
