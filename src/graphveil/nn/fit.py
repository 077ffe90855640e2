"""Full-batch training of a torch module on data that is already public or released."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from graphveil.nn.mlp import counted
from graphveil.nn.recorded import Recorded
from graphveil.nn.rows import Rows
from graphveil.nn.targets import Targets
from graphveil.runtime.counter_rng import CounterRng
from graphveil.runtime.progress import QUIET, Progress


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


def fit(module: nn.Module, train: Part, val: Part, recipe: Recipe, progress: Progress = QUIET) -> None:
    """Train `module` on `train`, keeping the weights of the epoch that is best on `val`.

    Without validation nodes the last weights are kept.
    """
    learnt, checked = (ClassWeight(recipe.class_weight).of(part.y) for part in (train, val))
    optimiser = torch.optim.Adam(module.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay)
    best, best_state, waited = (-1.0, 0.0), None, 0
    for _ in progress.track(range(recipe.epochs), "training"):
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


def fit_rows(
    module: nn.Module, x: Tensor, y: Tensor, train: Tensor, val: Tensor, recipe: Recipe, progress: Progress = QUIET
) -> None:
    """`fit` for a module that maps rows [n, d] to logits one by one.

    `train` and `val` are masks [n], in which ids without a label do not count.
    """
    train, val = train & (y >= 0), val & (y >= 0)
    x_train, x_val = x[train], x[val]
    fit(module, Part(lambda: module(x_train), y[train]), Part(lambda: module(x_val), y[val]), recipe, progress)


@dataclass(frozen=True)
class Sweeps:
    """How to train in batches: `passes` over the data, `least` steps at least, and one cycle of the learning rate.

    Far fewer passes than full-batch training needs, so much less time, and no epoch has to be chosen. Beyond 100,000
    rows (`MANY`) so many passes rarely help: see `cycles`.
    """

    passes: int = 10
    learning_rate: float = 3e-3
    weight_decay: float = 5e-4
    least: int = 100
    class_weight: str = "equal"
    most: int = 4096
    """Steps over many rows, at most: by then eight million were read."""

    def batches(self, rows: Tensor) -> Tensor:
        """Which rows every step reads, int64 [steps, batch, *]: each pass shuffles `rows` [k, *] anew."""
        size = min(max(len(rows) // 16, 16), 512, len(rows))
        each = len(rows) // size
        passes = max(self.passes, -(-self.least // each))
        orders = [rows[torch.randperm(len(rows))[: each * size].to(rows.device)] for _ in range(passes)]
        return torch.cat(orders).view(-1, size, *rows.shape[1:])

    def cycles(self, rows: int) -> list[int]:
        """Steps of every cycle of the learning rate over many rows; together they make `passes` over all of them.

        The first two read as much as `passes` over `MANY` rows do, each later one as much as all before it, and the
        last whatever is left, up to three times that.
        """
        left, size = min(self.passes * rows // _LARGE, self.most), self.passes * MANY // _LARGE
        found = [size if left >= 2 * size else left]
        while left > sum(found):
            so_far = sum(found)
            found.append(so_far if left >= 4 * so_far else left - so_far)
        return found


VAST = 1 << 22
"""Rows beyond which nobody shuffles them."""
_AHEAD = 256
"""Batches of them that are drawn at a time."""
MANY = 100_000
"""Rows up to which every pass is made."""
_LARGE = 2048
"""Rows of a batch beyond, at a learning rate that is twice as large."""
_JUDGES = 1 << 14
"""Rows that say whether a cycle helped, at most, and at most one in `_ONE_IN` of all: no step reads them."""
_ONE_IN = 32
_HELPED = 0.002
"""By what share of itself the judges' loss must fall for another cycle."""


def fit_in_batches(
    module: nn.Module, x: Rows, y: Tensor, rows: Tensor, sweeps: Sweeps, progress: Progress = QUIET
) -> None:
    """Train a module from inputs x [n, d] to logits on the nodes `rows`, int64 [k].

    rows may be [k, m] for a module of m networks that takes [batch, m, d] and gives [batch, m, c].
    """
    targets = Targets(y, _by_node(y, rows, sweeps.class_weight))
    if len(rows) <= MANY:
        batches, optimiser = sweeps.batches(rows), _adam(module, sweeps)
        _cycle(module, optimiser, x, targets, batches, len(batches), sweeps.learning_rate, progress)
        return
    chance = CounterRng.drawn(rows.device)
    if len(rows) <= VAST:
        rows = rows[torch.randperm(len(rows)).to(rows.device)]
        judges, rows = rows.tensor_split([min(len(rows) // _ONE_IN, _JUDGES)])
    else:
        judges = rows[chance.stream(0).below(_JUDGES, len(rows))]
    with counted(module, chance.stream(1)):
        cycle = _cycles(module, x, targets, sweeps, chance.turn, progress)
        loss, drawn = math.inf, _endless(rows, chance)
        for steps in sweeps.cycles(len(rows)):
            cycle(drawn, steps, 2 * sweeps.learning_rate)
            before, loss = loss, _mean_loss(module, x, targets, judges)
            if not loss < (1 - _HELPED) * before:
                break


def _adam(module: nn.Module, sweeps: Sweeps) -> torch.optim.Adam:
    return torch.optim.Adam(module.parameters(), weight_decay=sweeps.weight_decay, fused=True)


def _cycles(
    module: nn.Module, x: Rows, targets: Targets, sweeps: Sweeps, turn: Tensor, progress: Progress
) -> Callable[[Iterator[Tensor], int, float], None]:
    """What makes one cycle of steps: on a GPU one step is recorded, and then replayed."""
    if turn.device.type != "cpu":
        return Recorded(module, x, targets, sweeps.weight_decay, turn, progress).cycle
    optimiser = _adam(module, sweeps)

    def cycle(batches: Iterator[Tensor], steps: int, learning_rate: float) -> None:
        _cycle(module, optimiser, x, targets, batches, steps, learning_rate, progress, turn)

    return cycle


def _endless(rows: Tensor, chance: CounterRng) -> Iterator[Tensor]:
    """Batches of `rows` [k, *] without an end: shuffled anew for every pass, the rest of which is left out.

    Of a vast number of rows, any of them at any time: most are never read, and to shuffle them would take longer.
    """
    drawn = replace(chance.stream(2), turn=torch.zeros_like(chance.turn))
    while len(rows) > VAST:
        yield from rows[drawn.below(_AHEAD * _LARGE, len(rows))].view(_AHEAD, _LARGE, *rows.shape[1:])
        drawn.turn.add_(1)
    while True:
        order = torch.randperm(len(rows))[: len(rows) // _LARGE * _LARGE].to(rows.device)
        yield from rows[order].view(-1, _LARGE, *rows.shape[1:])


def _cycle(
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    x: Rows,
    targets: Targets,
    batches: Iterable[Tensor],
    steps: int,
    learning_rate: float,
    progress: Progress,
    turn: Tensor | None = None,
) -> None:
    """One step for each of the first `steps` batches, in one cycle of the learning rate; turn: counts the steps."""
    cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps)
    module.train()
    tracked = progress.track(range(steps), "training", rows=_LARGE if turn is not None else 0)
    for _, batch in zip(tracked, batches, strict=False):
        optimiser.zero_grad()
        loss = targets.loss(module(x[batch]), batch)
        (loss / len(batch)).backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimiser.step()
        cycle.step()
        if turn is not None:
            turn.add_(1)
    module.eval()


def _by_node(y: Tensor, rows: Tensor, class_weight: str) -> Tensor | None:
    """What every node counts, [n], where `rows` int64 [k, *] are learnt from; None: all alike."""
    counts = None if class_weight == ClassWeight.EQUAL else ClassWeight(class_weight).of(y[rows])
    return None if counts is None else torch.ones(len(y), device=y.device).index_put((rows,), counts)


def _mean_loss(module: nn.Module, x: Rows, targets: Targets, rows: Tensor) -> float:
    """Cross-entropy of a trained module on rows that it has not seen, by what each counts."""
    with torch.no_grad():
        return float(targets.loss(module(x[rows]), rows)) / rows.numel()


def _loss(logits: Tensor, y: Tensor, counts: Tensor | None) -> Tensor:
    """Mean of the cross-entropies of logits [k, c], by what every node counts, [k]."""
    if counts is None:
        return cross_entropy(logits, y)
    return cross_entropy(logits, y, reduction="none") @ counts / counts.sum()


def _quality(module: nn.Module, val: Part, counts: Tensor | None) -> tuple[float, float]:
    """(accuracy, -loss) on the validation nodes, by what each of them counts, [k]: loss breaks ties."""
    module.eval()
    with torch.no_grad():
        logits = val.logits()
        right = (logits.argmax(dim=1) == val.y).double()
        accuracy = right.mean() if counts is None else right @ counts.double() / counts.sum()
        return float(accuracy), -float(_loss(logits, val.y, counts))
