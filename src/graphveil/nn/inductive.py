"""One network, trained on some private nodes, that labels a whole public graph: PATE's teachers, and single ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import nll_loss

from graphveil.data.arcs import Csr, Ids
from graphveil.nn.aggregate import Operator
from graphveil.nn.gnn import mean_operator
from graphveil.nn.mlp import Perceptron
from graphveil.nn.sage_teacher import SageRecipe
from graphveil.nn.student import SageNet
from graphveil.nn.teachers import Known
from graphveil.runtime.engine import one_thread


def inductive(known: Known, ids: Ids, x: Tensor, adj: Csr, recipe: SageRecipe, arcs: bool, seed: int) -> Tensor:
    """Posteriors of the public nodes, float32 [m, c], by a network trained on the private nodes `ids`, int64 [k].

    `arcs`: GraphSAGE on the arcs among them, which then hears public arcs; else three dense layers on a node's own
    features (appendix G.1). All chance comes from `seed`, and torch's stream is left alone, for how much is drawn here
    depends on private sizes. Fewer than two labelled nodes teach nothing: 1/c.
    """
    ids = ids[known.y.numpy()[ids] >= 0]
    if len(ids) < 2:
        return torch.full((len(x), known.classes), 1 / known.classes)
    with torch.random.fork_rng(devices=[]), one_thread():
        torch.manual_seed(seed)
        return _trained(known, ids, x, adj, recipe, arcs)


def _trained(known: Known, ids: Ids, x: Tensor, adj: Csr, recipe: SageRecipe, arcs: bool) -> Tensor:
    places = torch.from_numpy(ids)
    own, labels, width = known.x[places], known.y[places], x.shape[1]
    net: nn.Module
    inputs: tuple[tuple[Operator, ...], tuple[Operator, ...]] = ((), ())
    if arcs:
        net = SageNet(width, recipe.hidden, known.classes, recipe.dropout)
        inside = torch.zeros(known.adj.num_nodes, dtype=torch.bool)
        inside[places] = True
        inputs = ((mean_operator(known.adj.within(inside.numpy())),), (mean_operator(adj),))
    else:
        net = Perceptron((width, recipe.hidden, recipe.hidden, known.classes), recipe.dropout)
    optimiser = torch.optim.Adam(net.parameters(), lr=recipe.learning_rate)
    for _ in range(recipe.epochs):
        optimiser.zero_grad()
        loss = nll_loss(torch.log_softmax(net(own, *inputs[0]), dim=1), labels)
        loss.backward()  # type: ignore[no-untyped-call]  # torch does not type it
        optimiser.step()
    net.eval()
    with torch.no_grad():
        return torch.softmax(net(x, *inputs[1]), dim=1)
