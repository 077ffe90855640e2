"""Chance is drawn by one generator, whatever the device; a want of room says what to do."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from graphveil.errors import Unsupported
from graphveil.nn.sampling.splitmix import STEP, mix
from graphveil.runtime import counter_rng, memory
from graphveil.runtime.counter_rng import CounterRng, mixed
from graphveil.runtime.memory import BLOCK_SIZE, MemoryEstimate, report_oom, require_room

CPU = torch.device("cpu")


def test_words_are_those_of_splitmix() -> None:
    counters = torch.arange(-50, 50) * 0x1234567890ABCDE
    expected = [int(mix(np.uint64(int(each) % 2**64))) for each in counters]
    assert [int(each) % 2**64 for each in mixed(counters)] == expected
    assert int(STEP) == counter_rng._STEP % 2**64


def test_turns_and_streams_differ_and_come_again() -> None:
    one = CounterRng(5, torch.tensor(0))
    first = one.words(100)
    one.turn.add_(1)
    assert len({*first.tolist(), *one.words(100).tolist(), *one.stream(0).words(100).tolist()}) == 300
    one.turn.sub_(1)
    assert torch.equal(one.words(100), first)
    assert torch.equal(mixed(torch.arange(100) * counter_rng._STEP + mixed(one.turn * counter_rng._STEP + 5)), first)
    assert int(one.below(1000, 7).max()) == 6


def test_a_gpu_that_is_full_names_the_block() -> None:
    with pytest.raises(MemoryError, match=r"lower the block.*--block, now 1,048,576 rows"), report_oom(1 << 20):
        raise torch.OutOfMemoryError("sizes that nobody should see")


@pytest.mark.parametrize(
    ("room", "words"),
    [
        (
            MemoryEstimate(100, 100, 20, BLOCK_SIZE),
            r"lower the block, .*--block, to 45% of what it is: 45 instead of 100 rows",
        ),
        (MemoryEstimate(0, 64, 100, "batch"), "lower batch to 16% of what it is: 10 instead of 64 rows"),
        (MemoryEstimate(1001, 5, 20, BLOCK_SIZE), "take a machine with more"),
        (MemoryEstimate(0, 100, 20), "take a machine with more"),
    ],
)
def test_what_does_not_fit_says_what_to_lower(
    room: MemoryEstimate, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "_free", lambda _: 1000)
    with pytest.raises(Unsupported, match=f"9 nodes take .* beside the graph.*{words}"):
        require_room(CPU, room, 9)
    require_room(CPU, MemoryEstimate(1000), 9)


def test_a_gpu_says_what_else_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_free", lambda _: 1000)
    with pytest.raises(Unsupported, match=r"on the GPU beside the graph.*bfloat16.*device cpu"):
        require_room(torch.device("cuda"), MemoryEstimate(2000), 9)


def test_a_processor_has_the_memory_of_the_machine() -> None:
    assert memory._free(CPU) > 1 << 28
