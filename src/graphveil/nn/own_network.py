"""A user's own torch module in place of a built-in network: what makes it, and how it is called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from graphveil import plugins
from graphveil.checks import quoted, require_printable
from graphveil.codec import Serializable
from graphveil.errors import InvalidInput

Setting = int | float | str | bool
Make = Callable[..., nn.Module]


@dataclass(frozen=True)
class OwnNetwork(Serializable):
    """A class or function that makes a module: make(features, classes, **settings). `OwnNetwork.of(Net, hidden=16)`.

    Files carry its name and settings and never the code: what was read from a file has a name only, and makes modules
    once the class is given again (`given`). Weights start as `make` draws them. A trained module is refused: no
    certificate covers the data that it was trained on.
    """

    name: str
    """Where it is defined, "package.module:Name", for people. Nothing is imported by it."""
    settings: tuple[tuple[str, Setting], ...] = ()
    """What `make` gets beside the numbers of features and classes."""

    _make: ClassVar[Make | None] = None

    def __post_init__(self) -> None:
        require_printable(self.name, "the name of a network")
        if not isinstance(self.settings, tuple) or not all(map(_is_setting, self.settings)):
            raise InvalidInput(
                f"settings of a network are numbers, words, True or False, got {quoted(self.settings)}; put what else "
                "it needs into a function that makes it"
            )

    @classmethod
    def of(cls, make: Make, **settings: Setting) -> OwnNetwork:
        """The network that `make(features, classes, **settings)` makes anew for every training."""
        if isinstance(make, nn.Module):
            raise InvalidInput(
                f"give the class {type(make).__name__} or a function that makes it, not a module that is made: a "
                "training begins with fresh weights, since what made weights have seen is in no certificate"
            )
        name = getattr(make, "__qualname__", None)
        if not callable(make) or name is None:
            raise InvalidInput(f"a network is made by a class or a function of (features, classes), got {quoted(make)}")
        return cls(f"{make.__module__}:{name}", tuple(settings.items())).given(make)

    def given(self, make: Make) -> OwnNetwork:
        """The same name and settings, made by `make`."""
        if isinstance(make, nn.Module) or not callable(make):
            raise InvalidInput(f"give the class of {self.name}, or a function that makes it, got {quoted(make)}")
        found = OwnNetwork(self.name, self.settings)
        object.__setattr__(found, "_make", make)
        return found

    @property
    def make(self) -> Make | None:
        """What makes it; None if it was read from a file and the class is not given yet."""
        return self._make

    def known_make(self) -> Make:
        """The same, or an error that explains how to give the class."""
        if self._make is None:
            raise InvalidInput(
                f"the network {self.name} is somebody's own, and a file does not bring its code: give the class, "
                "gv.load(folder, network=Net)"
            )
        return self._make

    def module(self, features: int, classes: int) -> nn.Module:
        """A fresh module in training mode."""
        make = self.known_make()
        try:
            made = make(features, classes, **dict(self.settings))
        except Exception as error:
            raise InvalidInput(
                f"{self.name} could not be made from {features} features, {classes} classes and "
                f"{dict(self.settings)}: {type(error).__name__}: {error}. It is called as make(features, classes, "
                "**settings); a function of your own can put its arguments in order"
            ) from error
        _require_module(made, self.name)
        return made.train()


def _is_setting(pair: object) -> bool:
    if not isinstance(pair, tuple) or len(pair) != 2:
        return False
    return isinstance(pair[0], str) and isinstance(pair[1], int | float | str)


def _require_module(made: Any, name: str) -> None:
    """A module of whose weights all are there, float32, and some are learnt."""
    if not isinstance(made, nn.Module):
        raise InvalidInput(f"{name} made {type(made).__name__}, which is no torch.nn.Module")
    for word, part in (*made.named_parameters(), *made.named_buffers()):
        if is_lazy(part):
            raise InvalidInput(f"{name}: {word!r} gets its size from the first data it sees; state the size instead")
    learnt = trainable(made)
    if not learnt:
        raise InvalidInput(f"{name} has no weights that are learnt")
    if odd := [word for word, part in learnt.items() if part.dtype != torch.float32]:
        raise InvalidInput(f"{name}: {odd[0]!r} is {learnt[odd[0]].dtype}; weights that are learnt must be float32")


def trainable(module: nn.Module) -> dict[str, Tensor]:
    """The parameters that are learnt, by name, each once, detached."""
    return {name: part.detach() for name, part in module.named_parameters() if part.requires_grad}


def inputs_of(module: nn.Module) -> tuple[str, ...]:
    """Which of x, edge_index and batch its forward takes, or an error with the signatures that are possible.

    PyG's habit: forward(x), forward(x, edge_index) or forward(x, edge_index, batch); others must have defaults.
    """
    known = [one for one in inspect.signature(module.forward).parameters.values() if one.kind not in _OPEN]
    names = [one.name for one in known]
    needed = sum(one.default is one.empty for one in known)
    arcs = len(known) > 1 and (needed > 1 or names[1] == "edge_index")
    found = ("x", "edge_index", "batch")[: 3 if names[2:3] == ["batch"] else 1 + arcs]
    if not names or needed > len(found) or names[0] == "data":
        raise InvalidInput(
            f"forward({', '.join(names)}) of {type(module).__name__} cannot be called: write forward(x), "
            "forward(x, edge_index) or forward(x, edge_index, batch)"
        )
    return found


_OPEN = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def arguments(inputs: tuple[str, ...], x: Tensor, arcs: Tensor) -> tuple[Tensor, ...]:
    """What `forward` gets of one subgraph. x: [n, d], its centre first; arcs: int64 [2, a], sources above targets."""
    return (x, arcs, torch.zeros(x.shape[-2], dtype=torch.int64, device=x.device))[: len(inputs)]


NETWORKS = "graphveil.networks"
"""The entry points under which others register networks."""


def registered_network(reference: str) -> Make | None:
    """The network that a file calls "package.module:Name", if an installed distribution registers that very name."""
    return next((one.load() for one in plugins.registered(NETWORKS) if one.reference == reference), None)
