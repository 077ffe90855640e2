"""Shared set-up: one thread each, because the suite runs in parallel processes; fixed examples where CI is set.

`pytest --quick=NAME,NAME` is what tests/quick.py asks for.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numba
import pytest
import torch
from hypothesis import settings

import quick

torch.set_num_threads(1)
numba.set_num_threads(1)

# The gate judges a commit, so it must draw the same examples each time; a run by hand goes on exploring. No deadlines:
# the first example compiles, and others share the processor.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("by hand", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "by hand")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        metavar="NAMES",
        help="leave out what is slow to run or to start and, in tests of the contract, all specimens but those of "
        "these methods and mechanisms; 'one': but for the first of each",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    wanted = config.getoption("--quick")
    if wanted is None:
        return
    names, heard = set(wanted.split(",")), set[tuple[str, str]]()
    kept = [
        item
        for item in items
        if not _slow_to_start(item) and quick.concerned(item.nodeid, _parameters(item), names, heard)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file with grouped tests goes to one process whole: under pytest 9.2 xdist's own groups have no effect."""
    from xdist.scheduler import LoadGroupScheduling  # only xdist asks

    class ByFile(LoadGroupScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.split("::")[0]
            return file if _has_groups(config.rootpath / file) else nodeid

    return ByFile(config, log) if config.getoption("dist") == "loadgroup" else None


@cache
def _has_groups(file: Path) -> bool:
    return "xdist_group(" in file.read_text()


def _slow_to_start(item: pytest.Item) -> bool:
    """Ray, a browser and the site have groups of their own."""
    return any(item.get_closest_marker(name) for name in ("slow", "xdist_group"))


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})
