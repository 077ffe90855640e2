"""The hyper-parameters that every ordinarily trained network shares, and their limits."""

from __future__ import annotations

from dataclasses import dataclass

from graphveil.core import InvalidInput, parse, require_positive, require_whole
from graphveil.methods.bases.method import Method
from graphveil.nn.features import Scale


@dataclass(frozen=True)
class Network(Method):
    """A method whose fit is plain full-batch training of `layers` layers of width `hidden`."""

    hidden: int = 64
    layers: int = 2
    dropout: float = 0.5
    epochs: int = 200
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    scale: str = "shifted"

    def __post_init__(self) -> None:
        require_whole(self, "hidden", "layers", "epochs")
        if min(self.hidden, self.layers, self.epochs) < 1 or not 0 <= self.dropout < 1:
            raise InvalidInput(f"{self.name()} needs hidden, layers and epochs of at least 1 and dropout in [0, 1)")
        require_positive(self.learning_rate, "learning_rate")
        parse(Scale, self.scale, "scale")
