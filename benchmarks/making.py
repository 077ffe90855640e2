"""What made the kept results of scripts and of the court, so that stale ones are found: results/history/made_by.json.

    python benchmarks/making.py                # which files are stale, and the commands that make them again
    python benchmarks/making.py confirm NAME   # run some of its runs again; if they are the same, it is current

Tables of `graphveil bench run` say line by line what made them (src/graphveil/bench/revisions.py). For every other kept
file made_by.json has the revisions of the methods that it ran, the SHA-256 of its script with all that this takes of
its own folder and of evidence/, that of the data, and that of the file itself. If one of them is another today, the
file is stale: `.ci/run` fails, and what is kept is not used instead of new runs.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphveil import discover
from graphveil.bench import revisions, runner
from graphveil.runtime.engine import Local, one_thread
from graphveil.runtime.folders import write_whole

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS, SCRIPTS = REPOSITORY / "results", REPOSITORY / "benchmarks"
NOTES = RESULTS / "history" / "made_by.json"
EVIDENCE = REPOSITORY / "src" / "graphveil" / "evidence"
ALIKE = 0.05
"""Attacks are sharp functions of a model: so far another processor has moved an AUC at most, and 38 of 176 at all."""


RATES = ("auc", "accuracy", "B1", "B2", "B3")
"""What is compared of a run; rates at small chances of a false alarm hang on a handful of pairs."""


@dataclass(frozen=True)
class Made:
    """How a kept file is made: a command, the files that it runs, the methods and datasets that these ask for."""

    command: str
    files: tuple[Path, ...]
    methods: tuple[str, ...]
    datasets: tuple[str, ...] = ()


def _script(name: str, words: str, methods: str, datasets: str = "") -> Made:
    command = f"python benchmarks/{name}.py {words}"
    return Made(command, (SCRIPTS / f"{name}.py",), tuple(methods.split()), tuple(datasets.split()))


def _court(seed: int, file: str) -> Made:
    """Cases are found in their folder, so no import names them; every method is heard."""
    files = (EVIDENCE / "court.py", *sorted((EVIDENCE / "cases").glob("*.py")))
    return Made(f"graphveil court --jobs 2 --seed {seed} --json results/{file}.json", files, tuple(discover.methods()))


_EDGES = "cora citeseer chameleon-undirected pubmed facebook photo computers"
_TWITCH = "twitch-es twitch-de twitch-fr twitch-ru twitch-en twitch-pt"
_PRIVGNN = "computers rutgers89 credit"
MADE = {
    "edge-attacks": _script(
        "edge_attacks",
        "--jobs 2 --results results/edge-attacks.json --page docs/attacks.md",
        "caribou eclipse edgerand gcn lapgraph lpgnet mlp",
        f"{_EDGES} {_TWITCH}",
    ),
    "node-attacks": _script(
        "node_attacks",
        "--jobs 2 --json results/node-attacks.json --page docs/attacks.md",
        "caribou census dpsgd gcn heterpoisson privgnn sage",
        "cora pubmed facebook photo computers credit rutgers89",
    ),
    "heterpoisson-audit": _script(
        "gradient_canary",
        "--json results/heterpoisson-audit.json",
        "heterpoisson ndp",
        "facebook twitch-de computers pubmed",
    ),
    "heterpoisson-impact": _script("impact", "--json results/heterpoisson-impact.json", "heterpoisson"),
    "eclipse-vectors": _script(
        "singular_vectors",
        "--json results/eclipse-vectors.json",
        "eclipse",
        "chameleon-undirected facebook cora citeseer pubmed",
    ),
    "privgnn-table": _script("privgnn_table", "--json results/privgnn-table.json", "pate privgnn", _PRIVGNN),
    "privgnn-baselines": _script("privgnn_baselines", "--json results/privgnn-baselines.json", "privgnn", _PRIVGNN),
    "privgnn-programmed": _script(
        "privgnn_programmed",
        "accuracy --json results/privgnn-programmed.json --page docs/methods/privgnn.md",
        "privgnn",
        "computers",
    ),
    "own-networks-speed": _script(
        "own_networks",
        "speed --results results/own-networks-speed.json",
        "drw hearsay heterpoisson ndp privgraph probe",
    ),
    "audit-speed": _script("audit_speed", "--results results/audit-speed.json", "hearsay", "cora"),
    **{name: _court(seed, name) for seed, name in enumerate(("court", "court-1", "court-2"))},
}
"""By the name of the file."""


def key_of(name: str) -> dict[str, Any]:
    """What makes a kept file today; data that are not held here are left out."""
    made = MADE[name]
    data = {each: runner.fingerprint_of(each) for each in made.datasets}
    return {
        "made_by": ", ".join(revisions.made_by(method) for method in sorted(made.methods)),
        "source": source_of(made),
        "data": {each: digest for each, digest in data.items() if digest},
    }


def source_of(made: Made) -> str:
    """SHA-256 of the code of a script, of its neighbours and of what all these import of evidence/.

    What methods are made of is not in it: their revisions say that.
    """
    found: dict[Path, str] = {}
    waiting = list(made.files)
    while waiting:
        if (file := waiting.pop()) not in found:
            found[file] = revisions.code(file)
            waiting += _imported(file)
    said = (f"{file.relative_to(REPOSITORY).as_posix()}\n{found[file]}\n" for file in sorted(found))
    return hashlib.sha256("".join(said).encode()).hexdigest()


def _imported(file: Path) -> Iterator[Path]:
    for name in revisions.imports(file):
        room, _, module = name.rpartition(".")
        if module == Path(__file__).stem:
            continue  # It says what made a file, and makes none.
        home = SCRIPTS if not room else REPOSITORY / "src" / room.replace(".", "/")
        if (home == SCRIPTS or EVIDENCE in (home, *home.parents)) and (home / f"{module}.py").exists():
            yield home / f"{module}.py"


def keep(path: Path, held: Any) -> None:
    """Write a file, and if it is one of results/, what made it."""
    write_whole(path, held)
    note(path)


def note(path: Path) -> None:
    """Say that the code that is here made a file of results/, just now."""
    if path.resolve().parent == RESULTS and path.stem in MADE:
        said = {**key_of(path.stem), "content": _content(path)}
        write_whole(NOTES, dict(sorted({**_notes(), path.stem: said}.items())))


def stale(name: str) -> list[str]:
    """Why a kept file is not what the code that is here would make; empty if it is."""
    said, now = _notes().get(name), key_of(name)
    if said is None:
        return ["it is not known what made it"]
    # A dataset that is not held cannot be compared.
    kept = {**said, "data": {each: said["data"].get(each) for each in now["data"]}}
    wrong = [f"{part}: {kept[part]} then, {now[part]} now" for part in now if kept[part] != now[part]]
    return wrong + ([] if said["content"] == _content(RESULTS / f"{name}.json") else ["the file was changed by hand"])


def runs_of(name: str) -> list[dict[str, Any]]:
    """The runs of a kept list that still hold; none of a stale one."""
    file = RESULTS / f"{name}.json"
    held: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() and not stale(name) else []
    return held


def folder_of(name: str) -> Path:
    """Where a script leaves its runs until they are kept: another folder for other code, so that none is used again."""
    key = json.dumps(key_of(name), sort_keys=True)
    return Path(".bench") / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def confirm(name: str, count: int, jobs: int) -> bool:
    """Whether `count` runs of a kept list, evenly spread over it, are alike if they are run again; then it is noted."""
    held = json.loads((RESULTS / f"{name}.json").read_text())
    runs = held["accuracy"] if isinstance(held, dict) else held
    chosen = runs[:: max(len(runs) // count, 1)][:count]
    apart = []
    with one_thread():
        for place, far in Local(jobs).stream(_apart, name, chosen):
            apart.append(far)
            words = {word: said for word, said in chosen[place].items() if isinstance(said, str | int)}
            print(f"{far:.4f}", words, flush=True)
    same = max(apart) <= ALIKE
    if same:
        note(RESULTS / f"{name}.json")
    print(f"{len(apart)} runs again, {apart.count(0.0)} to the last digit: {'confirmed' if same else 'NOT the same'}")
    return same


def _apart(name: str, run: dict[str, Any]) -> float:
    """How far a run is from the same one made again, in the worst of its rates."""
    again = importlib.import_module(MADE[name].files[0].stem).again(run)
    return max(abs(one - other) for one, other in _rates(run, again))


def _rates(then: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """The rates of two runs, side by side."""
    for word, said in then.items():
        if isinstance(said, dict):
            yield from _rates(said, now[word])
        elif word in RATES:
            yield float(said), float(now[word])


def _notes() -> dict[str, dict[str, Any]]:
    held: dict[str, dict[str, Any]] = json.loads(NOTES.read_text(encoding="utf-8")) if NOTES.exists() else {}
    return held


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Say which files are stale, or confirm one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["confirm"])
    parser.add_argument("name", nargs="?", choices=list(MADE))
    parser.add_argument("--runs", type=int, default=12, help="how many are run again")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    if asked.what:
        raise SystemExit(0 if confirm(asked.name, asked.runs, asked.jobs) else 1)
    for name, made in MADE.items():
        why = stale(name)
        print(f"{name}: {'stale' if why else 'current'}")
        for reason in why:
            print(f"    {reason}\n    {made.command}")


if __name__ == "__main__":
    main()
