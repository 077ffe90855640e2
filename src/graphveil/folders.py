"""Folders that appear complete or not at all, replace nothing but their own kind, and tell if they were altered."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from graphveil.core import InvalidInput, Tampered

MANIFEST = "manifest.json"


def require_only(path: Path, files: Collection[str], what: str, optional: Collection[str] = ()) -> None:
    """`path` is free, an empty folder, or holds exactly `files`: writing `what` there loses nothing else."""
    if not path.exists():
        return
    if not path.is_dir() or {item.name for item in path.iterdir()} - set(optional) not in (set(), set(files)):
        raise InvalidInput(f"{path} exists and is not {what}; choose another path")


def require_file(path: Path) -> None:
    """A file can be written at `path`, whose folder is made."""
    require_room(path)
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give a file")


def require_room(path: Path) -> None:
    """Something can be written beside `path`, in a folder that is made."""
    require_folder(path.parent, path)


def require_folder(folder: Path, wanted: Path) -> None:
    """Make the folder, and refuse it for the sake of `wanted` if nothing can be written there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(f"{wanted} cannot be written: {error.strerror or error}") from None


@contextmanager
def written_whole(target: Path) -> Iterator[Path]:
    """A fresh folder, readable by its owner alone, that takes the place of `target` when the block ends well."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".writing-") as scratch:
        fresh = Path(scratch) / target.name
        fresh.mkdir(mode=0o700)
        yield fresh
        if target.exists():
            shutil.move(target, Path(scratch) / f"{target.name}.old")
        fresh.rename(target)


def write_whole(path: Path, content: Any, private: bool = False) -> None:
    """JSON with sorted keys that is there completely or not at all, even if killed; `private`: its owner's alone."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600 if private else 0o666)
    with open(made, "w", encoding="utf-8") as file:
        json.dump(content, file, indent=1, sort_keys=True, allow_nan=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def write_public(target: Path, contents: Mapping[str, bytes], schema: int) -> None:
    """Files that are made to be given away, readable by all, beside a manifest with their SHA-256."""
    hashes = {name: hashlib.sha256(body).hexdigest() for name, body in contents.items()}
    manifest = json.dumps({"schema": schema, "sha256": hashes}, indent=2).encode()
    with written_whole(target) as fresh:
        fresh.chmod(0o755)
        for name, body in {**contents, MANIFEST: manifest}.items():
            (fresh / name).write_bytes(body)


def read_public(
    folder: Path, files: Collection[str], schemas: Collection[int], optional: Collection[str] = ()
) -> dict[str, bytes]:
    """What `write_public` wrote, every hash checked; the manifest must list exactly `files`, maybe `optional` ones."""
    manifest = parse_json(_read(folder / MANIFEST), schemas)
    hashes = manifest.get("sha256")
    if not isinstance(hashes, dict) or set(hashes) - set(optional) != set(files):
        raise Tampered(f"{folder} does not list exactly the files {', '.join(files)}")
    contents = {name: _read(folder / name) for name in hashes}
    for name, body in contents.items():
        if hashlib.sha256(body).hexdigest() != hashes[name]:
            raise Tampered(f"{folder / name} was altered or truncated after it was saved")
    return contents


def parse_json(body: bytes | str, schemas: Collection[int]) -> dict[str, Any]:
    """A JSON object of one of these schema versions."""
    try:
        described = json.loads(body if isinstance(body, str) else body.decode(errors="replace"))
    except json.JSONDecodeError as error:
        raise Tampered(f"not valid JSON: {error}") from error
    return require_schema(described, schemas)


def require_schema(described: Any, schemas: Collection[int]) -> dict[str, Any]:
    """`described`, if it is an object that states one of these schema versions."""
    found = described.get("schema") if isinstance(described, dict) else None
    if isinstance(found, bool) or found not in schemas:
        known = ", ".join(map(str, schemas))
        raise Tampered(f"unknown schema version {found!r}; this graphveil reads version {known}")
    return dict(described)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise Tampered(f"{path} is missing or unreadable: not a complete release folder") from error
