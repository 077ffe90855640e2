"""The private journal: whole or not there, its owner's alone, one at a time, and refused where it is another's."""

from __future__ import annotations

import fcntl
import itertools
import json
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphveil.errors import InvalidInput, Tampered
from graphveil.streams.journal import Journal, StreamTerms, _merged
from graphveil.vocabulary import Adjacency, Plan, Reading

PLAN = Plan(Adjacency.of("edge"), Reading.SOUND, ())
TERMS = StreamTerms.of("run", PLAN, 1e-5, 2, True)


def grown(folder: Path, period: int, ends: list[tuple[int, int]], ids: list[str], token: str = "") -> None:
    """One period that counts these ends, (target, source) by id, and tells 1 of every class of every node."""
    with Journal.held(folder, fresh=period == 1) as journal:
        places, names = journal.places(ids, len(ids))
        assert names is not None
        number = {name: place for place, name in enumerate(names)}
        targets, sources = (np.array([number[str(end[side])] for end in ends], np.int64) for side in (0, 1))
        assert journal.uncounted(targets, sources).all()
        rows = np.ones((len(ids), 2), np.int64)
        journal.commit(TERMS, token or f"t{period}", (targets, sources), places, rows, names, len(names))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    grown(tmp_path / "j", 1, [(1, 2), (2, 1)], ["1", "2"])
    grown(tmp_path / "j", 2, [(3, 2)], ["3", "2", "1"])
    return tmp_path / "j"


def test_what_was_counted_is_known_by_id_whatever_the_order_of_the_table(folder: Path) -> None:
    with Journal.held(folder, fresh=False) as journal:
        assert journal.period == 2
        places, _ = journal.places(["2", "3", "9", "1"], 4)
        assert places.tolist() == [1, 2, 3, 0]
        assert journal.uncounted(np.array([0, 1, 2, 1]), np.array([1, 0, 1, 2])).tolist() == [False, False, False, True]
        known = places[[0, 1, 3]]
        assert journal.evidence(known).refreshes.tolist() == [2, 1, 2]
        assert journal.evidence(known).counts.tolist() == [[2, 2], [1, 1], [2, 2]]
        assert journal.ages(places)[0].tolist() == [3, 2, 1, 3]


def test_an_end_cannot_be_committed_twice(folder: Path) -> None:
    with Journal.held(folder, fresh=False) as journal:
        places, names = journal.places(["1", "2"], 2)
        for twice in (np.array([0]), np.array([0, 0])):
            other = np.ones_like(twice) if len(twice) == 1 else np.array([2, 2])
            with pytest.raises(Tampered, match="twice"):
                journal.commit(TERMS, "t", (twice, other), places, np.zeros((2, 2), int), names, 2)


def test_folder_and_files_are_their_owners_alone(folder: Path) -> None:
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_one_process_at_a_time(folder: Path) -> None:
    with (
        Journal.held(folder, fresh=False),
        pytest.raises(InvalidInput, match="another process"),
        Journal.held(folder, fresh=False),
    ):
        pass


def test_a_journal_that_is_there_is_not_begun_again(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="extend"), Journal.held(folder, fresh=True):
        pass
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").touch()
    with pytest.raises(InvalidInput, match="other files"), Journal.held(tmp_path / "full", fresh=True):
        pass


def test_a_journal_that_is_lost_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="no journal"), Journal.held(tmp_path / "j", fresh=False):
        pass


def test_a_journal_in_a_release_folder_is_refused(tmp_path: Path) -> None:
    for name in ("manifest.json", "card.txt"):
        (tmp_path / name).touch()
    for fresh in (True, False):
        with pytest.raises(InvalidInput, match="given away"), Journal.held(tmp_path / "j", fresh=fresh):
            pass


@pytest.mark.parametrize("part", ["ends", "rows", "head"])
@pytest.mark.parametrize("how", ["cut", "flipped", "gone"])
def test_a_damaged_journal_is_refused(folder: Path, part: str, how: str) -> None:
    for file in folder.glob(f"{part}*"):
        body = file.read_bytes()
        middle = len(body) // 2
        if how == "gone":
            file.unlink()
        else:
            flipped = body[:middle] + bytes([body[middle] ^ 1]) + body[middle + 1 :]
            file.write_bytes(body[:-9] if how == "cut" else flipped)
    with pytest.raises((Tampered, InvalidInput)), Journal.held(folder, fresh=False):
        pass


def test_a_journal_must_be_the_releases_own(folder: Path) -> None:
    with Journal.held(folder, fresh=False) as journal:
        journal.require(TERMS, 2, "t2")
        journal.require(TERMS, 1, "t1")  # an older release of the stream
        with pytest.raises(InvalidInput, match="another stream"):
            journal.require(replace(TERMS, run="other"), 2, "t2")
        with pytest.raises(Tampered, match="another plan"):
            journal.require(replace(TERMS, plan="{}"), 2, "t2")
        with pytest.raises(Tampered, match="another plan"):
            journal.require(replace(TERMS, delta=1e-3), 2, "t2")
        with pytest.raises(InvalidInput, match="cryptographic noise"):
            journal.require(replace(TERMS, secure=False), 2, "t2")


def test_a_journal_from_a_backup_or_a_copy_of_it_is_refused(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    grown(folder, 3, [(1, 3)], ["1", "2", "3"])
    grown(copy, 3, [(2, 3)], ["1", "2", "3"], token="another way")
    with Journal.held(copy, fresh=False) as journal, pytest.raises(Tampered, match="different ways"):
        journal.require(TERMS, 3, "t3")
    grown(folder, 4, [], ["1", "2", "3"])
    with Journal.held(copy, fresh=False) as journal, pytest.raises(Tampered, match="older than the release"):
        journal.require(TERMS, 4, "t4")


def test_another_graph_is_refused(folder: Path) -> None:
    with Journal.held(folder, fresh=False) as journal:
        with pytest.raises(InvalidInput, match="another graph"):
            journal.places(["a", "b", "c"], 3)
        with pytest.raises(InvalidInput, match="other kind"):
            journal.places(None, 3)


@pytest.mark.parametrize(("was", "now"), [("001", "1"), ("1", "01"), ("n2", "n2 "), ("\u00e9", "e\u0301")])
def test_a_node_that_comes_back_spelt_otherwise_is_refused(tmp_path: Path, was: str, now: str) -> None:
    grown(tmp_path / "j", 1, [], [was, "a", "b"])
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        with pytest.raises(InvalidInput, match="spelt otherwise"):
            journal.places([now, "a", "b"], 3)
        # Whoever has both means both; and some may leave while others come.
        assert journal.places([was, now, "a"], 3)[0].tolist() == [0, 3, 1]
        places, _ = journal.places(["c", "a", "b"], 3)
        assert journal.turnover(places) == (2, 1, 1)


def test_rows_without_ids_never_become_fewer(tmp_path: Path) -> None:
    none = np.empty(0, np.int64)
    with Journal.held(tmp_path / "j", fresh=True) as journal:
        journal.commit(TERMS, "t1", (none, none), none, np.empty((0, 2), int), None, 5)
    with Journal.held(tmp_path / "j", fresh=False) as journal:
        assert journal.places(None, 6)[0].tolist() == list(range(6))
        with pytest.raises(InvalidInput, match="none may leave"):
            journal.places(None, 4)


def test_leftovers_of_the_killed_are_taken_away_by_the_next_period_and_nothing_else(folder: Path) -> None:
    left = {"ends-0123456789abcdef", f".rows-0123456789abcdef.{'a' * 32}.tmp", f".head.json.{'0' * 32}.tmp"}
    others = {"notes.txt", "rows-2024.csv", "ends-of-march", ".rows-1.abc.tmp", "head.json.old"}
    for name in left | others:
        (folder / name).touch()
    with Journal.held(folder, fresh=False) as journal:
        assert journal.period == 2
    assert left | others < {file.name for file in folder.iterdir()}
    grown(folder, 3, [(1, 3)], ["1", "2", "3"])
    found = {file.name for file in folder.iterdir()}
    assert others < found
    assert not left & found


def test_an_older_head_that_is_refused_takes_nothing_away(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "backup")
    grown(folder, 3, [(1, 3)], ["1", "2", "3"])
    newest = (folder / "head.json").read_bytes()
    shutil.copytree(tmp_path / "backup", folder, dirs_exist_ok=True)
    with Journal.held(folder, fresh=False) as journal, pytest.raises(Tampered, match="older"):
        journal.require(TERMS, 3, "t3")
    (folder / "head.json").write_bytes(newest)
    with Journal.held(folder, fresh=False) as journal:
        journal.require(TERMS, 3, "t3")


@pytest.mark.parametrize("name", ["thesis.txt", "rows-2024.csv", "ends-of-march.csv", ".profile"])
def test_a_folder_of_others_is_left_as_it_is(tmp_path: Path, name: str) -> None:
    tmp_path.chmod(0o775)
    (tmp_path / name).write_text("precious")
    with pytest.raises(InvalidInput, match="other files"), Journal.held(tmp_path, fresh=True):
        pass
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o775
    assert [file.name for file in tmp_path.iterdir()] == [name]


def counts_late(journal: Journal, names: tuple[str, ...]) -> None:
    """A period that must not come about."""
    end = np.array([0]), np.array([1])
    with pytest.raises(Tampered, match="Nothing was told"):
        journal.commit(TERMS, "late", end, np.arange(2), np.zeros((2, 2), int), names, len(names))


@pytest.mark.parametrize("before", [0, 1])
def test_whoever_counts_beside_a_lock_that_was_removed_keeps_another_from_telling(tmp_path: Path, before: int) -> None:
    folder, ids = tmp_path / "j", ["1", "2"]
    for period in range(1, before + 1):
        grown(folder, period, [], ids)
    with Journal.held(folder, fresh=not before) as late:
        (folder / "lock").unlink()
        grown(folder, before + 1, [(1, 2)], ids)
        counts_late(late, ("1", "2"))
    with Journal.held(folder, fresh=False) as journal:
        assert journal.tokens == ("t1", "t2")[: before + 1]


def test_a_head_that_was_replaced_or_a_lock_that_was_removed_is_enough_to_refuse(tmp_path: Path) -> None:
    folder, other = tmp_path / "j", tmp_path / "other"
    grown(folder, 1, [], ["1", "2"])
    shutil.copytree(folder, other)
    grown(other, 2, [], ["1", "2"])
    with Journal.held(folder, fresh=False) as journal:
        (folder / "lock").unlink()
        counts_late(journal, ("1", "2"))
    with Journal.held(folder, fresh=False) as journal:
        shutil.copyfile(other / "head.json", folder / "head.json")
        counts_late(journal, ("1", "2"))


def test_a_lock_that_is_replaced_while_it_is_taken_is_not_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def overtaken(handle: int, how: int) -> None:
        flock(handle, how)
        (folder / "lock").unlink()
        (folder / "lock").touch()

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(InvalidInput, match="removed the lock"), Journal.held(folder, fresh=False):
        pass


def test_a_later_version_is_refused(folder: Path) -> None:
    head = json.loads((folder / "head.json").read_text())
    (folder / "head.json").write_text(json.dumps({**head, "version": 2}))
    with pytest.raises(Tampered, match="version"), Journal.held(folder, fresh=False):
        pass


@given(st.lists(st.lists(st.integers(0, 10**6), max_size=30, unique=True), max_size=12))
def test_runs_are_sorted_and_each_at_least_twice_as_long_as_the_next(periods: list[list[int]]) -> None:
    runs: list[np.ndarray] = []
    for period in periods:
        runs = _merged([*runs, np.sort(np.array(period, np.int64))])
        sizes = [len(run) for run in runs]
        assert all(first >= 2 * second for first, second in itertools.pairwise(sizes))
        assert all((np.diff(run) >= 0).all() for run in runs)
    assert sorted(np.concatenate([np.empty(0, int), *runs]).tolist()) == sorted(itertools.chain(*periods))
