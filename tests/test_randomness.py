"""Bits: secure by default, never the same twice, seeded only on request."""

import copy
import inspect
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from scipy import stats

import dpgap
from dpgap import randomness
from dpgap.randomness import InsecureSeededBits, secure_bits


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


def _words_of_child(count: int) -> list[int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        bits = secure_bits()
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
    bits.word()  # so that the parent holds buffered words at the time of the fork
    first, second = _words_of_child(100), _words_of_child(100)
    parent = [bits.word() for _ in range(100)] + bits.words(100).tolist()
    assert len({*first, *second, *parent}) == 600


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_with_its_parents_process_id_has_bits_of_its_own(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 1)  # as in a new namespace of process ids
    bits = secure_bits()
    bits.word()
    child = _words_of_child(100)
    assert not {*child} & {bits.word() for _ in range(600)}


def test_a_key_is_replaced_when_it_has_served_long_enough(monkeypatch):
    monkeypatch.setattr(randomness, "_WORDS_PER_KEY", 10)
    keys = []
    monkeypatch.setattr(
        randomness._SecureBits, "_key", lambda self, key: keys.append(key) or _keep(self, key)
    )

    def _keep(self: randomness.Bits, key: bytes) -> None:
        original(self, key)

    original = randomness.Bits._key
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
