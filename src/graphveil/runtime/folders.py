"""Files and folders that appear complete or not at all, replace nothing but their own kind, and tell if altered.

A folder is written in `.NAME.saving` beside its place, which one process at a time holds by a lock, and flushed to the
disk. What was there moves into `.NAME.saving/old`, the new folder takes its place, and only then the old one goes.
Whoever is killed in between leaves `old` behind: the next save or load puts it back.
"""

from __future__ import annotations

import fcntl
import hashlib
import itertools
import json
import os
import shutil
import stat
import tempfile
import time
import uuid
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from graphveil.errors import InvalidInput, Tampered
from graphveil.runtime.safe_json import MAX_TEXT, most_bytes, parse_json, read_plain

MANIFEST = "manifest.json"
CARD = "card.txt"
"""With a manifest it marks a folder that may be given away."""

_PATIENCE = 60.0
"""Seconds that a save waits for another one to the same place."""

_TURNS = 100
"""So often a folder may be replaced while it is read."""

_SLACK = 1 << 20
"""Bytes that a folder takes beyond those of its files."""


def require_only(path: Path, files: Collection[str], what: str, optional: Collection[str] = ()) -> None:
    """`path` is free, an empty folder, or holds exactly `files`: writing `what` there loses nothing else."""
    require_apart(path)
    if path.is_symlink():
        raise InvalidInput(f"{path} is a symbolic link; give the folder that it points to")
    if not path.exists():
        return
    refusal = InvalidInput(f"{path} exists and is not {what}; choose another path")
    if not path.is_dir():
        raise refusal
    try:
        with os.scandir(path) as found:
            held = {item.name: item.is_file(follow_symlinks=False) for item in found}
    except FileNotFoundError:  # taken away by another save, which puts another there
        return
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or error}; choose another path") from None
    if set(held) - set(optional) not in (set(), set(files)) or not all(held.values()):
        raise refusal


def require_apart(path: Path, *releases: Path | None) -> None:
    """`path` lies in none of the `releases` to be written, nor in any folder that holds one."""
    try:
        place = path.resolve()
        given = [folder.resolve() for folder in releases if folder is not None]
    except (OSError, RuntimeError) as error:
        raise InvalidInput(f"{path} cannot be written: {error}") from None
    for folder in (*given, *filter(_is_release, place.parents)):
        if place.is_relative_to(folder):
            raise InvalidInput(
                f"{path} lies in the release folder {folder}, which may be given away; write it elsewhere"
            )


def _is_release(folder: Path) -> bool:
    return all(os.path.isfile(folder / name) for name in (MANIFEST, CARD))


def require_file(path: Path, *releases: Path | None) -> None:
    """A file can be written at `path`, whose folder is made, outside of all release folders."""
    require_apart(path, *releases)
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder; give a file")
    if not _is_stream(path):
        require_room(path)


def require_room(path: Path, size: int = 0) -> None:
    """Something of about `size` bytes can be written beside `path`, in a folder that is made."""
    require_folder(path.parent, path)
    free = shutil.disk_usage(path.parent).free
    if free < size + _SLACK:
        need = (size + _SLACK) / 1e6
        raise InvalidInput(
            f"{path} cannot be written: it needs about {need:,.0f} MB, and {free / 1e6:,.0f} MB are free; make room or "
            "choose another disk"
        )


def require_folder(folder: Path, wanted: Path, private: bool = False) -> None:
    """Make the folder, and refuse it for the sake of `wanted` if nothing can be written there.

    A `private` one is its owner's alone, unless it is there already.
    """
    require_apart(wanted)
    if _is_release(folder):
        raise InvalidInput(f"{folder} is a release folder, which may be given away; write elsewhere")
    try:
        folder.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise _unwritable(wanted, error) from None


def _unwritable(path: Path, error: OSError) -> InvalidInput:
    return InvalidInput(f"{path} cannot be written: {error.strerror or error}")


def _is_stream(path: Path) -> bool:
    """A pipe or a terminal, say: written as it is, and not replaced."""
    return path.exists() and not path.is_file()


@contextmanager
def written_whole(target: Path, replaceable: Callable[[Path], None]) -> Iterator[Path]:
    """A fresh folder, readable by its owner alone, that takes the place of `target` when the block ends well.

    `replaceable(target)` refuses what must not be lost. It is asked while no other save can move the folder, and again
    at the end. Until the new folder stands the old one does.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _held(target) as saving:
            replaceable(target)
            fresh = saving / "new"
            fresh.mkdir(mode=0o700)
            yield fresh
            for file in fresh.iterdir():
                _flush(file)
            _flush(fresh)
            replaceable(target)
            if target.exists():
                target.rename(saving / "old")
            fresh.rename(target)
            _flush(saving)
            _flush(target.parent)
    except OSError as error:
        raise _unwritable(target, error) from error


def settled(path: Path) -> Path:
    """`path`; a folder that an interrupted save has moved aside is put back first."""
    if not _vacant(path) or not (old := _saving(path) / "old").is_dir():
        return path
    try:
        with _held(path):
            warnings.warn(f"a save to {path} was interrupted; what was there before has been put back", stacklevel=3)
    except (OSError, InvalidInput) as error:
        raise Tampered(f"{path} is missing: a save there was interrupted. Move {old} back to {path}") from error
    return path


def _saving(target: Path) -> Path:
    place = target.resolve()
    return place.with_name(f".{place.name}.saving")


@contextmanager
def _held(target: Path) -> Iterator[Path]:
    """The folder in which `target` is written, empty, ours until the block ends; leftovers of the killed are mended."""
    saving = _saving(target)
    until = time.monotonic() + _PATIENCE
    while (lock := _claimed(saving)) is None:
        if time.monotonic() > until:
            raise InvalidInput(f"another process is writing {target}; wait for it, or choose another path")
        time.sleep(0.02)
    try:
        _mend(saving, target)
        yield saving
    finally:
        try:
            _mend(saving, target)
            (saving / "lock").unlink()
        finally:
            os.close(lock)
            # Somebody who waited may be in it already.
            with suppress(OSError):
                saving.rmdir()


def _claimed(saving: Path) -> int | None:
    """The lock on this folder, which is made; `None` if another process has it, or has just done away with it."""
    try:
        with suppress(FileExistsError):
            saving.mkdir(mode=0o700)
        found = saving.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise InvalidInput(f"{saving} is in the way: it belongs to somebody else; choose another path")
        lock = os.open(saving / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), os.stat(saving / "lock")):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(lock)
    return None


def _mend(saving: Path, target: Path) -> None:
    """Nothing but the lock stays in `saving`; the old folder goes back if no other has taken its place."""
    old = saving / "old"
    if old.is_dir() and _vacant(target):
        try:
            old.rename(target)
        except OSError as error:
            raise InvalidInput(
                f"{target} cannot be written ({error}); what was there is in {old}: move it back"
            ) from None
        _flush(target.parent)
    for leftover in (old, saving / "new"):
        shutil.rmtree(leftover, ignore_errors=True)


def _vacant(path: Path) -> bool:
    """Nothing is there, or an empty folder, which a rename replaces."""
    if not os.path.lexists(path):
        return True
    try:
        return stat.S_ISDIR(path.lstat().st_mode) and not any(path.iterdir())
    except OSError:
        return False


def _flush(path: Path) -> None:
    """What was written to a file, or which names are in a folder, survives a loss of power."""
    found = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(found)
    finally:
        os.close(found)


def write_file(path: Path, body: bytes, private: bool = False) -> None:
    """A file that is there completely or not at all, even if we are killed meanwhile; `private`: its owner's alone."""
    try:
        if _is_stream(path):
            path.write_bytes(body)
            return
        place = path.resolve()
        scratch = place.with_name(f".{place.name}.{uuid.uuid4().hex}.tmp")
        try:
            made = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if private else 0o666)
            with open(made, "wb") as file:
                file.write(body)
                file.flush()
                os.fsync(made)
            scratch.replace(place)
        finally:
            scratch.unlink(missing_ok=True)
        _flush(place.parent)
    except OSError as error:
        raise _unwritable(path, error) from error


def write_whole(path: Path, content: Any, private: bool = False) -> None:
    """JSON with sorted keys, as `write_file` writes."""
    write_file(path, (json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n").encode(), private)


Body = Sequence[bytes | memoryview]
"""What a file holds, in pieces: large ones are not copied together."""


def write_public(
    target: Path, contents: Mapping[str, bytes | Body], schema: int, replaceable: Callable[[Path], None]
) -> None:
    """Files that are made to be given away, readable by all, beside a manifest with their SHA-256.

    If that fails, the error is typed, what was at `target` is still there, and what was to be saved can be again.
    """
    bodies: dict[str, Body] = {name: (body,) if isinstance(body, bytes) else body for name, body in contents.items()}
    require_apart(target)
    require_room(target, sum(len(piece) for body in bodies.values() for piece in body))
    with written_whole(target, replaceable) as fresh, ThreadPoolExecutor(1) as aside:
        fresh.chmod(0o755)
        # A file of gigabytes is hashed while it is written: both leave Python free meanwhile.
        hashes = {name: aside.submit(_hash_of, body) for name, body in bodies.items()}
        for name, body in bodies.items():
            if len(body) == 1:
                (fresh / name).write_bytes(body[0])
                continue
            with open(fresh / name, "wb") as file:
                file.writelines(body)
        found = {name: each.result() for name, each in hashes.items()}
        (fresh / MANIFEST).write_bytes(json.dumps({"schema": schema, "sha256": found}, indent=2).encode())


def _hash_of(body: Body) -> str:
    found = hashlib.sha256()
    for piece in body:
        found.update(piece)
    return found.hexdigest()


def read_public(folder: Path, files: Collection[str], schema: int, optional: Collection[str] = ()) -> dict[str, bytes]:
    """What `write_public` wrote, every hash checked; the folder must hold exactly `files`, maybe `optional` ones."""
    turns = 0
    while True:
        try:
            home = os.open(settled(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            # A save may have moved it aside since it was looked for.
            turns += 1
            if turns <= _TURNS and isinstance(error, FileNotFoundError) and _is_being_saved(folder):
                continue
            raise Tampered(f"{folder} is missing or unreadable: not a complete release folder") from error
        try:
            return _read_public(home, folder, files, schema, optional)
        except Tampered:
            # What a save takes away while we read is no fault of the release that stands there now.
            turns += 1
            if turns > _TURNS or _is_at(home, folder):
                raise
        finally:
            os.close(home)


def _is_being_saved(folder: Path) -> bool:
    """Whether a folder that was missing a moment ago is there now, or a save to it is under way."""
    return _saving(folder).exists() or folder.exists()


def _is_at(home: int, folder: Path) -> bool:
    """Whether an open folder is still the one at this path."""
    try:
        return os.path.samestat(os.fstat(home), os.stat(folder))
    except OSError:
        return False


def _read_public(
    home: int, folder: Path, files: Collection[str], schema: int, optional: Collection[str]
) -> dict[str, bytes]:
    manifest = parse_json(_read(home, folder, MANIFEST), schema)
    hashes = manifest.get("sha256")
    if not isinstance(hashes, dict) or set(hashes) - set(optional) != set(files) or len(manifest) != 2:
        raise Tampered(f"{folder} does not list exactly the files {', '.join(files)}")
    _require_no_others(home, folder, {*hashes, MANIFEST})
    contents = {name: _read(home, folder, name) for name in hashes}
    for name, body in contents.items():
        if hashlib.sha256(body).hexdigest() != hashes[name]:
            raise Tampered(f"{folder / name} was altered or truncated after it was saved")
    return contents


def _require_no_others(home: int, folder: Path, listed: Collection[str]) -> None:
    with os.scandir(home) as found:
        # There may be very many; a few are enough to be told.
        names = [item.name for item in itertools.islice(found, len(listed) + 3)]
    others = [name for name in names if name not in listed]
    if others:
        raise Tampered(
            f"{folder} also holds {', '.join(map(ascii, others))}, which its manifest does not list: a release folder "
            "holds what may be given away and nothing else, and these may be private; move them elsewhere"
        )


def _read(home: int, folder: Path, name: str) -> bytes:
    most = MAX_TEXT if name.endswith((".json", ".txt")) else most_bytes()
    try:
        return read_plain(name, most, home)
    except Tampered as error:
        raise Tampered(f"{folder} is not a complete release folder: {error}") from error
