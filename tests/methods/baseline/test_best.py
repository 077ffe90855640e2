"""Choosing among candidates: all are charged, the best is kept, and nobody's bounds are another's."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

import graphveil as gv
from graphveil.data.arcs import Csr
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.data.sealing import Public, Sealed
from graphveil.errors import InvalidInput, Tampered, Unsupported
from graphveil.methods import Best, Caribou, DpSgd, Gap, HeterPoisson, Mlp, Ndp, PrivGnn
from graphveil.methods.described import rebuild_method
from graphveil.methods.method import Method
from graphveil.nn.clipping import Vectors
from graphveil.privacy import accounting
from graphveil.privacy.noise import Secure, Seeded, Stream
from graphveil.privacy.session import Session
from graphveil.vocabulary import Adjacency, Reading, State

QUICK = Gap(hidden=8, head=8, epochs=5)
FLOOR = DpSgd(steps=20, learning_rate=64.0)
USELESS = DpSgd(hidden=1, steps=20, learning_rate=1e-6)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return social().random_split(seed=0)


def test_everything_is_charged(graph: Graph) -> None:
    """k equal Gaussian plans cost what one plan of k times as many uses costs."""
    release = gv.train(graph, Best((QUICK, replace(QUICK, hops=2))), epsilon=2, delta=1e-5, unit="edge", seed=0)
    certificate = release.certificate
    assert [(step.name, step.times) for step in certificate.plan.steps] == [("1.hop", 1), ("2.hop", 2)]
    public = Public.blank(100, 5, 3)
    noise = certificate.provenance.noise
    three = replace(QUICK, hops=3).plan(public, Adjacency.of("edge"), Reading.SOUND, noise)
    assert certificate.epsilon == pytest.approx(accounting.epsilon(three, 1e-5), rel=1e-6)
    assert 1.99 < certificate.epsilon <= 2


@pytest.mark.parametrize(("unit", "moved"), [("node", 1.0), ("features", 2.0), ("label", 2.0)])
def test_a_choice_by_private_labels_is_a_step_that_costs_a_tenth(unit: str, moved: float) -> None:
    public, adjacency = Public.blank(100, 5, 3), Adjacency.of(unit)
    method = Best((FLOOR, replace(FLOOR, steps=30), replace(FLOOR, clip=1.0)))
    *trained, choice = method.plan(public, adjacency, Reading.SOUND, 4.0).steps
    assert [step.times for step in trained] == [20, 30, 20]
    assert choice.act.clip == math.sqrt(3) / 2
    assert choice.claim == choice.act.curve(moved)
    assert choice.claim.gdp() ** 2 == pytest.approx(0.1 * 70 * (moved / 4) ** 2)


@pytest.mark.parametrize("unit", ["node", "label"])
@pytest.mark.parametrize("good", [0, 1])
def test_the_better_candidate_wins(graph: Graph, unit: str, good: int) -> None:
    candidates = (FLOOR, USELESS) if good == 0 else (USELESS, FLOOR)
    release = gv.train(graph, Best(candidates), epsilon=8, delta=1e-5, unit=unit, seed=1)
    winner, state = release.method.chosen(release.state)
    assert winner == FLOOR
    assert set(state) == {"weights.0"}
    assert release.evaluate("test")["accuracy"] > 0.5


def test_public_labels_choose_without_noise_and_ties_go_to_the_first(graph: Graph) -> None:
    lazy = Mlp(hidden=4, epochs=1, learning_rate=1e-9)
    for candidates, place in (((lazy, Mlp(epochs=30)), 1), ((Mlp(epochs=30), Mlp(epochs=30)), 0)):
        release = gv.train(graph, Best(candidates), epsilon=1, unit="edge", seed=0)
        assert not release.certificate.plan.steps
        assert int(release.state["best.winner"]) == place


def test_training_nodes_choose_where_none_validate(graph: Graph) -> None:
    none = torch.zeros_like(graph.val)
    bare = graph.with_split(graph.train, none, ~graph.train, "no validation")
    release = gv.train(bare, Best((USELESS, FLOOR)), epsilon=8, delta=1e-5, unit="node", seed=0)
    assert release.method.chosen(release.state)[0] == FLOOR


@dataclass(frozen=True)
class _Told(Method):
    """Says which class everybody has, and asks for nothing."""

    units = frozenset({gv.Unit.NODE, gv.Unit.LABEL})
    label: int = 0

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> gv.Plan:  # noqa: ARG002
        return gv.Plan(adjacency, reading, ())

    def fit(self, session: Session) -> State:
        logits = torch.zeros(session.public.num_nodes, session.public.num_classes)
        logits[:, self.label] = 1
        return {"logits": logits}


class _Plain(Session):
    """Keeps the bounded sums of the choice."""

    def release(self, name: str, query: gv.core.Query, uses: int | None = None) -> torch.Tensor:
        with self._sealed.opened() as sealed:
            self.sums = query(sealed).clipped_sum(self.plan.step(name).act.clip)  # type: ignore[attr-defined]
        return super().release(name, query, uses)


@pytest.mark.parametrize("unit", ["node", "label"])
def test_the_sensitivity_of_the_choice_is_attained(unit: str) -> None:
    """Two candidates that agree: one node moves both marks, by exactly what is claimed."""
    y = torch.tensor([0, 1, 0, 1, 0])
    adjacency, method = Adjacency.of(unit), Best((_Told(0), _Told(0)))
    train = torch.tensor([True, True, True, False, False])
    graph = Graph(torch.zeros(5, 1), Csr.empty(5), y, 2, True, train, ~train, torch.zeros_like(train), "g", "s")
    public, _ = graph.seal(adjacency)
    plan = method.plan(public, adjacency, Reading.SOUND, 3.0)
    other = y.clone()
    other[4] = -1 if unit == "node" else 1
    sums = []
    for labels in (y, other):
        session = _Plain(public, Sealed(graph.x, labels, graph.adj, public), plan, Seeded(0))
        method.fit(session)
        sums.append(session.sums)
    [choice] = plan.steps
    claimed = choice.claim.gdp() * choice.act.std * choice.act.clip
    assert float((sums[0] - sums[1]).norm()) == pytest.approx(claimed, rel=1e-6)


@dataclass(frozen=True)
class _Keeps(_Told):
    """Derives something under a name that does not say under which bound."""

    def plan(self, public: Public, adjacency: Adjacency, reading: Reading, noise: float) -> gv.Plan:  # noqa: ARG002
        act = gv.mechanisms.gaussian.Gaussian(noise)
        return gv.Plan(adjacency, reading, (gv.Step("sum", act, act.curve(2), 2, why=""),))

    def fit(self, session: Session) -> State:
        for _ in range(2):
            session.release("sum", self._query)
        return super().fit(session)

    def _query(self, sealed: Sealed) -> Vectors:
        assert sealed.derived("bound", lambda _: self.label) == self.label
        return Vectors(torch.zeros(0, 1))


class _Kept(Session):
    """Keeps every answer."""

    def release(self, name: str, query: gv.core.Query, uses: int | None = None) -> torch.Tensor:
        answer = super().release(name, query, uses)
        self.answers = [*getattr(self, "answers", []), float(answer[0])]
        return answer


@pytest.mark.parametrize("source", [Seeded(0), Secure()], ids=["seeded", "secure"])
def test_equal_candidates_get_noise_of_their_own(graph: Graph, source: Stream) -> None:
    adjacency, method = Adjacency.of("label"), Best((_Keeps(0), _Keeps(0)))
    public, sealed = graph.seal(adjacency)
    session = _Kept(public, sealed, method.plan(public, adjacency, Reading.SOUND, 3.0), source)
    method.fit(session)
    *noises, _ = session.answers
    assert len(set(noises)) == len(noises) == 4


def test_what_one_candidate_derived_is_not_shown_to_another(graph: Graph) -> None:
    gv.train(graph, Best((_Keeps(0), _Keeps(1))), noise=3.0, unit="label", seed=0)


def test_a_candidate_cannot_spend_what_is_another_s(graph: Graph) -> None:
    class Greedy(_Keeps):
        def fit(self, session: Session) -> State:
            assert session.left("sum") == 2
            super().fit(session)
            assert session.left("sum") == 0
            with pytest.raises(gv.Overspent, match=r"1\.sum"):
                session.release("sum", self._query)
            with pytest.raises(gv.PrivateAccess, match="not planned"):
                session.release("2.sum", self._query)
            return super(_Keeps, self).fit(session)

    gv.train(graph, Best((Greedy(0), _Keeps(1))), noise=3.0, unit="label", seed=0)


def test_the_winner_alone_serves_another_graph(graph: Graph, tmp_path: Path) -> None:
    release = gv.train(graph, Best((QUICK, replace(QUICK, hops=2))), epsilon=8, delta=1e-5, unit="edge", seed=0)
    loaded = gv.load(release.save(tmp_path / "release"))
    assert loaded.method == release.method
    other = replace(graph, name="other")
    there = gv.infer(loaded, other, epsilon=2, delta=1e-5, seed=5)
    assert there.method == release.method.chosen(release.state)[0]
    assert [step.name for step in there.certificate.plan.steps] == ["hop"]
    assert len(there.predict()) == graph.num_nodes
    with pytest.raises(Unsupported, match=r"call release\.predict"):
        gv.infer(gv.train(graph, Best((FLOOR, USELESS)), noise=9, unit="node", seed=0), other, epsilon=2)


def test_a_published_claim_is_chosen_with_noise_though_nothing_is_proven(graph: Graph) -> None:
    one = Caribou.specimens()[-1]
    method = Best((one, replace(one, hops=2)))
    certificate = gv.train(graph, method, epsilon=8, delta=1e-5, unit="node", reading="published", seed=0).certificate
    assert certificate.plan.step("choice").act.std > 0  # type: ignore[attr-defined]
    assert 7.9 < certificate.epsilon <= 8
    assert certificate.sound_epsilon == math.inf


def test_a_release_by_a_noisy_choice_is_saved_and_audited(graph: Graph, tmp_path: Path) -> None:
    small = replace(FLOOR, steps=2)
    release = gv.train(graph, Best((small, replace(small, hidden=3))), epsilon=2, delta=1e-5, unit="node", seed=0)
    folder = release.save(tmp_path / "release")
    winner, _ = release.method.chosen(release.state)
    assert len(gv.load(folder).state) == (3 if winner.hidden else 2), "nothing of the loser is kept"  # type: ignore[attr-defined]
    assert torch.equal(gv.load(folder).predict(graph), release.predict())
    found = gv.audit(folder, graph, runs=20, attack="gradient_canary")
    assert found.verdict == "consistent"
    assert gv.load(folder).audit == found


@pytest.mark.parametrize("kind", [HeterPoisson, Ndp, PrivGnn], ids=lambda kind: kind.name())
def test_predictions_that_read_others_are_refused(kind: type[Method]) -> None:
    with pytest.raises(Unsupported, match=rf"cannot choose for {kind.name()}, which predicts from"):
        Best((kind(), kind()))


def test_bad_candidates_are_refused() -> None:
    for few in ((), (QUICK,), ("gap", "mlp"), [QUICK, QUICK], QUICK):
        with pytest.raises(InvalidInput, match="at least two methods"):
            Best(few)
    with pytest.raises(InvalidInput, match="among choices"):
        Best((QUICK, Best((QUICK, QUICK))))
    with pytest.raises(Unsupported, match="predict alike"):
        Best((QUICK, FLOOR))
    with pytest.raises(Unsupported, match=r"candidate gap does not protect 'node'\. Every node"):
        Best((QUICK, QUICK)).plan(Public.blank(9, 4, 3), Adjacency.of("node"), Reading.SOUND, 1.0)


def test_a_file_cannot_make_an_impossible_choice() -> None:
    described = Best((QUICK, QUICK)).describe()
    assert rebuild_method(described) == Best((QUICK, QUICK))
    described["candidates"][1] = FLOOR.describe()
    with pytest.raises(Tampered, match="impossible Best"):
        rebuild_method(described)
    described["candidates"][1] = {"kind": "Gaussian", "std": 1.0, "clip": 1.0}
    with pytest.raises(Tampered, match="unknown part"):
        rebuild_method(described)
