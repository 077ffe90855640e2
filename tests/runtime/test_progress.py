"""Progress is shown only when somebody would wait: as a bar on a terminal, as lines in a log."""

from __future__ import annotations

import sys
import time

import pytest

from graphveil.runtime import progress


class Terminal:
    def __init__(self, terminal: bool = True) -> None:
        self.text = ""
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        raise OSError


def attach(monkeypatch: pytest.MonkeyPatch, terminal: bool = True) -> Terminal:
    """A terminal on stderr. Not a fixture: pytest puts its own stderr back before the test's body runs."""
    screen = Terminal(terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_items_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    assert list(progress.Progress().track(range(5), "counting", patience=0)) == [0, 1, 2, 3, 4]
    assert "counting" in terminal.text


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    list(progress.Progress().track(range(5), "counting"))
    assert "counting" not in terminal.text


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    log = attach(monkeypatch, terminal=False)
    clock = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    shown = progress.Progress()
    for _ in shown.track(range(10), "counting"):
        list(shown.track(range(2), "inner"))
        clock += 20
    assert log.text.splitlines() == [
        f"counting: {done} of 10, {spent} so far, about {left} left"
        for done, spent, left in [
            (2, "0:00:40", "0:02:40"), (4, "0:01:20", "0:02:00"), (6, "0:02:00", "0:01:20"), (8, "0:02:40", "0:00:40")
        ]
    ]  # fmt: skip


def test_a_log_tells_how_many_rows_a_second_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    log = attach(monkeypatch, terminal=False)
    clock = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: clock)
    for _ in progress.Progress().track(range(3), "training", rows=4_000):
        clock += 20
    assert log.text == "training: 2 of 3, 200 rows/s, 0:00:40 so far, about 0:00:20 left\n"


def test_a_terminal_in_ci_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(progress, "INTERVAL", 0.0)
    assert list(progress.Progress().track(range(3), "counting", patience=0)) == [0, 1, 2]
    assert terminal.text.startswith("counting: 1 of 3, 0:00:00 so far, about 0:00:00 left\ncounting: 2 of 3")


def test_notes_are_told_unless_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    log = attach(monkeypatch, terminal=False)
    progress.Progress().note("one")
    progress.QUIET.note("two")
    assert log.text == "one\n"


def test_quiet_and_ci_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    list(progress.QUIET.track(range(3), "counting", patience=0))
    monkeypatch.setenv("CI", "true")
    list(progress.Progress().track(range(3), "counting", patience=0))
    assert terminal.text == ""


def test_only_the_outermost_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    shown = progress.Progress()
    for _ in shown.track(range(2), "outer", patience=0):
        list(shown.track(range(2), "inner", patience=0))
    assert "outer" in terminal.text
    assert "inner" not in terminal.text
