"""What random stopping costs, and the cards of a choice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dp_accounting.rdp.rdp_privacy_accountant import _compute_rdp_repeat_and_select

import selection
from graphveil_lab.report.cards import cards


def test_a_report_shows_the_candidates_and_no_card_of_a_choice() -> None:
    assert [card.name for card in cards([], ["best", "dpsgd, charged"])] == ["dpsgd"]


def test_the_page_shows_what_the_benchmark_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["selection.py"])
    selection.main()
    page = Path(__file__).parents[3] / "docs" / "methods" / "best.md"
    assert capsys.readouterr().out in page.read_text(encoding="utf-8")


def test_random_stopping_by_another_implementation() -> None:
    """Theorem 2 as dp-accounting has it; its theorem 6 takes a looser delta, so it bounds ours from above."""
    renyi = selection.ORDERS * 0.3**2 / 2
    theirs = [
        selection.converted(_compute_rdp_repeat_and_select(selection.ORDERS, renyi, 24.0, s)) for s in (1, np.inf)
    ]
    assert selection.geometric(0.3, 24.0) == pytest.approx(theirs[0], rel=1e-9)
    assert 0.6 * theirs[1] < selection.poisson(0.3, 24.0) < theirs[1]
