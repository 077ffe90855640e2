"""LPGNN (Sajadmanesh & Gatica-Perez, CCS 2021): every node adds noise to its own features and label; features level."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from graphveil.checks import require_positive, require_whole
from graphveil.data.sealing import OUTSIDE_UNPROTECTED, Public, Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.one_bit import OneBit
from graphveil.mechanisms.prior_response import Choices, PriorResponse
from graphveil.methods.method import Method
from graphveil.nn.aggregate import Operator
from graphveil.nn.coordinates import both_ways
from graphveil.nn.features import one_scale
from graphveil.nn.fit import Part, Recipe, fit
from graphveil.nn.gnn import SageLayer, Stack, mean_operator, walk_operator
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_WHY = "docs/methods/lpgnn.md"
_EPSILON_OF_A_BIT = 2.18
"""The authors' rule: bits of about this epsilon have the least variance together."""
_HELD = 10
"""One answer in so many is not learnt from, and says when to stop."""


@dataclass(frozen=True)
class Lpgnn(Method):
    """A training node tells one bit of a few features, and its label by randomised response; SAGE learns from that.

    Both are averaged over neighbours first (KProp): X~ = W^feature_hops X' and Y~ = W^label_hops Y' with
    W = D^-1/2 A D^-1/2; the loss compares Y~ with what the network's posteriors become by the same noise and averaging
    (Drop). The whole budget is 1 / noise: `label_share` of it for the label, the rest for the features.
    """

    subtitle = "locally perturbed features and labels, averaged over neighbours"
    units = frozenset({Unit.FEATURES})

    bits: int = 0
    """Features of which a node tells one bit each; 0 takes one for every 2.18 of their epsilon, at least 1."""
    label_share: float = 0.9
    """Of the budget, what the label gets, strictly between 0 and 1."""
    feature_hops: int = 8
    """How often noisy features are averaged over neighbours, at least 0."""
    label_hops: int = 2
    """How often noisy labels are averaged over neighbours, at least 0."""
    hidden: int = 16
    """Width of the hidden layer, at least 1."""
    dropout: float = 0.5
    """Share of the hidden layer's entries that is silenced in training, in [0, 1)."""
    epochs: int = 100
    """Passes over the training nodes, at most; it stops early on noisy labels that it does not learn from."""
    learning_rate: float = 0.01
    """Step size of Adam, above 0."""
    weight_decay: float = 5e-4
    """Weight of the squares of the weights in the loss."""

    def __post_init__(self) -> None:
        require_whole(self, "bits", "feature_hops", "label_hops", "hidden", "epochs")
        if min(self.bits, self.feature_hops, self.label_hops) < 0 or min(self.hidden, self.epochs) < 1:
            raise InvalidInput("lpgnn needs bits and hops of at least 0, hidden and epochs of at least 1")
        if not 0 < self.label_share < 1 or not 0 <= self.dropout < 1:
            raise InvalidInput("lpgnn needs label_share strictly between 0 and 1, and dropout in [0, 1)")
        require_positive(self.learning_rate, "learning_rate")

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> Plan:
        whole = 1 / noise if noise > 0 else math.inf
        bits = self._bits(public.num_features, (1 - self.label_share) * whole)
        bit = OneBit((1 - self.label_share) * whole / bits)
        label = PriorResponse(self.label_share * whole, public.num_classes)
        return Plan(
            adjacency,
            reading,
            (
                Step("bits", bit, bit.curve(1), bits, why=_WHY, assumes=(OUTSIDE_UNPROTECTED,)),
                Step("labels", label, label.curve(1), 1, why=_WHY),
            ),
        )

    def _bits(self, features: int, epsilon: float) -> int:
        """How many features of d a node tells a bit of."""
        if self.bits > features:
            raise InvalidInput(f"lpgnn: bits={self.bits} of {features} feature(s); use at most {features}, or 0")
        return self.bits or max(1, int(min(features, epsilon / _EPSILON_OF_A_BIT)))

    def fit(self, session: Session) -> State:
        public, arcs = session.public, both_ways(session.public.arcs())
        walk, mean = walk_operator(arcs), mean_operator(arcs)
        x = one_scale(averaged(walk, self._features(session), self.feature_hops))
        said, flips = self._labels(session)
        places = public.train.nonzero().ravel()
        places = places[torch.randperm(len(places))]
        held, learnt = places[: len(places) // _HELD], places[len(places) // _HELD :]
        noisy = torch.zeros(public.num_nodes, public.num_classes)
        noisy[learnt, said[learnt]] = 1.0
        stack = Stack(SageLayer, (x.shape[1], self.hidden, public.num_classes), self.dropout)

        def answers() -> Tensor:
            """Chances of what each node would say, [n, c]."""
            posteriors: Tensor = stack(x, mean).softmax(dim=1)
            return posteriors @ flips

        fit(
            stack,
            Part(
                lambda: averaged(walk, answers(), self.label_hops)[learnt],
                averaged(walk, noisy, self.label_hops)[learnt].argmax(dim=1),
            ),
            Part(lambda: answers()[held].log(), said[held]),
            Recipe(self.epochs, self.learning_rate, self.weight_decay),
            session.run.progress,
        )
        with torch.no_grad():
            return {"logits": stack(x, mean)}

    def _features(self, session: Session) -> Tensor:
        """Features of all nodes on a scale from -1 to 1, float32 [n, d]: unbiased for those that train."""
        public, times = session.public, session.plan.step("bits").times
        outside, places = public.outside_training(), public.train.nonzero().ravel()
        span = Span.of(outside.x)
        # Which features a node is asked for is drawn by public chance: each equally often, none twice.
        start = torch.randint(public.num_features, (len(places), 1))
        asked = torch.randperm(public.num_features)[(start + torch.arange(times)) % public.num_features]
        one = public.num_features / (times * session.plan.act("bits", OneBit).mean)
        x = torch.zeros(public.num_nodes, public.num_features)
        x[torch.from_numpy(outside.nodes)] = span(outside.x, slice(None))
        for columns in asked.T:
            x[places, columns] = one * session.release("bits", partial(_column, span=span, columns=columns)).float()
        return x

    def _labels(self, session: Session) -> tuple[Tensor, Tensor]:
        """What training nodes say of their labels, int64 [n], 0 elsewhere; and Pr[said | truth] [truth, said]."""
        public, classes = session.public, session.public.num_classes
        candidates = torch.ones(int(public.train.sum()), classes, dtype=torch.bool)
        said = torch.zeros(public.num_nodes, dtype=torch.int64)
        said[public.train] = session.release("labels", partial(_asked, candidates=candidates))
        every = torch.arange(classes)
        act = session.plan.act("labels", PriorResponse)
        return said, act.log_chances(torch.ones(classes, classes, dtype=torch.bool), every).exp().T.float()

    @classmethod
    def specimens(cls) -> tuple[Self, ...]:
        small = cls(hidden=4, epochs=2, feature_hops=1)
        return small, cls(hidden=4, epochs=2, bits=3, label_hops=0, feature_hops=2, label_share=0.3)


@dataclass(frozen=True, eq=False)
class Span:
    """Where features lie, learnt from nodes that nobody protects: middle and half of the range, [d] each."""

    middle: Tensor
    half: Tensor

    @classmethod
    def of(cls, x: Tensor) -> Span:
        """x: [m, d]."""
        if not len(x):
            return cls(torch.zeros(x.shape[1]), torch.ones(x.shape[1]))
        low, high = x.amin(dim=0), x.amax(dim=0)
        return cls((low + high) / 2, (high - low) / 2)

    def __call__(self, x: Tensor, columns: Tensor | slice) -> Tensor:
        """Features of these columns on a scale from -1 to 1; 0 where all are alike."""
        half = self.half[columns]
        return ((x - self.middle[columns]) / half.clamp(min=1e-30)).clamp(-1, 1) * (half > 0)


def averaged(walk: Operator, rows: Tensor, hops: int) -> Tensor:
    """W^hops rows, [n, k]."""
    for _ in range(hops):
        rows = walk @ rows
    return rows


def _column(sealed: Sealed, span: Span, columns: Tensor) -> Tensor:
    """Query: one feature of every training node, [m]; columns: int64 [m]."""
    places = sealed.public.train.nonzero().ravel()
    return span(sealed.x[places, columns], columns)


def _asked(sealed: Sealed, candidates: Tensor) -> Choices:
    """Query: the training nodes' labels, each among all classes."""
    return Choices(sealed.y[sealed.public.train], candidates)
