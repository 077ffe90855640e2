"""Kept files: results beside what made them, as JSON.

{"made": {"command", "version", "commit", "date"}, "lines": [...]} is a table of an experiment; "runs" in the place of
"lines" is what a script or a court measured. `make records` trains lines of tables again.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn

from graphveil.codec import plain
from graphveil.errors import InvalidInput
from graphveil.runtime.folders import write_file

Kind = Literal["lines", "runs"]


class Kept(NamedTuple):
    """What a file holds."""

    kind: Kind
    made: dict[str, str]
    content: Any


def checkout() -> Path | None:
    """The repository that this module lies in; None where it was installed from a wheel."""
    found = Path(__file__).resolve().parents[3]
    return found if (found / "lab" / "results").is_dir() else None


def kept_file(name: str) -> Path:
    """Where the results `name` are kept in a checkout, from anywhere in it."""
    return (checkout() or Path()) / "lab" / "results" / f"{name}.json"


def made() -> dict[str, str]:
    """What makes a file now: this command, version and commit, and the time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"command": command(sys.argv), "version": version("graphveil"), "commit": commit(), "date": now}


def command(words: list[str]) -> str:
    """A command line as one would type it at the root of a checkout."""
    program, root = Path(words[0]).resolve(), checkout()
    inside = root is not None and program.is_relative_to(root) and program.suffix == ".py"
    script = (
        ["python", program.relative_to(root).as_posix()] if inside and root else [re.sub(r"\.py$", "", program.name)]
    )
    return shlex.join([*script, *words[1:]])


def commit() -> str:
    """The commit of the checkout, with "-dirty" if files differ from it; empty outside of one."""
    if (root := checkout()) is None:
        return ""
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        return subprocess.run(asked, cwd=root, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def write(path: Path, content: Any, kind: Kind = "runs", by: dict[str, str] | None = None) -> None:
    """Write a file whole, with what makes it now, or made it before (`by`)."""
    body = {"made": by or made(), kind: json.loads(json.dumps(plain(content), sort_keys=True, allow_nan=False))}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, (json.dumps(body, indent=1, allow_nan=False) + "\n").encode())


def read(path: Path) -> Kept:
    """A kept file, or an error that says what is wrong with it."""
    kept = recognised(read_json(path))
    if kept is None:
        raise InvalidInput(f"{path} is no kept file: it has no `made` beside `lines` or `runs`")
    return kept


def recognised(held: Any) -> Kept | None:
    """JSON as a kept file; None if it is something else."""
    if not isinstance(held, dict) or not isinstance(held.get("made"), dict):
        return None
    if held.keys() == {"made", "lines"}:
        return Kept("lines", held["made"], held["lines"])
    return Kept("runs", held["made"], held["runs"]) if held.keys() == {"made", "runs"} else None


def records_folder(name: str) -> Path:
    """Where a script leaves its runs until they are kept."""
    return Path(".bench") / name


def runs_of(name: str) -> list[dict[str, Any]]:
    """The runs that a script has kept; none if it has no file yet."""
    file = kept_file(name)
    found: list[dict[str, Any]] = read(file).content if file.exists() else []
    return found


def read_json(file: Path) -> Any:
    """What a file holds; a number that is none is an error."""
    try:
        return json.loads(file.read_text(encoding="utf-8"), parse_constant=_no_number)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror or error}") from None
    except RecursionError:
        raise InvalidInput(f"{file} is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise InvalidInput(f"{file} is not JSON: {error}") from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f'{text} is no number; unknown is null, infinite is "inf"')


def main(words: list[str]) -> None:
    """Keep what a script measures that writes its numbers by `--json FILE`: the file, then the script's command."""
    if len(words) < 2:
        raise SystemExit("usage: python lab/src/graphveil_lab/kept_files.py FILE COMMAND...")
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        subprocess.run([*words[1:], "--json", str(found)], check=True)
        write(Path(words[0]), read_json(found))


if __name__ == "__main__":
    main(sys.argv[1:])
