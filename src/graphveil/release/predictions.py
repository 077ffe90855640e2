"""Predictions that people read: ids, names of classes and chances, as CSV, JSON or a data frame."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor

from graphveil.errors import MissingExtra

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


@dataclass(frozen=True, eq=False, repr=False)
class Predictions:
    """For every node its id, the class that it is given, and the chance of every class.

    ids: None where nobody knows them; then nodes go by their row. probabilities: [n, c], in the order of `classes`.
    """

    ids: Sequence[str] | None
    labels: Sequence[str]
    probabilities: Tensor
    classes: Sequence[str]

    def columns(self) -> dict[str, list[Any]]:
        """id (or row), label and p_<class> for every class."""
        first: dict[str, list[Any]] = (
            {"row": list(range(len(self.labels)))} if self.ids is None else {"id": list(self.ids)}
        )
        chances = {f"p_{name}": self.probabilities[:, place].tolist() for place, name in enumerate(self.classes)}
        return {**first, "label": list(self.labels), **chances}

    def rows(self) -> list[dict[str, Any]]:
        """One object for every node, for JSON."""
        columns = self.columns()
        return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]

    def to_csv(self) -> str:
        """Chances to six digits; texts that a spreadsheet would run as a formula get an apostrophe."""
        file = io.StringIO(newline="")
        rows = csv.writer(file, lineterminator="\n")
        columns = self.columns()
        rows.writerow(columns)
        for first, label, *chances in zip(*columns.values(), strict=True):
            rows.writerow([_inert(str(first)), _inert(label), *(f"{chance:.6f}" for chance in chances)])
        return file.getvalue()

    def to_arrow(self) -> pyarrow.Table:
        """As an Arrow table."""
        import pyarrow as pa

        return pa.table(self.columns())

    def to_pandas(self) -> pandas.DataFrame:
        """As a pandas frame."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("pandas is not installed; install it, or use to_arrow() or to_csv()") from None
        return pandas.DataFrame(self.columns())

    def to_polars(self) -> polars.DataFrame:
        """As a polars frame."""
        try:
            import polars
        except ImportError:
            raise MissingExtra("polars is not installed; install it, or use to_arrow() or to_csv()") from None
        return polars.DataFrame(self.columns())

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        return f"Predictions({len(self)} nodes, classes {', '.join(self.classes)})"


def _inert(text: str) -> str:
    """An apostrophe before what a spreadsheet would run as a formula; whole numbers such as -5 stay."""
    # Spreadsheets take full-width signs for the plain ones.
    first = unicodedata.normalize("NFKC", text[:1])
    formula = first in ("=", "+", "-", "@", "\t", "\r", "\n")
    return f"'{text}" if formula and not re.fullmatch(r"-[0-9]+", text, re.ASCII) else text
