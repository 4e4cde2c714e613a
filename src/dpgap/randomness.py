"""Where random bits come from: secure by default, seeded only for tests and simulation.

`secure_bits()` is the only source that a release uses. It is an AES-256 key stream in counter
mode, keyed by the operating system. Every thread has a stream of its own and a forked child
re-keys before its first bit, so no two callers ever see the same stream.

`InsecureSeededBits` repeats itself on purpose. No `release` takes a source of bits, so it cannot
reach one by accident.
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
_WORDS_PER_KEY = 1 << 34
_SMALL = 512


class Bits:
    """A stream of independent fair bits, in words of 64, from an AES-CTR key stream."""

    __slots__ = ("_small", "_stream", "_used")

    def __init__(self, key: bytes) -> None:
        self._key(key)

    def _key(self, key: bytes) -> None:
        # A key is used for one stream only, so the counter may start at zero.
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._used = 0
        self._small: list[int] = []

    def words(self, *shape: int) -> Words:
        """Fresh words, as an array of the given shape."""
        count = math.prod(shape)
        self._used += count
        stream = self._stream.update(bytes(8 * count))
        return np.frombuffer(stream, dtype=np.uint64).reshape(shape)

    def word(self) -> int:
        """One fresh word, as an integer."""
        while True:
            try:
                return self._small.pop()
            except IndexError:
                self._small = self.words(_SMALL).tolist()

    def below(self, limit: int) -> int:
        """A uniform whole number from 0 up to, not including, the limit; without bias."""
        fair = (1 << 64) - (1 << 64) % limit
        word = self.word()
        while word >= fair:
            word = self.word()
        return word % limit

    def token(self) -> str:
        """A name that nobody can guess and that never comes twice: 32 hexadecimal digits."""
        return f"{self.word():016x}{self.word():016x}"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a stream of random bits cannot be copied or pickled: it would repeat")


_forks = 0


def process() -> tuple[int, int]:
    """What tells this process from the one it was forked from, even if both have the same id."""
    return _forks, os.getpid()


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class _SecureBits(Bits):
    """Bits keyed by the operating system; only ever used by the thread that asked for them."""

    __slots__ = ("_process",)

    def __init__(self) -> None:
        self._rekey()

    def _rekey(self) -> None:
        self._key(os.urandom(_KEY_BYTES))
        self._process = process()

    def _stay_fresh(self) -> None:
        if self._process != process() or self._used > _WORDS_PER_KEY:
            self._rekey()

    def words(self, *shape: int) -> Words:
        self._stay_fresh()
        return Bits.words(self, *shape)

    def word(self) -> int:
        self._stay_fresh()
        return Bits.word(self)


_threads = threading.local()


def secure_bits() -> Bits:
    """The calling thread's own secure bits; do not hand them to another thread."""
    try:
        bits: _SecureBits = _threads.bits
    except AttributeError:
        bits = _threads.bits = _SecureBits()
    return bits


class InsecureSeededBits(Bits):
    """The same bits for the same seed. For tests and simulation; never for a release.

    >>> InsecureSeededBits(7).word() == InsecureSeededBits(7).word()
    True
    """

    __slots__ = ()

    def __init__(self, seed: int) -> None:
        Bits.__init__(self, hashlib.sha256(f"dpgap seed {seed}".encode()).digest())
