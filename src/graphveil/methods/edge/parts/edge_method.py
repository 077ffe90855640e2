"""What edge-level methods share: an encoder on public features, a noisy release about edges, and a head on both."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from graphveil.checks import parse, require_positive, require_whole
from graphveil.codec import OMIT_DEFAULT
from graphveil.data.parts import ScatteredArcs
from graphveil.data.sealing import Sealed
from graphveil.errors import InvalidInput
from graphveil.mechanisms.distributed_counts import PartSums
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import Method
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.features import Scale, Scaling, standard
from graphveil.nn.fit import ClassWeight, Recipe, fit_rows
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Plan, Reading, State, Step, Unit

_ONE_ROW = (
    "one undirected edge moves TWO rows of the sum, by one clip each: the sensitivity is sqrt(2), not 1; "
    "claimed 1/2/4/8 is truly 1.465/2.954/5.992/12.26 at delta 1e-5"
)


NO_NODES = MappingProxyType(
    {
        Unit.NODE: "Every node has a row of its own in the release and a share in each neighbour's, capping degrees by "
        "the arcs that are present is not stable, and the encoder, the head and early stopping would read private "
        "features and labels: docs/methods/gap.md"
    }
)
"""Why methods that release noisy sums for every node do not protect nodes."""


@dataclass(frozen=True)
class EncoderMethod(Method):
    """An edge-level method with an encoder. Features and labels are public there, so it costs nothing."""

    units = frozenset({Unit.EDGE})
    least_hidden: ClassVar[int] = 1
    """0 where a method can do without an encoder."""

    hidden: int = 128
    """Width of the encoder's hidden layer, at least 1; in `gap` 0 leaves the encoder out."""
    head: int = 64
    """Width of the hidden layer of whatever reads the released rows, at least 1."""
    epochs: int = 150
    """Passes over the training nodes that train the encoder, at most; it stops early on validation."""
    learning_rate: float = 0.01
    """Step size of Adam, for encoder and head, above 0."""
    scale: Annotated[str, Scale] = "shifted"
    """How public features are scaled before the encoder reads them."""
    class_weight: Annotated[str, ClassWeight] = field(default="equal", metadata=OMIT_DEFAULT)
    """What nodes count in training. equal: all alike; balanced: more in rare classes, so that every class counts alike.
    """

    def __post_init__(self) -> None:
        require_whole(self, "hidden", "head", "epochs")
        if min(self.head, self.epochs) < 1 or self.hidden < self.least_hidden:
            raise InvalidInput(
                f"{self.name()} needs head and epochs of at least 1 and hidden of at least {self.least_hidden}"
            )
        require_positive(self.learning_rate, "learning_rate")
        parse(Scale, self.scale, "scale")
        parse(ClassWeight, self.class_weight, "class_weight")

    def _pretrained(self, session: Session) -> tuple[nn.Module, Scaling]:
        """An encoder trained on public features and labels, once for all runs on this graph, and its scaling."""
        public, run = session.public, session.run
        scaling = Scaling.fit(public.features(), self.scale, run.block)
        encoder = self._encoder(public.num_features, public.num_classes).to(public.train.device)
        recipe = Recipe(self.epochs, self.learning_rate, 5e-4, patience=20, class_weight=self.class_weight)

        def weights() -> State:
            made = self._encoder(public.num_features, public.num_classes).to(public.train.device)
            rows, masks = scaling(public.features()), (public.train, public.val)
            fit_rows(made, rows, public.labels(), *masks, recipe, run.progress)
            return made.state_dict()

        encoder.load_state_dict(public.cache_public(f"{encoder} {recipe} {self.scale}", weights))
        return encoder, scaling

    def _fit_head(self, head: nn.Module, inputs: Tensor, session: Session) -> None:
        """Train a head on public or released rows [n, k]."""
        public = session.public
        recipe = Recipe(200, self.learning_rate, 1e-4, patience=40, class_weight=self.class_weight)
        fit_rows(head, inputs, public.labels(), public.train, public.val, recipe, session.run.progress)

    def _encoder(self, features: int, classes: int) -> nn.Module:
        return Perceptron((features, self.hidden, classes), dropout=0.5, input_dropout=0.2)


@dataclass(frozen=True)
class EdgeMethod(EncoderMethod):
    """A head reads [log posteriors of the encoder | what was released about edges]: only `released` reads edges."""

    @abstractmethod
    def released(self, session: Session, beliefs: Tensor) -> Tensor:
        """What the private edges tell, [n, k], from what `_told` made of the encoder, by default posteriors [n, c]."""

    @abstractmethod
    def width(self, features: int, classes: int) -> int:
        """k, the number of columns of `released`."""

    def fit(self, session: Session) -> State:
        public = session.public
        encoder, scaling = self._pretrained(session)
        inputs = self._inputs(session, encoder, scaling)
        head = self._head(public.num_features, public.num_classes).to(inputs.device)
        self._fit_head(head, inputs, session)
        weights = {**with_prefix("encoder.", encoder.state_dict()), **with_prefix("head.", head.state_dict())}
        return {**weights, **scaling.state(), "logits": predicted(head, inputs, session.run.block)}

    def serve(self, session: Session, state: State) -> State:
        features, classes = session.public.num_features, session.public.num_classes
        where = session.public.train.device
        encoder = restore(self._encoder(features, classes).to(where), state, "encoder.")
        head = restore(self._head(features, classes).to(where), state, "head.")
        inputs = self._inputs(session, encoder, Scaling.restore(state, self.scale))
        return {**state, "logits": predicted(head, inputs, session.run.block)}

    def _inputs(self, session: Session, encoder: nn.Module, scaling: Scaling) -> Tensor:
        own, rows = self._told(encoder, scaling(session.public.features()))
        return torch.cat([own, self.released(session, rows)], dim=1)

    def _told(self, encoder: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
        """(what the head reads of a node itself, what `released` is given) for scaled features [n, d], both [n, c]."""
        scores = predicted(encoder, x).log_softmax(dim=1)
        return standard(scores), scores.exp()

    def _head(self, features: int, classes: int) -> nn.Module:
        return Perceptron((classes + self.width(features, classes), self.head, classes), dropout=0.2)


def sums_plan(adjacency: Adjacency, reading: Reading, noise: float, step: str, times: int, why: str) -> Plan:
    """`times` noisy sums A X, every row of X clipped to length 1.

    An arc moves one row by one clip: sensitivity 1, and sqrt(2) for an undirected edge, which is two arcs into
    different rows. PUBLISHED charges one row for an undirected edge too (Sajadmanesh et al. 2023, Chien et al. 2023).
    """
    act = Gaussian(std=noise, clip=1.0)
    undirected = adjacency.undirected
    moved = math.sqrt(2) if undirected and reading is Reading.SOUND else 1.0
    refuted = _ONE_ROW if undirected and reading is Reading.PUBLISHED else ""
    return Plan(adjacency, reading, (Step(step, act, act.curve(moved), times, why=why, refuted=refuted),))


def messages(sealed: Sealed, rows: Tensor) -> NeighbourSums:
    """Query: every node hears the public `rows` [n, k] of its neighbours."""
    return NeighbourSums(sealed.adj, rows)


def heard_rows(sealed: Sealed, rows: Tensor) -> NeighbourSums | PartSums:
    """Query: the same, of edges in parts too."""
    return PartSums(rows) if isinstance(sealed.adj, ScatteredArcs) else messages(sealed, rows)
