"""A graph that grows: what the verbs `train(journal=...)` and `extend` count, certify, refuse and reach."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import graphveil as gv
from graphveil.data.datasets.synthetic import social
from graphveil.data.graph import Graph
from graphveil.errors import InvalidInput, Overspent, Tampered, Unsupported
from graphveil.mechanisms.geometric_count import Tally
from graphveil.privacy.ledger import Ledger
from graphveil.release.certificate import Certificate
from graphveil.streams.journal import Journal

SMALL = gv.methods.Hearsay(folds=2, hidden=4, head=4)


@pytest.fixture(scope="module")
def whole() -> Graph:
    return social(num_nodes=200).random_split(seed=0)


def part(graph: Graph, share: float) -> Graph:
    """The graph with the first edges alone."""
    sources, targets = graph.adj.indices, graph.adj.targets()
    low, high = np.minimum(sources, targets), np.maximum(sources, targets)
    kept = (low * 7919 + high * 104729) % 1000 < 1000 * share
    return graph.with_arcs(type(graph.adj).from_edge_index(sources[kept], targets[kept], graph.num_nodes))


def begun(graph: Graph, folder: Path, ledger: Ledger | None = None, noise: float = 0.5) -> gv.Release:
    return gv.train(graph, SMALL, noise=noise, delta=1e-5, unit="edge", seed=0, journal=folder, ledger=ledger)


def table(edges: Sequence[tuple[str, str]], ids: Sequence[str]) -> Graph:
    """A graph from tables: a node's label and feature are the parity of its number."""
    nodes = {
        "id": list(ids),
        "label": [int(each[1:]) % 2 for each in ids],
        "x": [float(int(each[1:]) % 2) for each in ids],
        "split": ["train"] * len(ids),
    }
    pairs = np.array(edges, dtype=object).reshape(-1, 2)
    return Graph.from_edges({"source": pairs[:, 0].tolist(), "target": pairs[:, 1].tolist()}, nodes)


def counts(folder: Path, ids: Sequence[str]) -> list[list[int]]:
    with Journal.held(folder, fresh=False) as journal:
        found: list[list[int]] = journal.evidence(journal.places(list(ids), len(ids))[0]).counts.tolist()
    return found


def test_all_periods_together_cost_what_the_first_one_costs(whole: Graph, tmp_path: Path) -> None:
    release = begun(part(whole, 0.3), tmp_path / "j")
    plain = gv.train(part(whole, 0.3), SMALL, noise=0.5, delta=1e-5, unit="edge", seed=0)
    assert release.certificate.epsilon == plain.certificate.epsilon
    for period, share in ((2, 0.6), (3, 1.0)):
        grown = part(whole, share)
        release = gv.extend(release, grown, journal=tmp_path / "j", refresh="all", seed=0)
        certificate = release.certificate
        assert certificate.epsilon == plain.certificate.epsilon
        assert certificate.plan == plain.certificate.plan
        assert certificate.provenance.period == period
        assert f"period {period}: if its one journal was kept, an edge is counted once in its life" in release.card()
        assert "uncovered   who is a node and when it arrives" in release.card()
        release.save(tmp_path / "release")
        assert gv.verify(tmp_path / "release", grown).certificate == certificate
        shutil.rmtree(tmp_path / "release")


def test_what_a_row_tells_is_the_sum_of_its_increments(whole: Graph, tmp_path: Path) -> None:
    """Without noise, three periods have counted what one release at the end would count."""
    release = begun(part(whole, 0.3), tmp_path / "j", noise=0.0)
    for share in (0.6, 1.0):
        release = gv.extend(release, part(whole, share), journal=tmp_path / "j", refresh="all", seed=0)
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        told = journal.evidence(np.arange(whole.num_nodes))
    assert torch.equal(told.counts.sum(dim=1), torch.from_numpy(whole.adj.in_degrees()))
    assert told.refreshes.unique().tolist() == [3]


def test_only_the_edges_that_are_new_need_be_given(tmp_path: Path) -> None:
    ids = ("n1", "n2", "n3")
    release = begun(table([("n1", "n2")], ids), tmp_path / "j", noise=0.0)
    gv.extend(release, table([("n2", "n3")], ids), journal=tmp_path / "j", refresh="all", seed=0)
    assert counts(tmp_path / "j", ids) == [[1, 0], [0, 2], [1, 0]]


def test_nodes_are_known_by_their_ids_in_whatever_order_they_stand(tmp_path: Path) -> None:
    release = begun(table([("n1", "n2")], ("n1", "n2")), tmp_path / "j", noise=0.0)
    grown = table([("n2", "n1"), ("n4", "n1")], ("n4", "n2", "n1"))
    later = gv.extend(release, grown, journal=tmp_path / "j", refresh="all", seed=0)
    assert counts(tmp_path / "j", ("n1", "n2", "n4")) == [[2, 0], [0, 1], [0, 1]]
    assert later.predictions().ids == ["n4", "n2", "n1"]


def test_a_period_says_how_many_nodes_are_known_new_and_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    release = begun(table([("n1", "n2")], ("n1", "n2", "n3")), tmp_path / "j")
    grown = table([("n2", "n1")], ("n4", "n5", "n2", "n1", "n6"))
    gv.extend(release, grown, journal=tmp_path / "j", seed=0)
    assert "period 2: 2 nodes are known, 3 are new, 1 known ones are gone" in capsys.readouterr().err


def test_a_period_of_one_schedule_refreshes_the_rows_it_says(whole: Graph, tmp_path: Path) -> None:
    release = begun(whole, tmp_path / "j")
    release = gv.extend(release, whole, journal=tmp_path / "j", seed=0)
    release = gv.extend(release, whole, journal=tmp_path / "j", refresh=[3, 5], seed=0)
    gv.extend(release, whole, journal=tmp_path / "j", refresh="none", seed=0)
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        refreshes = journal.evidence(np.arange(whole.num_nodes)).refreshes
        assert journal.period == 4
    assert refreshes[[3, 5]].tolist() == [3, 3]
    assert int(refreshes.sum()) == 2 * whole.num_nodes + 2


def test_the_same_seed_gives_the_same_stream(whole: Graph, tmp_path: Path) -> None:
    made = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        release = begun(part(whole, 0.5), folder)
        made.append(gv.extend(release, whole, journal=folder, refresh="all", seed=1).predict_proba())
    assert torch.equal(*made)


def test_a_stream_keeps_its_kind_of_noise(whole: Graph, tmp_path: Path) -> None:
    secret = gv.train(whole, SMALL, epsilon=2, delta=1e-5, unit="edge", journal=tmp_path / "secret")
    with pytest.raises(InvalidInput, match="cryptographic noise"):
        gv.extend(secret, whole, journal=tmp_path / "secret", seed=0)
    assert gv.extend(secret, whole, journal=tmp_path / "secret").certificate.provenance.secure
    assert gv.extend(secret, whole, journal=tmp_path / "secret", seed=0, secure=True).certificate.provenance.secure
    seeded = begun(whole, tmp_path / "seeded")
    with pytest.raises(InvalidInput, match="seeded noise"):
        gv.extend(seeded, whole, journal=tmp_path / "seeded")


class TestRefusals:
    def test_what_does_not_count_each_edge_once(self, whole: Graph, tmp_path: Path) -> None:
        others = (replace(SMALL, hops=2), replace(SMALL, channel="sums"), gv.methods.Gap(hidden=4, head=4))
        for method in others:
            with pytest.raises(Unsupported, match="counting each once"):
                gv.train(whole, method, epsilon=1, unit="edge", journal=tmp_path / "j")
        assert not (tmp_path / "j").exists()

    def test_a_release_without_a_journal(self, whole: Graph, tmp_path: Path) -> None:
        release = gv.train(whole, SMALL, epsilon=1, unit="edge", seed=0)
        with pytest.raises(Unsupported, match="keeps no journal"):
            gv.extend(release, whole, journal=tmp_path / "j")

    def test_a_journal_of_another_stream(self, whole: Graph, tmp_path: Path) -> None:
        mine, _ = begun(whole, tmp_path / "mine"), begun(whole, tmp_path / "other")
        with pytest.raises(InvalidInput, match="another stream"):
            gv.extend(mine, whole, journal=tmp_path / "other", seed=0)

    def test_a_journal_that_is_older_than_the_release(self, whole: Graph, tmp_path: Path) -> None:
        release = begun(whole, tmp_path / "j")
        shutil.copytree(tmp_path / "j", tmp_path / "backup")
        later = gv.extend(release, whole, journal=tmp_path / "j", seed=0)
        with pytest.raises(Tampered, match="older than the release"):
            gv.extend(later, whole, journal=tmp_path / "backup", seed=0)

    def test_a_release_that_claims_another_noise(self, whole: Graph, tmp_path: Path) -> None:
        release = begun(whole, tmp_path / "j")
        altered = replace(release.certificate.provenance, noise=0.1)
        forged = replace(release, certificate=replace(release.certificate, provenance=altered))
        with pytest.raises(Tampered, match="another plan"):
            gv.extend(forged, whole, journal=tmp_path / "j", seed=0)
        with Journal.held(tmp_path / "j", fresh=False) as journal:
            assert journal.period == 1

    def test_a_graph_of_other_classes_or_direction(self, whole: Graph, tmp_path: Path) -> None:
        release = begun(whole, tmp_path / "j")
        with pytest.raises(InvalidInput, match="undirected"):
            gv.extend(release, replace(whole, undirected=False), journal=tmp_path / "j", seed=0)
        with pytest.raises(InvalidInput, match="classes"):
            gv.extend(release, replace(whole, num_classes=9), journal=tmp_path / "j", seed=0)


def test_two_copies_of_a_release_share_one_journal(whole: Graph, tmp_path: Path) -> None:
    """An older release of the stream gets what was told since, and no end is counted twice."""
    first = begun(part(whole, 0.5), tmp_path / "j", noise=0.0)
    gv.extend(first, whole, journal=tmp_path / "j", refresh="all", seed=0)
    again = gv.extend(first, whole, journal=tmp_path / "j", refresh="all", seed=0)
    assert again.certificate.provenance.period == 3
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        told = journal.evidence(np.arange(whole.num_nodes))
    assert torch.equal(told.counts.sum(dim=1), torch.from_numpy(whole.adj.in_degrees()))


class TestCertificate:
    def test_comes_back_from_json_with_its_period(self, whole: Graph, tmp_path: Path) -> None:
        made = begun(whole, tmp_path / "j").certificate
        assert Certificate.from_json(made.to_json()) == made
        described = json.loads(made.to_json())
        described["provenance"]["period"] = -1
        with pytest.raises(Tampered):
            Certificate.from_json(json.dumps(described))
        del described["provenance"]["period_token"]
        described["provenance"]["period"] = 3
        with pytest.raises(Tampered):
            Certificate.from_json(json.dumps(described))

    def test_periods_count_once_among_what_a_release_descends_from(self, whole: Graph, tmp_path: Path) -> None:
        first = begun(whole, tmp_path / "j")
        second = gv.extend(first, whole, journal=tmp_path / "j", seed=0)
        other = social(num_nodes=60, seed=9).random_split(seed=0)
        there = gv.infer(second, replace(other, name="elsewhere"), noise=1.0, delta=1e-5, seed=5)
        (_, streamed) = there.certificate.guarantees
        assert streamed.sound_epsilon == pytest.approx(first.certificate.epsilon)
        both = replace(there.certificate, parents=(first.certificate, second.certificate))
        assert both.guarantees == there.certificate.guarantees

    @pytest.mark.parametrize("method", [replace(SMALL, hops=2), gv.methods.Gap(hidden=4, head=4)])
    def test_what_reads_edges_otherwise_is_no_stream(self, whole: Graph, method: gv.Method) -> None:
        made = gv.train(whole, method, noise=1.0, delta=1e-5, unit="edge", seed=0).certificate
        with pytest.raises(InvalidInput, match="each once"):
            replace(made, provenance=replace(made.provenance, period=3, period_token="ab"))
        described = json.loads(made.to_json())
        described["provenance"] |= {"period": 3, "period_token": "ab"}
        with pytest.raises(Tampered):
            Certificate.from_json(json.dumps(described))

    def test_one_mark_for_two_ends_or_two_counts_are_no_stream(self, whole: Graph, tmp_path: Path) -> None:
        made = begun(whole, tmp_path / "j").certificate
        (step,) = made.plan.steps
        act = Tally(0.5, marks=1)
        for steps in ((replace(step, times=2),), (replace(step, act=act),), (step, replace(step, name="again")), ()):
            with pytest.raises(InvalidInput, match="each once"):
                replace(made, plan=replace(made.plan, steps=steps))

    def test_a_method_that_does_not_count_once_is_refused_whatever_its_plan(self, whole: Graph, tmp_path: Path) -> None:
        """Its plan looks like a stream's: one count of both ends."""
        begun(whole, tmp_path / "j").save(tmp_path / "sound")
        assert gv.verify(tmp_path / "sound", whole)
        method = gv.methods.LpgNet(hidden=4, levels=1)
        made = gv.train(whole, method, noise=1.0, delta=1e-5, unit="edge", seed=0)
        origin = replace(made.certificate.provenance, period=3, period_token="ab")
        forged = replace(made, certificate=replace(made.certificate, provenance=origin))
        forged.save(tmp_path / "forged")
        with pytest.raises(Tampered, match="does not count each edge once"):
            gv.verify(tmp_path / "forged", whole)

    def test_certificates_of_one_run_are_periods_of_one_stream(self, whole: Graph, tmp_path: Path) -> None:
        first = begun(whole, tmp_path / "j")
        second = gv.extend(first, whole, journal=tmp_path / "j", seed=0)
        other = social(num_nodes=60, seed=9).random_split(seed=0)
        there = gv.infer(second, replace(other, name="elsewhere"), noise=1.0, delta=1e-5, seed=5).certificate
        stream = second.certificate
        forked = replace(stream, provenance=replace(stream.provenance, period_token="cd"))
        dear = gv.train(whole, SMALL, noise=0.2, delta=1e-5, unit="edge", seed=0).certificate
        once = gv.train(whole, SMALL, noise=0.5, delta=1e-5, unit="edge", seed=0).certificate
        run = stream.provenance.run
        strange = [replace(one, provenance=replace(one.provenance, run=run)) for one in (dear, once)]
        for one in (forked, *strange, replace(stream, delta=1e-6)):
            with pytest.raises(Tampered, match=r"different (ways|plans)"):
                _ = replace(there, parents=(stream, one)).guarantees

    def test_certificates_of_graphs_that_are_released_once_have_no_period(self, whole: Graph) -> None:
        made = gv.train(whole, SMALL, noise=1.0, unit="edge", seed=0).certificate
        assert (made.provenance.period, made.provenance.period_token) == (0, "")
        assert "stream" not in made.card()


class TestLedger:
    @pytest.fixture
    def ledger(self, whole: Graph, tmp_path: Path) -> Ledger:
        made = Ledger(tmp_path / "ledger.db")
        made.open(part(whole, 0.3), "edge", epsilon=6, delta=1e-5)
        return made

    def test_a_stream_is_one_line_whose_cost_does_not_grow(self, whole: Graph, ledger: Ledger, tmp_path: Path) -> None:
        first = part(whole, 0.3)
        release = begun(first, tmp_path / "j", ledger)
        spent = ledger.account(first).spent
        for share in (0.6, 1.0):
            grown = part(whole, share)
            release = gv.extend(release, grown, journal=tmp_path / "j", seed=0, ledger=ledger)
            assert ledger.account(grown) == ledger.account(first)
        (account,) = ledger.accounts()
        assert (account.spent, account.entries, account.open) == (spent, 1, 0)
        assert len(ledger.entries()) == 1

    def test_whatever_runs_beside_it_on_any_of_its_graphs_is_counted_together(
        self, whole: Graph, ledger: Ledger, tmp_path: Path
    ) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)  # 4 of 6
        with pytest.raises(InvalidInput, match="no budget"):
            gv.train(whole, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=0, ledger=ledger)
        gv.extend(release, whole, journal=tmp_path / "j", seed=0, ledger=ledger)
        gv.train(whole, SMALL, epsilon=1, delta=1e-5, unit="edge", seed=0, ledger=ledger)
        with pytest.raises(Overspent):
            gv.train(part(whole, 0.3), SMALL, epsilon=1.5, delta=1e-5, unit="edge", seed=0, ledger=ledger)
        with pytest.raises(InvalidInput, match="already has a budget"):
            ledger.open(whole, "edge", epsilon=9, delta=1e-5)

    def test_a_stream_goes_on_with_the_ledger_it_began_with(self, whole: Graph, ledger: Ledger, tmp_path: Path) -> None:
        counted = begun(part(whole, 0.3), tmp_path / "j", ledger)
        with pytest.raises(InvalidInput, match="a ledger counts this stream"):
            gv.extend(counted, whole, journal=tmp_path / "j", seed=0)
        other = Ledger(tmp_path / "other.db")
        other.open(whole, "edge", epsilon=9, delta=1e-5)
        with pytest.raises(InvalidInput, match="no reservation"):
            gv.extend(counted, whole, journal=tmp_path / "j", seed=0, ledger=other)
        uncounted = begun(whole, tmp_path / "k")
        with pytest.raises(InvalidInput, match="no ledger counts"):
            gv.extend(uncounted, whole, journal=tmp_path / "k", seed=0, ledger=ledger)

    def test_a_graph_with_a_budget_of_its_own_is_refused(self, whole: Graph, ledger: Ledger, tmp_path: Path) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        ledger.open(whole, "edge", epsilon=1, delta=1e-5)
        with pytest.raises(InvalidInput, match="budget of its own"):
            gv.extend(release, whole, journal=tmp_path / "j", seed=0, ledger=ledger)

    def test_a_journal_and_a_release_from_a_backup_are_refused(
        self, whole: Graph, ledger: Ledger, tmp_path: Path
    ) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        shutil.copytree(tmp_path / "j", tmp_path / "backup")
        gv.extend(release, part(whole, 0.6), journal=tmp_path / "j", seed=0, ledger=ledger)
        with pytest.raises(Tampered, match="older copy"):
            gv.extend(release, whole, journal=tmp_path / "backup", seed=0, ledger=ledger)

    def test_a_ledger_that_missed_a_period_catches_up(self, whole: Graph, ledger: Ledger, tmp_path: Path) -> None:
        """Killed after the journal was written and before the ledger was."""
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        with killed_at(Ledger, "note_period"):
            gv.extend(release, part(whole, 0.6), journal=tmp_path / "j", seed=0, ledger=ledger)
        later = gv.extend(release, whole, journal=tmp_path / "j", seed=0, ledger=ledger)
        assert later.certificate.provenance.period == 3
        assert ledger.account(whole) == ledger.account(part(whole, 0.3))


@contextmanager
def killed_at(kind: type, name: str) -> Iterator[pytest.ExceptionInfo[KeyboardInterrupt]]:
    """Whoever comes to this is killed."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, name, killed)
        with pytest.raises(KeyboardInterrupt) as found:
            yield found


def test_a_first_period_that_was_stopped_says_what_is_lost_and_what_to_do(whole: Graph, tmp_path: Path) -> None:
    with killed_at(Journal, "evidence") as found:
        begun(whole, tmp_path / "j")
    (words,) = found.value.__notes__
    assert "cannot be resumed: begin another stream" in words
    assert "next extend" not in words
    with pytest.raises(InvalidInput, match="nothing was told, so the folder may go"):
        begun(whole, tmp_path / "j")


class TestForks:
    """Two copies of one journal under one ledger: what one of them told, the other must not count again."""

    @pytest.fixture
    def ledger(self, whole: Graph, tmp_path: Path) -> Ledger:
        made = Ledger(tmp_path / "ledger.db")
        made.open(part(whole, 0.3), "edge", epsilon=6, delta=1e-5)
        return made

    def test_a_copy_that_was_stopped_before_the_ledger_knew_is_refused_once_another_went_on(
        self, whole: Graph, ledger: Ledger, tmp_path: Path
    ) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        shutil.copytree(tmp_path / "j", tmp_path / "backup")
        with killed_at(Ledger, "note_period"):
            gv.extend(release, part(whole, 0.6), journal=tmp_path / "j", seed=0, ledger=ledger)
        gv.extend(release, part(whole, 0.6), journal=tmp_path / "backup", refresh="all", seed=1, ledger=ledger)
        with pytest.raises(Tampered, match="different ways"):
            gv.extend(release, whole, journal=tmp_path / "j", refresh="all", seed=0, ledger=ledger)

    def test_of_two_copies_that_are_extended_at_once_one_tells(
        self, whole: Graph, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        shutil.copytree(tmp_path / "j", tmp_path / "copy")
        commit = Journal.commit

        def overtaken(*given: Any) -> None:
            monkeypatch.undo()
            gv.extend(release, whole, journal=tmp_path / "copy", refresh="all", seed=1, ledger=ledger)
            commit(*given)

        monkeypatch.setattr(Journal, "commit", overtaken)
        with pytest.raises(Tampered):
            gv.extend(release, whole, journal=tmp_path / "j", refresh="all", seed=2, ledger=ledger)
        with pytest.raises(Tampered, match="different ways"):
            gv.extend(release, whole, journal=tmp_path / "j", refresh="all", seed=2, ledger=ledger)

    @pytest.mark.parametrize("where", [(Journal, "commit"), (Ledger, "note_period")])
    def test_a_graph_whose_period_was_stopped_has_no_budget_of_its_own(
        self, whole: Graph, ledger: Ledger, tmp_path: Path, where: tuple[type, str]
    ) -> None:
        release = begun(part(whole, 0.3), tmp_path / "j", ledger)
        with killed_at(*where):
            gv.extend(release, whole, journal=tmp_path / "j", seed=0, ledger=ledger)
        with pytest.raises(InvalidInput, match="already has a budget"):
            ledger.open(whole, "edge", epsilon=9, delta=1e-5)
        with pytest.raises(Overspent):
            gv.train(whole, SMALL, epsilon=3, delta=1e-5, unit="edge", seed=0, ledger=ledger)


def test_nothing_of_the_journal_is_in_a_release(whole: Graph, tmp_path: Path) -> None:
    """A release of a graph with no edge and one of a graph with many hold the same tensors, but for their values."""
    full, bare = begun(whole, tmp_path / "a"), begun(whole.with_arcs(type(whole.adj).empty(200)), tmp_path / "b")
    assert {name: part.shape for name, part in full.state.items()} == {
        name: part.shape for name, part in bare.state.items()
    }
    facts = full.certificate.describe()["provenance"], bare.certificate.describe()["provenance"]
    differing = {name for name in facts[0] if facts[0][name] != facts[1][name]}
    assert differing <= {"run", "period_token", "created"}


def test_a_release_of_a_stream_serves_another_graph(whole: Graph, tmp_path: Path) -> None:
    release = gv.extend(begun(whole, tmp_path / "j"), whole, journal=tmp_path / "j", seed=0)
    other = social(num_nodes=60, seed=9).random_split(seed=0)
    there = gv.infer(release, replace(other, name="elsewhere"), epsilon=2, delta=1e-5, seed=5)
    assert there.certificate.provenance.period == 0
    assert len(there.predict()) == 60


def _extended_elsewhere(folder: Path) -> str:
    graph = social(num_nodes=200).random_split(seed=0)
    try:
        gv.extend(gv.load(folder / "release"), graph, journal=folder / "j", seed=0)
    except InvalidInput as error:
        return str(error)
    return ""


def test_two_processes_do_not_extend_one_stream_at_once(whole: Graph, tmp_path: Path) -> None:
    begun(whole, tmp_path / "j").save(tmp_path / "release")
    with Journal.held(tmp_path / "j", fresh=False), multiprocessing.get_context("spawn").Pool(1) as pool:
        assert "another process" in pool.apply(_extended_elsewhere, (tmp_path,))
