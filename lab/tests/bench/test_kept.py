"""Kept lines say what may be believed of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from graphveil.errors import InvalidInput
from graphveil_lab.bench import kept
from reported import row, write


def line(**changes: Any) -> kept.KeptLine:
    return kept.KeptLine.model_validate(row(**changes))


@pytest.mark.parametrize(
    ("changes", "label", "proven"),
    [
        ({}, "gap", True),
        ({"reading": "published", "sound_epsilon": 1.4}, "gap, published claim", False),
        ({"reading": "published"}, "gap, published claim", True),
        ({"audited": 0.9}, "gap", True),
        ({"audited": 1.1}, "gap", False),
        ({"audited": 0.9, "audit": "REFUTED: canary_edge"}, "gap", False),
        ({"certificate_epsilon": "inf", "sound_epsilon": "inf"}, "gap", False),
        ({"epsilon": "inf", "certificate_epsilon": "inf", "sound_epsilon": "inf"}, "gap, ε = ∞", True),
        ({"certificate_epsilon": 0, "sound_epsilon": 0}, "gap, ε = 0", True),
        ({"reading": "published", "certificate_epsilon": 0, "sound_epsilon": 3.0}, "gap, published claim", False),
        ({"certificate_epsilon": None, "sound_epsilon": None, "test": None}, "gap", False),
    ],
    ids=["sound", "unproven", "published", "audited", "refuted", "refuted-there", "unprotected", "open", "free",
         "false-zero", "failed"],
)  # fmt: skip
def test_what_is_proven(changes: dict[str, Any], label: str, proven: bool) -> None:
    made = line(**changes)
    assert (made.full_label, made.proven) == (label, proven)


def test_a_search_is_charged_or_not() -> None:
    assert line(selection="tuned on validation, cost not charged").uncharged
    assert not any(line(selection=said).uncharged for said in ("fixed", "charged", "tuned on validation (free)"))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"none\.json cannot be read"):
        kept.load(tmp_path / "none.json")
    with pytest.raises(InvalidInput, match=r"damaged at 1\.std: Input should be greater than or equal to 0"):
        kept.load(write(tmp_path / "t.json", [row(), row(std=-1.0)]))
