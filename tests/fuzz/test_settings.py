"""A few of the questions that tests/fuzz/settings.py asks, and its own judgement."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest

import graphveil as gv
from fuzz.settings import ABSURD, EXTREME, Question, drawn, grid, hear, private
from graphveil.checks import quoted
from graphveil.data.sealing import Public
from graphveil.errors import GraphveilError, InvalidInput
from graphveil.mechanisms.gaussian import Gaussian
from graphveil.methods.method import METHODS
from graphveil.planning import Terms, planned
from graphveil.privacy import accounting
from graphveil.vocabulary import Step
from plans import plan_of

PLAIN = Question("gap", "edge", "sound", 1e-5, epsilon=1.0)


def test_random_settings_are_answered_or_refused() -> None:
    """Small graphs alone: a hundred questions take seconds."""
    for question in drawn(100, 3):
        small = 300 if question.nodes in (10_000, 1_000_000) else question.nodes
        verdict = replace(question, nodes=small).verdict()
        assert verdict.startswith(("answered", "refused")), (verdict, question)


def test_the_same_seed_asks_the_same() -> None:
    assert list(map(repr, drawn(20, 5))) == list(map(repr, drawn(20, 5)))
    assert list(map(repr, drawn(20, 5))) != list(map(repr, drawn(20, 6)))


def test_the_grid_asks_every_private_method() -> None:
    assert {question.method for question in grid(private())} == set(METHODS.ours()) - {"gcn", "gin", "sage"}
    assert len(list(grid(["gap"]))) == 2 * 7 * (10 + 8)


def test_what_is_wrong_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PLAIN.verdict().startswith("answered")
    assert replace(PLAIN, absurd=True).verdict().startswith("ACCEPTED")
    for answer, seen in (((1.0, 1.1), "ABOVE"), ((math.inf, 0.5), "NOT A NUMBER"), ((1.0, math.nan), "NOT A NUMBER")):
        monkeypatch.setattr(Question, "answer", lambda self, answer=answer: answer)  # noqa: ARG005
        assert PLAIN.verdict().startswith(seen)

    def broken(self: Question) -> tuple[float, float]:  # noqa: ARG001
        raise ZeroDivisionError

    monkeypatch.setattr(Question, "answer", broken)
    assert PLAIN.verdict().startswith("RAW ZeroDivisionError")


def test_what_takes_too_long_or_too_much_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(self: Question) -> str:  # noqa: ARG001
        while True:
            pass

    def greedy(self: Question) -> str:  # noqa: ARG001
        kept = bytearray(400 << 20)
        while True:
            kept[::4096] = bytes(len(kept[::4096]))

    monkeypatch.setattr(Question, "verdict", endless)
    assert hear(PLAIN, 0.3, 1024).verdict == "HANG"
    monkeypatch.setattr(Question, "verdict", greedy)
    assert hear(PLAIN, 60, 100).verdict == "MEMORY"


@pytest.mark.parametrize("name", sorted(set(METHODS.ours()) - {"best"}))
def test_settings_of_another_kind_are_refused(name: str) -> None:
    """Whatever the setting: text for a number, True for a number, a number that is none, and what no double holds."""
    kind = METHODS.find(name)
    for item in fields(kind):
        for value in (*EXTREME, *ABSURD):
            if not of_kind(value, item.default):
                with pytest.raises(GraphveilError):
                    kind(**{item.name: value})
    for first in fields(kind)[:1]:
        with pytest.raises(InvalidInput, match=first.name):
            kind([])


def of_kind(value: Any, default: Any) -> bool:
    """Whether the value could be meant; methods may refuse it still."""
    if isinstance(value, bool) or isinstance(default, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float) and abs(value) < 1e308
    return isinstance(value, type(default)) and not (isinstance(value, int) and abs(value) >= 1 << 63)


@pytest.mark.parametrize("value", ABSURD, ids=quoted)
def test_absurd_budgets_are_refused(value: Any) -> None:
    for asked in ({"epsilon": value, "noise": None}, {"noise": value, "epsilon": None}):
        if value is None or (asked["noise"] == 0 and value is not True and value != [1]):
            continue
        with pytest.raises(InvalidInput):
            planned(gv.methods.Gap(), Public.blank(100, 8, 2), Terms("edge", delta=1e-5, **asked))
    with pytest.raises(InvalidInput, match="delta"):
        accounting.epsilon(plan_of(), value)
    if value != 0 or isinstance(value, bool):
        with pytest.raises(InvalidInput, match="epsilon"):
            accounting.delta(plan_of(), value)


@pytest.mark.parametrize("times", [0, -1, 1.0, True, "2", None, 10**16, 10**5000], ids=quoted)
def test_steps_run_a_whole_number_of_times(times: Any) -> None:
    act = Gaussian(1.0)
    with pytest.raises(InvalidInput, match="times"):
        Step("one", act, act.curve(1), times, why="test")


def test_messages_stay_short() -> None:
    assert quoted(10**5000) == "a whole number of 16610 bits"
    assert len(quoted("x" * 1000)) == 80
    assert quoted(1.5) == "1.5"
