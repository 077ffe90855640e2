"""`make quick`: format, lint, types and the tests of what changed, within a minute.

What changed: since the branch left main, and in the working tree. Test files are ranked by their distance from it:

0. changed tests, and the mirrors of changed modules (tests/ROOM/test_x.py for src/graphveil/ROOM/x.py);
1. tests that import a changed module;
2. mirrors of the modules that import it, in whatever room;
3. the contracts of methods and mechanisms: all specimens of a changed part, the first of every other;
4. the other tests of the room.

Nearer tests run first, and cheaper ones first among the equally near, by the durations that pytest's cache keeps. What
does not fit in the time is left out and counted; `make test` leaves nothing out.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import accumulate
from math import inf
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
LIMIT = 46
"""Seconds from the start after which no test begins; the longest test and the end of pytest come on top."""
BUDGET = 45
"""Seconds of tests, as they were recorded, that two processes get through in that time."""
LONG = 2.0
"""A test of so many seconds waits for the others of its rank."""

HOMES = {"src/graphveil": "tests", "lab/src/graphveil_lab": "lab/tests", "lab/benchmarks": "lab/tests/scripts"}
"""Where the mirrors of a source tree are."""
METHODS = ("tests/conformance/test_methods.py",)
MECHANISMS = (
    "tests/mechanisms/test_mechanisms.py",
    "tests/mechanisms/test_curves.py",
    "tests/mechanisms/test_evidence.py",
)
ALL_PARTS = ("data", "mechanisms", "methods", "nn", "planning", "privacy", "run", "runtime", "vocabulary")
"""Rooms whose modules every method runs through."""
UNIT = (
    "tests/test_checks.py",
    "tests/test_run.py",
    "tests/data/test_graph.py",
    "tests/nn/test_aggregate.py",
    "tests/nn/test_clipping.py",
    "tests/privacy/test_ledger.py",
    "tests/privacy/test_session.py",
    "tests/release/test_certificate.py",
)
"""What is run when no test is near to a change."""


@dataclass(frozen=True)
class Choice:
    """Test files with their ranks, parts whose contract is tested with all specimens, and the time for them.

    until: when no test begins any more; seconds: how much may be begun, by what tests took before.
    """

    ranks: dict[str, int] = field(default_factory=dict)
    parts: list[str] = field(default_factory=list)
    until: float = inf
    seconds: float = inf

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def affordable(self, tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
        """Node ids, the nearest first and then whole files, the cheapest first, as many as the time is enough for."""
        files: defaultdict[str, float] = defaultdict(float)
        for test in tests:
            files[_file(test)] += seconds.get(test, 0.0) if seconds.get(test, 0.0) < LONG else 0.0
        ordered = sorted(
            tests,
            key=lambda test: (
                self.ranks.get(_file(test), 0),
                seconds.get(test, 0.0) >= LONG,
                files[_file(test)],
                _file(test),
            ),
        )
        spent = accumulate(seconds.get(test, 0.02) for test in ordered)
        return [test for test, sofar in zip(ordered, spent, strict=True) if sofar <= self.seconds]


def _file(test: str) -> str:
    return test.split("::")[0]


def changed() -> list[str]:
    """Files that differ from where this branch left main, new and removed ones too."""
    base = _git("merge-base", "HEAD", "main") or ["HEAD"]
    return sorted(
        {*_git("diff", "--no-renames", "--name-only", *base), *_git("ls-files", "--others", "--exclude-standard")}
    )


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()


def chosen(paths: Iterable[str]) -> Choice:
    """The tests near to changed files of the repository."""
    ranks: dict[str, int] = {}
    parts = set[str]()
    for path in paths:
        for rank, files in enumerate(_near(path)):
            for file in files:
                if (ROOT / file).is_file():
                    ranks[file] = min(rank, ranks.get(file, rank))
        home = Path(path)
        if home.parts[:2] == ("src", "graphveil") and home.parts[2] in ("methods", "mechanisms"):
            parts.add(home.stem)
    return Choice(ranks or dict.fromkeys((*UNIT, *METHODS), 0), sorted(parts))


def _near(path: str) -> list[Iterable[str]]:
    """Test files for one changed file, by rank."""
    source = next((source for source in HOMES if path.startswith(source + "/")), None)
    if source is None:
        return [_beside(path)]
    room = Path(path).relative_to(source).parts[0].removesuffix(".py")
    inside = sorted(file for file in _imports() if _is_test(file) and file.startswith(f"{HOMES[source]}/{room}/"))
    if not path.endswith(".py"):
        return [[], inside]
    importing = _importing(module_of(path))
    contracts = (METHODS + MECHANISMS) if room in ALL_PARTS and source == "src/graphveil" else ()
    return [
        [mirror(path)],
        filter(_is_test, importing),
        [mirror(file) for file in importing if not _is_test(file)],
        contracts,
        inside,
    ]


def _beside(path: str) -> list[str]:
    """Tests of a file that is no source: a test is its own, what tests share belongs to those that import it."""
    if path.endswith(".py"):
        return [path] if _is_test(path) else [file for file in _importing(module_of(path)) if _is_test(file)]
    if path.startswith("docs/"):
        return ["tests/test_docs.py"]
    if path == "README.md":
        return ["tests/test_readme.py"]
    if path.startswith("lab/results/"):
        return ["lab/tests/bench/test_kept_results.py"]
    return []


def _is_test(file: str) -> bool:
    return Path(file).name.startswith("test_")


def mirror(path: str) -> str:
    """Where a module's tests are; a path that is not there for a module without."""
    source = next((source for source in HOMES if path.startswith(source + "/")), "")
    inner = Path(path).relative_to(source)
    return str(HOMES.get(source, "tests") / inner.with_name(f"test_{inner.name}"))


def module_of(path: str) -> str:
    """The name by which a file of Python is imported."""
    for package in ("src", "lab/src"):
        if path.startswith(package + "/"):
            inner = Path(path).relative_to(package).with_suffix("")
            return ".".join(inner.parts).removesuffix(".__init__")
    return Path(path).stem


def _importing(module: str) -> list[str]:
    return sorted(file for file, modules in _imports().items() if module in modules)


_IMPORT = re.compile(r"^[ \t]*(?:from ([\w.]+) import (\([^)]*\)|[^\n]*)|import ([^\n]*))", re.MULTILINE)


@cache
def _imports() -> dict[str, set[str]]:
    """What every file of Python here imports, by the names that it may be imported by."""
    folders = ("src", "tests", "lab")
    found = {}
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        names = found[str(path.relative_to(ROOT))] = set[str]()
        for package, parts, plain in _IMPORT.findall(path.read_text(encoding="utf-8")):
            words = re.findall(r"[\w.]+", plain or parts)
            names |= {package, *(f"{package}.{word}" for word in words)} if package else set(words)
    return found


def concerned(test: str, given: Mapping[str, object], parts: Iterable[str], seen: set[tuple[str, str]]) -> bool:
    """Whether a test has no specimen among what it is given, one of the parts named, or the first of another part.

    test: pytest's node id; seen: which tests and parts had their first specimen.
    """
    file, function = test.partition("[")[0].split("::", 1)
    contract = file.startswith("tests/conformance/") or file in MECHANISMS
    specimens = [part for value in given.values() if (part := _part(value))] if contract else []
    if not specimens or not set(parts).isdisjoint(specimens):
        return True
    first = (function, specimens[0]) not in seen
    seen.add((function, specimens[0]))
    return first


def _part(value: object) -> str:
    """The module of a method or a mechanism; empty for anything else."""
    package, _, module = type(value).__module__.rpartition(".")
    return module if package.startswith(("graphveil.methods.", "graphveil.mechanisms")) else ""


def main() -> int:
    until = time.time() + LIMIT
    linted = [subprocess.call([BIN / "ruff", *words], cwd=ROOT) for words in (["format", "."], ["check", "."])]
    types = subprocess.Popen([BIN / "mypy"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    choice = replace(chosen(changed()), until=until, seconds=BUDGET)
    print(
        f"{len(choice.ranks)} test files, the nearest first:", *sorted(choice.ranks, key=choice.ranks.__getitem__)[:8]
    )
    how = ["-n", "2", "--maxschedchunk", "8", "--durations=0", "--durations-min=5", "-rs", "-m", "not slow"]
    tests = [sys.executable, "-m", "pytest", *how, *sys.argv[1:], f"--choice={choice.to_json()}"]
    tested = subprocess.call([*tests, *choice.ranks], cwd=ROOT)
    print(types.communicate()[0], end="")
    # 5: no test was collected.
    return int(any([*linted, types.returncode, tested not in (0, 5)]))


if __name__ == "__main__":
    sys.exit(main())
