"""Learning from answers whose noise is known: the likelihood of what was said, not of what is true.

Forward correction (Patrini et al. 2017) with the exact law of every answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from graphveil.nn.fit import VAST
from graphveil.nn.mlp import Dropout
from graphveil.nn.rows import Rows, blocks, in_blocks, many
from graphveil.runtime.compute import HERE, Run
from graphveil.runtime.progress import QUIET, Progress
from graphveil.vocabulary import State

_CPU = torch.device("cpu")
_FOLDS = 4
_HIDDEN = 128
_PASSES = 40
_PATIENCE = 5
_RATE = 2e-3
_DECAY = 1e-4
_READ = 100_000
"""Answers that a pass reads, at most."""
_JUDGES = 1 << 15
"""Answers that a network leaves out and is judged by, at most."""
_OWN_RATES, _OWN_DECAY, _OWN_PASSES, _OWN_PATIENCE = (0.01, 0.002), 5e-4, 200, 30
"""Of a network of somebody's own, which reads the whole graph in every step."""
_PRIOR_WEIGHTS = (0.0, 0.5, 1.0)
"""What a prior may count beside it."""
_LEFT_OUT = 5
"""One answer in so many tells when such a network stops."""
_ROUNDED = 1e-6
"""Likelihoods are float32: a smaller gain is one of rounding."""


def most_telling(prior: Tensor, epsilon: float) -> Tensor:
    """Among what each node should choose, bool [m, c]: its k likeliest classes, with k such that the answer tells most.

    The mutual information of truth and answer under `prior` [m, c], for randomised response among k classes.
    """
    ranked, order = prior.sort(dim=1, descending=True)
    inside = ranked.cumsum(dim=1).clamp(max=1.0)
    gains = []
    for size in range(1, prior.shape[1] + 1):
        lie = 1 / (math.expm1(min(epsilon, 50.0)) + size)
        truth, covered = 1 - (size - 1) * lie, inside[:, size - 1 : size]
        chances = ranked[:, :size] * (truth - lie) + covered * lie + (1 - covered) / size
        sure, rest = torch.tensor([truth, lie], device="cpu")
        silent = -(_plogp(sure) + (size - 1) * _plogp(rest))
        gains.append(-_plogp(chances).sum(dim=1) - covered[:, 0] * silent - (1 - covered[:, 0]) * math.log(size))
    sizes = torch.stack(gains, dim=1).argmax(dim=1) + 1
    return order.argsort(dim=1) < sizes[:, None]


def _plogp(chances: Tensor) -> Tensor:
    return chances * chances.clamp(min=1e-30).log()


class Corrections(nn.Module):
    """`count` perceptrons side by side, each of which corrects log posteriors that are given; they start at 0."""

    def __init__(self, count: int, width: int, classes: int) -> None:
        super().__init__()
        bound = width**-0.5
        self.inner = nn.Parameter(torch.empty(count, width, _HIDDEN).uniform_(-bound, bound))
        self.inner_bias = nn.Parameter(torch.zeros(count, 1, _HIDDEN))
        self.outer = nn.Parameter(torch.zeros(count, _HIDDEN, classes))
        self.outer_bias = nn.Parameter(torch.zeros(count, 1, classes))
        self.trust = nn.Parameter(torch.ones(count, 1, 1))
        self.dropout, self.input_dropout = Dropout(0.5), Dropout(0.1)

    def forward(self, x: Tensor, start: Tensor) -> Tensor:
        """Log posteriors [count, b, c], from rows [count, b, d] and what is corrected [count, b, c]."""
        h = torch.relu(torch.baddbmm(self.inner_bias, self.input_dropout(x), self.inner))
        return (self.trust * start + torch.baddbmm(self.outer_bias, self.dropout(h), self.outer)).log_softmax(dim=2)


@dataclass(frozen=True, eq=False)
class Corrected:
    """beliefs: log posteriors [n, c], those of training nodes from networks that did not see their answers;
    gains: by how much answers that were left out are likelier than before [folds, k]; says: what the networks make of
    other rows [n, d].
    """

    beliefs: Tensor
    gains: Tensor
    says: Callable[[Rows], Tensor]

    @property
    def gain(self) -> float:
        """The mean of the gains."""
        return float(self.gains.mean()) if self.gains.numel() else 0.0

    @property
    def doubt(self) -> float:
        """Its standard error."""
        return _error(self.gains)

    def beats(self, other: Corrected) -> bool:
        """Whether the same answers are likelier than under `other`, by more than one standard error."""
        more = self.gains - other.gains
        return float(more.mean()) > max(_error(more), _ROUNDED)


def _error(gains: Tensor) -> float:
    return float(gains.std()) / gains.numel() ** 0.5 if gains.numel() > 1 else 0.0


def shared_out(count: int, device: torch.device = _CPU) -> Tensor:
    """Which of the networks leaves each of `count` answers out, int64 [count]: drawn."""
    return torch.randperm(count).to(device) % max(min(_FOLDS, count), 1)


def corrected(x: Rows, start: Tensor, log_chances: Tensor, nodes: Tensor, parts: Tensor, run: Run = HERE) -> Corrected:
    """Log posteriors `start` [n, c], corrected by networks that read x [n, d] and learn from answers.

    log_chances: ln Pr[answer | class] [m, c] of the `nodes` int64 [m]; parts: as `shared_out` gives them. Each of four
    networks leaves a quarter of the answers out, and all stop where those are likeliest; of more than 100,000 answers a
    pass reads as many. If they are not likelier than before by more than one standard error, `start` stays.
    """
    folds = min(_FOLDS, len(nodes))
    if folds < 2:
        return Corrected(start, start.new_zeros(0), lambda _: start)
    size = min(int(torch.bincount(parts).min()), _JUDGES)
    left_out = torch.stack([(parts == part).nonzero().ravel()[:size] for part in range(folds)])
    seen = [(parts != part).nonzero().ravel() for part in range(folds)]
    least = min(_READ, *(len(rows) for rows in seen))
    net = Corrections(folds, x.shape[1], start.shape[1]).to(start.device)
    before = likeliness(start[nodes[left_out]], log_chances[left_out])
    best, gain = net.state_dict(), torch.zeros_like(before)
    optimiser = torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=_DECAY, fused=True)
    waited, batch = 0, min(max(least // 16, 16), 512, least)
    for _ in run.progress.track(range(_PASSES), "learning from answers"):
        net.train()
        shuffled = torch.stack([_drawn(rows, least) for rows in seen])
        for step in range(least // batch):
            rows = shuffled[:, step * batch : (step + 1) * batch]
            optimiser.zero_grad()
            loss = -likeliness(net(x[nodes[rows]], start[nodes[rows]]), log_chances[rows]).mean() * folds
            loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
            optimiser.step()
        now = _gains(net, x, start, log_chances, nodes, left_out, run.block) - before
        waited = 0 if now.mean() > gain.mean() else waited + 1
        if not waited:
            best, gain = {name: part.detach().clone() for name, part in net.state_dict().items()}, now
        if waited >= _PATIENCE:
            break
    if float(gain.mean()) <= max(_error(gain), _ROUNDED):
        return Corrected(start, torch.zeros_like(gain), lambda _: start)
    net.load_state_dict(best)
    net.eval()
    fold = torch.full((x.shape[0],), -1, device=start.device)
    fold[nodes] = parts

    def says(rows: Rows) -> Tensor:
        with torch.no_grad():
            return in_blocks(rows.shape[0], lambda part: _said(net, rows[part], start[part], fold[part]), run.block)

    return Corrected(says(x), gain, says)


def _drawn(rows: Tensor, count: int) -> Tensor:
    """`count` of the rows in any order; of a vast number nobody asks whether some are the same."""
    chosen = torch.randperm(len(rows))[:count] if len(rows) <= VAST else torch.randint(len(rows), (count,))
    return rows[chosen.to(rows.device)]


def learn_from_answers(
    module: nn.Module, forward: Callable[[], Tensor], log_chances: Tensor, nodes: Tensor, progress: Progress = QUIET
) -> Tensor:
    """Train a network on all nodes' rows by the likelihood of the answers: max sum_i ln sum_c p_i(c) Pr[answer_i | c].

    forward: logits [n, c] as the module is by then; log_chances: ln Pr[answer | class] [n, c] of the `nodes` int64 [m].
    A fifth of the answers is left out, and the weights under which those are likeliest stay, of all passes and rates.
    Gives the nodes of these answers.
    """
    order = nodes[torch.randperm(len(nodes)).to(nodes.device)]
    left_out, seen = order.tensor_split([len(order) // _LEFT_OUT])
    begun, tried = _weights_of(module), list[tuple[float, State]]()
    for rate in _OWN_RATES if len(left_out) else _OWN_RATES[:1]:
        module.load_state_dict(begun)
        tried.append(_descended(module, forward, log_chances, seen, left_out, rate, progress))
    module.load_state_dict(max(tried, key=lambda one: one[0])[1])
    module.eval()
    return left_out


def _descended(
    module: nn.Module,
    forward: Callable[[], Tensor],
    log_chances: Tensor,
    seen: Tensor,
    left_out: Tensor,
    rate: float,
    progress: Progress,
) -> tuple[float, State]:
    """How likely the answers left out became at best, and the weights of that pass; the last ones if there are none."""

    def likely(nodes: Tensor) -> Tensor:
        return likeliness(forward().log_softmax(dim=1)[nodes], log_chances[nodes])

    optimiser = torch.optim.Adam(module.parameters(), lr=rate, weight_decay=_OWN_DECAY)
    best, state, waited = -math.inf, _weights_of(module), 0
    for _ in progress.track(range(_OWN_PASSES), "learning from answers"):
        module.train()
        optimiser.zero_grad()
        (-likely(seen).mean()).backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimiser.step()
        module.eval()
        with torch.no_grad():
            now = float(likely(left_out).sum())
        waited = 0 if now > best else waited + 1
        if not waited:
            best, state = now, _weights_of(module)
        if waited >= _OWN_PATIENCE:
            break
    return best, state if len(left_out) else _weights_of(module)


def _weights_of(module: nn.Module) -> State:
    return {name: part.detach().clone() for name, part in module.state_dict().items()}


def joined(beliefs: Tensor, prior: Tensor, log_chances: Tensor, judges: Tensor) -> Tensor:
    """Log posteriors [n, c] of a network with as much of the prior's as makes the answers of `judges` likeliest."""
    mixed = [(beliefs + weight * prior).log_softmax(dim=1) for weight in _PRIOR_WEIGHTS]
    return max(mixed, key=lambda one: float(likeliness(one[judges], log_chances[judges]).sum()))


def likeliness(beliefs: Tensor, log_chances: Tensor) -> Tensor:
    """ln of the chance of each answer, given log posteriors [*, c] and ln Pr[answer | class] [*, c]."""
    return torch.logsumexp(beliefs + log_chances, dim=-1)


def _gains(
    net: Corrections, x: Rows, start: Tensor, chances: Tensor, nodes: Tensor, left_out: Tensor, block: int | None
) -> Tensor:
    """Of the answers left_out, int64 [folds, k], what each is likely by the network that left it out, [folds, k]."""

    def of(part: slice) -> Tensor:
        some = left_out[:, part]
        return likeliness(net(x[nodes[some]], start[nodes[some]]), chances[some])

    net.eval()
    with torch.no_grad():
        parts = blocks(left_out.shape[1], block) if many(x.shape[0]) else [slice(None)]
        return torch.cat([of(part) for part in parts], dim=1)


def _said(net: Corrections, x: Tensor, start: Tensor, fold: Tensor) -> Tensor:
    """What the networks say of some nodes, [b, c]: the one that left a node out, or all; fold: int64 [b], or -1."""
    found = torch.stack([_one(net, part, x, start) for part in range(len(net.inner))])
    own = found[fold.clamp(min=0), torch.arange(len(x), device=x.device)]
    return torch.where(fold[:, None] < 0, found.mean(dim=0).log_softmax(dim=1), own)


def _one(net: Corrections, part: int, x: Tensor, start: Tensor) -> Tensor:
    """What one of the networks says of some nodes, [b, c]."""
    h = torch.relu(x @ net.inner[part] + net.inner_bias[part])
    return (net.trust[part] * start + h @ net.outer[part] + net.outer_bias[part]).log_softmax(dim=1)
