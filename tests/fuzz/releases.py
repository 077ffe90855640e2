"""Damaged release folders: every one is refused with a typed error, in bounded time and memory, or is consistent.

    python tests/fuzz/releases.py [--count 4000] [--seed 0]

Releases and released graphs of several methods are saved; each case damages a copy of one: bits flipped, files cut,
JSON values replaced, links, pipes and folders in the place of files. In half of the cases the manifest is made to agree
again, so that the damage reaches the parsers. `graphveil.verify` then reads the copy in a process of its own. Prints
JSON: how many cases were refused, accepted, and

raw          exceptions that are not `Tampered`, and crashes;
silent       accepted although something changed: with the old manifest any byte; with a new one, whatever the release
             does not say itself when it is saved again (JSON, card and CSV byte for byte, computed epsilons to 1e-6);
hang         cases that took more than 100 seconds.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import graphveil as gv

SECONDS, BYTES = 100, 8 << 30
"""What one case may take."""

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2**31, 10**18, 10**30, 0.5, -0.5, 1e-300, 1e308, math.nan, math.inf, "", "inf",
    "edge", "\x1b[2Jepsilon 0", "two\nlines", "\u202e", "\ud800", [], {}, [[]], [1] * 5000,
    {"kind": "GaussianCurve", "mu": 0.0},
]  # fmt: skip
"""What takes the place of a value."""


def subjects(home: Path) -> list[Path]:
    """Folders as they are saved: several methods, both readings, an audit, a descendant, both formats of graphs."""
    graph, methods = gv.datasets.load("chain-s"), gv.methods
    runs: dict[str, tuple[gv.Method, str, str]] = {
        "dpsgd": (methods.DpSgd(steps=3), "node", "sound"),
        "gap": (methods.Gap(hidden=4, head=4, epochs=2), "edge", "published"),
        "hearsay": (methods.Hearsay(), "edge", "sound"),
        "ndp": (methods.Ndp(hidden=2, steps=2), "node", "published"),
        "best": (methods.Best((methods.DpSgd(steps=1), methods.DpSgd(steps=2))), "node", "sound"),
        "mlp": (methods.Mlp(hidden=2, epochs=1), "edge", "sound"),
    }
    made = {
        name: gv.train(graph, method, noise=4.0, delta=1e-5, unit=unit, reading=reading, seed=0)
        for name, (method, unit, reading) in runs.items()
    }
    made["infer"] = gv.infer(made["gap"], graph, noise=4.0, delta=1e-5, seed=1)
    folders = [release.save(home / name) for name, release in made.items()]
    gv.audit(home / "dpsgd", graph, runs=40)
    noisy = gv.release_graph(graph, methods.EdgeRand(), epsilon=2.0, delta=1e-5, seed=0)
    return [*folders, *(noisy.save(home / f"edges-{format}", format) for format in ("csv", "parquet"))]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) inside a JSON value."""
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


def edit_json(folder: Path, rng: np.random.Generator) -> None:
    """One value replaced, dropped, doubled or renamed; half of the time a number moves a little."""
    file = folder / str(rng.choice(sorted(path.name for path in folder.glob("*.json") if path.name != "manifest.json")))
    body = json.loads(file.read_text())
    found = list(places(body))
    held, key = found[rng.integers(len(found))]
    kind = rng.integers(6)
    if kind == 0:
        del held[key]
    elif kind == 1 and isinstance(held, dict):
        held[f"{key}s"] = held.pop(key)
    elif kind == 2 and isinstance(held[key], int | float) and not isinstance(held[key], bool):
        held[key] = held[key] * float(rng.choice([0.5, 0.99, 1 + 1e-9, 1.01, 2])) + float(rng.choice([0, 1]))
    elif kind == 3 and isinstance(held[key], str):
        held[key] = held[key] + str(rng.choice(["x", " ", "\n  guarantee   epsilon 0.0001 at delta 1e-05"]))
    else:
        held[key] = VALUES[rng.integers(len(VALUES))]
    text = json.dumps(body, indent=2)
    if kind == 5:
        text = re.sub(r'^( *)("\w+": [^\n{\[]+)$', r"\1\2\n\1\2", text, count=1, flags=re.MULTILINE)
    file.write_text(text)


def flip(folder: Path, rng: np.random.Generator) -> None:
    """A few bits of one file."""
    file = one_file(folder, rng)
    body = bytearray(file.read_bytes())
    for place in rng.integers(len(body), size=rng.integers(1, 4)):
        body[place] ^= 1 << int(rng.integers(8))
    file.write_bytes(body)


def cut(folder: Path, rng: np.random.Generator) -> None:
    """A file ends early, or late."""
    file = one_file(folder, rng)
    body = file.read_bytes()
    file.write_bytes(body[: rng.integers(len(body))] if rng.integers(4) else body + bytes(rng.bytes(3)))


def swap(folder: Path, rng: np.random.Generator) -> None:
    """Something else stands in the place of a file, or beside it."""
    file = one_file(folder, rng)
    kind = rng.integers(7)
    if kind == 0:
        (folder / str(rng.choice(["record.json", "edges.csv", "weights.safetensors~", "\x1b[2J"]))).write_text(
            "private"
        )
        return
    file.unlink()
    if kind == 1:
        file.symlink_to("/dev/zero")
    elif kind == 2:
        os.mkfifo(file)
    elif kind == 3:
        file.mkdir()
    elif kind == 4:
        with file.open("wb") as huge:
            huge.truncate(1 << 42)
    elif kind == 5:
        file.write_text("[" * 1_000_000)


def one_file(folder: Path, rng: np.random.Generator) -> Path:
    """Any file of the folder."""
    return folder / str(rng.choice(sorted(path.name for path in folder.iterdir())))


def reseal(folder: Path) -> None:
    """The manifest agrees again with the files that it lists and that can be read."""
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in manifest["sha256"]:
        file = folder / name
        if file.is_file() and not file.is_symlink() and file.stat().st_size < 1 << 30:
            manifest["sha256"][name] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "manifest.json").write_text(json.dumps(manifest, indent=2))


DAMAGE: list[Callable[[Path, np.random.Generator], None]] = [flip, flip, cut, edit_json, edit_json, edit_json, swap]


def verdict(original: Path, folder: Path, rng: np.random.Generator) -> str:
    """Damage a copy of a folder, and say what became of it; "same" if nothing was changed."""
    shutil.copytree(original, folder)
    DAMAGE[rng.integers(len(DAMAGE))](folder, rng)
    resealed = bool(rng.integers(2)) and same(original, folder, "manifest.json")
    if resealed:
        reseal(folder)
    names = {path.name for path in original.iterdir()}
    if names == {path.name for path in folder.iterdir()} and all(same(original, folder, name) for name in names):
        return "same"
    try:
        found = gv.verify(folder)
    except gv.Tampered:
        return "refused"
    except Exception as error:
        return f"raw: {type(error).__name__}: {error}"
    if not resealed:
        return "silent: accepted with the old manifest"
    return consistent(found, folder)


def same(original: Path, folder: Path, name: str) -> bool:
    """Whether both folders hold a file of this name with the same bytes."""
    first, second = original / name, folder / name
    plain = second.is_file() and not second.is_symlink() and second.stat().st_size == first.stat().st_size
    return plain and first.read_bytes() == second.read_bytes()


def consistent(found: gv.Release | gv.ReleasedEdges, folder: Path) -> str:
    """Whether what was read, saved again, says what the folder says."""
    again = folder.with_name("again")
    if isinstance(found, gv.Release):
        found.save(again)
    else:
        found.save(again, "csv" if (folder / "edges.csv").exists() else "parquet")
    for file in again.iterdir():
        if file.suffix in (".txt", ".csv") and file.read_bytes() != (folder / file.name).read_bytes():
            return f"silent: {file.name} differs when it is saved again"
        if file.suffix == ".json" and file.name != "manifest.json":
            said, due = (_settled(json.loads(path.read_text())) for path in (folder / file.name, file))
            if said != due:
                return f"silent: {file.name} differs when it is saved again"
    return "consistent"


def _settled(value: Any) -> str:
    """JSON text with computed epsilons to six digits."""
    for held, key in places(value):
        if key in ("epsilon", "sound_epsilon") and isinstance(held[key], float):
            held[key] = f"{held[key]:.5e}"
    return json.dumps(value)


def work(folders: list[Path], seed: int, cases: range, writer: int) -> None:
    """Run cases one after the other, a line for each."""
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    warnings.simplefilter("ignore")
    for case in cases:
        rng = np.random.default_rng([seed, case])
        with tempfile.TemporaryDirectory() as scratch:
            told = verdict(folders[rng.integers(len(folders))], Path(scratch) / "copy", rng)
        os.write(writer, ascii(told)[1:-1][:500].encode() + b"\n")


def apart(job: Callable[[int], None], most: float = math.inf) -> tuple[list[str], str]:
    """The lines that `job` writes in a process of its own, and how that ended: "", "hang" or "raw: ..."."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reader)
            job(writer)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    os.close(writer)
    text, end = b"", ""
    with open(reader, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], None if most == math.inf else most)[0]:
            if not (more := pipe.read(1 << 16)):
                break
            text += more
        else:
            os.kill(child, signal.SIGKILL)
            end = "hang"
    status = os.waitpid(child, 0)[1]
    if status and not end:
        end = f"raw: ended with status {status}"
    return text.decode().splitlines(), end


def fuzz(count: int, seed: int) -> tuple[Counter[str], list[str]]:
    """How often each kind of verdict was reached, and the verdicts that must not be."""
    with tempfile.TemporaryDirectory() as scratch:
        # This process computes nothing itself: others can then be started from it at any time.
        names, end = apart(lambda writer: _built(Path(scratch), writer))
        if end:
            raise RuntimeError(end)
        told: list[str] = []
        while len(told) < count:
            cases = range(len(told), count)
            lines, end = apart(partial(work, [Path(name) for name in names], seed, cases), SECONDS)
            told += lines + ([end] if end else [])
    kinds = Counter({"raw": 0, "silent": 0, "hang": 0})
    kinds.update(one.partition(":")[0] for one in told)
    bad = [f"case {case}: {one}" for case, one in enumerate(told) if one.startswith(("raw", "silent", "hang"))]
    return kinds, bad


def _built(home: Path, writer: int) -> None:
    for folder in subjects(home):
        gv.verify(folder)  # as it is, all is well
        os.write(writer, f"{folder}\n".encode())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kinds, bad = fuzz(given.count, given.seed)
    print(json.dumps({"cases": given.count, "seed": given.seed, **kinds, "bad": bad}, indent=1))
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
