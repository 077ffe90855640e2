"""ChaCha20 by every implementation: the RFC's words, and the same words from all of them."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from graphveil.privacy import cipher

CPU = torch.device("cpu")
KEY = bytes(range(32))

RFC_KEY_1 = bytes(32)
RFC_BLOCKS = {
    # RFC 8439, appendix A.1: (key, counter, the block) with a nonce of zeros.
    "1": (
        RFC_KEY_1,
        0,
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    "2": (
        RFC_KEY_1,
        1,
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    "3": (
        bytes(31) + b"\x01",
        1,
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    "4": (
        b"\x00\xff" + bytes(30),
        2,
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
}


def by_torch(key: bytes, first: int, count: int) -> np.ndarray:
    begin, end = first // 8, -(-(first + count) // 8)
    made = cipher.words_by_torch(key, begin, end - begin, CPU).numpy().view(np.uint64)
    return made[first - 8 * begin :][:count]


@pytest.mark.parametrize("vector", RFC_BLOCKS)
@pytest.mark.parametrize("how", [cipher.words, by_torch], ids=["library", "torch"])
def test_words_are_those_of_the_rfc(how: object, vector: str) -> None:
    key, counter, block = RFC_BLOCKS[vector]
    assert how(key, 8 * counter, 8).tobytes() == bytes.fromhex(block)  # type: ignore[operator]


def test_the_nonce_is_that_of_the_rfc() -> None:
    """Section 2.3.2, whose nonce is 00:00:00:09:00:00:00:4a:00:00:00:00 and whose counter is 1."""
    segment = int.from_bytes(bytes.fromhex("000000090000004a"), "little")
    expected = (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )
    assert cipher.words(KEY, 8 * ((segment << 30) + 1), 8).tobytes() == bytes.fromhex(expected)


@pytest.mark.parametrize(("first", "count"), [(0, 1), (3, 40), (8 * ((1 << 30) - 2) + 5, 40), ((1 << 40) + 1, 9)])
def test_every_implementation_gives_the_same_words(first: int, count: int) -> None:
    expected = cipher.words(KEY, first, count)
    assert len(expected) == count
    assert np.array_equal(by_torch(KEY, first, count), expected)
    assert np.array_equal(cipher.words_on(KEY, first, count, CPU).numpy().view(np.uint64), expected)


def test_any_part_of_the_stream_is_the_same_as_in_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = cipher.words(KEY, 0, 500)
    for first, count in ((0, 500), (1, 7), (63, 130), (499, 1), (250, 0)):
        assert np.array_equal(cipher.words(KEY, first, count), whole[first : first + count])
    monkeypatch.setattr(cipher, "_AT_ONCE", 5)
    assert np.array_equal(by_torch(KEY, 0, 500), whole)


def test_no_counter_comes_twice_where_segments_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cipher, "_SEGMENT_BITS", 2)
    drawn = cipher.words(KEY, 0, 8 * 64)
    assert len(np.unique(drawn)) == len(drawn)
    assert np.array_equal(by_torch(KEY, 0, 8 * 64), drawn)


def test_words_without_the_library_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = cipher.words(KEY, 3, 50)
    monkeypatch.setattr(cipher, "_library", lambda: None)
    assert np.array_equal(cipher.words(KEY, 3, 50), expected)


KERNELS = """
import struct, warnings
import numpy as np, torch
warnings.simplefilter("ignore")  # sums that wrap round, which is what they are for
from graphveil.privacy import cipher, cipher_triton
device, key = torch.device("{device}"), bytes(range(32))
for begin in (0, 1, (1 << 30) - 2, (1 << 40) + 1):
    out = torch.full((8 * 9,), -1, device=device)
    cipher_triton.fill(key, begin, out)
    assert np.array_equal(out.cpu().numpy().view(np.uint64), cipher.words(key, 8 * begin, 8 * 9)), begin
count = 8 * 300
for begin in (0, (1 << 30) - 50):
    words = (cipher.words(key, 8 * begin, 6 * count).reshape(3, 2, count) >> np.uint64(11)).astype(float)
    uniform = np.minimum((words[:, 0] + (words[:, 1] + 0.5) * 2.0**-53) * 2.0**-53, 1 - 2.0**-53)
    turning = [float(uniform[0, 7]), float(np.nextafter(uniform[1, 9], 1)), (words[2, 0, 3] + 0.5) * 2.0**-53]
    for chances in ([0.5, 0.3, 0.01], [1.0, 0.0, 1e-9], turning):
        out = torch.full((count,), -1, device=device)
        cipher_triton.digits(key, begin, torch.tensor(chances, dtype=torch.float64, device=device), out)
        coins = (uniform < np.array(chances)[:, None]).astype(np.int64)
        assert np.array_equal(out.cpu().numpy(), coins[0] + 2 * coins[1] + 4 * coins[2]), (begin, chances)
"""


def test_kernels_give_the_same_words_and_digits() -> None:
    """On the GPU, or by Triton's interpreter. Chances that lie within a uniform's last digits need its low word."""
    if find_spec("triton") is None:
        pytest.skip("Triton is not installed")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    interpreted = {} if device == "cuda" else {"TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", KERNELS.format(device=device)],
        env={**os.environ, **interpreted},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_key_is_read_as_the_rfc_reads_it() -> None:
    assert struct.unpack("<8I", KEY)[1] == 0x07060504
