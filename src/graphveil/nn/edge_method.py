"""What edge-level methods share: an encoder on public features, a noisy release about edges, and a head on both."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from graphveil.core import InvalidInput, Unit, parse, require_positive, require_whole
from graphveil.graph import Sealed
from graphveil.method import Method, State
from graphveil.nn.aggregate import NeighbourSums
from graphveil.nn.features import Scale, Scaling, standard
from graphveil.nn.fit import Recipe, fit_rows
from graphveil.nn.mlp import Perceptron, predicted, restore, with_prefix
from graphveil.session import Session


@dataclass(frozen=True)
class EdgeMethod(Method):
    """A head reads [log posteriors of the encoder | what was released about edges].

    Features and labels are public at edge level, so the encoder and the head cost nothing: only `released` reads edges.
    """

    units = frozenset({Unit.EDGE})

    hidden: int = 128
    head: int = 64
    epochs: int = 150
    learning_rate: float = 0.01
    scale: str = "shifted"

    def __post_init__(self) -> None:
        require_whole(self, "hidden", "head", "epochs")
        if min(self.hidden, self.head, self.epochs) < 1:
            raise InvalidInput(f"{self.name()} needs hidden, head and epochs of at least 1")
        require_positive(self.learning_rate, "learning_rate")
        parse(Scale, self.scale, "scale")

    @abstractmethod
    def released(self, session: Session, posteriors: Tensor) -> Tensor:
        """What the private edges tell, [n, k], from the encoder's class posteriors [n, c]."""

    @abstractmethod
    def width(self, features: int, classes: int) -> int:
        """k, the number of columns of `released`."""

    def fit(self, session: Session) -> State:
        public = session.public
        x, y, classes = public.features(), public.labels(), public.num_classes
        scaling = Scaling.fit(x, self.scale)
        encoder = self._encoder(public.num_features, classes)
        recipe = Recipe(self.epochs, self.learning_rate, weight_decay=5e-4, patience=20)
        fit_rows(encoder, scaling(x), y, public.train, public.val, recipe)
        inputs = self._inputs(session, encoder, scaling)
        head = self._head(public.num_features, classes)
        recipe = Recipe(200, self.learning_rate, weight_decay=1e-4, patience=40)
        fit_rows(head, inputs, y, public.train, public.val, recipe)
        weights = {**with_prefix("encoder.", encoder.state_dict()), **with_prefix("head.", head.state_dict())}
        return {**weights, **scaling.state(), "logits": predicted(head, inputs)}

    def serve(self, session: Session, state: State) -> State:
        features, classes = session.public.num_features, session.public.num_classes
        encoder = restore(self._encoder(features, classes), state, "encoder.")
        head = restore(self._head(features, classes), state, "head.")
        inputs = self._inputs(session, encoder, Scaling.restore(state, self.scale))
        return {**state, "logits": predicted(head, inputs)}

    def _inputs(self, session: Session, encoder: torch.nn.Module, scaling: Scaling) -> Tensor:
        scores = predicted(encoder, scaling(session.public.features())).log_softmax(dim=1)
        return torch.cat([standard(scores), self.released(session, scores.exp())], dim=1)

    def _encoder(self, features: int, classes: int) -> Perceptron:
        return Perceptron((features, self.hidden, classes), dropout=0.5, input_dropout=0.2)

    def _head(self, features: int, classes: int) -> Perceptron:
        return Perceptron((classes + self.width(features, classes), self.head, classes), dropout=0.2)


def messages(sealed: Sealed, rows: Tensor) -> NeighbourSums:
    """Query: every node hears the public `rows` [n, k] of its neighbours."""
    return NeighbourSums(sealed.adj, rows)
