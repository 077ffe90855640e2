"""LP-2ST (Ghazi et al. 2021): randomised response of some labels, and of the others with what was learnt as prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from graphveil.checks import require_whole
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.staged_response import StagedResponse, Stages
from graphveil.methods.network import Network
from graphveil.nn.coordinates import both_ways, smoothed
from graphveil.nn.features import Scaling
from graphveil.nn.fit import Sweeps, fit_in_batches
from graphveil.nn.mlp import Perceptron, predicted
from graphveil.privacy.session import Session
from graphveil.runtime.progress import QUIET, Progress
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit


@dataclass(frozen=True)
class Lp2st(Network):
    """Labels of a first part by randomised response, a perceptron on them, and the rest among its likelier classes.

    It reads S^hops X with S = D^-1/2 (A + I) D^-1/2, all of it public, and learns in the end from all answers as they
    are. The whole budget is 1 / noise, for whichever part a node is in.
    """

    subtitle = "randomised response with learnt priors, in two stages"
    units = frozenset({Unit.LABEL})

    epochs: int = 20
    """Passes over the answers, at least 1."""
    learning_rate: float = 3e-3
    """Largest step size of Adam, above 0."""
    hops: int = 2
    """How often features are averaged over neighbours; 0 leaves the graph unread."""
    first: float = 0.5
    """Share of the training nodes that is asked without a prior, in (0, 1]; 1 asks all of them so."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, "hops")
        if self.hops < 0 or not 0 < self.first <= 1:
            raise InvalidInput("lp2st needs hops of at least 0 and first in (0, 1]")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        act = StagedResponse(1 / noise if noise > 0 else math.inf, public.num_classes)
        return Plan(adjacency, reading, (Step("answers", act, act.curve(1), 1, why="docs/methods/lp2st.md"),))

    def fit(self, session: Session) -> State:
        public = session.public
        x, places = self._rows(public), public.train.nonzero().ravel()
        # Who is asked first is drawn by public chance.
        stage = (torch.randperm(len(places)) >= self.first * len(places)).long()
        epsilon = session.plan.act("answers", StagedResponse).epsilon
        candidates = partial(self._candidates, x[places], public.num_classes, epsilon, torch.initial_seed())
        said = session.release("answers", partial(_asked, stage=stage, candidates=candidates))[:, 0]
        net = self._learnt(x[places], said, public.num_classes, session.run.progress)
        return {"logits": predicted(net, x)}

    def _rows(self, public: Public) -> Tensor:
        """What the network reads of every node, float32 [n, d]."""
        x = public.features()
        own = Scaling.fit(x, self.scale)(x)
        return [own, *smoothed(own, both_ways(public.arcs()), self.hops)][-1]

    def _candidates(self, x: Tensor, classes: int, epsilon: float, seed: int, said: Tensor) -> Tensor:
        """Among what each node may choose, bool [m, c], once those with `said` >= 0, int64 [m], have spoken."""
        if not bool((said >= 0).any()):
            return torch.ones(len(said), classes, dtype=torch.bool)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return likely_right(predicted(self._learnt(x, said, classes), x).softmax(dim=1), epsilon)

    def _learnt(self, x: Tensor, said: Tensor, classes: int, progress: Progress = QUIET) -> Perceptron:
        """A perceptron that learnt what was said, int64 [m], of rows [m, d]."""
        net = Perceptron((x.shape[1], *[self.hidden] * (self.layers - 1), classes), self.dropout)
        rows = (said >= 0).nonzero().ravel()
        if len(rows):
            sweeps = Sweeps(self.epochs, self.learning_rate, self.weight_decay, 1, self.class_weight)
            fit_in_batches(net, x, said, rows, sweeps, progress)
        return net.eval()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        return cls(hidden=4, epochs=1), cls(layers=1, epochs=1, hops=0, first=0.3)


def likely_right(prior: Tensor, epsilon: float) -> Tensor:
    """The k likeliest classes of each node, bool [m, c], k such that its answer is right with the largest chance.

    RRWithPrior (Ghazi et al. 2021, Algorithm 2): k maximises e^epsilon / (e^epsilon + k - 1) times what `prior` [m, c]
    gives to the k likeliest.
    """
    ranked, order = prior.sort(dim=1, descending=True)
    right = ranked.cumsum(dim=1) / (1 + math.exp(-epsilon) * torch.arange(prior.shape[1]))
    return order.argsort(dim=1) <= right.argmax(dim=1, keepdim=True)


def _asked(sealed: Sealed, stage: Tensor, candidates: partial[Tensor]) -> Stages:
    """Query: the training nodes' labels."""
    return Stages(sealed.y[sealed.public.train], stage, candidates)
