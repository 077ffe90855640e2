"""What methods share that train on many small subgraphs and clip the gradient of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, cast, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from graphveil.core import Contributions, InvalidInput, Query, State, Unsupported, require_positive, require_whole
from graphveil.graph.arcs import Csr, Ids
from graphveil.graph.sealing import Sealed
from graphveil.methods.bases.method import Method, PredictionReads
from graphveil.nn.clipping import flat, unflat
from graphveil.nn.features import RECORD_WISE, by_record
from graphveil.nn.subgraph import SubgraphGradients, SubgraphModel, gradients, start
from graphveil.nn.subgraph_model import Activation, Kind, logits_at_rows
from graphveil.privacy.session import Session
from graphveil.runtime.distributed import Together, crew, own_share
from graphveil.runtime.progress import track
from graphveil.sampling.subgraphs import Subgraphs


@dataclass(frozen=True)
class SubgraphMethod(Method):
    """Noisy sums of the clipped gradients of many subgraphs, each sum followed by a step of Adam."""

    on_gpu = True

    reads = PredictionReads.HELD_OUT

    network: Annotated[str, get_args(Kind)] = "gcn"
    """How messages are summed up, see `nn.subgraph_model.SubgraphModel`."""
    layers: int = 1
    """Layers of message passing, 1 or 2, before one dense layer."""
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
        self.model(1, 1)

    def model(self, width: int, classes: int) -> SubgraphModel:
        """The network for this many features and classes."""
        network, activation = cast(Kind, self.network), cast(Activation, self.activation)
        return SubgraphModel(network, self.layers, self.hidden, activation, classes, width)

    def require_smooth(self) -> None:
        """Where one unit can change the number of rows, two layers need a smooth activation: see nn/subgraph.py."""
        if self.layers == 2 and self.activation == "relu":
            raise Unsupported(
                "with two layers and activation=relu the rounding of one subgraph's gradient can depend on another "
                "subgraph's size, which is private here; use activation=elu, or layers=1"
            )

    def scaled(self, x: Tensor) -> Tensor:
        """What the network reads of features [n, d], one record at a time."""
        return by_record(x, self.scale)

    def descend(self, session: Session, size: float, query_of: Callable[[int, list[Tensor]], Query]) -> State:
        """Adam on the noisy sums, divided by the public clip * size, until the step is used up."""
        model = self.model(session.public.num_features, session.public.num_classes)
        shapes = start(model)
        weights = torch.nn.Parameter(flat(shapes))
        optimiser = torch.optim.Adam([weights], lr=self.learning_rate)
        for turn in track(range(session.left("gradient")), "private gradient steps"):
            total = session.release("gradient", query_of(turn, unflat(weights.detach(), shapes)))
            weights.grad = total / (self.clip * size)
            optimiser.step()
        return {f"weights.{place}": part.clone() for place, part in enumerate(unflat(weights.detach(), shapes))}

    def gradients(self, sealed: Sealed, batch: Subgraphs, weights: list[Tensor]) -> Contributions:
        """Gradients of the loss at every subgraph's centre; a centre without a label contributes zero."""
        model = self.model(sealed.public.num_features, sealed.public.num_classes)

        def work(part: Subgraphs) -> SubgraphGradients:
            x = self.scaled(sealed.rows(part.nodes))
            return gradients(model, weights, part, x, sealed.y[torch.from_numpy(part.centres)])

        return shared_out(batch, work)

    def logits(self, state: State, x: Tensor, visible_arcs: Csr) -> Tensor:
        """One pass over all nodes with all arcs that may be visible_arcs."""
        weights = [state[f"weights.{place}"] for place in range(len(state))]
        whole = Subgraphs(np.arange(len(x)), np.array([0, len(x)]), visible_arcs.indptr, visible_arcs.indices)
        with torch.no_grad():
            return logits_at_rows(self.model(x.shape[1], len(weights[-1])), weights, whole, x, self.scaled)


def arcs_between(adj: Csr, sources: NDArray[np.bool_], targets: NDArray[np.bool_]) -> Csr:
    """The arcs from `sources` to `targets`, bool [n] each; nodes keep their numbers."""
    kept = sources[adj.indices] & np.repeat(targets, np.diff(adj.indptr))
    before: Ids = np.concatenate([[0], np.cumsum(kept)])
    return Csr(before[adj.indptr], adj.indices[kept])


def shared_out(batch: Subgraphs, work: Callable[[Subgraphs], Contributions]) -> Contributions:
    """`work(batch)`, of which this process computes its share of the subgraphs and the others theirs."""
    if crew().size == 1:
        return work(batch)
    return Together(work(batch.take(np.arange(*own_share(batch.count)))))
