"""Belief propagation against sums over all labellings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from blocks_of import graph_of, random_links
from graphveil.data.arcs import Csr
from graphveil.nn import beliefs
from graphveil.nn.beliefs import _matched, _opposite, propagate
from graphveil.vocabulary import Floats


def unmatched(scores: Floats, shares: Floats) -> Floats:  # noqa: ARG001
    return np.asarray(log_softmax(scores, axis=1))


def marginals(own: Floats, arcs: list[tuple[int, int]], ratio: Floats) -> Floats:
    """P(class of each node), by listing all labellings; an arc (source, target) weighs ratio[target's, source's]."""
    total = np.zeros_like(own)
    for labels in itertools.product(range(own.shape[1]), repeat=len(own)):
        weight = np.exp(sum(own[node, label] for node, label in enumerate(labels)))
        weight *= np.prod([ratio[labels[target], labels[source]] for source, target in arcs])
        total[np.arange(len(own)), labels] += weight
    return total / total.sum(axis=1, keepdims=True)


def random_tree(rng: np.random.Generator, nodes: int) -> list[tuple[int, int]]:
    """Arcs from every node to one before it."""
    return [(node, int(rng.integers(node))) for node in range(1, nodes)]


def random_parts(rng: np.random.Generator, nodes: int, classes: int) -> tuple[Floats, Floats]:
    """Log posteriors [n, c] and a joint law of two classes [c, c]."""
    return log_softmax(rng.normal(0, 1.5, (nodes, classes)), axis=1), rng.dirichlet(np.ones(classes**2)).reshape(
        classes, classes
    )


def ratio_of(joint: Floats) -> Floats:
    return joint / np.outer(joint.sum(axis=1), joint.sum(axis=0))


@pytest.mark.parametrize("seed", range(6))
def test_exact_on_undirected_trees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beliefs, "_matched", unmatched)
    rng = np.random.default_rng(seed)
    nodes, classes = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    arcs = random_tree(rng, nodes)
    own, joint = random_parts(rng, nodes, classes)
    joint = (joint + joint.T) / 2
    sources, targets = np.array(arcs).T
    heard = Csr.from_edge_index(np.append(sources, targets), np.append(targets, sources), nodes)
    found = propagate(own, heard, joint, joint.sum(axis=1), rounds=nodes)
    assert softmax(found, axis=1) == pytest.approx(marginals(own, arcs, ratio_of(joint)), abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_exact_at_the_root_of_directed_trees(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers, and the two ends of an arc play different parts: rows of the joint are the hearers."""
    monkeypatch.setattr(beliefs, "_matched", unmatched)
    rng = np.random.default_rng(seed)
    nodes, classes = int(rng.integers(2, 7)), int(rng.integers(2, 4))
    arcs = random_tree(rng, nodes)
    own, joint = random_parts(rng, nodes, classes)
    heard = Csr.from_edge_index(*np.array(arcs).T, nodes)  # type: ignore[call-arg]
    found = softmax(propagate(own, heard, joint, joint.sum(axis=1), rounds=nodes), axis=1)
    assert found[0] == pytest.approx(marginals(own, arcs, ratio_of(joint))[0], abs=1e-9)
    # Leaves hear nobody.
    lonely = np.diff(heard.indptr) == 0
    assert found[lonely] == pytest.approx(softmax(own, axis=1)[lonely])


def test_without_arcs_everyone_keeps_their_own() -> None:
    own, joint = random_parts(np.random.default_rng(0), 5, 3)
    assert np.array_equal(propagate(own, Csr.empty(5), joint, np.ones(3) / 3, 3), own)


def test_opposite_arcs() -> None:
    rng = np.random.default_rng(2)
    for trial in range(20):
        heard = graph_of(random_links(rng, int(rng.integers(2, 9)), undirected=trial % 3 == 0))
        if heard.num_arcs == 0:
            continue
        arcs = list(zip(heard.indices.tolist(), heard.targets().tolist(), strict=True))
        place = {arc: number for number, arc in enumerate(arcs)}
        assert _opposite(heard).tolist() == [place.get((target, source), -1) for source, target in arcs]


def test_matching_brings_the_mean_to_the_shares() -> None:
    rng = np.random.default_rng(3)
    scores, shares = rng.normal(0, 2, (400, 4)), np.array([0.4, 0.3, 0.2, 0.1])
    matched = _matched(scores, shares)
    assert softmax(matched, axis=1).mean(axis=0) == pytest.approx(shares, abs=5e-3)
    # One offset per class, the same for every node.
    offsets = (matched - scores) - (matched - scores)[:, :1]
    assert np.ptp(offsets, axis=0) == pytest.approx(np.zeros(4), abs=1e-9)


def test_matching_keeps_what_matches() -> None:
    scores = np.log(np.array([[0.7, 0.3], [0.1, 0.9]]))
    assert _matched(scores, np.array([0.4, 0.6])) == pytest.approx(scores)


def test_friends_of_one_class_agree() -> None:
    """An undecided node between two decided ones; and with opposites for friends it is the other way round."""
    own = np.log(np.array([[0.95, 0.05], [0.5, 0.5], [0.95, 0.05], [0.05, 0.95], [0.05, 0.95], [0.5, 0.5]]))
    pairs = np.array([[0, 1], [1, 2], [3, 5], [5, 4]]).T
    heard = Csr.from_edge_index(np.append(pairs[0], pairs[1]), np.append(pairs[1], pairs[0]), 6)
    alike = np.array([[0.45, 0.05], [0.05, 0.45]])
    for joint, expected in ((alike, [0, 1]), (alike[::-1], [1, 0])):
        found = propagate(own, heard, joint, np.array([0.5, 0.5]), 3)
        assert found[[1, 5]].argmax(axis=1).tolist() == expected
