"""Which revision of a method made a result, so that what an older one made is never shown as today's.

The source of a method is its module and all that this imports of the rooms that compute (`COMPUTES`), without comments
and docstrings. revisions.json has, for every method of the library, the revision of what its runs give and the source
for which that was last confirmed. An unchanged source is "hearsay 3", another one "hearsay 3+1f0c9a2b", as git names
what was edited: records under the one name do not count for the other. `benchmarks/confirm.py` runs kept lines again
and then says that the revision is still the same, or raises it.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import os
import re
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from graphveil import discover

_PACKAGE = Path(__file__).parents[1]
FILE = Path(__file__).with_name("revisions.json")
COMPUTES = (
    "graphveil.bench.record",
    "graphveil.methods",
    "graphveil.mechanisms",
    "graphveil.nn",
    "graphveil.sampling",
    "graphveil.tasks",
    "graphveil.planning",
    "graphveil.training",
    "graphveil.graph.arcs",
    "graphveil.graph.device_arcs",
    "graphveil.graph.graph",
    "graphveil.graph.sealing",
    "graphveil.graph.splits",
    "graphveil.privacy.accounting",
    "graphveil.privacy.cipher",
    "graphveil.privacy.elementary",
    "graphveil.privacy.noise",
    "graphveil.privacy.session",
    "graphveil.release.serving",
    "graphveil.runtime.chance",
    "graphveil.runtime.placed",
)
"""What a result depends on beside the data. What reads tables, saves or draws pictures is not in it, nor are kernels of
a GPU: results are kept of processors."""
_ALWAYS = (
    "graphveil.bench.record",
    "graphveil.training",
    "graphveil.privacy.noise",
    "graphveil.graph.splits",
    "graphveil.release.serving",
)
"""What every run goes through, though no method imports it."""
_PLAYS = "graphveil.bench.audits"
_JUDGES = ("graphveil.evidence", "graphveil.privacy", "graphveil.release.finding")
"""What attacks claims, and what it takes of other rooms beside methods."""
_STARTED = time.time()
_DIGITS, _OTHERS = 8, 0
"""Of the digest in a name; the revision of methods of others."""
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\'|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|\#[^\n]*''', re.DOTALL
)
"""A comment begins with the first # that is in no text. Python's own tokenizer takes forty times as long."""


class Revision(BaseModel):
    """What is known of a method's runs: their revision, and the source that gave them last."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    revision: int = Field(ge=1)
    source: str


@lru_cache
def known() -> dict[str, Revision]:
    """The revisions of revisions.json, by the names of methods."""
    return {name: Revision.model_validate(said) for name, said in json.loads(FILE.read_text(encoding="utf-8")).items()}


def made_by(name: str, params: Mapping[str, Any] | None = None) -> str:
    """What makes a run of this method today: its name and revision, and those of methods among its settings."""
    names = {kind.__name__: method for method, kind in discover.methods().items()}
    inner = {names[kind] for kind in _kinds(params or {}) if kind in names}
    return ", ".join(_made_by(part) for part in (name, *sorted(inner - {name})))


def _kinds(held: Any) -> Iterator[str]:
    """The methods that a described setting holds, such as the candidates of a choice."""
    if isinstance(held, Mapping):
        if isinstance(kind := held.get("kind"), str):
            yield kind
        held = list(held.values())
    if isinstance(held, list | tuple):
        for item in held:
            yield from _kinds(item)


@cache
def _made_by(name: str) -> str:
    held, now = known().get(name), source_of(name)
    if held is None:
        return f"{name} {_OTHERS}+{now[:_DIGITS]}"
    return f"{name} {held.revision}" if held.source == now else f"{name} {held.revision}+{now[:_DIGITS]}"


def stale(made: str) -> bool:
    """Whether what `made_by` said then is not what it says now, or nothing was said.

    Of methods of others nothing is known here: nothing is imported because a file names it.
    """
    return not made or any(_is_stale(part) for part in made.split(", "))


def _is_stale(part: str) -> bool:
    name, _, revision = part.partition(" ")
    return part != _made_by(name) if name in known() else not revision.startswith(f"{_OTHERS}+")


def played_by(made: str) -> str:
    """SHA-256 of all code that an audit of this maker's claim runs: no revision says what attacks find.

    made: as `made_by` says it. Empty where a method is not known here. Where one of the files was written since this
    process began nobody knows what played: then it is another word every time.
    """
    modules, source = _played(made)
    return secrets.token_hex() if _written(modules) else source


@cache
def _played(made: str) -> tuple[frozenset[str], str]:
    """The modules that an audit runs, and the SHA-256 of their code."""
    names = [part.partition(" ")[0] for part in made.split(", ")]
    if not made or not all(name in known() for name in names):
        return frozenset(), ""
    playing = _reached([_PLAYS], _JUDGES)
    told = "".join(f"{module}\n{code(_file(module))}\n" for module in sorted(playing))
    source = hashlib.sha256((told + "".join(map(source_of, names))).encode()).hexdigest()
    return frozenset(playing).union(*map(_sources, names)), source


def edited(name: str) -> str:
    """The first of our files that a method runs which was written since this process began; empty if there is none.

    What was imported before is not what the file says now.
    """
    return _written(_sources(name))


def _written(modules: Iterable[str]) -> str:
    """The first file of some modules of ours that was written since this process began; empty if there is none."""
    files = (_ours(module) for module in sorted(modules) if module.startswith("graphveil."))
    return next((file.name for file in files if file and file.stat().st_mtime > _STARTED), "")


def forget() -> None:
    """Read revisions.json and sources again."""
    for held in (known, _made_by, _ours, _read, _played):
        held.cache_clear()


def source_of(name: str) -> str:
    """SHA-256 of the source of a method."""
    kind = discover.written_method(name)
    said = "".join(f"{module}\n{code(_file(module))}\n" for module in sorted(_sources(name)))
    if not _file(kind.__module__).is_file():
        said += _told(kind)
    return hashlib.sha256(said.encode()).hexdigest()


def _sources(name: str) -> set[str]:
    """The modules of a method, and what every run goes through."""
    return closure(discover.written_method(name).__module__, *_ALWAYS)


def _told(kind: type) -> str:
    """The source of a class that lies in no file, as in a notebook; of an unknown one nothing is used again."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return secrets.token_hex()


def closure(*modules: str) -> set[str]:
    """The modules and all that they import of the rooms that compute, and what these import, lazily or not."""
    return _reached(modules, COMPUTES)


def _reached(modules: Iterable[str], rooms: tuple[str, ...]) -> set[str]:
    """The modules and all that they import of some rooms; a method of others brings its own package along."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            for said in _read(_file(name)).imports:
                other = resolve_name(said, getattr(sys.modules[name], "__package__", "")) if said[0] == "." else said
                if other.startswith(rooms) or _beside(name, other):
                    waiting.append(other)
    return found


def _beside(name: str, other: str) -> bool:
    """Whether a module that is not ours lies in the package or the folder of one that is not ours either."""
    if name.startswith("graphveil.") or other not in sys.modules or other.startswith("graphveil"):
        return False
    return other.partition(".")[0] == name.partition(".")[0] or _file(other).parent == _file(name).parent


def _named(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.level:
        home = "." * node.level + (node.module or "")
        yield from (f"{home}{'.' if node.module else ''}{alias.name}" for alias in node.names)
        yield home
    elif isinstance(node, ast.ImportFrom) and node.module:
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield inner if node.module.startswith("graphveil") and _ours(inner) else node.module


@cache
def _ours(module: str) -> Path | None:
    """Where the source of a module of ours lies; `None` if there is no such module."""
    home = _PACKAGE.joinpath(*module.split(".")[1:])
    return next((file for file in (home.with_suffix(".py"), home / "__init__.py") if file.exists()), None)


def _file(module: str) -> Path:
    """Where the source of a module lies: one of ours, or that of a method of others, which is imported already."""
    if module.startswith("graphveil."):
        return _ours(module) or Path(os.devnull)
    home = Path(getattr(sys.modules[module], "__file__", None) or os.devnull)
    return file if (file := home.with_suffix(".py")).exists() else home


def _text(file: Path) -> str:
    """Python source; empty for what is none, such as compiled code."""
    try:
        return file.read_text(encoding="utf-8") if file.suffix == ".py" else ""
    except OSError:
        return ""


def code(file: Path) -> str:
    """The lines of a file without comments, texts that stand alone, and blanks: the same for every Python."""
    return _read(file).code


def imports(file: Path) -> tuple[str, ...]:
    """The modules that a file imports, at its top or inside of a function."""
    return _read(file).imports


class _Read(NamedTuple):
    """What counts of a file: the modules that it imports, and its code."""

    imports: tuple[str, ...]
    code: str


@cache
def _read(file: Path) -> _Read:
    """Every file is read and parsed once in a process: there are more than a hundred."""
    text = _text(file)
    plain = _TEXT_OR_COMMENT.sub(lambda found: "" if found[0].startswith("#") else found[0], text)
    try:
        tree = ast.parse(plain)
    except SyntaxError:
        # Since Python 3.12 a text in braces may have the quotes of the text around it: then comments count.
        plain, tree = text, ast.parse(text)
    lines, statements = plain.split("\n"), list(_statements(tree.body))
    for node in statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            first, last = node.lineno - 1, node.end_lineno or node.lineno
            if not lines[first][: node.col_offset].strip() and not lines[last - 1][node.end_col_offset :].strip():
                lines[first:last] = [""] * (last - first)
    imports = tuple(dict.fromkeys(name for node in statements for name in _named(node)))
    return _Read(imports, "\n".join(kept for line in lines if (kept := line.rstrip())))


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, those inside of others too. What counts here is no part of an expression."""
    left: list[Any] = list(body)
    while left:
        node = left.pop()
        if isinstance(node, ast.stmt):
            yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, part, ())
