"""Plants one small mistake at a time and asks the tests that must see it. The list: tests/mutants/mutants.toml.

    python tests/mutants/mutants.py [--jobs 2] [--only NAME ...] [--out .bench/mutants.json] [--limit 240]

A mutant replaces one text of one source file in a scratch copy of both packages, never in the working tree, and its
tests run on that copy. Before, they must pass on a copy as it is. Results are kept as they come: the same command goes
on, and runs again whatever changed since (the source file, the mutant or its tests). What no longer fits the source is
named (alone with --stale) and left out. Ends with 1 unless nothing is stale, 95 in 100 mutants are killed and the
others are explained in the list (`harmless`).
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).with_suffix(".toml")
ENOUGH = 0.95
"""The share of all mutants that must be killed."""

Kept = dict[str, dict[str, str]]
"""Outcomes by name: what they are of (a digest), what was found, and what failed."""


@dataclass(frozen=True)
class Mutant:
    """`old` becomes `new` in `file`; `tests` are pytest node ids below tests/, `only` picks some (-k)."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    only: str = ""
    harmless: str = ""

    @property
    def source(self) -> Path:
        """The file, in a copy of both packages."""
        return Path(self.file) if self.file.startswith("graphveil_lab/") else Path("graphveil") / self.file

    @property
    def original(self) -> Path:
        """The file in the working tree."""
        return ROOT / ("lab/src" if self.file.startswith("graphveil_lab/") else "src") / self.source

    def stale(self) -> str:
        """Why the mutant does not fit the source or the tests of today; empty if it does."""
        found = self.original.read_text(encoding="utf-8").count(self.old) if self.original.exists() else None
        if found is None:
            return f"there is no {self.file}"
        if found != 1 or self.old == self.new:
            return f"its text stands {found} times in {self.file}, not once"
        tests = [test.partition("::")[0] for test in self.tests]
        lost = [test for test in tests if not (ROOT / "tests" / test).exists()]
        return f"there is no tests/{lost[0]}" if lost else ""

    @property
    def wanted(self) -> list[str]:
        """What pytest is asked for, from the root of the repository."""
        return [*(f"tests/{test}" for test in self.tests), *(("-k", self.only) if self.only else ())]

    def digest(self) -> str:
        """Of what the outcome depends on, but for other sources and for what tests share."""
        files = {self.original, *(ROOT / "tests" / test.partition("::")[0] for test in self.tests)}
        bodies = [path.read_bytes() for path in sorted(files)]
        words = "\0".join((self.old, self.new, *self.wanted)).encode()
        return hashlib.sha256(b"\0".join([words, *bodies])).hexdigest()

    def applied(self, text: str) -> str:
        """The mutated source."""
        return text.replace(self.old, self.new)


def listed(path: Path = LIST) -> list[Mutant]:
    """All mutants of the list."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return [Mutant(**{**entry, "tests": tuple(entry["tests"])}) for entry in entries]


@contextmanager
def planted(mutant: Mutant, copy: Path) -> Iterator[None]:
    """The mutant in a copy; the file comes back as it was, with its times, so that compiled code stays valid."""
    path = copy / mutant.source
    whole, times = path.read_bytes(), path.stat()
    path.write_bytes(mutant.applied(whole.decode()).encode())
    try:
        yield
    finally:
        path.write_bytes(whole)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def tested(copy: Path, tests: Sequence[str], limit: float) -> tuple[str, str]:
    """What pytest makes of a copy: killed, survived, broken (no test ran) or timeout; and what failed."""
    # No bytecode is written: two mutants of one size and second would be taken for each other.
    settings = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", "--durations=0", "-m", "", *tests]
    try:
        done = subprocess.run(command, cwd=ROOT, env=settings, timeout=limit, capture_output=True, text=True)
    except subprocess.TimeoutExpired:
        return "timeout", ""
    told = "\n".join(line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR", "E  ")))[:600]
    # Compiled code that writes where it must not may end the interpreter before a test can say so.
    return {0: "survived", 1: "killed", -signal.SIGSEGV: "killed", -signal.SIGABRT: "killed"}.get(
        done.returncode, "broken"
    ), told


def copied(folder: Path) -> Path:
    """A copy of both packages with their compiled code, which numba would take minutes to make again."""
    for source in ("src", "lab/src"):
        shutil.copytree(ROOT / source, folder / "src", dirs_exist_ok=True)
    return folder / "src"


def run(mutants: list[Mutant], kept: Kept, out: Path, jobs: int, limit: float) -> None:
    """Fill `kept` with the outcomes that it lacks, saving each as it comes."""
    missing = [one for one in mutants if kept.get(one.name, {}).get("digest") != one.digest()]
    if not missing:
        return
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        # Some tests give up their rights and import what they need only then.
        Path(folder).chmod(0o755)
        copies: queue.Queue[Path] = queue.Queue()
        for number in range(jobs):
            copies.put(copied(Path(folder) / str(number)))

        def outcome(mutant: Mutant) -> tuple[Mutant, str, str, float]:
            copy, began = copies.get(), time.monotonic()
            try:
                with planted(mutant, copy):
                    return mutant, *tested(copy, mutant.wanted, limit), time.monotonic() - began
            finally:
                copies.put(copy)

        for wanted, same in itertools.groupby(sorted(missing, key=lambda one: one.wanted), lambda one: one.wanted):
            require_clean(wanted, kept, out, copies.queue[0], limit)
            for done in as_completed([pool.submit(outcome, mutant) for mutant in same]):
                mutant, found, told, took = done.result()
                keep(kept, out, mutant.name, {"digest": mutant.digest(), "found": found, "told": told})
                print(f"{found:9} {took:5.0f} s  {mutant.name}", flush=True)


def require_clean(wanted: list[str], kept: Kept, out: Path, copy: Path, limit: float) -> None:
    """The tests pass on a copy as it is; those that passed on the same source are not asked again."""
    source = hashlib.sha256(
        b"".join(path.read_bytes() for home in ("src", "lab/src") for path in sorted((ROOT / home).rglob("*.py")))
    ).hexdigest()
    name = f"nothing planted: {' '.join(wanted)}"
    if kept.get(name, {}).get("digest") == source:
        return
    found, told = tested(copy, wanted, limit)
    if found != "survived":
        raise SystemExit(f"{name}: {found}\n{told}")
    keep(kept, out, name, {"digest": source, "found": found, "told": told})


def keep(kept: Kept, out: Path, name: str, outcome: dict[str, str]) -> None:
    """Note an outcome, here and on disk."""
    kept[name] = outcome
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(kept, indent=1))


def verdict(mutants: list[Mutant], kept: Kept) -> tuple[str, bool]:
    """The count in words, with everything that is not as the list says; and whether that is good enough."""
    found = {one.name: kept[one.name]["found"] for one in mutants}
    tally = Counter(found.values())
    lines = [", ".join(f"{count} {what}" for what, count in sorted(tally.items())) + f" of {len(mutants)} mutants"]
    lines += [
        f"{found[one.name]}: {one.name} ({one.harmless or 'not explained'})"
        for one in mutants
        if found[one.name] != "killed"
    ]
    spared = [one.name for one in mutants if one.harmless and found[one.name] == "killed"]
    lines += [f"killed, so it is not harmless: {name}" for name in spared]
    explained = all(one.harmless for one in mutants if found[one.name] != "killed")
    return "\n".join(lines), explained and not spared and tally["killed"] >= ENOUGH * len(mutants)


def main() -> None:
    """Run the list, or some of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="+", default=[], help="mutants whose names contain one of these")
    parser.add_argument("--out", type=Path, default=Path(".bench/mutants.json"))
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for one mutant")
    parser.add_argument("--stale", action="store_true", help="only say which mutants are stale")
    given = parser.parse_args()
    wanted = [one for one in listed() if not given.only or any(part in one.name for part in given.only)]
    stale = {one.name: why for one in wanted if (why := one.stale())}
    for name, why in stale.items():
        print(f"stale: {name}: {why}")
    mutants = [one for one in wanted if one.name not in stale]
    if given.stale or not mutants:
        print(f"{len(stale)} of {len(wanted)} mutants are stale")
        sys.exit(1 if stale else 0)
    kept = json.loads(given.out.read_text()) if given.out.exists() else {}
    run(mutants, kept, given.out, given.jobs, given.limit)
    told, enough = verdict(mutants, kept)
    print(told)
    sys.exit(0 if enough and not stale else 1)


if __name__ == "__main__":
    main()
