"""Shared set-up: one thread each, because the suite runs in parallel processes; fixed examples where CI is set.

`pytest --choice=JSON` is what tests/quick.py asks for.
"""

from __future__ import annotations

import gc
import json
import os
import time
from typing import Any

import pytest
from hypothesis import settings

import quick

# The gate judges a commit, so it must draw the same examples each time; a run by hand goes on exploring. No deadlines:
# the first example compiles, and others share the processor.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("by hand", deadline=None)
settings.load_profile("gate" if os.environ.get("CI") else "by hand")

CHOICE = pytest.StashKey[quick.Choice]()
SECONDS = "quick/seconds"
"""In pytest's cache: how long tests took, from a twentieth of a second on."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--choice", metavar="JSON", help="run the tests that tests/quick.py chose, until their time is up")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHOICE] = quick.Choice(**json.loads(config.getoption("--choice") or "{}"))
    if not config.getoption("numprocesses", None) or hasattr(config, "workerinput"):
        import numba
        import torch

        torch.set_num_threads(1)
        numba.set_num_threads(1)
    if not hasattr(config, "workerinput") and (cache := getattr(config, "cache", None)):
        config.pluginmanager.register(Stopwatch(cache))


class Stopwatch:
    """Keeps how long tests took."""

    def __init__(self, cache: pytest.Cache) -> None:
        self.cache = cache
        self.seconds: dict[str, float] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        kept = {**self.cache.get(SECONDS, {}), **self.seconds}
        self.cache.set(SECONDS, {test: round(time, 2) for test, time in kept.items() if time > 0.05})


def pytest_collection_finish() -> None:
    """What is there by now stays: collecting garbage need not look at it again."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    choice = config.stash[CHOICE]
    if not choice.ranks:
        return
    seen = set[tuple[str, str]]()
    near = {item.nodeid: item for item in items if quick.concerned(item.nodeid, _parameters(item), choice.parts, seen)}
    kept = choice.affordable(near, config.cache.get(SECONDS, {}) if config.cache else {})
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in set(kept)])
    items[:] = [near[test] for test in kept]


def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.stash[CHOICE].until:
        pytest.skip("no time left: `make test` runs it")


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return getattr(getattr(item, "callspec", None), "params", {})
