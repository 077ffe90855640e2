"""The verb `verify`: what a release folder says of itself agrees, and its plan is the one that its method makes."""

from __future__ import annotations

import os
from pathlib import Path

from graphveil.certificate import Certificate, Release, load
from graphveil.core import InvalidInput
from graphveil.graph import Graph
from graphveil.method import Method
from graphveil.released_edges import ReleasedEdges
from graphveil.training import plan_of


def verify(path: str | os.PathLike[str], graph: Graph | None = None) -> Release | ReleasedEdges:
    """Check a folder of `train` or `release_graph`, or say what is wrong with it; give what it holds.

    Hashes, card and arithmetic are checked in any case. With `graph`, the graph and split of the training or others of
    the same sizes, the plan is made again from what is public of it: nobody can have lowered a claim. Runs no code from
    the folder. Hashes catch accidents, not authors: whether noise was drawn as the plan says, no folder can show.
    """
    edges = any((Path(path) / name).exists() for name in ("edges.parquet", "edges.csv"))
    found = ReleasedEdges.load(path) if edges else load(path)
    if graph is not None:
        require_own_plan(found.method, found.certificate, graph)
    return found


def require_own_plan(method: Method, certificate: Certificate, graph: Graph) -> None:
    """The certificate's plans, of both readings if it has both, are what `method` plans for the public of `graph`."""
    adjacency, noise = certificate.plan.adjacency, certificate.provenance.noise
    public, _ = graph.seal(adjacency)
    for plan in filter(None, (certificate.plan, certificate.sound)):
        if plan_of(method, public, adjacency, plan.reading)(noise) != plan:
            raise InvalidInput(
                f"{graph.name!r} leads to another plan than the certificate's: give the graph and the split of the "
                "training, or others of the same sizes; with these, the certificate was altered"
            )
