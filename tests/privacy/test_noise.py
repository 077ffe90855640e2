"""The laws of the noise, and what the secure source hides."""

from __future__ import annotations

import copy
import math
import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from scipy import stats

from graphveil.errors import GraphveilError, InvalidInput, Unsupported
from graphveil.privacy import cipher, noise
from graphveil.privacy.noise import _GRID_BITS, Secure, Seeded, Stream, _Keystream
from graphveil.vocabulary import Floats

MANY = 200_000
CERTAIN = 1e-6
"""A sound law fails a test once in a million runs; the secure source cannot be seeded."""

SOURCES: list[Callable[[], Stream]] = [lambda: Seeded(7), Secure]


@pytest.fixture(params=SOURCES, ids=["seeded", "secure"])
def source(request: pytest.FixtureRequest) -> Stream:
    made: Stream = request.param()
    return made


class TestLaws:
    @pytest.mark.parametrize("law", ["uniform", "normal", "laplace", "gumbel"])
    def test_draws_follow_their_law(self, source: Stream, law: str) -> None:
        draws = getattr(source, law)(MANY)
        reference = {"uniform": "uniform", "normal": "norm", "laplace": "laplace", "gumbel": "gumbel_r"}[law]
        assert stats.kstest(draws, reference).pvalue > CERTAIN
        assert stats.kstest(draws * 0.95, reference).pvalue < 1e-6, "the test would not notice 5 % less noise"
        assert abs(stats.pearsonr(draws[:-1], draws[1:]).statistic) < 6 / math.sqrt(MANY)

    def test_normals_of_one_pair_are_independent(self, source: Stream) -> None:
        """Box-Muller makes two from one radius; squares would show a bond that correlations hide."""
        first, second = source.normal(MANY).reshape(2, -1)
        assert abs(stats.pearsonr(first, second).statistic) < 6 / math.sqrt(MANY / 2)
        assert abs(stats.spearmanr(first**2, second**2).statistic) < 6 / math.sqrt(MANY / 2)

    def test_odd_counts_and_none(self, source: Stream) -> None:
        assert [len(source.normal(count)) for count in (0, 1, 5)] == [0, 1, 5]
        assert [len(source.laplace(count)) for count in (0, 1, 5)] == [0, 1, 5]

    @pytest.mark.parametrize("rate", [0.001, 0.3, 1.0])
    def test_coins(self, source: Stream, rate: float) -> None:
        coins = source.coins(MANY, rate)
        assert coins.dtype is torch.bool
        assert abs(int(coins.sum()) - rate * MANY) <= 6 * math.sqrt(MANY * rate * (1 - rate))

    @pytest.mark.parametrize("bound", [1, 2, 37, 64, 2**61 + 1])
    def test_numbers_below_a_bound_are_equally_likely(self, source: Stream, bound: int) -> None:
        drawn = source.below(50_000, bound)
        assert drawn.min() >= 0
        assert drawn.max() < bound
        if bound <= 64:
            assert bound == 1 or stats.chisquare(np.bincount(drawn, minlength=bound)).pvalue > CERTAIN
        else:
            assert stats.kstest(drawn / bound, "uniform").pvalue > CERTAIN

    @pytest.mark.parametrize("size", [0, 1, 2, 3, 5])
    def test_subsets_are_equally_likely(self, source: Stream, size: int) -> None:
        seen: dict[tuple[int, ...], int] = {}
        for _ in range(4000):
            drawn = tuple(source.subset(5, size).tolist())
            assert list(drawn) == sorted(set(drawn))
            seen[drawn] = seen.get(drawn, 0) + 1
        assert len(seen) == math.comb(5, size)
        assert len(seen) == 1 or stats.chisquare(list(seen.values())).pvalue > CERTAIN

    def test_choose_is_uniform_over_subsets(self, source: Stream) -> None:
        counts = np.zeros((5, 5))
        for _ in range(4000):
            first, second = source.choose(5, 2).tolist()
            assert first < second
            counts[first, second] += 1
        observed = counts[np.triu_indices(5, 1)]
        assert observed.sum() == 4000
        assert stats.chisquare(observed).pvalue > CERTAIN

    @pytest.mark.parametrize("std", [0.001, 1.0, 50.0])
    def test_added_noise(self, source: Stream, std: float) -> None:
        """With a unit so large that widening, which `TestGrid` checks, does not show."""
        total, unit = torch.full((MANY // 4,), 3.0), 1e9
        gaussian = (source.add_gaussian(total, std, unit).double() - 3.0) / std
        assert stats.kstest(gaussian, "norm").pvalue > CERTAIN
        laplace = (source.add_laplace(total, std, unit).double() - 3.0) / std
        assert stats.kstest(laplace, "laplace").pvalue > CERTAIN


class TestContract:
    def test_shape_type_and_gradient(self, source: Stream) -> None:
        total = torch.zeros(3, 4, dtype=torch.float64, requires_grad=True)
        noisy = source.add_gaussian(total, 1.0, unit=1.0)
        assert noisy.shape == (3, 4)
        assert noisy.dtype is torch.float32
        assert not noisy.requires_grad

    @pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
    def test_sums_that_are_not_finite_raise(self, source: Stream, bad: float) -> None:
        for add in (source.add_gaussian, source.add_laplace):
            with pytest.raises(GraphveilError, match="not finite"):
                add(torch.tensor([1.0, bad]), 1.0, 1.0)

    def test_no_noise_leaves_the_sum(self, source: Stream) -> None:
        total = torch.tensor([1.25, -3.5])
        assert torch.equal(source.add_gaussian(total, 0.0, unit=1.0), total)

    @pytest.mark.parametrize("scale", [2.0**60, 1e308, math.inf])
    def test_noise_that_does_not_fit_is_refused_whatever_the_sum(self, source: Stream, scale: float) -> None:
        for total in (torch.zeros(10), torch.full((10,), math.nan), torch.full((10,), 1e30)):
            for add in (source.add_gaussian, source.add_laplace):
                with pytest.raises(InvalidInput, match="does not fit"):
                    add(total, scale, 1.0)

    @pytest.mark.parametrize("law", ["gaussian", "laplace"])
    def test_the_most_noise_that_is_drawn_fits(self, law: str) -> None:
        """The smallest uniforms make the largest draws; up to the refusal none of them wraps round."""
        secure, refused = Secure(), 0
        secure._stream = Constant(b"\x00")  # type: ignore[assignment]
        draw = getattr(secure, f"add_{law}")
        sign = np.sign(draw(torch.zeros(10), 1.0, 1.0).numpy())
        assert sign.any()
        for power in range(20, 64):
            try:
                out = draw(torch.zeros(10), 1.5 * 2.0**power, 1.0).numpy()
            except InvalidInput:
                refused += 1
            else:
                assert not refused
                assert np.array_equal(np.sign(out), sign)
        assert refused

    def test_empty_sums(self, source: Stream) -> None:
        assert source.add_gaussian(torch.zeros(0), 1.0, unit=1.0).shape == (0,)

    def test_blocks_are_one_stream(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Large sums are perturbed in blocks; a seed gives the same draws as all at once."""
        total = torch.randn(13, 7, dtype=torch.float64)
        whole = Seeded(3).add_gaussian(total, 2.0, unit=1.0)
        assert torch.equal(whole, (total + 2.0 * torch.from_numpy(Seeded(3).normal(91)).reshape(13, 7)).float())
        monkeypatch.setattr("graphveil.privacy.noise._BLOCK", 8)
        assert torch.equal(Seeded(3).add_gaussian(total, 2.0, unit=1.0), whole)

    def test_blocks_follow_the_law(self, source: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("graphveil.privacy.noise._BLOCK", 64)
        noise = source.add_gaussian(torch.zeros(MANY // 10), 1.0, unit=1e9).double().numpy()
        assert stats.kstest(noise, "norm").pvalue > CERTAIN
        assert abs(stats.pearsonr(noise[:-64], noise[64:]).statistic) < 6 / math.sqrt(len(noise))
        assert len(np.unique(noise)) > 0.99 * len(noise), "blocks repeat each other"

    def test_seeds(self) -> None:
        one, same, other = (Seeded(seed).normal(100) for seed in (1, 1, 2))
        assert np.array_equal(one, same)
        assert not np.isin(one, other).any()

    def test_two_secure_sources_differ(self) -> None:
        assert not np.isin(Secure().normal(100), Secure().normal(100)).any()

    def test_labels_say_what_is_for_release(self) -> None:
        assert Secure.secure
        assert not Seeded.secure
        assert "not for release" in Seeded.label


class TestGrid:
    """The secure source works on a lattice that does not depend on the data."""

    @staticmethod
    def joined(total: np.ndarray, std: float, slack: float = 1.0, source: Stream | None = None) -> np.ndarray:
        secure = Secure() if source is None else source
        return secure._join(total, secure.normal(len(total)), std, slack)

    @staticmethod
    def grid(std: float) -> float:
        return 2.0 ** (math.floor(math.log2(std)) - _GRID_BITS)

    @pytest.mark.parametrize("std", [0.003, 1.0, 1.7, 900.0])
    def test_outputs_lie_on_a_power_of_two_lattice(self, std: float) -> None:
        total = np.random.default_rng(0).uniform(-100, 100, 5000) * std
        steps = self.joined(total, std) / self.grid(std)
        assert np.array_equal(steps, np.rint(steps))
        assert len(np.unique(steps % 2)) == 2, "the lattice is coarser than stated"

    def test_low_bits_of_the_sum_leave_no_trace(self) -> None:
        """Two sums that round to the same lattice point give the very same outputs under the same noise."""
        std = 1.0
        first = np.full(1000, 12_345 * self.grid(std))
        second = first + self.grid(std) / 8
        assert not np.array_equal(first, second)
        outputs = [self.joined(total, std, source=Replayed(3)) for total in (first, second)]
        assert np.array_equal(*outputs)
        naive = [total + std * Replayed(3).normal(1000) for total in (first, second)]
        assert not np.array_equal(*naive)

    @pytest.mark.parametrize(("count", "std"), [(1, 1.0), (10_000, 2.0), (10**6, 40.0)])
    def test_noise_is_widened_by_what_rounding_can_add(self, count: int, std: float) -> None:
        """Rounding moves neighbouring sums apart by one grid step per entry: the noise grows by at least that."""
        unit = 0.1
        slack = math.sqrt(count) / unit
        noise = np.full(4, 1e6)
        wide = Replayed(0)._join(np.zeros(4), noise, std, slack) / noise
        worst = (unit + self.grid(std) * math.sqrt(count)) / unit
        assert (wide >= std * worst).all()
        assert (wide <= std * (1 + 3 * (worst - 1)) + 1e-12).all()

    def test_every_entry_is_paid_for_in_the_norm_of_the_noise(self) -> None:
        """One grid step per entry is sqrt(n) steps in L2 and n in L1, of the smallest move that is charged."""
        asked: list[float] = []

        class Watch(Seeded):
            def _join(self, total: Floats, noise: Floats, scale: float, slack: float) -> Floats:
                asked.append(slack)
                return super()._join(total, noise, scale, slack)

        Watch(0).add_gaussian(torch.zeros(4, 9), 1.0, unit=0.5)
        Watch(0).add_laplace(torch.zeros(4, 9), 1.0, unit=0.5)
        assert asked == [6 / 0.5, 36 / 0.5]

    def test_huge_sums_saturate(self) -> None:
        """No error may tell that a sum was large; saturating moves no two sums further apart."""
        std = 1.0
        limit = self.grid(std) * 2.0**52
        out = self.joined(np.array([10 * limit, -1e300, 5.0]), std)
        assert out[0] == pytest.approx(limit, rel=1e-6)
        assert out[1] == pytest.approx(-limit, rel=1e-6)
        assert abs(out[2]) < 20

    def test_uniforms_are_fine_where_tails_are_made(self) -> None:
        """Small uniforms must not be multiples of 2^-53: in the tails such noise is coarser than the grid."""
        draws = np.sort(Secure().uniform(1_000_000))[:1000]
        fractions = (draws * 2.0**53) % 1.0
        assert stats.kstest(fractions, "uniform").pvalue > CERTAIN

    def test_normals_reach_beyond_what_one_uniform_can_make(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A move of 12 deviations must be drawn in both worlds: radius^2 / 2 = 53 k ln 2 - ln U after k turns."""
        secure, turns = Secure(), iter([2.0**-60, 2.0**-54, 2.0**-10, 0.25])
        monkeypatch.setattr(secure, "uniform", lambda count: np.full(count, next(turns)))
        assert np.hypot(*secure.normal(2)) == pytest.approx(math.sqrt(2 * 116 * math.log(2)))

    def test_exponentials_start_anew_without_a_seam(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With a turn that is not rare the law stays the same."""
        monkeypatch.setattr("graphveil.privacy.noise._TURN", 1.0)
        draws = Secure()._exponential(200_000)
        assert draws.max() > 8
        assert stats.kstest(draws, "expon").pvalue > CERTAIN

    def test_uniforms_stay_inside_the_open_interval(self) -> None:
        for word in (b"\x00", b"\xff"):
            secure = Secure()
            secure._stream = Constant(word)  # type: ignore[assignment]
            uniform = secure.uniform(3)
            assert ((uniform > 0) & (uniform < 1)).all()
            for law in (secure.normal, secure.laplace, secure.gumbel):
                assert np.isfinite(law(4)).all()


class TestNothingTwice:
    """No word of a secure stream is drawn twice: not by a fork, a thread, a copy, or a key that has run out."""

    def test_forked_processes_and_their_parent_differ(self) -> None:
        source = Secure()
        source.words(3)
        drawn = [forked(lambda: source.words(100)) for _ in range(3)]
        assert_distinct([*drawn, source.words(100)])

    def test_a_fork_of_a_fork_differs(self) -> None:
        source = Secure()

        def twice() -> np.ndarray:
            below = forked(lambda: source.words(50))
            return np.concatenate([below, source.words(50)])

        assert_distinct([forked(twice), source.words(50)])

    @pytest.mark.parametrize("net", ["number", "count"])
    def test_each_of_two_nets_is_enough(self, net: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A process number may come again, and code outside Python may fork unseen."""
        source, before = Secure(), noise._forks
        if net == "count":
            monkeypatch.setattr("graphveil.privacy.noise.os.getpid", lambda: 7)
            source.words(1)

        def draw() -> np.ndarray:
            if net == "number":
                noise._forks = before
            return source.words(100)

        assert_distinct([forked(draw), forked(draw), source.words(100)])

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_a_fork_while_threads_draw_neither_hangs_nor_repeats(self) -> None:
        source, stop = Secure(), threading.Event()
        drawn: list[np.ndarray] = []

        def draw() -> None:
            while not stop.is_set():
                drawn.append(source.words(2_000))

        threads = [threading.Thread(target=draw) for _ in range(3)]
        for thread in threads:
            thread.start()
        children = [forked(lambda: source.words(1000)) for _ in range(5)]
        stop.set()
        for thread in threads:
            thread.join()
        assert_distinct([*drawn, *children, source.words(1000)])

    @pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
    def test_workers_of_multiprocessing_differ(self) -> None:
        source, context = Secure(), multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        workers = [context.Process(target=lambda: queue.put(source.words(100))) for _ in range(3)]
        for worker in workers:
            worker.start()
        drawn = [queue.get() for _ in workers]
        for worker in workers:
            worker.join(30)
        assert_distinct([*drawn, source.words(100)])

    def test_threads_may_share_a_source(self) -> None:
        """A shared cipher would raise or be torn; every law is drawn, and no word comes twice."""
        source = Secure()
        with ThreadPoolExecutor(8) as pool:
            drawn = list(pool.map(lambda _: source.words(50_000), range(64)))
            normal = np.concatenate(list(pool.map(lambda _: source.normal(10_000), range(20))))
        assert_distinct(drawn)
        assert stats.kstest(normal, "norm").pvalue > CERTAIN

    @pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps])
    def test_copies_are_refused(self, how: Callable[[Stream], object]) -> None:
        with pytest.raises(Unsupported, match="both would draw the same noise"):
            how(Secure())

    def test_every_release_has_a_key_of_its_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        keys = iter(bytes([each]) * 32 for each in range(5))
        monkeypatch.setattr("graphveil.privacy.noise.os.urandom", lambda _: next(keys))
        source = Secure()
        drawn = []
        for _ in range(3):
            source.begin()
            drawn += [source.words(30), source.words(7)]
        assert next(keys) == bytes([4]) * 32
        assert_distinct(drawn)
        assert np.array_equal(np.concatenate(drawn[:2]), cipher.words(bytes([1]) * 32, 0, 37))

    def test_words_are_taken_once_whoever_makes_them(self) -> None:
        """A GPU makes words by their places: no draw in between gets the same."""
        stream = _Keystream()
        stream.words(3)
        key, first = stream.taken(10)
        assert first == 3
        assert_distinct([stream.words(20), cipher.words(key, first, 10)])

    def test_a_seed_is_the_same_in_a_fork_and_in_a_copy(self) -> None:
        source = Seeded(5)
        source.words(2)
        assert np.array_equal(forked(lambda: source.words(9)), copy.deepcopy(source).words(9))


def forked(work: Callable[[], np.ndarray]) -> np.ndarray:
    """The words that `work()` gives in a forked process."""
    come, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with open(go, "wb") as pipe:
                pipe.write(work().tobytes())
        finally:
            os._exit(0)
    os.close(go)
    with open(come, "rb") as pipe:
        words = np.frombuffer(pipe.read(), np.uint64)
    os.waitpid(child, 0)
    return words


def assert_distinct(drawn: list[np.ndarray]) -> None:
    """64 fair bits repeat among 10^7 words with a chance of 3e-6."""
    assert all(len(words) for words in drawn)
    words = np.sort(np.concatenate(drawn))
    assert (words[1:] != words[:-1]).all()


class Replayed(Secure):
    """Secure arithmetic with noise that can be repeated."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def uniform(self, count: int) -> np.ndarray:
        return self._generator.random(count)


class Constant:
    """A keystream of one repeated byte."""

    def __init__(self, byte: bytes) -> None:
        self.byte = byte

    def words(self, count: int) -> np.ndarray:
        return np.frombuffer(bytearray(8 * self.byte * count), np.uint64)


class TestHanded:
    """Draws for rows that are made elsewhere: the very ones that would have been drawn here, each once."""

    @pytest.mark.parametrize("kind", ["seeded", "secure"])
    def test_parts_join_up_to_what_one_source_draws(self, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("os.urandom", lambda count: bytes(range(count)))
        whole, source = (Seeded(5), Seeded(5)) if kind == "seeded" else (Secure(), Secure())
        drawn = [source.uniform(6), source.handed(10), source.uniform(4)]
        parts = [part if isinstance(part, np.ndarray) else part.uniform(10) for part in drawn]  # type: ignore[attr-defined]
        for part in parts:
            assert np.array_equal(whole.uniform(len(part)), part)

    @pytest.mark.parametrize("source", [Seeded(5), Secure()])
    def test_every_copy_draws_the_same(self, source: Stream) -> None:
        part = source.handed(8)
        again = pickle.loads(pickle.dumps(part))
        first = part.coins(8, 0.5)
        assert torch.equal(again.coins(8, 0.5), first)
        assert not torch.equal(source.handed(64).coins(64, 0.5), source.handed(64).coins(64, 0.5))

    def test_a_part_draws_no_more_than_was_handed_out(self) -> None:
        part = Secure().handed(8)
        assert isinstance(part, Stream)
        part.uniform(5)
        with pytest.raises(GraphveilError, match="8 words were asked for, and 6 were handed out"):
            part.uniform(4)
        for misuse in (part.begin, lambda: part.handed(1)):
            with pytest.raises(Unsupported):
                misuse()

    def test_the_key_is_not_shown(self) -> None:
        assert "key" not in repr(vars(Secure().handed(1))["_stream"])
