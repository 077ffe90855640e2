"""What every edge-level method that serves other graphs must do."""

from __future__ import annotations

import torch

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.methods.method import Method
from graphveil.release.release import Release


def served_elsewhere(method: Method, graph: Graph, other: Graph) -> tuple[Release, Release]:
    """A release, and one on another graph with twice the noise; a seed fixes all, and weights say what they said."""
    release, again = (gv.train(graph, method, noise=2.0, delta=1e-5, unit="edge", seed=3) for _ in range(2))
    assert torch.equal(release.state["logits"], again.state["logits"])
    # The same noise on the same graph: stored networks must say what they said in training.
    served = gv.infer(release, graph, noise=2.0, delta=1e-5, seed=3)
    assert torch.allclose(served.state["logits"], release.state["logits"], atol=1e-4)
    elsewhere = gv.infer(release, other, noise=4.0, delta=1e-5, seed=0)
    assert elsewhere.predict().shape == (other.num_nodes,)
    return release, elsewhere
