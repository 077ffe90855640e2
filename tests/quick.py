"""The tests of what changed, in seconds: `python tests/quick.py [PYTEST OPTION ...]`, which `make quick` runs.

What changed: since the branch left main, and in the working tree. A module's tests are its mirror (tests/ROOM/test_x.py
for src/graphveil/ROOM/x.py) or, without one, those of its room that import it. A method or a mechanism is put to its
contract too, with all its specimens; what methods share is, with one specimen of each. Without a change, or with one
that concerns too many files: `UNIT`, and one specimen of each method. `make test` leaves nothing out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ONE = "one"
"""Instead of names of parts: the first specimen of each."""

METHODS = ("conformance/test_methods.py",)
MECHANISMS = ("mechanisms/test_mechanisms.py", "mechanisms/test_curves.py", "mechanisms/test_evidence.py")
UNIT = (
    "test_checks.py",
    "data/test_graph.py",
    "nn/test_aggregate.py",
    "nn/test_clipping.py",
    "privacy/test_ledger.py",
    "privacy/test_session.py",
    "release/test_certificate.py",
    "nn/sampling/test_take.py",
    "test_run.py",
)
MAX_FILES = 12
"""More test files than this take longer than `UNIT`."""


def changed() -> list[str]:
    """Files that differ from where this branch left main, new ones too."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return sorted({*_git("diff", "--name-only", *base), *_git("ls-files", "--others", "--exclude-standard")})


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def chosen(paths: Iterable[str], root: Path = ROOT) -> tuple[set[str], set[str]]:
    """(test files below tests/, names of parts whose contract is tested) for changed files of a repository."""
    files, parts = set[str](), set[str]()
    for path in map(Path, paths):
        found, names = _of_source(path, root) if path.parts[:2] == ("src", "graphveil") else _of_other(path, root)
        files |= found
        parts |= names
    if len(files) > MAX_FILES or not files:
        return {*UNIT, *METHODS}, {ONE}
    return files, parts


def _of_source(path: Path, root: Path) -> tuple[set[str], set[str]]:
    """The tests of a module, and the parts whose contract it may break."""
    inner = Path(*path.parts[2:])
    if inner.suffix != ".py" or inner.name == "__init__.py":
        return set(), set()
    mirror = inner.with_name(f"test_{inner.name}")
    module = ".".join(("graphveil", *inner.with_suffix("").parts))
    room = root / "tests" / inner.parts[0] if len(inner.parts) > 1 else root / "tests"
    files = {str(mirror)} if (root / "tests" / mirror).is_file() else _importing(module, room, root)
    match inner.parts[:-1]:
        case ("methods", _):
            return {*files, *METHODS}, {inner.stem}
        case ("methods", *_):
            return {*files, *METHODS}, {ONE}
        case ("mechanisms",):
            return {*files, *MECHANISMS}, {inner.stem}
    return files, set()


def _of_other(path: Path, root: Path) -> tuple[set[str], set[str]]:
    """A test file is its own test, what tests share is tested by those that import it; benchmarks have a mirror."""
    match path.parts:
        case ("tests", *rest) if path.suffix == ".py":
            own = path.name.startswith("test_") and (root / path).is_file()
            files = {str(Path(*rest))} if own else _importing(path.stem, root / "tests", root)
            return files, {ONE} if any(map(is_contract, files)) else set()
        case ("docs", *_):
            return {"test_docs.py"}, set()
        case ("README.md",):
            return {"test_readme.py"}, set()
    return set(), set()


def is_contract(file: str) -> bool:
    """Whether a test file, below tests/, puts all parts to one contract."""
    return file.startswith("conformance/") or file in MECHANISMS


def _importing(module: str, folder: Path, root: Path) -> set[str]:
    """Test files below a folder that import a module."""
    package, _, name = module.rpartition(".")
    told = rf"^ *(?:from|import) {re.escape(module)}\b"
    told += rf"|^ *from {re.escape(package)} import \(?.*\b{name}\b" if package else ""
    pattern = re.compile(told, re.MULTILINE)
    return {
        str(file.relative_to(root / "tests"))
        for file in folder.rglob("test_*.py")
        if pattern.search(file.read_text(encoding="utf-8"))
    }


def concerned(test: str, given: Mapping[str, object], names: set[str], heard: set[tuple[str, str]]) -> bool:
    """Whether a test has no specimen among what it is given, or one of the parts named.

    test: pytest's node id; heard: which tests and parts had their one specimen.
    """
    file, function = test.partition("[")[0].split("::", 1)
    parts = [part for value in given.values() if (part := _part(value))] if is_contract(file[len("tests/") :]) else []
    if not parts or names.intersection(parts):
        return True
    first = (function, parts[0]) not in heard
    heard.add((function, parts[0]))
    return ONE in names and first


def _part(value: object) -> str:
    """The module of a method or a mechanism; empty for anything else."""
    package, _, module = type(value).__module__.rpartition(".")
    return module if package.startswith(("graphveil.methods.", "graphveil.mechanisms")) else ""


def main() -> int:
    files, parts = chosen(changed())
    print(f"tests: {', '.join(sorted(files))}; contract of: {', '.join(sorted(parts)) or 'no part'}", flush=True)
    tests = [str(ROOT / "tests" / file) for file in sorted(files)]
    ended = pytest.main(["--rootdir", str(ROOT), *sys.argv[1:], f"--quick={','.join(sorted(parts))}", *tests])
    return 0 if ended == pytest.ExitCode.NO_TESTS_COLLECTED else int(ended)


if __name__ == "__main__":
    sys.exit(main())
