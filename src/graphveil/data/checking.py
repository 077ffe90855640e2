"""`check`: every problem of two tables at once, before anything is trained or charged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from graphveil.checks import parse
from graphveil.data.arcs import Arcs, Ids
from graphveil.data.columns import (
    class_names,
    classes_of,
    edge_columns,
    kept_columns,
    masks_of,
    no_column,
    node_ids,
    places,
)
from graphveil.data.encoding import Declared, encoded_columns, feature_columns, read_declared, suggested_column
from graphveil.data.schema import FeatureColumn, Kind, Schema, listed
from graphveil.data.tables import Table, coded, read_table
from graphveil.errors import InvalidInput
from graphveil.vocabulary import UNLABELLED, Adjacency, Unit

UNEQUAL = 0.8
"""Share of the labels above which the largest class is remarked on."""
FEW = 10
"""Labels of a class below which it can hardly be learnt, nor its score measured."""


@dataclass
class Findings:
    """What stands in the way of a training (`problems`), what is good to know (`remarks`), and what would help.

    options: those of the command line that would solve problems. Remarks count private records: for the data holder.
    """

    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)

    @property
    def ready(self) -> bool:
        """Whether a training could begin."""
        return not self.problems

    def describe(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"ready": self.ready, **asdict(self)}

    def __str__(self) -> str:
        lines = [f"problem  {words}" for words in self.problems] + [f"note     {words}" for words in self.remarks]
        lines += [f"option   {words}" for words in self.options]
        count = len(self.problems)
        return "\n".join([*lines, "ready" if self.ready else f"{count} problem{'s' if count > 1 else ''}"])

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Turns an error of the block into a problem, and the check goes on."""
        try:
            yield
        except InvalidInput as error:
            self.problems.append(str(error))

    def suggest(self, option: str) -> None:
        """An option that would help, once."""
        if option not in self.options:
            self.options.append(option)


def check(
    edges: str | Path | Table | Any | None,
    nodes: str | Path | Table | Any,
    *,
    unit: Unit | str = Unit.EDGE,
    undirected: bool = True,
    clean: bool = False,
    label: str | None = None,
    id: str | None = None,
    split: str = "split",
    source: str | None = None,
    target: str | None = None,
    weight: str | None = None,
    drop: Sequence[str] = (),
    encode: str | None = None,
    categories: str | Path | Declared | None = None,
    encoding: str = "utf-8",
    schema: Schema | None = None,
) -> Findings:
    """What is wrong with two tables, all of it, and what a training under `unit` would ignore; options as `from_edges`.

    With the schema of a release: whether its model can predict for them.
    """
    if schema is not None and (encode is not None or categories is not None):
        raise InvalidInput("a schema says how tables are read; leave encode and categories out")
    found, known = Findings(), schema or Schema((), ())
    id, label = id or known.id, label or known.label
    try:
        # Dates are read: whether the features can be encoded is checked column by column.
        table = read_table(nodes, "nodes", kept_columns(drop, "nodes"), encoding, dates=True)
    except InvalidInput as error:
        found.problems.append(str(error))
        return found
    if drop:
        found.remarks.append(f"dropped columns of the node table: {listed(drop)}")
    ids = _check_ids(table, id, found)
    if ids is None and {"source", "target"} <= set(table):
        return found  # An edge table: what else its columns lack as a node table helps nobody.
    _check_labels(table, label, schema, found)
    if split in table:
        with found.noted():
            _check_split(table[split], found)
    features = {key: table[key] for key in table if key not in (id, label, split)}
    private = "x" in Adjacency.of(parse(Unit, unit, "unit")).private
    if schema is not None:
        with found.noted():
            schema.require_columns(list(features), "nodes: the table")
        here = {column.name: column for column in schema.columns if column.name in features}
        _check_cells({key: features[key] for key in here}, tuple(here.values()), found)
    else:
        _check_features(features, encode, categories, private, found)
    if edges is not None and ids is not None:
        with found.noted():
            pick = edge_columns(edges, ids, source, target, weight)
            _check_edges(edges, pick, ids, undirected=undirected, clean=clean, encoding=encoding, found=found)
    return found


def _check_ids(table: Table, id: str, found: Findings) -> Any:
    """The ids as text, or None if they cannot be used."""
    if id not in table:
        found.problems.append(no_column(id, "id", list(table)))
        return None
    try:
        return node_ids(table[id])
    except InvalidInput as error:
        found.problems.append(str(error))
        return None


def _check_labels(table: Table, label: str, schema: Schema | None, found: Findings) -> None:
    if label not in table:
        (found.problems if schema is None else found.remarks).append(
            no_column(label, "label", list(table)) if schema is None else "no labels: predicted ones are used instead"
        )
        return
    with found.noted():
        y = classes_of(table[label], "nodes row", None if schema is None else schema.classes).numpy()
        names = list(map(str, class_names(table[label]) if schema is None else schema.classes))
        # The last count is of -1, no label.
        counts = np.roll(np.bincount(y - UNLABELLED, minlength=len(names) + 1), -1).tolist()
        shares = ", ".join(f"{name} {count:,}" for name, count in zip(names, counts, strict=False))
        found.remarks.append(f"classes: {shares}; without a label: {counts[-1]:,}")
        if schema is None and len(names) == 1:
            found.problems.append(f"all labels are {names[0]!r}: there is nothing to tell apart")
        few = [name for name, count in zip(names, counts, strict=False) if 0 < count < FEW]
        if few and schema is None:
            found.remarks.append(f"fewer than {FEW} labels: {listed(few)}; little can be learnt about them")
        most, known = max(counts[:-1]), len(y) - counts[-1]
        if schema is None and len(names) > 1 and most >= UNEQUAL * known > 0:
            found.remarks.append(
                f"one class has {100 * most / known:.0f} % of the labels, and a model may name it alone: train with "
                "--class-weight balanced where labels are public, or name another earlier with --threshold"
            )


def _check_split(column: Any, found: Findings) -> None:
    masks = masks_of(column, "nodes row")
    found.remarks.append("split: " + ", ".join(f"{role} {int(mask.sum()):,}" for role, mask in masks.items()))


# Features


def _check_features(
    features: Table, encode: str | None, categories: str | Path | Declared | None, private: bool, found: Findings
) -> None:
    if not features:
        found.problems.append("nodes: no feature columns are left; the model would have nothing to read")
        return
    declared: Declared = {}
    with found.noted():
        declared = read_declared(categories) if isinstance(categories, str | Path) else categories or {}
        # Declared columns that are not there are one problem; the others are checked each by itself.
        encoded_columns({}, {name: content for name, content in declared.items() if name not in features}, auto=False)
    for name, column in features.items():
        _check_feature(name, column, {name: declared[name]} if name in declared else {}, encode, private, found)


def _check_feature(
    name: str, column: Any, declared: Declared, encode: str | None, private: bool, found: Findings
) -> None:
    """How one column would be encoded, or the option that would help."""
    try:
        kind = encoded_columns({name: column}, declared, auto=encode == "auto")[0]
        feature_columns({name: column}, len(column), [kind])
    except InvalidInput as error:
        found.problems.append(str(error))
        if not declared:
            _suggest(name, column, private, found)
        return
    if kind.fitted and private:
        found.problems.append(
            f"column {name!r} would be encoded by features that this unit protects: declare it (--categories)"
        )
        found.suggest("--categories FILE")
    elif kind != FeatureColumn(name, size=kind.size):
        found.remarks.append(_reading(kind))


def _suggest(name: str, column: Any, private: bool, found: Findings) -> None:
    """The option that encodes the column if it can be, else the one that drops it."""
    try:
        suggested_column(name, column)
    except InvalidInput:
        found.suggest(f"--drop {name}")
    else:
        found.suggest("--categories FILE" if private else "--encode auto")


def _reading(column: FeatureColumn) -> str:
    """How a column is read, in words."""
    what = f"column {column.name!r} is read as {column.kind.value}"
    if column.kind is Kind.CATEGORY:
        return f"{what}: {listed(column.categories)}"
    return f"{what}; one more number says where it is known" if column.blanks else what


def _check_cells(features: Table, columns: Sequence[FeatureColumn], found: Findings) -> None:
    """Whether the cells fit the columns of a release."""
    for column in columns:
        with found.noted():
            feature_columns(features, len(features[column.name]), [column])


# Edges


def _check_edges(
    edges: Any, pick: Any, ids: Any, *, undirected: bool, clean: bool, encoding: str, found: Findings
) -> None:
    names: list[str] = []

    def noticed(given: list[str]) -> Sequence[str]:
        names.extend(given)
        return list(pick(given))

    columns = read_table(edges, "edges", noticed, encoding)
    ignored = [name for name in names if name not in columns]
    if ignored:
        found.remarks.append(f"columns of the edge table that are not read: {listed(ignored)}")
    first, second, *weights = columns
    if weights:
        found.remarks.append(f"weights in {weights[0]!r} count as 0 or not; how large they are is not read")
    ends = [_check_end(columns[name], ids, name, found) for name in (first, second)]
    inside = (ends[0] >= 0) & (ends[1] >= 0)
    arcs = Arcs(ends[0][inside], ends[1][inside], len(ids), "edges row", ids)
    repairs = arcs.repairs(undirected)
    if repairs and clean:
        found.remarks.append(f"--clean drops {repairs}")
    elif repairs:
        found.problems.append(f"edges: {repairs} would be refused; --clean drops them")
        found.suggest("--clean")
    alone = len(ids) - len(np.union1d(arcs.sources, arcs.targets))
    kind = "undirected" if undirected else "directed"
    found.remarks.append(f"{len(ids):,} nodes, {len(inside):,} rows of {kind} edges; {alone:,} nodes without any")


def _check_end(column: Any, ids: Any, name: str, found: Findings) -> Ids:
    """Positions of one end, int64 [m], -1 where it is no node."""
    at = places(column, ids, name)
    unknown = np.flatnonzero(at < 0)
    if unknown.size:
        texts = coded(column.take(pa.array(unknown)), name)[0].to_pylist()
        found.problems.append(
            f"edges: {unknown.size:,} rows have a {name} that is not in the node table, first in row {unknown[0]}: "
            f"{listed(texts)}; add the nodes, or leave the rows out"
        )
    return at
