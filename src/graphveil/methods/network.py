"""The hyper-parameters that every ordinarily trained network shares, and their limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from graphveil.checks import parse, require_positive, require_whole
from graphveil.codec import OMIT_DEFAULT
from graphveil.errors import InvalidInput
from graphveil.methods.method import Method
from graphveil.nn.features import Scale
from graphveil.nn.fit import ClassWeight


@dataclass(frozen=True)
class Network(Method):
    """A method whose fit is plain full-batch training of a few layers."""

    hidden: int = 64
    """Width of every hidden layer, at least 1."""
    layers: int = 2
    """Layers, at least 1; 1 has no hidden layer."""
    dropout: float = 0.5
    """Share of a hidden layer's entries that is silenced in training, in [0, 1)."""
    epochs: int = 200
    """Passes over the training nodes, at most; it stops early on validation."""
    learning_rate: float = 0.01
    """Step size of Adam, above 0."""
    weight_decay: float = 5e-4
    """Weight of the squares of the weights in the loss."""
    scale: Annotated[str, Scale] = "shifted"
    """How features are scaled before the network reads them."""
    class_weight: Annotated[str, ClassWeight] = field(default="equal", metadata=OMIT_DEFAULT)
    """What nodes count in training. equal: all alike; balanced: more in rare classes, so that every class counts alike.
    """

    def __post_init__(self) -> None:
        require_whole(self, "hidden", "layers", "epochs")
        if min(self.hidden, self.layers, self.epochs) < 1 or not 0 <= self.dropout < 1:
            raise InvalidInput(f"{self.name()} needs hidden, layers and epochs of at least 1 and dropout in [0, 1)")
        require_positive(self.learning_rate, "learning_rate")
        parse(Scale, self.scale, "scale")
        parse(ClassWeight, self.class_weight, "class_weight")
        if self.layers == 1:
            self.require_default("hidden", "dropout", unless="a hidden layer, layers of at least 2")
