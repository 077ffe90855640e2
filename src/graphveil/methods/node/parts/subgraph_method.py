"""What methods share that train on many small subgraphs and clip the gradient of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.checks import require_positive, require_whole
from graphveil.data.arcs import Csr
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Unsupported
from graphveil.methods.method import Method, PredictionReads
from graphveil.nn.clipping import flat, unflat
from graphveil.nn.features import RECORD_WISE, by_record
from graphveil.nn.module_checks import require_independent
from graphveil.nn.own_gradients import OwnGradients, OwnModel, own_logits
from graphveil.nn.own_network import OwnNetwork
from graphveil.nn.sampling.bounded import neighbourhoods
from graphveil.nn.sampling.subgraphs import Subgraphs
from graphveil.nn.subgraph import SubgraphGradients, gradients
from graphveil.nn.subgraph_model import Activation, Kind, SubgraphModel, logits_at_rows, start
from graphveil.privacy.session import Session
from graphveil.runtime.distributed import ALONE, Together, Workers
from graphveil.vocabulary import Contributions, Query, State

OWN_CODE = (
    "the network {} is the data holder's own code, which is no evidence: the engine gives it one subgraph at a time, "
    "in a copy that is thrown away, and clips every gradient itself; that the code keeps nothing of a subgraph outside "
    "the module, in a global, was tried on made-up data and is not enforced"
)
"""What a step assumes whose gradients are those of a user's own module. Files must contain exactly this text."""

_CLASSES = "graphveil.classes"
"""Beside the state_dict of an own module: the number of classes that it was made for."""


@dataclass(frozen=True, eq=False)
class OwnWeights:
    """Weights of a user's own module in one step, in the order of `OwnModel.start`; key: seeds its random numbers."""

    model: OwnModel
    parts: list[Tensor]
    key: int


Weights = list[Tensor] | OwnWeights
"""What a step's gradients are taken at."""


@dataclass(frozen=True)
class SubgraphMethod(Method):
    """Noisy sums of the clipped gradients of many subgraphs, each sum followed by a step of Adam."""

    on_gpu = True

    reads = PredictionReads.HELD_OUT

    network: Annotated[str | OwnNetwork, get_args(Kind)] = "gcn"
    """How messages are aggregated, see `nn.subgraph_model.SubgraphModel`; or a module of your own, `OwnNetwork.of`."""
    layers: int = 1
    """Layers of message passing, 1 or 2, before one dense layer; of an own network, how far subgraphs reach."""
    hidden: int = 32
    """Width of every hidden layer, at least 1."""
    activation: Annotated[str, get_args(Activation)] = "relu"
    """What follows every hidden layer."""
    batch: int = 512
    """Subgraphs that a step draws, at least 1; all there are where that is fewer."""
    clip: float = 1.0
    """Length that a subgraph's gradient is clipped to, above 0."""
    learning_rate: float = 0.02
    """Step size of Adam, above 0."""
    scale: Annotated[str, RECORD_WISE] = "centred"
    """How features are scaled, one record at a time."""

    def __post_init__(self) -> None:
        require_whole(self, "layers", "hidden", "batch")
        if self.batch < 1:
            raise InvalidInput(f"{self.name()} needs a batch of at least 1, got {self.batch}")
        require_positive(self.clip, "clip")
        require_positive(self.learning_rate, "learning_rate")
        # These two refuse here what would fail only after the budget is charged.
        by_record(torch.zeros(1, 1), self.scale)
        self.require_network()

    def require_network(self) -> None:
        """The network's settings are possible, or a clear error."""
        if isinstance(self.network, OwnNetwork):
            self.require_default(
                "hidden", "activation", unless="a built-in network: an own one has settings of its own"
            )
            SubgraphModel("gcn", self.layers, 1, "relu", 1, 1)  # refuses more layers
            # Sums on a GPU round differently every time, and the same subgraph must give the same gradient.
            object.__setattr__(self, "on_gpu", False)
        else:
            self.model(1, 1)

    def model(self, width: int, classes: int) -> SubgraphModel:
        """The built-in network for this many features and classes."""
        network, activation = cast(Kind, self.network), cast(Activation, self.activation)
        return SubgraphModel(network, self.layers, self.hidden, activation, classes, width)

    def admit(self, public: Public) -> tuple[str, ...]:
        """Refuses an own network that mixes subgraphs; gives what a step that runs it assumes."""
        if isinstance(self.network, OwnNetwork):
            require_independent(self.network, public.num_features, public.num_classes)
        return self.standing()

    def standing(self) -> tuple[str, ...]:
        return tuple(OWN_CODE.format(own.name) for own in self.networks())

    def require_smooth(self) -> None:
        """Where one unit can change the number of rows, two layers need a smooth activation: see nn/subgraph.py.

        Own networks need none: every place of a block rounds alike (nn/own_gradients.py).
        """
        if isinstance(self.network, OwnNetwork):
            return
        if self.layers == 2 and self.activation == "relu":
            raise Unsupported(
                "with two layers and activation=relu the rounding of one subgraph's gradient can depend on another "
                "subgraph's size, which is private here; use activation=elu, or layers=1"
            )

    def scaled(self, x: Tensor) -> Tensor:
        """What the network reads of features [n, d], one record at a time."""
        return by_record(x, self.scale)

    def descend(self, session: Session, size: float, query_of: Callable[[int, Weights], Query]) -> State:
        """Adam on the noisy sums, divided by the public clip * size, until no use of the step is left."""
        width, classes = session.public.num_features, session.public.num_classes
        own = OwnModel.of(self.network.module(width, classes)) if isinstance(self.network, OwnNetwork) else None
        shapes = start(self.model(width, classes)) if own is None else own.start()
        shapes = [part.to(session.public.train.device) for part in shapes]
        weights = torch.nn.Parameter(flat(shapes))
        optimiser = torch.optim.Adam([weights], lr=self.learning_rate)
        for turn in session.run.progress.track(range(session.left("gradient")), "private gradient steps"):
            parts = unflat(weights.detach(), shapes)
            at = parts if own is None else OwnWeights(own, parts, int(torch.randint(2**62, ())))
            weights.grad = session.release("gradient", query_of(turn, at)) / (self.clip * size)
            optimiser.step()
        parts = unflat(weights.detach(), shapes)
        if own is not None:
            return {**own.state(parts), _CLASSES: torch.tensor(classes)}
        return {f"weights.{place}": part.clone() for place, part in enumerate(parts)}

    def gradients(self, sealed: Sealed, batch: Subgraphs, weights: Weights, workers: Workers = ALONE) -> Contributions:
        """Gradients of the loss at every subgraph's centre; a centre without a label contributes zero."""
        public = sealed.public

        def work(part: Subgraphs) -> SubgraphGradients | OwnGradients:
            x, y = self.scaled(sealed.rows(part.nodes)), sealed.y[torch.from_numpy(part.centres)]
            if isinstance(weights, OwnWeights):
                named = weights.model.named(weights.parts)
                return OwnGradients(weights.model, named, part, x, y, public.num_classes, weights.key)
            return gradients(self.model(public.num_features, public.num_classes), weights, part, x, y)

        return shared_out(batch, work, workers)

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        """One pass over all nodes with all arcs that may be visible_arcs; an own network reads every subgraph."""
        if isinstance(self.network, OwnNetwork):
            return self._own_logits(self.network, state, x, visible_arcs)
        weights = [state[f"weights.{place}"] for place in range(len(state))]
        whole = Subgraphs(np.arange(len(x)), np.array([0, len(x)]), visible_arcs.indptr, visible_arcs.indices)
        with torch.no_grad():
            return logits_at_rows(self.model(x.shape[1], len(weights[-1])), weights, whole, x, self.scaled)

    def _own_logits(self, network: OwnNetwork, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        parts = {name: part for name, part in state.items() if name != _CLASSES}
        with torch.random.fork_rng(devices=[]):
            module = network.module(x.shape[1], int(state[_CLASSES]))
        module.load_state_dict(parts)
        model = OwnModel.of(module)
        batch = self.around(visible_arcs)
        return own_logits(model, model.named(model.start()), batch, self.scaled(x)[torch.from_numpy(batch.nodes)])

    def around(self, visible_arcs: Csr) -> Subgraphs:
        """The subgraph of every node that an own network reads in prediction."""
        return neighbourhoods(visible_arcs, np.arange(visible_arcs.num_nodes), self.layers)


def arcs_between(adj: Csr, sources: NDArray[np.bool_], targets: NDArray[np.bool_]) -> Csr:
    """The arcs from `sources` to `targets`, bool [n] each; nodes keep their numbers."""
    return adj.select(sources[adj.indices] & np.repeat(targets, adj.in_degrees()))


def shared_out(batch: Subgraphs, work: Callable[[Subgraphs], Contributions], workers: Workers) -> Contributions:
    """`work(batch)`, in which every process of a distributed run computes its share of the subgraphs."""
    if workers.size == 1:
        return work(batch)
    return Together(work(batch.take(np.arange(*workers.own_share(batch.count)))))
