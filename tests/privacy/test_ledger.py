"""A budget is charged before anything is read, by whoever asks, and never twice by accident."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import graphveil as gv
from graphveil.data.graph import Graph
from graphveil.data.identity import training_digest
from graphveil.data.sealing import OUTSIDE_UNPROTECTED
from graphveil.errors import InvalidInput, Overspent
from graphveil.mechanisms.gaussian import GaussianCurve
from graphveil.mechanisms.unprotected import ExposedCurve
from graphveil.privacy import accounting, ledger_file
from graphveil.privacy import ledger as ledger_module
from graphveil.privacy.ledger import Ledger
from graphveil.vocabulary import Adjacency, Plan, Reading, Relation, Unit
from plans import Opaque, plan_of

DELTA = 1e-5


@pytest.fixture
def graph() -> Graph:
    return gv.datasets.load("chain-s")


@pytest.fixture
def ledger(tmp_path: Path, graph: Graph) -> Ledger:
    made = Ledger(tmp_path / "books" / "ledger.sqlite")
    made.open(graph, "node", epsilon=3.0, delta=DELTA)
    return made


def costing(epsilon: float) -> Plan:
    return accounting.calibrate(lambda noise: plan_of((GaussianCurve(1 / noise), 1)), epsilon, DELTA).plan


def contents(ledger: Ledger) -> tuple[list[dict[str, object]], list[object]]:
    return ledger.entries(), list(ledger.accounts())


class TestBooks:
    def test_reserve_and_commit(self, ledger: Ledger, graph: Graph) -> None:
        entry = ledger.reserve(graph, costing(1.0), "dpsgd")
        account = ledger.account(graph)
        assert (account.entries, account.open) == (1, 1)
        assert account.spent == pytest.approx(1.0, rel=5e-3), "a reservation counts from the start"
        assert account.left == pytest.approx(2.0, rel=5e-3)
        ledger.commit(entry)
        assert (ledger.account(graph).entries, ledger.account(graph).open) == (1, 0)
        assert ledger.account(graph).spent == account.spent
        assert ledger.entries()[0]["method"] == "dpsgd"
        assert ledger.entries()[0]["committed"] is True
        assert ledger.entries()[0]["epsilon"] == account.spent

    def test_plans_compose_below_the_sum_of_their_epsilons(self, ledger: Ledger, graph: Graph) -> None:
        for _ in range(4):
            ledger.reserve(graph, costing(1.0))
        settled_before = accounting.epsilon(costing(1.0), DELTA) * 2.1
        assert settled_before < ledger.account(graph).spent < 1.08 * settled_before < 3.0

    def test_the_first_plan_may_use_the_whole_budget(self, ledger: Ledger, graph: Graph) -> None:
        ledger.reserve(graph, costing(2.9999))
        with pytest.raises(Overspent):
            ledger.reserve(graph, costing(0.01))

    def test_refusal_changes_nothing(self, ledger: Ledger, graph: Graph) -> None:
        ledger.reserve(graph, costing(2.0))
        before, raw = contents(ledger), ledger.path.read_bytes()
        for plan in (costing(2.9), plan_of((ExposedCurve(), 1))):
            with pytest.raises(Overspent, match="Nothing was read or reserved"):
                ledger.reserve(graph, plan)
        assert contents(ledger) == before
        assert ledger.path.read_bytes() == raw

    def test_a_published_plan_is_refused(self, ledger: Ledger, graph: Graph) -> None:
        with pytest.raises(InvalidInput, match="the sound reading"):
            ledger.reserve(graph, plan_of((GaussianCurve(0.01), 1), reading=Reading.PUBLISHED))
        assert ledger.entries() == []

    def test_another_adjacency_is_refused(self, ledger: Ledger, graph: Graph) -> None:
        before = contents(ledger)
        with pytest.raises(InvalidInput, match="do not add up"):
            ledger.reserve(graph, plan_of((GaussianCurve(0.01), 1), unit="edge"))
        assert contents(ledger) == before

    @pytest.mark.parametrize(
        "other",
        [
            Adjacency(Unit.NODE, Relation.ADD_REMOVE, undirected=False),
            Adjacency(Unit.NODE, Relation.REPLACE, undirected=True),
            Adjacency(Unit.FEATURES, Relation.ADD_REMOVE, undirected=True),
        ],
        ids=["undirected", "relation", "unit"],
    )
    def test_adjacencies_are_compared_whole(self, ledger: Ledger, graph: Graph, other: Adjacency) -> None:
        before = contents(ledger)
        with pytest.raises(InvalidInput, match="do not add up"):
            ledger.reserve(graph, replace(plan_of((GaussianCurve(0.01), 1)), adjacency=other))
        assert contents(ledger) == before
        ledger.reserve(graph, plan_of((GaussianCurve(0.01), 1)))

    @pytest.mark.parametrize("plans", [1, 3])
    def test_a_budget_has_no_slack(self, tmp_path: Path, graph: Graph, plans: int) -> None:
        """What exceeds it by a millionth is refused, what meets it exactly is not."""
        plan = plan_of((GaussianCurve(0.2), 1))
        # The budget fixes the order of the Renyi rule, and so does not move the Gaussian one, which is the least here.
        cost = accounting.adaptive_epsilon([plan] * plans, 1.0, DELTA)
        for share, covered in ((1.0, True), (1 - 1e-6, False), (1 - 1e-12, False)):
            book = Ledger(tmp_path / f"{share}.db")
            book.open(graph, "node", epsilon=cost * share, delta=DELTA)
            for _ in range(plans - 1):
                book.reserve(graph, plan)
            if covered:
                book.reserve(graph, plan)
                assert book.account(graph).spent == book.account(graph).epsilon
            else:
                with pytest.raises(Overspent):
                    book.reserve(graph, plan)
                assert book.account(graph).entries == plans - 1

    @pytest.mark.parametrize("unit", ["node", "edge"])
    def test_a_second_budget_is_refused(self, ledger: Ledger, graph: Graph, unit: str) -> None:
        before = contents(ledger)
        with pytest.raises(InvalidInput, match="opened once"):
            ledger.open(graph, unit, epsilon=100.0, delta=DELTA)
        with pytest.raises(InvalidInput, match="opened once"):
            ledger.open(graph.random_split(seed=9), unit, epsilon=100.0, delta=DELTA)
        assert contents(ledger) == before

    def test_another_split_shares_the_budget(self, ledger: Ledger, graph: Graph) -> None:
        ledger.reserve(graph.random_split(seed=5), costing(2.5))
        with pytest.raises(Overspent):
            ledger.reserve(graph, costing(2.5))

    def test_without_a_budget(self, ledger: Ledger) -> None:
        stranger = gv.datasets.load("chain-m")
        for attempt in (lambda: ledger.reserve(stranger, costing(1.0)), lambda: ledger.account(stranger)):
            with pytest.raises(InvalidInput, match="no budget"):
                attempt()

    @pytest.mark.parametrize(
        ("epsilon", "delta"), [(0, 1e-5), (-1, 1e-5), (math.nan, 1e-5), (math.inf, 1e-5), (1, 0), (1, 1)]
    )
    def test_budgets_are_checked(self, tmp_path: Path, graph: Graph, epsilon: float, delta: float) -> None:
        fresh = Ledger(tmp_path / "fresh.sqlite")
        with pytest.raises(InvalidInput):
            fresh.open(graph, "node", epsilon=epsilon, delta=delta)
        assert not fresh.path.exists()

    def test_unknown_entry(self, ledger: Ledger) -> None:
        with pytest.raises(InvalidInput, match="no reservation"):
            ledger.commit("nonsense")

    def test_it_survives_reopening(self, ledger: Ledger, graph: Graph) -> None:
        ledger.reserve(graph, costing(1.0))
        assert contents(Ledger(ledger.path)) == contents(ledger)

    @pytest.mark.parametrize(
        "body", [b"not a database at all, only text\n" * 40, b"SQLite format 3\x00" + b"\xff" * 4000]
    )
    def test_corrupt_files_are_refused(self, tmp_path: Path, body: bytes) -> None:
        path = tmp_path / "broken.sqlite"
        path.write_bytes(body)
        with pytest.raises(InvalidInput, match="not a usable ledger"):
            Ledger(path)
        assert path.read_bytes() == body

    def test_a_folder_is_not_a_ledger(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput, match="not a usable ledger"):
            Ledger(tmp_path)


class TestAccounting:
    """What all plans spend is computed outside the write lock, from what the file says, and once."""

    @pytest.fixture(autouse=True)
    def _nothing_kept(self) -> None:
        ledger_module._spent.cache_clear()
        ledger_module._plan_of.cache_clear()

    def test_others_can_write_while_a_total_is_computed(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        total, held = accounting.adaptive_epsilon, []

        def slow(*arguments: Any) -> float:
            with closing(sqlite3.connect(ledger.path, timeout=0, isolation_level=None)) as database:
                held.append(0)
                database.execute("BEGIN EXCLUSIVE")
                held[-1] = 1
            return total(*arguments)

        monkeypatch.setattr(accounting, "adaptive_epsilon", slow)
        ledger.reserve(graph, plan_of((GaussianCurve(0.0625), 1)))
        assert held == [1], "computed once, and the file was free"
        assert ledger.account(graph).entries == 1
        assert held == [1], "kept"

    @pytest.mark.parametrize("others", [1, 9])
    def test_a_plan_that_others_reserve_meanwhile_is_counted(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch, others: int
    ) -> None:
        """Also if that never ends: then the last total is computed under the lock."""
        total, came = accounting.adaptive_epsilon, []
        rival = Ledger(ledger.path)

        def slow(plans: Sequence[Plan], *budget: float) -> float:
            if len(came) < others and not ledger_file._TURN.locked():
                came.append(len(plans))
                with monkeypatch.context() as patch:
                    patch.setattr(accounting, "adaptive_epsilon", total)
                    rival.reserve(graph, plan_of((GaussianCurve(0.125), 1)))
            return total(plans, *budget)

        monkeypatch.setattr(accounting, "adaptive_epsilon", slow)
        entry = ledger.reserve(graph, plan_of((GaussianCurve(0.25), 1)))
        assert ledger.entries()[-1]["id"] == entry
        assert len(came) == min(others, ledger_module._TURNS)
        plans = [plan_of((GaussianCurve(0.125), 1))] * len(came) + [plan_of((GaussianCurve(0.25), 1))]
        assert ledger.account(graph).spent == total(plans, 3.0, DELTA)

    def test_what_is_computed_under_the_lock_is_compared_too(
        self, tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Others come each time, and the last of them takes what this plan would have needed."""
        mine, theirs = plan_of((GaussianCurve(0.25), 1)), plan_of((GaussianCurve(0.2), 1))
        total, turns = accounting.adaptive_epsilon, ledger_module._TURNS
        least, most = (total([theirs] * others + [mine], 1.0, DELTA) for others in (turns - 1, turns))
        book = Ledger(tmp_path / "ledger.db")
        book.open(graph, "node", epsilon=(least + most) / 2, delta=DELTA)
        held = []

        def slow(plans: Sequence[Plan], *budget: float) -> float:
            held.append(ledger_file._TURN.locked())
            if not held[-1]:
                with monkeypatch.context() as patch:
                    patch.setattr(accounting, "adaptive_epsilon", total)
                    Ledger(book.path).reserve(graph, theirs)
            return total(plans, *budget)

        monkeypatch.setattr(accounting, "adaptive_epsilon", slow)
        with pytest.raises(Overspent):
            book.reserve(graph, mine)
        assert held == [False] * turns + [True]
        assert book.account(graph).entries == turns

    def test_a_budget_that_others_use_up_meanwhile_does_not_cover(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        total = accounting.adaptive_epsilon

        def slow(*arguments: Any) -> float:
            monkeypatch.setattr(accounting, "adaptive_epsilon", total)
            Ledger(ledger.path).reserve(graph, costing(2.9))
            return total(*arguments)

        monkeypatch.setattr(accounting, "adaptive_epsilon", slow)
        with pytest.raises(Overspent):
            ledger.reserve(graph, costing(2.0))
        assert ledger.account(graph).entries == 1

    def test_equal_plans_are_read_back_once(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rebuild, texts = ledger_module.rebuild_plan, []  # type: ignore[attr-defined]

        def counted(described: dict[str, Any]) -> Plan:
            texts.append(json.dumps(described))
            return rebuild(described)

        monkeypatch.setattr(ledger_module, "rebuild_plan", counted)
        for _ in range(3):
            ledger.reserve(graph, plan_of((GaussianCurve(0.03125), 1)))
            ledger.reserve(graph, plan_of((GaussianCurve(0.03), 1)))
        assert len(Ledger(ledger.path).entries()) == 6
        assert len(texts) == len(set(texts)) == 2

    def test_a_plan_that_does_not_come_back_is_not_reserved(self, ledger: Ledger, graph: Graph) -> None:
        """A claim that is not ours could be written, and would make the ledger unreadable."""
        with pytest.raises(InvalidInput, match="could not count this plan again"):
            ledger.reserve(graph, plan_of((Opaque(0.1), 1)))
        assert ledger.entries() == []

    def test_a_plan_that_comes_back_as_another_is_not_counted(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger_module, "_plan_of", lambda _: costing(0.1))
        with pytest.raises(InvalidInput, match="not what its description says"):
            ledger.reserve(graph, costing(2.0), "dpsgd")
        monkeypatch.undo()
        assert not ledger.entries()

    def test_who_is_open_in_one_run_is_not_promised_protection_in_another(self, ledger: Ledger, graph: Graph) -> None:
        """A node outside training is read freely by some plans; another split would protect it on paper."""
        again = graph.random_split(seed=5)
        assert training_digest(graph) != training_digest(again)
        plain, opened = costing(0.5), costing(0.5)
        opened = replace(opened, steps=tuple(replace(step, assumes=(OUTSIDE_UNPROTECTED,)) for step in opened.steps))
        ledger.reserve(graph, plain)
        ledger.reserve(again, plain)
        for one in (graph, again):
            with pytest.raises(InvalidInput, match="Keep to one split"):
                ledger.reserve(one, opened)
        assert len(ledger.entries()) == 2

    def test_a_plan_that_opens_outsiders_binds_the_budget_to_its_split(self, ledger: Ledger, graph: Graph) -> None:
        opened = costing(0.5)
        opened = replace(opened, steps=tuple(replace(step, assumes=(OUTSIDE_UNPROTECTED,)) for step in opened.steps))
        ledger.reserve(graph, opened)
        ledger.reserve(graph, costing(0.5))
        for plan in (costing(0.5), opened):
            with pytest.raises(InvalidInput, match="Nothing was read or reserved"):
                ledger.reserve(graph.random_split(seed=5), plan)


class TestTraining:
    def test_training_reserves_commits_and_names_its_entry(self, ledger: Ledger, graph: Graph) -> None:
        release = gv.train(
            graph, gv.methods.DpSgd(steps=2), epsilon=1.0, delta=DELTA, unit="node", seed=0, ledger=ledger
        )
        account = ledger.account(graph)
        assert (account.entries, account.open) == (1, 0)
        assert account.spent == release.certificate.epsilon
        assert release.certificate.provenance.ledger_entry == ledger.entries()[0]["id"]
        assert ledger.entries()[0]["id"] in release.certificate.card()

    def test_a_training_that_does_not_fit_reads_nothing(self, ledger: Ledger, graph: Graph) -> None:
        before = contents(ledger)
        with pytest.raises(Overspent):
            gv.train(graph, gv.methods.DpSgd(steps=2), epsilon=9.0, delta=DELTA, unit="node", seed=0, ledger=ledger)
        with pytest.raises(Overspent):
            gv.train(graph, gv.methods.Mlp(epochs=1), epsilon=math.inf, unit="node", seed=0, ledger=ledger)
        assert contents(ledger) == before

    def test_a_published_proof_is_not_believed(self, tmp_path: Path, graph: Graph) -> None:
        """Claimed 1, truly 1.465: the budget of 1.2 does not cover it, that of 2 is charged the truth."""
        method = gv.methods.Gap(hidden=4, head=4, epochs=1)
        asked = {"epsilon": 1.0, "delta": DELTA, "unit": "edge", "reading": "published", "seed": 0}
        small, large = Ledger(tmp_path / "small.sqlite"), Ledger(tmp_path / "large.sqlite")
        small.open(graph, "edge", epsilon=1.2, delta=DELTA)
        large.open(graph, "edge", epsilon=2.0, delta=DELTA)
        with pytest.raises(Overspent):
            gv.train(graph, method, ledger=small, **asked)
        release = gv.train(graph, method, ledger=large, **asked)
        assert release.certificate.epsilon <= 1.0
        assert large.account(graph).spent == pytest.approx(1.465, rel=5e-3)

    def test_a_ledger_that_fails_after_the_training_does_not_cost_the_model(
        self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fit = gv.methods.DpSgd.fit

        def damaging(self: Any, session: Any) -> Any:
            made = fit(self, session)
            ledger.path.unlink()
            return made

        monkeypatch.setattr(gv.methods.DpSgd, "fit", damaging)
        with pytest.warns(UserWarning, match="uncommitted.*counted as spent.*no ledger at"):
            release = gv.train(
                graph, gv.methods.DpSgd(steps=2), epsilon=1.0, delta=DELTA, unit="node", seed=0, ledger=ledger
            )
        assert release.certificate.provenance.ledger_entry

    def test_a_failed_training_stays_spent(self, ledger: Ledger, graph: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gv.methods.DpSgd, "fit", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            gv.train(graph, gv.methods.DpSgd(steps=2), epsilon=1.0, delta=DELTA, unit="node", seed=0, ledger=ledger)
        account = ledger.account(graph)
        assert (account.entries, account.open) == (1, 1)
        assert account.spent > 0.9


KILLED = """
import sys, time
import graphveil as gv
from graphveil.methods.node.dpsgd import DpSgd

real = DpSgd.fit

def stuck(self, session):
    print("inside", flush=True)
    time.sleep(600)
    return real(self, session)

DpSgd.fit = stuck
graph = gv.datasets.load("chain-s")
gv.train(graph, DpSgd(steps=2), epsilon=1.0, delta=1e-5, unit="node", ledger=gv.Ledger(sys.argv[1]))
"""


def race(path: Path, turns: int, gate: Any, won: Any) -> None:
    """One process that asks `turns` times, as soon as all are ready."""
    ledger, graph, plan = Ledger(path), gv.datasets.load("chain-s"), plan_of((GaussianCurve(0.1), 1))
    gate.wait(60)
    for _ in range(turns):
        with suppress(Overspent):
            ledger.commit(ledger.reserve(graph, plan, "racer"))
            with won.get_lock():
                won.value += 1


def test_a_killed_training_counts(ledger: Ledger, graph: Graph) -> None:
    """SIGKILL between reservation and release: no handler runs, and the budget is spent all the same."""
    settings = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", KILLED, str(ledger.path)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=settings)
    try:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "inside"
        child.send_signal(signal.SIGKILL)
        assert child.wait(timeout=30) == -signal.SIGKILL
    finally:
        child.kill()
        child.communicate()
    account = Ledger(ledger.path).account(graph)
    assert (account.entries, account.open) == (1, 1)
    assert account.spent == pytest.approx(1.0, rel=5e-3)
    with pytest.raises(Overspent):
        ledger.reserve(graph, costing(2.9))


def test_racing_processes_use_the_budget_exactly(tmp_path: Path, graph: Graph) -> None:
    """Eight processes ask five times each for a budget that holds nineteen: nineteen get it."""
    ledger = Ledger(tmp_path / "race.sqlite")
    nineteen = [plan_of((GaussianCurve(0.1), 1))] * 19
    cap = accounting.adaptive_epsilon(nineteen, 2.0, DELTA) * (1 + 1e-9)
    ledger.open(graph, "node", epsilon=cap, delta=DELTA)
    # Forked, because eight fresh interpreters would spend the test importing; each opens its own connection.
    context = multiprocessing.get_context("fork")
    gate, won = context.Barrier(8), context.Value("i", 0)
    racers = [context.Process(target=race, args=(ledger.path, 5, gate, won)) for _ in range(8)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(timeout=120)
    assert [racer.exitcode for racer in racers] == [0] * 8
    account = ledger.account(graph)
    assert won.value == account.entries == 19
    assert account.open == 0
    assert account.spent <= cap
