"""Progress is shown to people only, and only when they would wait."""

from __future__ import annotations

import sys

import pytest

from graphveil import progress


class Terminal:
    def __init__(self) -> None:
        self.text = ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass

    def fileno(self) -> int:
        raise OSError


def attach(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal on stderr. Not a fixture: pytest puts its own stderr back before the test's body runs."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return screen


def test_items_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    assert list(progress.track(range(5), "counting", patience=0)) == [0, 1, 2, 3, 4]
    assert "counting" in terminal.text


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    list(progress.track(range(5), "counting"))
    assert "counting" not in terminal.text


def test_quiet_and_ci_show_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    with progress.quiet():
        list(progress.track(range(3), "counting", patience=0))
    monkeypatch.setenv("CI", "true")
    list(progress.track(range(3), "counting", patience=0))
    assert terminal.text == ""


def test_only_the_outermost_bar_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(monkeypatch)
    for _ in progress.track(range(2), "outer", patience=0):
        list(progress.track(range(2), "inner", patience=0))
    assert "outer" in terminal.text
    assert "inner" not in terminal.text
