"""The verb `verify`: what a release folder says of itself agrees, and its plan is the one that its method makes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from graphveil.data.arcs import arcs_of
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, Tampered
from graphveil.methods.described import rebuild_method
from graphveil.methods.edge.parts.released_graph import ReleasedGraph
from graphveil.methods.method import Method
from graphveil.planning import plan_of
from graphveil.privacy.noise import Seeded
from graphveil.privacy.session import Session
from graphveil.release.certificate import Certificate
from graphveil.release.edges import ReleasedEdges
from graphveil.release.release import Release, has_code, load, no_more_weights_than, require_assumed
from graphveil.runtime.folders import settled
from graphveil.runtime.safe_json import plain_json
from graphveil.vocabulary import Reading

_MAX_USES = 1000
"""Releases of one trial at most; methods that serve other graphs ask as often as they have hops."""


def verify(path: str | os.PathLike[str], graph: Graph | None = None) -> Release | ReleasedEdges:
    """Check a folder of `train`, `infer` or `release_graph`, or say what is wrong with it; give what it holds.

    Hashes, card and arithmetic are checked in any case, of all certificates that it descends from too. With `graph`,
    the graph and split of the run, or a stand-in that shares what is public of it, the plan is made again: nobody can
    have lowered a claim. So are the plans before it that speak of the same graph and split. The graph of a release on
    other data, which it descends from, will do too, for the guarantee of those. Runs no code from the folder. Hashes
    catch accidents, not authors: whether noise was drawn as the plan says, and whether all parents are named, no folder
    can show.
    """
    folder = settled(Path(path))
    edges = any((folder / name).exists() for name in ("edges.parquet", "edges.csv"))
    found = ReleasedEdges.load(path) if edges else load(path)
    if isinstance(found, Release):
        _require_serving(found)
    else:
        require_assumed(found.method, found.certificate)
    _require_releasers(found.certificate)
    _require_streams(found.certificate)
    if graph is not None:
        require_own_graph(found.certificate, graph)
        require_own_plan(found.method, found.certificate, graph)
    return found


def require_own_graph(certificate: Certificate, graph: Graph) -> None:
    """The graph shows the name, sizes, split, lineage and public parts of the run, or of an earlier one elsewhere."""
    if all(one.differences(graph) for one in (certificate, *certificate.elsewhere)):
        origin = certificate.provenance
        raise InvalidInput(
            f"{graph.name!r} is not the graph of this release, which speaks of {origin.dataset!r}, "
            f"split {origin.split!r}: they differ in {certificate.differences(graph)}. "
            "Give the graph and the split of the run"
        )


def require_own_plan(method: Method, certificate: Certificate, graph: Graph) -> None:
    """The certificate's plans, of both readings if it has both, are what `method` plans for the public of `graph`.

    So are those of the releases that it descends from, by their own methods, where they speak of the same graph and
    split. One that speaks of neither is the caller's to refuse.
    """
    earlier = [one for one in certificate.ancestry[1:] if not one.differences(graph)]
    if not earlier or not certificate.differences(graph):
        _require_plan(method, certificate, graph)
    for one in earlier:
        _require_plan(_method_of(one), one, graph)


def _require_releasers(certificate: Certificate) -> None:
    """Edges that are said to have been released were so by a method that releases graphs."""
    for one in certificate.ancestry:
        teller = one.parents[0] if one.provenance.descends else None
        if teller is not None and not isinstance(_method_of(teller), ReleasedGraph):
            raise Tampered(
                f"{_method_of(teller).name()} releases no graph, and {one.provenance.dataset!r} is one of its"
            )


def _require_streams(certificate: Certificate) -> None:
    """What is said to be a period of a growing graph is so by a method that counts each edge once."""
    for one in certificate.ancestry:
        if one.provenance.period and not _method_of(one).counts_once():
            raise Tampered(
                f"{_method_of(one).name()} with its settings does not count each edge once, and says that it is period "
                f"{one.provenance.period} of a stream"
            )


def _method_of(certificate: Certificate) -> Method:
    made: Method = rebuild_method(plain_json(certificate.provenance.method))
    return made


def _require_plan(method: Method, certificate: Certificate, graph: Graph) -> None:
    adjacency, noise = certificate.plan.adjacency, certificate.provenance.noise
    public, _ = graph.seal(adjacency)
    for plan in filter(None, (certificate.plan, certificate.sound)):
        if plan_of(method, public, adjacency, plan.reading, noise) != plan:
            raise InvalidInput(
                f"{graph.name!r} leads to another plan than the certificate's: give the graph and the split of the "
                "run, or others of the same sizes; with these, the certificate was altered"
            )


def _require_serving(release: Release) -> None:
    """A method that serves other graphs has all the weights for it: it is tried on a made-up one."""
    method, state = release.method.chosen(release.state)
    adjacency, sizes = release.certificate.plan.adjacency, release.certificate.provenance.sizes
    if type(method).serve is Method.serve or not has_code(method):
        return
    _, features, classes = sizes
    public, sealed = _made_up(features, classes, adjacency.undirected).seal(adjacency)
    plan = plan_of(method, public, adjacency, Reading.SOUND, 1.0)
    if sum(step.times for step in plan.steps) > _MAX_USES:
        raise Tampered(f"{method.name()} would ask more than {_MAX_USES:,} times: it was altered")
    try:
        with torch.random.fork_rng(devices=[]), no_more_weights_than(state):
            method.serve(Session(public, sealed, plan, Seeded(0)), state)
    except Exception as error:  # whatever breaks, the weights did it: the conformance tests serve such a graph
        raise Tampered(f"the weights are not all of {method.name()}'s: {type(error).__name__}: {error}") from None


def _made_up(features: int, classes: int, undirected: bool) -> Graph:
    """A ring of two nodes or more of every class, with features of zero; half of them train."""
    nodes = max(2 * classes, 4)
    ring = arcs_of(np.arange(nodes), (np.arange(nodes) + 1) % nodes, nodes, "arc")
    train = torch.arange(nodes) < nodes // 2
    none = torch.zeros(nodes, dtype=torch.bool)
    y = torch.arange(nodes) % classes
    adj = (ring.both_ways() if undirected else ring).pack()
    return Graph(torch.zeros(nodes, features), adj, y, classes, undirected, train, none, ~train, "made up", "halves")
