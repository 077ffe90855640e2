"""Networks as users of PyTorch Geometric write them, and hostile ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, elu
from torch_geometric.nn import (
    AttentionalAggregation,
    BatchNorm,
    GATConv,
    GCNConv,
    GraphNorm,
    SAGEConv,
    global_mean_pool,
)


class PooledGcn(nn.Module):
    """The model of Opacus issue 588: convolutions, a mean over the subgraph, a dense layer."""

    def __init__(self, features: int, classes: int, hidden: int = 6) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, hidden)
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.conv1(x, edge_index).relu()
        x = global_mean_pool(self.conv2(x, edge_index), batch)
        return self.lin(dropout(x, p=0.5, training=self.training))


class Gat(nn.Module):
    """Two attention layers, a row for every node."""

    def __init__(self, features: int, classes: int, hidden: int = 3) -> None:
        super().__init__()
        self.first = GATConv(features, hidden, heads=2, dropout=0.2)
        self.second = GATConv(2 * hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return self.second(elu(self.first(x, edge_index)), edge_index)


class SageAttention(nn.Module):
    """GraphSAGE, then attention over the nodes of the subgraph."""

    def __init__(self, features: int, classes: int, hidden: int = 6) -> None:
        super().__init__()
        self.conv, self.norm = SAGEConv(features, hidden), GraphNorm(hidden)
        self.pool = AttentionalAggregation(nn.Linear(hidden, 1))
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        x = self.norm(self.conv(x, edge_index), batch).relu()
        return self.lin(self.pool(x, batch))


class Mixer(nn.Module):
    """Reads no arc: every node hears the mean of all nodes of its subgraph, twice."""

    def __init__(self, features: int, classes: int, hidden: int = 6) -> None:
        super().__init__()
        self.start, self.channels, self.norm = (
            nn.Linear(features, hidden),
            nn.Linear(hidden, hidden),
            nn.LayerNorm(hidden),
        )
        self.lin = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        h = self.start(x)
        h = h + h.mean(dim=0, keepdim=True)
        return self.lin(h + self.channels(self.norm(h)).relu())


class Branching(nn.Module):
    """Chooses by a number that it reads: no vmap takes that."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.lin, self.other = nn.Linear(features, classes), nn.Linear(features, classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x) if float(x.detach().sum()) > 0 else self.other(x)


class TiedFrozen(nn.Module):
    """Shares a weight, freezes one, and does not use another; keeps a buffer."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.first = nn.Linear(features, features, bias=False)
        self.again = self.first
        self.frozen = nn.Linear(features, features).requires_grad_(False)
        self.unused = nn.Parameter(torch.ones(2))
        self.out = nn.Linear(features, classes)
        self.register_buffer("factor", torch.full((), 0.5))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.out(self.again(self.frozen(self.first(x).tanh())) * self.factor)


class RowsOnly(nn.Module):
    """A dense network with batch normalisation, which may read whatever is public or released."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(features, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, classes))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


FRIENDLY = {one.__name__: one for one in (PooledGcn, Gat, SageAttention, Mixer, Branching, TiedFrozen)}


# --- Hostile ones. ---


class Hostile(nn.Module):
    """A dense layer whose hidden rows go through `spoil`."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.inner = self.layer(5)
        self.start, self.lin = nn.Linear(features, 5), nn.Linear(5, classes)

    def layer(self, width: int) -> nn.Module:  # noqa: ARG002
        return nn.Identity()

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(self.inner(self.start(x)))


class HiddenBatchNorm(Hostile):
    def layer(self, width: int) -> nn.Module:
        return nn.Sequential(nn.Sequential(nn.ReLU(), BatchNorm(width)))


class TrackedInstances(Hostile):
    def layer(self, width: int) -> nn.Module:
        return nn.InstanceNorm1d(width, track_running_stats=True)


class _Running(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(width))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.seen.add_(x.mean(dim=0))
        return x


class RunningMean(Hostile):
    """Writes a statistic and does not read it."""

    def layer(self, width: int) -> nn.Module:
        return _Running(width)


class _Cached(nn.Module):
    last: Any = None

    def forward(self, x: Tensor) -> Tensor:
        before = 0.0 if self.last is None else self.last
        self.last = x.detach().mean(dim=0)
        return x + before


class AttributeCache(Hostile):
    def layer(self, width: int) -> nn.Module:  # noqa: ARG002
        return _Cached()


_STORE: dict[str, Tensor] = {}


class _Global(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        before = _STORE.get("last", torch.zeros(x.shape[1]))
        _STORE["last"] = x.detach().mean(dim=0)
        return x + before


class GlobalCache(Hostile):
    def layer(self, width: int) -> nn.Module:  # noqa: ARG002
        return _Global()


class _Counted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        kept = torch.rand(x.shape[-1], generator=torch.Generator().manual_seed(self.calls)) > 0.5
        return x * kept


class DropoutByBatch(Hostile):
    """Its mask depends on how many calls there were."""

    def layer(self, width: int) -> nn.Module:  # noqa: ARG002
        return _Counted()


class _Late(nn.Module):
    """Behaves for the first thousand calls."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.held = 0, torch.zeros(())

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        answer = x + (self.held if self.calls > 1000 else 0.0)
        self.held = self.held + x.detach().sum()
        return answer


class LateCache(Hostile):
    def layer(self, width: int) -> nn.Module:  # noqa: ARG002
        return _Late()


class ChanceOfNumpy(Hostile):
    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        return super().forward(x, edge_index) * float(np.random.rand())  # noqa: NPY002


class ReadsTheBatch(nn.Module):
    """Subtracts the mean of all nodes that it is given, whichever subgraph they are of."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.norm, self.lin = GraphNorm(features), nn.Linear(features, classes)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # noqa: ARG002
        return global_mean_pool(self.lin(self.norm(x).relu()), batch)


class IgnoresTheBatch(ReadsTheBatch):
    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:  # noqa: ARG002
        return self.lin(x).mean(dim=0, keepdim=True)


HOSTILE = {
    HiddenBatchNorm: "'inner.0.1.module' (BatchNorm1d)",
    TrackedInstances: "'inner' (InstanceNorm1d)",
    RunningMean: "'inner' (_Running)",
    AttributeCache: "'inner' (_Cached)",
    GlobalCache: "'inner' (_Global)",
    DropoutByBatch: "'inner' (_Counted)",
    ChanceOfNumpy: "its own code",
    ReadsTheBatch: "'norm' (GraphNorm)",
    IgnoresTheBatch: "its own code",
}
"""What the check must refuse, and whom it must name."""


class Grumpy(Hostile):
    """Raises with a quotation, or is not finite, or leaves, where the first feature of the centre is large."""

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        first = float(x.detach()[0, 0])
        if first > 1000:
            raise ValueError(f"your secret is {first}")
        if first > 100:
            raise SystemExit(f"your secret is {first}")
        return super().forward(x, edge_index) * (float("nan") if first > 50 else 1.0)


class Hoarder(Hostile):
    """Writes all it sees into a buffer, once it has been made often enough to be past any check."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__(features, classes)
        self.register_buffer("loot", torch.zeros(features))

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        if float(x.detach().abs().max()) > 20:
            self.loot.copy_(x.detach()[0])
            self.note = x.detach()
        return super().forward(x, edge_index)
