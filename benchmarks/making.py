"""What made the kept results of scripts and of the court, so that stale ones are found: results/history/made_by.json.

    python benchmarks/making.py                # which files are stale, and the commands that make them again
    python benchmarks/making.py confirm NAME   # run some of its runs again; if they are the same, it is current
    python benchmarks/making.py confirm privgnn-table --runs 1 --where dataset=credit    # those that take least
    python benchmarks/making.py tables         # note what tables of `graphveil bench` hold, after one was written
    python benchmarks/making.py plumbing       # note that what hands results on hands on the same: see `plumbing`

Tables of `graphveil bench run` say line by line what made them (src/graphveil/bench/revisions.py), and tables.json has
the SHA-256 of their scores, of their audits, and of their experiments, so that no score is typed. For every other kept
file made_by.json has the revisions of the methods that it ran, the SHA-256 of its script with all that this takes of
its own folder and of evidence/, that of the data with their splits, and that of the file itself. If one of them is
another today, the file is stale: `.ci/run` fails, and what is kept is not used instead of new runs. A court, and
audits, play games, in which mechanisms say what their answers tell: no accuracy shows that, so there all of a method's
source counts, and not its revision alone.

A file is noted by the very command that `MADE` has for it (for another number of jobs, if one likes), and if no source
was edited while it ran.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import re
import shlex
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from graphveil import discover
from graphveil.bench import revisions, runner, spec
from graphveil.core import Described
from graphveil.datasets.source import SplitName
from graphveil.evidence import court
from graphveil.evidence.case import Case
from graphveil.evidence.sound_cases import Upheld
from graphveil.runtime.engine import Local, one_thread
from graphveil.runtime.folders import write_whole

REPOSITORY = Path(__file__).resolve().parents[1]
RESULTS, SCRIPTS = REPOSITORY / "results", REPOSITORY / "benchmarks"
NOTES = RESULTS / "history" / "made_by.json"
TABLES = RESULTS / "history" / "tables.json"
PACKAGE = REPOSITORY / "src" / "graphveil"
EVIDENCE = PACKAGE / "evidence"
JUDGED_BY = {
    *(PACKAGE / "privacy" / f"{name}.py" for name in ("accounting", "journal", "noise", "period", "session")),
    PACKAGE / "release" / "finding.py",
}
"""What evidence takes of other rooms that is of no method."""
ALIKE = 0.05
"""Attacks are sharp functions of a model: so far another processor has moved an AUC at most, and 38 of 176 at all."""
OTHERS = "cases of their own"
"""Those of the court that are of no method: false claims, and growing graphs."""
RATES = ("auc", "accuracy", "B1", "B2", "B3")
"""What is compared of a run; rates at small chances of a false alarm hang on a handful of pairs."""
SPENT = ("claimed", "provable", "sound epsilon")
"""What must be as it was."""
PLUMBING = (
    *("core", "discover", "release/release", "release/certificate", "datasets/__init__", "datasets/source"),
    *(f"bench/{name}" for name in ("kept", "runner", "spec", "table")),
    *(f"graph/{name}" for name in ("columns", "encoding", "lineage", "parts", "schema", "tensors")),
    *(f"runtime/{name}" for name in ("compute", "engine", "kernels")),
)
"""What hands results on."""
AUDITED = ("audited", "audit", "played_by")
"""What `graphveil bench audit` writes into a line of a table."""
_LISTS = ("confirmed", "earlier")
"""Of history/: what was run again, and what moved."""
_STARTED = time.time()


@dataclass(frozen=True)
class Made:
    """How a kept file is made: a command, the files that it runs, the methods and datasets that these ask for."""

    command: str
    files: tuple[Path, ...]
    methods: tuple[str, ...]
    datasets: tuple[str, ...] = ()
    splits: tuple[SplitName, ...] = ()
    """Of these datasets; one that has no such split is not split so."""
    hears: bool = False
    """Whether it hears the cases of the court."""
    plays: bool = False
    """Whether it plays games with its methods: all of their code counts, and not their revisions alone."""


def _script(
    name: str,
    words: str,
    methods: str = "",
    datasets: str = "",
    splits: tuple[SplitName, ...] = ("random",),
    plays: bool = False,
) -> Made:
    command, file = f"python benchmarks/{name}.py {words}", SCRIPTS / f"{name}.py"
    return Made(command, (file,), tuple(methods.split()), tuple(datasets.split()), splits, plays=plays)


_COURT = (EVIDENCE / "court.py", *sorted((EVIDENCE / "cases").glob("*.py")))
"""Cases are found in their folder, so no import names them."""


def _court(seed: int, file: str) -> Made:
    return Made(f"graphveil court --jobs 2 --seed {seed} --json results/{file}.json", _COURT, (), hears=True)


_EDGES = "cora citeseer chameleon-undirected pubmed facebook photo computers"
_TWITCH = "twitch-es twitch-de twitch-fr twitch-ru twitch-en twitch-pt"
_PRIVGNN = "computers rutgers89 credit"
_FLOORS = "cora chameleon-undirected twitch-de photo"
MADE = {
    "edge-attacks": _script(
        "edge_attacks",
        "--jobs 2 --results results/edge-attacks.json --page docs/attacks.md",
        "caribou eclipse edgerand gcn lapgraph lpgnet mlp",
        f"{_EDGES} {_TWITCH}",
        ("random", "random_80_20", "per_class", "public"),
    ),
    "node-attacks": _script(
        "node_attacks",
        "--jobs 2 --json results/node-attacks.json --page docs/attacks.md",
        "caribou census dpsgd gcn heterpoisson mlp privgnn sage",
        "cora pubmed facebook photo computers credit rutgers89",
        ("random", "two_graphs"),
    ),
    "heterpoisson-audit": _script(
        "gradient_canary",
        "--json results/heterpoisson-audit.json",
        "heterpoisson ndp",
        "facebook twitch-de computers pubmed",
        ("random_80_20",),
        plays=True,
    ),
    "heterpoisson-impact": _script("impact", "--json results/heterpoisson-impact.json", "heterpoisson"),
    "eclipse-vectors": _script(
        "singular_vectors",
        "--json results/eclipse-vectors.json",
        "eclipse",
        "chameleon-undirected facebook cora citeseer pubmed",
    ),
    "privgnn-table": _script(
        "privgnn_table", "--json results/privgnn-table.json", "pate privgnn", _PRIVGNN, ("two_graphs",)
    ),
    "privgnn-baselines": _script(
        "privgnn_baselines", "--json results/privgnn-baselines.json", "privgnn", _PRIVGNN, ("two_graphs",)
    ),
    "privgnn-programmed": _script(
        "privgnn_programmed",
        "accuracy --json results/privgnn-programmed.json --page docs/methods/privgnn.md",
        "privgnn",
        "computers",
        ("two_graphs",),
    ),
    "privgnn-audit": _script(
        "privgnn_programmed",
        "audit --json results/privgnn-audit.json --page docs/methods/privgnn.md",
        "privgnn",
        plays=True,
    ),
    "own-networks": _script(
        "own_networks",
        "merge --results results/own-networks.json",
        "drw hearsay heterpoisson ndp privgraph probe",
        "cora facebook social",
    ),
    "own-networks-speed": _script(
        "own_networks",
        "speed --results results/own-networks-speed.json",
        "drw hearsay heterpoisson ndp privgraph probe",
    ),
    "audit-speed": _script("audit_speed", "--results results/audit-speed.json", "hearsay", "cora"),
    "floors": _script("floors", "--jobs 2 --json results/floors.json", "dpsgd", _FLOORS),
    "streams": _script(
        "streams", "accuracy --jobs 2 --json results/streams.json", "hearsay mlp", "cora photo facebook"
    ),
    "stream-audit": _script("audit_streams", "--json results/stream-audit.json", "hearsay", plays=True),
    "leaky-loop": _script(
        "leaky_loop", "accuracy --json results/leaky-loop.json", "caribou", "cora photo", ("random_80_20",)
    ),
    "leaky-loop-audit": _script("leaky_loop", "audit --json results/leaky-loop-audit.json", "caribou", plays=True),
    "sensitivity-search": _script("sensitivity_search", "--json results/sensitivity-search.json"),
    "privgnn-rule": _script(
        "privgnn_rule",
        "--jobs 2 --json results/privgnn-rule.json",
        "privgnn",
        "computers rutgers89",
        ("two_graphs",),
    ),
    "search-noise": _script("selection", "--json results/search-noise.json"),
    "auditor": _script("auditor", "--json results/auditor.json"),
    "low-rank": _script("low_rank", "--json results/low-rank.json", "eclipse", "facebook"),
    "court-power": Made(
        "python benchmarks/court_power.py --seed 21 --jobs 2 --json results/court-power.json",
        (SCRIPTS / "court_power.py", *_COURT),
        (),
        hears=True,
    ),
    **{name: _court(seed, name) for seed, name in enumerate(("court", "court-1", "court-2"))},
}
"""By the name of the file."""


def key_of(name: str) -> dict[str, Any]:
    """What makes a kept file today; data that are not held here are left out."""
    made = MADE[name]
    data = {each: runner.fingerprint_of(each) for each in made.datasets}
    data |= {f"{each} {split}": runner.split_of(each, None, split) for each in made.datasets for split in made.splits}
    methods = sorted(heard().keys() - {OTHERS} if made.hears else made.methods)
    return {
        "made_by": ", ".join(map(revisions.made_by, methods)),
        "source": _digest(sources(made)),
        "data": {each: digest for each, digest in data.items() if digest},
        **({"heard": heard()} if made.hears else {}),
    }


def sources(made: Made) -> set[Path]:
    """The files of a script, its neighbours, and what all these import of evidence/.

    What methods are made of is not in it: their revisions say that. Where none is run, or games are played, all is in
    it that is imported, and methods too.
    """
    found: set[Path] = set()
    waiting = list(made.files)
    while waiting:
        if (file := waiting.pop()) not in found:
            found.add(file)
            waiting += _imported(file)
    if made.plays or not (made.methods or made.hears):
        found |= _files_of(name for file in found for name in revisions.imports(file))
        found |= _files_of(discover.written_method(name).__module__ for name in made.methods)
    return found


@cache
def heard() -> dict[str, str]:
    """SHA-256 of all code that the cases of every method run, settings that are methods too; `OTHERS` beside them."""
    modules = _heard_modules()
    return {name: _digest(_files_of(modules[name])) for name in sorted(modules)}


@cache
def _heard_modules() -> dict[str, set[str]]:
    modules: dict[str, set[str]] = defaultdict(set)
    for case in court.cases():
        modules[heard_for(case)] |= set(_modules(case))
    return modules


def heard_for(case: Case) -> str:
    """The method whose claim a case is about."""
    return case.method.name() if isinstance(case, Upheld) else OTHERS


def _modules(case: Case) -> Iterator[str]:
    """What a case runs: the modules of its method and of methods among its settings, or what its file imports."""
    if not isinstance(case, Upheld):
        yield from revisions.imports(Path(sys.modules[type(case).__module__].__file__ or ""))
        return
    waiting: list[Any] = [case.method]
    while waiting:
        held = waiting.pop()
        if isinstance(held, Described) and type(held).__module__.startswith("graphveil.methods"):
            yield type(held).__module__
            waiting += vars(held).values()
        waiting += held if isinstance(held, tuple | list) else ()


def _files_of(modules: Iterable[str]) -> set[Path]:
    """Those of the rooms that compute, and of what these import."""
    names = revisions.closure(*(name for name in modules if name.startswith(revisions.COMPUTES)))
    files = (PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py") for name in names)
    return {file for file in files if file.exists()}


def _digest(files: Iterable[Path]) -> str:
    said = (f"{file.relative_to(REPOSITORY).as_posix()}\n{revisions.code(file)}\n" for file in sorted(files))
    return hashlib.sha256("".join(said).encode()).hexdigest()


def _imported(file: Path) -> Iterator[Path]:
    for name in revisions.imports(file):
        room, _, module = name.rpartition(".")
        if module == Path(__file__).stem:
            continue  # It says what made a file, and makes none.
        home = SCRIPTS if not room else REPOSITORY / "src" / room.replace(".", "/")
        file = home / f"{module}.py"
        if (home == SCRIPTS or EVIDENCE in (home, *home.parents) or file in JUDGED_BY) and file.exists():
            yield file


def keep(path: Path, held: Any) -> None:
    """Write a file, and if it is one of results/, what made it."""
    write_whole(path, held)
    if path.resolve().parent == RESULTS and path.stem in MADE and (why := _not_whole(path.stem)):
        print(f"{path} is not noted as current: {why}", file=sys.stderr)
    else:
        note(path)


def _not_whole(name: str) -> str:
    """Why a script that runs now does not make a whole file of results/ by today's code; empty if it does."""
    if Path(sys.argv[0]).resolve().parent != SCRIPTS:
        return ""
    typed = shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])
    jobs = re.compile(r" --jobs \d+")
    if sorted(shlex.split(jobs.sub("", typed))) != sorted(shlex.split(jobs.sub("", MADE[name].command))):
        return f"only `{MADE[name].command}` makes all of it"
    edited = (file.name for file in sorted(_run_by(MADE[name])) if file.stat().st_mtime > _STARTED)
    edited_methods = filter(None, map(revisions.edited, MADE[name].methods))
    file = next(chain(edited, edited_methods), "")
    return f"{file} was edited while it ran" if file else ""


def _run_by(made: Made) -> set[Path]:
    """The sources of a script, what hands results on, and what a court hears; all that runs but for its methods."""
    heard_too = _files_of(set().union(*_heard_modules().values())) if made.hears else set()
    return sources(made) | heard_too | {PACKAGE / f"{name}.py" for name in PLUMBING}


def note(path: Path) -> None:
    """Say that the code that is here made a file of results/, just now."""
    if path.resolve().parent == RESULTS and path.stem in MADE:
        said = {**key_of(path.stem), "content": _content(path)}
        _write_note(path.stem, said)


def _write_note(name: str, said: dict[str, Any]) -> None:
    write_whole(NOTES, dict(sorted({**_notes(), name: said}.items())))


def stale(name: str) -> list[str]:
    """Why a kept file is not what the code that is here would make; empty if it is."""
    said, now = _notes().get(name), key_of(name)
    if said is None:
        return ["it is not known what made it"]
    # A dataset that is not held cannot be compared.
    kept = {**said, "data": {each: said["data"].get(each) for each in now["data"]}}
    parts = [part for part in ("made_by", "source", "data") if part != "made_by" or not MADE[name].hears]
    wrong = [f"{part}: {kept[part]} then, {now[part]} now" for part in parts if kept[part] != now[part]]
    if elsewise := heard_elsewise(name):
        wrong.append(f"heard: other code of {', '.join(elsewise)}")
    return wrong + ([] if said["content"] == _content(RESULTS / f"{name}.json") else ["the file was changed by hand"])


def heard_elsewise(name: str) -> list[str]:
    """The methods of which a kept court heard other code than today's, and of cases of their own."""
    if not MADE[name].hears:
        return []
    then, now = _notes().get(name, {}).get("heard", {}), heard()
    return sorted(each for each in {*then, *now} if then.get(each) != now.get(each))


def runs_of(name: str) -> list[dict[str, Any]]:
    """The runs of a kept list that still hold; none of a stale one."""
    file = RESULTS / f"{name}.json"
    held: list[dict[str, Any]] = json.loads(file.read_text()) if file.exists() and not stale(name) else []
    return held


def folder_of(name: str) -> Path:
    """Where a script leaves its runs until they are kept: another folder for other code, so that none is used again."""
    key = json.dumps(key_of(name), sort_keys=True)
    return Path(".bench") / f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def confirm(name: str, count: int, jobs: int, where: str = "") -> bool:
    """Whether `count` runs of a kept list, evenly spread over it, are alike if they are run again; then it is noted.

    `where`: only of those of which a word has a value, "dataset=cora".
    """
    if not hasattr(importlib.import_module(MADE[name].files[0].stem), "again"):
        raise SystemExit(f"{name} has no runs that can be made again one by one: {MADE[name].command}")
    if name in _notes() and _notes()[name]["content"] != _content(RESULTS / f"{name}.json"):
        raise SystemExit(f"{name}.json is not what was noted; make it again: {MADE[name].command}")
    every = json.loads((RESULTS / f"{name}.json").read_text())
    word, _, value = where.partition("=")
    runs = [run for run in every if str(run.get(word, "")) == value]
    chosen = list({_line(run): run for run in runs}.values())
    if more := count - len(chosen):
        chosen += [run for run in runs[:: max(len(runs) // count, 1)] if run not in chosen][: max(more, 0)]
    apart = []
    with one_thread():
        for place, far in Local(jobs).stream(_apart, name, chosen):
            apart.append(far)
            words = {word: said for word, said in chosen[place].items() if isinstance(said, str | int)}
            print(f"{far:.4f}", words, flush=True)
    same = bool(apart) and all(far <= ALIKE for far in apart)
    unseen = set(map(_line, every)) - set(map(_line, chosen))
    print(f"{len(apart)} runs again, {apart.count(0.0)} to the last digit: {'the same' if same else 'NOT the same'}")
    if unseen:
        print(f"not confirmed: of {', '.join(map(str, unseen))} none was run; leave out --where")
    if same and not unseen:
        note(RESULTS / f"{name}.json")
    return same and not unseen


def _line(run: dict[str, Any]) -> str:
    """What a run is of: a method, or a row of a table."""
    return str(run.get("method", run.get("row", "")))


def _apart(name: str, run: dict[str, Any]) -> float:
    """How far a run is from the same one made again, in the worst of its rates."""
    again = importlib.import_module(MADE[name].files[0].stem).again(run)
    return max((abs(one - other) for one, other in _rates(run, again)), key=lambda far: (math.isnan(far), far))


def _rates(then: dict[str, Any], now: dict[str, Any]) -> Iterator[tuple[float, float]]:
    """The rates of two runs, side by side."""
    for word, said in then.items():
        if isinstance(said, dict):
            yield from _rates(said, now[word])
        elif word in RATES:
            yield float(said), float(now[word])
        elif word in SPENT and not math.isclose(float(said), float(now[word]), rel_tol=1e-6):
            yield float(said), math.inf


def _notes() -> dict[str, dict[str, Any]]:
    held: dict[str, dict[str, Any]] = json.loads(NOTES.read_text(encoding="utf-8")) if NOTES.exists() else {}
    return held


def plumbing() -> str:
    """SHA-256 of the code that hands results on: it computes none of them, so no revision and no key has it.

    After a change of it `python benchmarks/confirm.py --anyway --out .bench/plumbing` runs lines again.
    """
    return _digest(PACKAGE / f"{name}.py" for name in PLUMBING)


def plumbing_noted() -> str:
    """What `plumbing` said when results were last found the same."""
    return str(_notes().get("plumbing", {}).get("source", ""))


def tables_now() -> dict[str, dict[str, str]]:
    """SHA-256 of what tables and lists of history/ hold, by their files; of a table scores, audits and experiment."""
    lists = {f"history/{name}": {"content": _content(RESULTS / "history" / f"{name}.json")} for name in _LISTS}
    return lists | {name: _table(name) for name in spec.names() if (RESULTS / f"{name}.json").exists()}


def tables_noted() -> dict[str, dict[str, str]]:
    """What `tables_now` said when the tables were written."""
    held: dict[str, dict[str, str]] = json.loads(TABLES.read_text(encoding="utf-8"))
    return held


def _table(name: str) -> dict[str, str]:
    held = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    asked = spec.load(name).model_dump(mode="json", exclude={"title", "figures"}, exclude_defaults=True)
    scores = [{word: said for word, said in line.items() if word not in AUDITED} for line in held]
    audits = [[line.get(word) for word in AUDITED] for line in held]
    return {"scores": spec.digest(scores), "audits": spec.digest(audits), "experiment": spec.digest(asked)}


def _content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> None:
    """Say which files are stale, confirm one, or note what tables hold or what hands results on."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["confirm", "tables", "plumbing"])
    parser.add_argument("name", nargs="?", choices=list(MADE))
    parser.add_argument("--runs", type=int, default=12, help="how many are run again")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--where", default="", help="only of these: WORD=VALUE")
    asked = parser.parse_args()
    if asked.what == "tables":
        write_whole(TABLES, tables_now())
        return
    if asked.what == "plumbing":
        _write_note("plumbing", {"source": plumbing()})
        return
    if asked.what:
        raise SystemExit(0 if confirm(asked.name, asked.runs, asked.jobs, asked.where) else 1)
    for name, made in MADE.items():
        why = stale(name)
        print(f"{name}: {'stale' if why else 'current'}")
        for reason in why:
            print(f"    {reason}\n    {made.command}")


if __name__ == "__main__":
    main()
