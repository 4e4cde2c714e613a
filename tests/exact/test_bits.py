"""Bits: secure by default, never the same twice, seeded only on request."""

import copy
import inspect
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

import dpgap
from dpgap.exact import bits as randomness
from dpgap.exact.bits import Bits, InsecureSeededBits, secure_bits
from seams import as_counts, bits_are


@pytest.fixture(autouse=True)
def bits_of_the_thread() -> None:
    """The thread's own bits stay: they are what is tested here."""


def test_secure_bits_are_fair_in_every_position():
    words = secure_bits().words(200_000)
    for position in range(64):
        ones = int(((words >> np.uint64(position)) & np.uint64(1)).sum())
        assert stats.binomtest(ones, words.size, 0.5).pvalue > 1e-8


def test_single_words_and_bulk_words_never_repeat():
    bits = secure_bits()
    seen = [bits.word() for _ in range(5_000)] + bits.words(5_000).tolist()
    assert len(set(seen)) == len(seen)


def test_every_thread_has_a_stream_of_its_own():
    together = Barrier(8)

    def draw(_: int) -> tuple[int, list[int]]:
        together.wait()
        bits = secure_bits()
        return id(bits), [bits.word() for _ in range(2_000)] + bits.words(2_000).tolist()

    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(draw, range(8)))
    assert len({source for source, _ in drawn}) == 8
    words = [word for _, some in drawn for word in some]
    assert len(set(words)) == len(words)


def _words_of_child(bits: Bits | None, count: int) -> list[int]:
    """What a forked child draws: from the bits that its parent held, or from bits of its own."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        bits = secure_bits() if bits is None else bits
        words = [bits.word() for _ in range(count)] + bits.words(count).tolist()
        os.write(write_end, np.array(words, dtype=np.uint64).tobytes())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as pipe:
        words = np.frombuffer(pipe.read(), dtype=np.uint64).tolist()
    assert os.waitpid(child, 0)[1] == 0
    return words


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_children_share_no_bits_with_the_parent_or_each_other():
    bits = secure_bits()
    bits.word()
    drawn = [_words_of_child(held, 100) for held in (bits, bits, None, None)]
    drawn.append([bits.word() for _ in range(100)] + bits.words(100).tolist())
    assert len({word for words in drawn for word in words}) == 1_000


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_with_its_parents_process_id_has_bits_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a new namespace of process ids
    bits = secure_bits()
    bits.word()
    child = _words_of_child(bits, 100)
    assert not {*child} & {bits.word() for _ in range(600)}


def _restore_snapshot(key: bytes = bytes(32)) -> None:
    """Put the bits of this thread into one and the same state, as on a machine restored twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "urandom", lambda count: key[:count])
        randomness._threads.bits = randomness._SecureBits()


@pytest.fixture
def bits_of_our_own():
    """Nobody draws from the bits of a snapshot after the test."""
    yield
    del randomness._threads.bits


VALUES = [10**6] * 8
RELEASES = [
    lambda: dpgap.Laplace("1e-6").release(VALUES).values.tolist(),
    lambda: dpgap.Cube("1e-6").release(VALUES).values.tolist(),
    lambda: dpgap.CountHull("1e-6", monotonic=True).release(VALUES).values.tolist(),
    lambda: dpgap.NoisyTopK(4, "1e-6").release(VALUES).gaps.tolist(),
    lambda: dpgap.NoisyMax("1e-6").release(as_counts(range(8))).gap,
    lambda: dpgap.SparseVector(-(10**9), 4, "1e-6").release(VALUES).gaps.tolist(),
    lambda: dpgap.measured_top_k(VALUES, 4, "1e-6").measurements.tolist(),
    lambda: secure_bits().token(),
]


@pytest.mark.parametrize("release", RELEASES)
def test_a_snapshot_restored_twice_does_not_repeat_its_noise(release, bits_of_our_own):
    drawn = []
    for _ in range(2):
        _restore_snapshot()
        drawn.append(release())
    assert drawn[0] != drawn[1]


def test_a_snapshot_in_the_middle_of_a_run_does_not_repeat_its_noise(bits_of_our_own):
    with dpgap.SparseVector(0, 10, "1e-6").start() as run:
        run.ask(10**12)
        gaps = []
        for _ in range(2):
            _restore_snapshot()
            gaps.append(run.ask(10**12).gap)
    assert None not in gaps
    assert gaps[0] != gaps[1]


def test_weak_bytes_of_the_operating_system_make_nothing_worse(monkeypatch, bits_of_our_own):
    _restore_snapshot(b"an old key that nobody can guess")
    monkeypatch.setattr(os, "urandom", bytes)
    fresh = [tuple(secure_bits().words(4).tolist()) for _ in range(100)]
    randomness._threads.bits.rekey()
    fresh += [tuple(secure_bits().words(4).tolist()) for _ in range(100)]
    assert len({word for words in fresh for word in words}) == 800
    _restore_snapshot(b"another key that nobody can know")
    assert not {*fresh} & {tuple(secure_bits().words(4).tolist()) for _ in range(200)}


def test_fresh_bits_are_those_of_the_cipher_at_the_new_place(monkeypatch, bits_of_our_own):
    key, mixed = bytes(range(32)), b"sixteen new byte"
    _restore_snapshot(key)
    randomness._threads.bits.word()  # leaves half a block, which must not shift what comes next
    monkeypatch.setattr(os, "urandom", lambda count: mixed)
    words = secure_bits().words(6)
    block = _aes(key, bytes(16), 24)[8:]
    place = bytes(a ^ b for a, b in zip(block, mixed, strict=True))
    assert words.tobytes() == _aes(key, place, 48)


def _aes(key: bytes, place: bytes, count: int) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(place)).encryptor().update(bytes(count))


def test_a_key_is_replaced_when_it_has_served_long_enough(monkeypatch):
    monkeypatch.setattr(randomness, "_WORDS_PER_KEY", 10)
    keys = []
    start_stream = randomness.Bits._start_stream

    def _recorded(self: randomness.Bits, key: bytes) -> None:
        keys.append(key)
        start_stream(self, key)

    monkeypatch.setattr(randomness._SecureBits, "_start_stream", _recorded)
    bits = randomness._SecureBits()
    for _ in range(5):
        bits.words(11)
    assert len(keys) == len(set(keys)) == 5


def test_tokens_have_32_hexadecimal_digits_and_never_repeat():
    tokens = [secure_bits().token() for _ in range(1_000)]
    assert len(set(tokens)) == 1_000
    assert all(len(token) == 32 and int(token, 16) >= 0 for token in tokens)
    assert InsecureSeededBits(3).token() == InsecureSeededBits(3).token()


def test_streams_cannot_be_copied():
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be copied"):
            duplicate(secure_bits())


def test_seeded_bits_repeat_and_say_that_they_are_insecure():
    assert InsecureSeededBits(1).words(10).tolist() == InsecureSeededBits(1).words(10).tolist()
    assert InsecureSeededBits(1).words(10).tolist() != InsecureSeededBits(2).words(10).tolist()


def test_no_release_takes_bits_or_a_seed():
    mechanisms = (
        dpgap.NoisyTopK,
        dpgap.NoisyMax,
        dpgap.SparseVector,
        dpgap.AdaptiveSparseVector,
        dpgap.Laplace,
        dpgap.MeasuredTopK,
        dpgap.MeasuredAbove,
    )
    for mechanism in mechanisms:
        for method in (mechanism.__init__, mechanism.release):
            names = " ".join(inspect.signature(method).parameters)
            assert not any(word in names for word in ("seed", "bits", "random", "rng"))


def test_bits_that_stand_in_serve_their_own_thread_and_are_taken_back_after():
    own = secure_bits()
    with bits_are(InsecureSeededBits(7)):
        here = dpgap.NoisyTopK(2, 1).release([5, 9, 7, 8])
        with ThreadPoolExecutor(1) as pool:
            elsewhere = pool.submit(lambda: type(secure_bits())).result()
    with bits_are(InsecureSeededBits(7)):
        again = dpgap.NoisyTopK(2, 1).release([5, 9, 7, 8])
    assert (here.indices.tolist(), here.gaps.tolist()) == (
        again.indices.tolist(),
        again.gaps.tolist(),
    )
    assert elsewhere is type(own)
    assert secure_bits() is own


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_bits_that_stand_in_do_not_follow_into_a_forked_child():
    with bits_are(InsecureSeededBits(7)):
        child = os.fork()
        if child == 0:
            os._exit(isinstance(secure_bits(), InsecureSeededBits))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("limit", [2**64 - 1, 2**64, 2**64 + 1, 2**65, 3 * 2**190, 10**1_040])
def test_a_number_below_any_limit_is_uniform(limit: int):
    """Thirds of the range, and the last digit, are equally likely; level 1e-6."""
    bits = InsecureSeededBits(6)
    drawn = [bits.below(limit) for _ in range(6_000)]
    assert all(0 <= number < limit for number in drawn)
    for kinds in ([3 * number // limit for number in drawn], [number % 3 for number in drawn]):
        counts = np.bincount(kinds, minlength=3)
        assert (np.abs(counts - 2_000) < 5.5 * np.sqrt(2_000)).all()
