"""Engines: the same results everywhere, in order, and nothing is lost with a worker."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import numpy as np
import psutil
import pytest
import torch

from graphveil.errors import InvalidInput, MissingExtra, Unsupported
from graphveil.runtime import engine
from graphveil.runtime.engine import IN_PROCESS, Local, Ray, each, engine_of
from pieces import files_in, refuse, total, total_but_die_once

ROWS = torch.randn(40, 60, generator=torch.Generator().manual_seed(0))
SEEDS = list(range(9))


def here() -> list[float]:
    return each(IN_PROCESS, total, ROWS, SEEDS, "here")


def test_workers_give_what_this_process_gives() -> None:
    assert each(Local(2), total, ROWS, SEEDS, "two") == here()


def test_results_come_in_order_and_nothing_is_needed_for_nothing() -> None:
    assert here() == [total(ROWS, seed) for seed in SEEDS]
    assert each(IN_PROCESS, total, ROWS, [], "none") == []


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_goes_wrong_in_a_piece_is_told(jobs: int) -> None:
    with pytest.raises(InvalidInput, match="cannot work on it"):
        each(Local(jobs), refuse, None, ["it", "it"], "pieces")


@pytest.mark.parametrize("name", ["cloud", "local=there", "", "Ray"])
def test_unknown_engines_are_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="use local, ray, or ray=ADDRESS"):
        engine_of(name)


@pytest.mark.parametrize("jobs", [0, -1, 1.5])
def test_jobs_are_a_positive_number(jobs: int) -> None:
    with pytest.raises(InvalidInput, match="jobs must be at least 1"):
        engine_of("local", jobs)


def test_a_missing_ray_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"pip install graphveil\[ray\]"):
        engine_of("ray")


def test_what_workers_get_lies_in_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays beyond a megabyte would be put into files, where everybody may look."""
    monkeypatch.setenv("JOBLIB_TEMP_FOLDER", str(tmp_path))
    shared = np.ones(400_000), torch.ones(400_000), tmp_path
    assert each(Local(2), files_in, shared, SEEDS, "two") == [[]] * len(SEEDS)


class TestRay:
    """A cluster of our own is closed to others."""

    def test_it_agrees_bit_for_bit_even_when_a_worker_is_lost(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ray = pytest.importorskip("ray", reason="needs graphveil[ray]")
        # Workers import the pieces from this folder.
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        monkeypatch.setenv("HOME", str(tmp_path))
        mark = tmp_path / "one was lost"
        with Ray().opened():
            assert each(Ray(), total, ROWS, SEEDS, "ray") == here()
            assert each(Ray(), total_but_die_once, (ROWS, mark), SEEDS, "ray") == here()
            with pytest.raises(InvalidInput, match="cannot work on it"):
                each(Ray(), refuse, None, ["it"], "ray")
            (node,) = ray.nodes()
            session = Path(node["RayletSocketName"]).parent.parent
            assert_on_loopback()
            assert_token_needed(ray.get_runtime_context().gcs_address, node["RuntimeEnvAgentPort"])
            walls = session.parent.parent
            assert stat.S_IMODE(walls.stat().st_mode) == 0o700
            secrets = os.environ["RAY_AUTH_TOKEN"], "cannot work on"
            assert not [word for text in everything_written(session) for word in secrets if word in text]
        assert mark.exists()
        assert not walls.exists()
        assert not (tmp_path / ".ray").exists(), "Ray wrote its token for all to read"

    @pytest.mark.parametrize("why", ["address", "token"])
    def test_a_ray_that_others_reach_gets_no_work(self, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeRay(monkeypatch, "192.0.2.7" if why == "address" else "127.0.0.1", token=why != "token")
        monkeypatch.setattr(engine, "_ray", lambda: fake)
        with pytest.raises(Unsupported, match=r"Ray 9\.9 starts a cluster that others can reach"), Ray().opened():
            pytest.fail("work began")
        assert fake.stopped

    def test_its_token_cannot_be_turned_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeRay(monkeypatch, "127.0.0.1")
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        monkeypatch.setattr(engine, "_ray", lambda: fake)
        with pytest.raises(InvalidInput, match="unset it"), Ray().opened():
            pytest.fail("work began")
        assert not fake.started

    def test_a_cluster_elsewhere_is_joined_with_a_token_or_in_so_many_words(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        fake = FakeRay(monkeypatch, "10.0.0.5")
        monkeypatch.setattr(engine, "_ray", lambda: fake)
        with pytest.raises(InvalidInput, match="RAY_AUTH_MODE=token"), Ray("10.0.0.5:6379").opened():
            pytest.fail("work began")
        assert not fake.started
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        with Ray("10.0.0.5:6379").opened():
            assert fake.started == ["10.0.0.5:6379"]
        assert fake.stopped

    def test_a_cluster_that_does_not_answer_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        fake = FakeRay(monkeypatch, "10.0.0.5", error=ConnectionError("nobody there"))
        monkeypatch.setattr(engine, "_ray", lambda: fake)
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        with (
            pytest.raises(InvalidInput, match=r"Ray at 10\.0\.0\.5:6379 .*nobody there"),
            Ray("10.0.0.5:6379").opened(),
        ):
            pytest.fail("work began")


class FakeRay:
    """Says where it listens and whether it asks for a token, as Ray does."""

    __version__ = "9.9"

    class exceptions:  # noqa: N801
        RayError = ArithmeticError

    class _private:  # noqa: N801
        class ray_constants:  # noqa: N801
            ENABLE_RAY_CLUSTER = True

    def __init__(
        self, environment: pytest.MonkeyPatch, place: str, token: bool = True, error: Exception | None = None
    ) -> None:
        environment.delenv("RAY_AUTH_MODE", raising=False)
        environment.setenv("RAY_AUTH_TOKEN", "of this test")
        self.environment, self.place, self.token, self.error = environment, place, token, error
        self.started: list[str] = []
        self.stopped = False

    def is_initialized(self) -> bool:
        return False

    def init(self, address: str, **options: Any) -> None:
        if self.error is not None:
            raise self.error
        self.started.append(address)
        if "_temp_dir" in options and self.token:
            self.environment.setenv("RAY_AUTH_MODE", "token")

    def nodes(self) -> list[dict[str, str]]:
        return [{"NodeManagerAddress": self.place}]

    def shutdown(self) -> None:
        self.stopped = True


def assert_on_loopback() -> None:
    """All processes that Ray has started, and this one, listen to this machine alone."""
    me = psutil.Process()
    found = [
        (process.name(), ip_address(socket.laddr.ip))
        for process in [me, *me.children(recursive=True)]
        for socket in process.net_connections("inet")
        if socket.status == psutil.CONN_LISTEN or not socket.raddr
    ]
    assert {"gcs_server", "raylet"} <= {name for name, _ in found}
    outside = [(name, place) for name, place in found if not (getattr(place, "ipv4_mapped", None) or place).is_loopback]
    assert not outside


def assert_token_needed(address: str, port: int) -> None:
    """Neither the head of the cluster nor its agent answers one who does not know the token."""
    ask = f"from ray._raylet import GcsClient; GcsClient(address={address!r}).internal_kv_keys(b'', None, timeout=5)"
    for mode in ({"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "guessed"}, {"RAY_AUTH_MODE": "disabled"}):
        asked = subprocess.run(
            [sys.executable, "-c", ask], env={**os.environ, **mode}, capture_output=True, text=True, check=False
        )
        assert "InvalidAuthToken" in asked.stderr
    with pytest.raises(HTTPError, match="401"):
        urlopen(f"http://127.0.0.1:{port}/get_or_create_runtime_env", data=b"", timeout=10)


def everything_written(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
