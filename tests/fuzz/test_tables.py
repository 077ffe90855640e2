"""A few hundred of the damaged tables of tests/fuzz/tables.py, and what its own reading is worth."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzz.tables import CASES, by_python, case, open_quote
from graphveil.data import columns, tables, tensors


@pytest.mark.parametrize("kind", CASES)
def test_damaged_input_is_refused_or_read_right(kind: str) -> None:
    ends = [case(kind, 0, number) for number in range(150)]
    assert [end for end in ends if end["end"] not in ("accepted", "refused")] == []
    assert {end["end"] for end in ends} == {"accepted", "refused"}


@pytest.mark.parametrize(
    "text", ["a", '"a', '"a"', '"a""', '"a"""', 'a"', 'a,"', '"a"b"', '"a",\n"b', '""', '"a\n', '"a"b,"']
)
def test_open_quotes_are_those_of_pythons_csv_module(text: str) -> None:
    """A line more, and it is swallowed."""
    last = list(csv.reader(io.StringIO(text + "\nend", newline="")))[-1]
    assert open_quote(text) == (last != ["end"])


def respelt(column: Any, where: str) -> Any:
    """Labels by their value: 1 and 01 are one."""
    texts, codes = labels(column, where)
    values = [str(int(text)) if text.isdecimal() else text for text in texts]
    return list(dict.fromkeys(values)), np.array([list(dict.fromkeys(values)).index(values[code]) for code in codes])


labels = columns._labels
MISTAKES = [
    ("csv", columns, "_labels", respelt),
    ("csv", tables, "_require_text", lambda *_: None),
    ("parquet", tables, "_BAD_FILE", ()),
    ("parquet", tables, "_require_scalars", lambda *_: None),
    ("pyg", tables, "_text", lambda value, *_: "" if value is None else str(value)),
    ("pyg", tensors, "as_tensor", lambda value, _: value),
]


@pytest.mark.parametrize(("kind", "module", "name", "mistake"), MISTAKES)
def test_mistakes_are_seen(kind: str, module: Any, name: str, mistake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, mistake)
    seen = (case(kind, 0, number)["end"] for number in range(1000))
    assert any(end in ("raw", "silent", "needless") for end in seen)


def test_the_reading_by_python_refuses_what_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for raw in (b"", b"a,a\n", b"a,b\n1\n", b'a\n"1', b"a\n\xff", b"a\n\0"):
        path.write_bytes(raw)
        assert by_python(path) is None
