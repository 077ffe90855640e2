"""Audits of a whole stream, and of one whose journal forgets."""

from __future__ import annotations

import pytest

from audit_streams import audit


@pytest.mark.parametrize("undirected", [True, False])
def test_an_audit_of_a_whole_stream_is_consistent_with_the_claim_of_one_release(undirected: bool) -> None:
    found = audit(80, 2.0, undirected)
    assert found.verdict == "consistent"
    assert found.lower > 0.3


def test_an_audit_refutes_the_claim_if_the_journal_forgets() -> None:
    assert audit(250, 2.0, broken=True).verdict == "refuted"
