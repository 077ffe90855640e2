"""What it costs to plan a budget at the edges: time, memory, and whether the answer holds.

    python tests/fuzz/settings.py [--count 500] [--seed 0] [--seconds 20] [--megabytes 1024]
    python tests/fuzz/settings.py --grid [--methods lapgraph gap]

Draws methods, units, readings, graph sizes and settings, absurd ones among them (NaN, infinity, negative, text,
booleans, huge whole numbers), and asks what `graphveil account` asks: the noise for an epsilon, or the epsilon of a
noise. `--grid` asks every private method for 10 epsilons and 8 noises at 7 deltas instead. Each question is put to a
process of its own.

An answer must be finite noise and an epsilon that is not above the target; a refusal must be one of graphveil's own
errors. All else is a failure: another exception, more seconds or memory than allowed, an absurd value accepted.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from graphveil.checks import require_delta
from graphveil.data.sealing import Public
from graphveil.errors import GraphveilError
from graphveil.methods import Best, Gap
from graphveil.methods.method import METHODS, Method
from graphveil.planning import Terms, planned
from graphveil.vocabulary import Reading, Unit

EPSILONS = (1e-8, 1e-5, 1e-3, 0.01, 0.1, 1.0, 10.0, 50.0, 200.0, 1000.0)
NOISES = (1e-12, 1e-6, 1e-3, 1.0, 1e3, 1e6, 1e12, 1e300)
DELTAS = (1e-300, 1e-30, 1e-15, 1e-9, 1e-5, 0.1, 0.9)
ABSURD = (math.nan, -math.inf, -1.0, 0.0, True, "1", "many", None, 10**400, -(10**20), [1], (1.0,), {}, 1j, b"1")
"""No epsilon, noise, delta or number of nodes. Zero noise is refused by nobody: it costs infinity."""
EXTREME = (0, 1, -1, 1e-300, 1e-9, 0.5, 1.0, 1e9, 1e300, 10**9, 10**30, math.inf, math.nan, "gcn", "", True, None, [])
"""Any of them for any setting of a method."""
NODES = (1, 2, 10, 300, 10_000, 1_000_000)


@dataclass(frozen=True)
class Question:
    """What `account` is asked. Exactly one of `epsilon` and `noise` is given, unless the question is absurd."""

    method: str
    unit: str
    reading: str
    delta: Any
    epsilon: Any = None
    noise: Any = None
    nodes: Any = 10_000
    settings: dict[str, Any] = field(default_factory=dict)
    absurd: bool = False

    def answer(self) -> tuple[float, float]:
        """(noise, epsilon), as `graphveil account` finds them."""
        made = _made(self.method, self.settings)
        # None leaves delta to the size of the graph; here it is one of the absurd values.
        terms = Terms(self.unit, self.epsilon, self.noise, require_delta(self.delta), self.reading)
        found = planned(made, Public.blank(self.nodes, 128, 10), terms)
        return found.noise, found.epsilon

    def verdict(self) -> str:
        """`answered`, `refused: ...` or what is wrong."""
        try:
            noise, epsilon = self.answer()
        except GraphveilError as error:
            return f"refused: {type(error).__name__}: {error}"
        except Exception as error:  # anything: that is what is looked for
            return f"RAW {type(error).__name__}: {error}"
        if self.absurd:
            return f"ACCEPTED: noise {noise}, epsilon {epsilon}"
        if not (math.isfinite(noise) and noise >= 0) or math.isnan(epsilon) or epsilon < 0:
            return f"NOT A NUMBER: noise {noise}, epsilon {epsilon}"
        if self.epsilon is not None and epsilon > self.epsilon:
            return f"ABOVE: epsilon {epsilon} for {self.epsilon}"
        return f"answered: noise {noise:.6g}, epsilon {epsilon:.6g}"


def _made(name: str, settings: dict[str, Any]) -> Method:
    kind = METHODS.find(name)
    if kind is Best:
        return Best((Gap(**settings), Gap(hops=2)))
    made: Method = kind(**settings)
    return made


def grid(names: list[str]) -> Iterator[Question]:
    """Every private method, unit and reading at every epsilon or noise, and every delta."""
    for name in names:
        for unit in sorted(METHODS.find(name).units):
            for reading in Reading:
                for delta in DELTAS:
                    for epsilon in EPSILONS:
                        yield Question(name, unit, reading.value, delta, epsilon=epsilon)
                    for noise in NOISES:
                        yield Question(name, unit, reading.value, delta, noise=noise)


def drawn(count: int, seed: int) -> Iterator[Question]:
    """`count` random questions, of which about a third are absurd."""
    rng = random.Random(seed)
    names = sorted(METHODS.ours())
    for _ in range(count):
        name = rng.choice(names)
        unit, reading = rng.choice(list(Unit)), rng.choice(list(Reading))
        if rng.random() < 0.8:
            unit = rng.choice(sorted(METHODS.find(name).units))
        given = {"delta": _number(rng, DELTAS, 0.999), "nodes": rng.choice(NODES), "settings": {}}
        given |= {"epsilon": _number(rng, EPSILONS)} if rng.random() < 0.6 else {"noise": _number(rng, NOISES)}
        kind = rng.random()
        if kind < 0.3:
            given[rng.choice(sorted({"delta", "epsilon", "noise", "nodes"} & given.keys()))] = rng.choice(ABSURD)
            given["absurd"] = not _zero_noise(given)
        elif kind < 0.6:
            given["settings"] = _settings(rng, name)
        yield Question(name, unit.value, reading.value, **given)


def _zero_noise(given: dict[str, Any]) -> bool:
    return given.get("noise") == 0 and not isinstance(given["noise"], bool)


def _number(rng: random.Random, near: tuple[float, ...], most: float = math.inf) -> float:
    """One of these numbers, or one of their size."""
    return min(rng.choice(near) * (1.0 if rng.random() < 0.5 else 10 ** rng.uniform(-1, 1)), most)


def _settings(rng: random.Random, name: str) -> dict[str, Any]:
    """One or two settings of the method, each extreme or a random multiple of its default."""
    known = {item.name: item.default for item in fields(Gap if name == "best" else METHODS.find(name))}
    chosen = rng.sample(sorted(known), min(len(known), rng.randint(1, 2)))
    return {item: _setting(rng, known[item]) for item in chosen}


def _setting(rng: random.Random, default: Any) -> Any:
    if rng.random() < 0.5 or isinstance(default, bool) or not isinstance(default, int | float):
        return rng.choice(EXTREME)
    scaled = default * 10 ** rng.uniform(-3, 3)
    return int(scaled) if isinstance(default, int) else scaled


@dataclass(frozen=True)
class Outcome:
    """A question, its verdict, and what it took; memory is what it took beyond what was loaded before."""

    question: Question
    verdict: str
    seconds: float
    megabytes: float

    @property
    def failed(self) -> bool:
        return not self.verdict.startswith(("answered", "refused"))


def hear(question: Question, seconds: float, megabytes: float) -> Outcome:
    """Put to a fork, which is ended when it takes too long or too much."""
    start = time.perf_counter()
    receiver, sender = multiprocessing.Pipe(duplex=False)
    measured, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(measured, 1)
        before = _resident(os.getpid())
        said = question.verdict()
        sender.send((said, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - before))
        os._exit(0)
    sender.close()
    before = _resident(child)
    os.write(go, b".")
    os.close(go)
    os.close(measured)
    try:
        said, peak = _awaited(receiver, child, before, start + seconds, megabytes)
    except EOFError:
        said, peak = "DIED", 0.0
    os.waitpid(child, 0)
    return Outcome(question, said, time.perf_counter() - start, max(peak, 0.0))


def _awaited(receiver: Connection, child: int, before: float, until: float, megabytes: float) -> tuple[str, float]:
    """What the child says, or why it was ended, and its peak memory beyond what it was forked with."""
    while not receiver.poll(0.01):
        peak = _resident(child) - before
        if time.perf_counter() > until or peak > megabytes:
            os.kill(child, signal.SIGKILL)
            return "HANG" if peak <= megabytes else "MEMORY", peak
    said: tuple[str, float] = receiver.recv()
    return said


def _resident(process: int) -> float:
    """Megabytes that a process holds now."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 2**20


def private() -> list[str]:
    """Methods that protect something at their defaults."""
    return sorted(set(METHODS.ours()) - {"gcn", "gin", "sage"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--megabytes", type=float, default=1024.0)
    parser.add_argument("--grid", action="store_true")
    parser.add_argument("--methods", nargs="*", default=private())
    parser.add_argument("--all", action="store_true", help="print every question")
    asked = parser.parse_args()
    heard = []
    for question in grid(asked.methods) if asked.grid else drawn(asked.count, asked.seed):
        one = hear(question, asked.seconds, asked.megabytes)
        heard.append(one)
        if one.failed or asked.all:
            print(f"{one.verdict} [{one.seconds:.1f} s, {one.megabytes:.0f} MB] {question}", flush=True)
    slow, large = max(heard, key=lambda one: one.seconds), max(heard, key=lambda one: one.megabytes)
    print(f"slowest    {slow.seconds:.1f} s: {slow.question}\nlargest    {large.megabytes:.0f} MB: {large.question}")
    print(json.dumps(Counter(one.verdict.split(":")[0].split(" ")[0] for one in heard)))
    sys.exit(any(one.failed for one in heard))


if __name__ == "__main__":
    main()
