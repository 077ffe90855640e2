"""Work in a forked child: as another user, with mounts of its own, or as another host would see a shared disk."""

from __future__ import annotations

import ctypes
import os
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

NOBODY = 65534
_NEW_MOUNTS, _BIND, _PRIVATE = 0x20000, 4096, 1 << 18 | 1 << 14


def start(work: Callable[[], Any]) -> tuple[int, int]:
    """A child that does `work`, and the pipe that its answer comes through."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            answer: tuple[bool | None, Any] = (True, work())
        except PermissionError as error:
            answer = (None, str(error))
        except BaseException:
            answer = (False, traceback.format_exc())
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(answer, pipe)
        os._exit(0)
    os.close(writing)
    return child, reading


def finish(started: tuple[int, int]) -> Any:
    """What the child answered; skips the test if it may not do what it needs."""
    child, reading = started
    with os.fdopen(reading, "rb") as pipe:
        done, answer = pickle.load(pipe)
    os.waitpid(child, 0)
    if done is None:
        pytest.skip(f"not permitted here: {answer}")
    assert done, answer
    return answer


def without_rights(work: Callable[[], Any]) -> Any:
    """Work as a user who owns nothing and may override nothing."""

    def dropped() -> Any:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        return work()

    return finish(start(dropped))


def own_mounts() -> None:
    """What this process mounts from now on, no other process sees."""
    _call("unshare", _NEW_MOUNTS)
    _call("mount", b"none", b"/", None, _PRIVATE, None)


def mount_small_disk(folder: Path, kilobytes: int) -> None:
    """A disk of so many kilobytes at `folder`."""
    _call("mount", b"none", os.fsencode(folder), b"tmpfs", 0, f"size={kilobytes}k".encode())


def bind(source: Path, target: Path) -> None:
    """`source` is seen at `target`."""
    _call("mount", os.fsencode(source), os.fsencode(target), None, _BIND, None)


def _call(name: str, *arguments: Any) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    if getattr(system, name)(*arguments) != 0:
        raise PermissionError(ctypes.get_errno(), f"{name}: {os.strerror(ctypes.get_errno())}")
