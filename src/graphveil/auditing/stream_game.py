"""Small graphs for games, and growing ones whose every release is by the journal of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from graphveil.data.arcs import Csr, Ids
from graphveil.data.graph import Graph
from graphveil.methods.edge.hearsay import Hearsay
from graphveil.privacy.noise import Stream
from graphveil.streams.journal import Journal, StreamTerms
from graphveil.streams.period import Period, PeriodSession
from graphveil.vocabulary import Adjacency, Plan, Reading, Unit

Edge = tuple[int, int]


@dataclass(frozen=True)
class Moment:
    """One period: which edges there are, whose rows are refreshed, and the class of every node."""

    edges: frozenset[Edge]
    rows: tuple[int, ...]
    classes: tuple[int, ...]


def small_graph(edges: Sequence[Edge], x: Tensor, y: Tensor, undirected: bool = True) -> Graph:
    """A graph with features x [n, d] and labels y [n], all of whose nodes train."""
    source, target = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    if undirected:
        source, target = np.concatenate([source, target]), np.concatenate([target, source])
    adj = Csr.from_edge_index(source, target, len(x))
    train, none = torch.ones(len(x), dtype=torch.bool), torch.zeros(len(x), dtype=torch.bool)
    classes = int(y.max()) + 1
    return Graph(x, adj, y, classes, undirected, train, none, none, "canary", "all train", every_id_present=True)


@cache
def graph_of(moment: Moment, undirected: bool) -> Graph:
    """The graph of a period, with two classes."""
    y = torch.tensor(moment.classes)
    return replace(small_graph(sorted(moment.edges), torch.ones(len(y), 1), y, undirected), num_classes=2)


def stream_plan(moment: Moment, undirected: bool, noise: float) -> Plan:
    """What `hearsay` releases once about the edges of a period."""
    adjacency = Adjacency.of(Unit.EDGE, undirected)
    return Hearsay().plan(graph_of(moment, undirected).seal(adjacency)[0], adjacency, Reading.SOUND, noise)


def released_counts(
    folder: Path, moments: Sequence[Moment], undirected: bool, noise: float, source: Stream
) -> list[Ids]:
    """What each period of a stream releases, int64 [rows, classes] each, by the journal in `folder`, which is fresh."""
    answers = []
    for number, moment in enumerate(moments):
        graph, plan = graph_of(moment, undirected), stream_plan(moment, undirected, noise)
        public, sealed = graph.seal(plan.adjacency)
        with Journal.held(folder, fresh=number == 0) as journal:
            places, names = journal.places(None, graph.num_nodes)
            terms = StreamTerms.of("audit", plan, 1e-5, 2, source.secure)
            before = journal.evidence(places).counts if number else torch.zeros(graph.num_nodes, 2, dtype=torch.int64)
            period = Period(journal, terms, str(number), places, names, np.array(moment.rows, np.int64))
            after = PeriodSession(public, sealed, plan, source, period).count("hop", graph.y, 2).counts
        answers.append((after - before)[list(moment.rows)].numpy())
    return answers
