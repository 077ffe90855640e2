"""Extending a release and being killed: a few of the two hundred kills of the script."""

from __future__ import annotations

from fuzz import kill_streams


def test_nothing_is_counted_twice_or_lost_by_whoever_is_killed() -> None:
    counts, wrong = kill_streams.run(6, 1)
    assert not wrong
    assert counts["killed"] == 6
    assert counts["ends counted"] > 0
