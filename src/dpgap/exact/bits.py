"""Where random bits come from: secure by default, seeded only for tests and simulation.

`secure_bits()` is the only source that a release uses. It is an AES-256 key stream in counter
mode, keyed by the operating system. Every thread has a stream of its own and a forked child
re-keys before its first bit, so no two callers ever see the same stream.

A machine that is restored twice from one snapshot would draw the same noise twice. So every call
of `secure_bits()` moves the counter to a random value; every release and every question of a run
makes this call. No bit is drawn ahead. The new counter (the nonce) is the stream's next block,
XORed with fresh bytes of the operating system. It is as hard to guess as either of them, so weak
bytes do no harm. This costs one microsecond; a new key would cost five.

`InsecureSeededBits` repeats itself on purpose. No `release` takes a source of bits, so seeded bits
cannot reach a release by accident. Only tests put them in the place of a thread's own bits.
"""

import hashlib
import math
import os
import threading
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_KEY_BYTES = 32
_BLOCK = 16
_WORDS_PER_KEY = 1 << 34
_WORD_OF_ZEROS = bytes(8)
_SPARE_NUMBERS = 8
_MOST_ONE_BY_ONE = 16
"""So many distinct numbers are drawn one after another: NumPy would take longer to start."""


class Bits:
    """A stream of independent fair bits, in words of 64, from an AES-CTR key stream."""

    __slots__ = ("_stream", "_used")

    def __init__(self, key: bytes) -> None:
        self._start_stream(key)

    def _start_stream(self, key: bytes) -> None:
        # A key is used for one stream only, so the counter may start at zero.
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(_BLOCK))).encryptor()
        self._used = 0

    def freshen(self) -> None:
        """Mix fresh bytes in, at every release. Only secure bits do so."""

    def words(self, *shape: int) -> Words:
        """Fresh words, as an array of the given shape."""
        count = math.prod(shape)
        self._used += count
        stream = self._stream.update(bytes(8 * count))
        return np.frombuffer(stream, dtype=np.uint64).reshape(shape)

    def word(self) -> int:
        """One fresh word, as an integer."""
        self._used += 1
        return int.from_bytes(self._stream.update(_WORD_OF_ZEROS))

    def below(self, limit: int) -> int:
        """A uniform whole number of at least 0 and less than the limit, without bias."""
        further = (limit.bit_length() - 1) // 64  # words beyond the first
        values = 1 << 64 * (1 + further)
        fair_end = values - values % limit
        number = fair_end
        while number >= fair_end:
            number = self.word()
            for _ in range(further):
                number = number << 64 | self.word()
        return number % limit

    def distinct(self, many: int, limit: int) -> NDArray[np.int64]:
        """Distinct uniform whole numbers below the limit (at most 2^60), in random order."""
        if many <= _MOST_ONE_BY_ONE:
            numbers: dict[int, None] = {}
            while len(numbers) < many:
                numbers[self.below(limit)] = None
            return np.array(list(numbers), dtype=np.int64)
        positions, turns = self.scattered(many, limit)
        return positions[np.argsort(turns)]

    def scattered(self, many: int, limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Distinct uniform positions below the limit, sorted; and which of `many` is at each."""
        if 2 * many > limit:
            order = self._shuffled(limit)
            positions = np.flatnonzero(order < many)
            return positions, order[positions]
        numbers = np.empty(0, dtype=np.int64)
        while numbers.size < many:
            missing = many - numbers.size
            numbers = np.append(numbers, self.each_below(limit, missing + _SPARE_NUMBERS))
            _, first_uses = np.unique(numbers, return_index=True)
            numbers = numbers[np.sort(first_uses)]  # no number twice
        turns = np.argsort(numbers[:many])
        return numbers[turns], turns

    def each_below(self, limit: NDArray[np.int64] | int, *shape: int) -> NDArray[np.int64]:
        """Uniform whole numbers below one limit, or below limits that fit the shape; no bias."""
        limits = np.asarray(limit, dtype=np.uint64)
        leftover = (np.uint64((1 << 64) - 1) % limits + np.uint64(1)) % limits  # 2^64 mod limits
        fair_words = self.words(*shape).copy()
        while (unfair := fair_words < leftover).any():
            fair_words[unfair] = self.words(int(unfair.sum()))
        return (fair_words % limits).astype(np.int64)

    def _shuffled(self, limit: int) -> NDArray[np.int64]:
        """All whole numbers below the limit in a uniformly random order."""
        while True:
            keys = self.words(limit)
            order = np.argsort(keys)
            in_order = keys[order]
            if (in_order[1:] != in_order[:-1]).all():  # equal words would give no order
                return order

    def token(self) -> str:
        """A name that nobody can guess and that never comes twice: 32 hexadecimal digits."""
        return f"{self.word():016x}{self.word():016x}"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of random bits cannot be copied or pickled: it would repeat")


_forks = 0
_threads = threading.local()


def process() -> tuple[int, int]:
    """A value that identifies this process: a forked child has another, even with the same id."""
    return _forks, os.getpid()


class ProcessBound:
    """An object that must exist only once, such as a budget: it cannot be copied or pickled.

    A forked child has a copy all the same. So every method that spends asks `is_elsewhere` first.
    """

    def __init__(self) -> None:
        self._process = process()

    @property
    def is_elsewhere(self) -> bool:
        """Whether this is the copy of a forked child."""
        return process() != self._process

    def refuse_elsewhere(self, noun: str) -> None:
        """Refuse the copy of a forked child."""
        if self.is_elsewhere:
            raise RuntimeError(
                f"{noun} cannot be used in a forked process, where its budget would be spent "
                "twice: start a new one there, or spend from a ledger, which all processes share"
            )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} cannot be copied or pickled: there must be one")


def _rekey_after_fork() -> None:
    """Drop the bits of the parent process. In the child only this thread still runs."""
    global _forks
    _forks += 1
    bits = vars(_threads).pop("bits", None)
    if isinstance(bits, _SecureBits):  # code that still holds them must not repeat the parent's
        bits.rekey()
        _threads.bits = bits


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_rekey_after_fork)


class _SecureBits(Bits):
    """Bits keyed by the operating system; only ever used by the thread that asked for them."""

    __slots__ = ()

    def __init__(self) -> None:
        self._start_stream(os.urandom(_KEY_BYTES))

    def rekey(self) -> None:
        """Take a new key, made from fresh bytes and from secret bits of the old stream."""
        past = self._stream.update(bytes(_KEY_BYTES))
        fresh = os.urandom(_KEY_BYTES)
        self._start_stream(hashlib.sha256(past + fresh).digest())

    def freshen(self) -> None:
        """Move the counter to a random value, which earlier states do not determine."""
        # Two stretches under one key overlap with a chance of at most 2^−128 for every pair of
        # their blocks. A key serves 2^33 blocks: less than 2^−62, for each copy of a machine.
        if self._used > _WORDS_PER_KEY:
            self.rekey()
        # Encrypting the fresh bytes XORs them with the stream's next block.
        self._stream.reset_nonce(self._stream.update(os.urandom(_BLOCK)))
        self._used += _BLOCK // 8

    def words(self, *shape: int) -> Words:
        if self._used > _WORDS_PER_KEY:
            self.rekey()
        return Bits.words(self, *shape)


def secure_bits() -> Bits:
    """The secure bits of the calling thread, made fresh. Do not pass them to another thread."""
    try:
        bits: Bits = _threads.bits
    except AttributeError:
        bits = _SecureBits()
        _threads.bits = bits
    bits.freshen()
    return bits


class InsecureSeededBits(Bits):
    """The same bits for the same seed. For tests and simulation; never for a release.

    >>> InsecureSeededBits(7).word() == InsecureSeededBits(7).word()
    True
    """

    __slots__ = ()

    def __init__(self, seed: int) -> None:
        Bits.__init__(self, hashlib.sha256(f"dpgap seed {seed}".encode()).digest())
