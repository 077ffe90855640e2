"""What every method states about itself."""

from __future__ import annotations

import pytest

from graphveil.methods.method import METHODS, Method


@pytest.mark.parametrize("kind", [pytest.param(kind, id=name) for name, kind in METHODS.ours().items()])
def test_a_subtitle_stands_in_the_method_s_own_file(kind: type[Method]) -> None:
    subtitle = vars(kind).get("subtitle", "")
    assert 2 <= len(subtitle.split()) <= 8
    assert kind.name() not in subtitle.lower().split()
