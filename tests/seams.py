"""What tests put in the place of the real thing: a thread's bits, and an account.

No release has a parameter for its bits. `bits_are` replaces those of the thread, where every
release finds them; `secure_bits()` then returns the stand-in, after it called its `freshen`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

import pytest

import dpgap
from dpgap.exact import bits as bits_of_threads
from dpgap.exact.bits import Bits, InsecureSeededBits


@contextmanager
def bits_are(bits: Bits) -> Iterator[None]:
    """Give this thread other bits while the block lasts."""
    threads = bits_of_threads._threads
    before = vars(threads).get("bits")
    threads.bits = bits
    try:
        yield
    finally:
        vars(threads).pop("bits", None)
        if before is not None:
            threads.bits = before


class WatchedBits(InsecureSeededBits):
    """Seeded bits that call `asked` whenever somebody asks the thread for its bits."""

    __slots__ = ("_asked",)

    def __init__(self, asked: Callable[[], object], seed: int = 1) -> None:
        super().__init__(seed)
        self._asked = asked

    def freshen(self) -> None:
        self._asked()


def words_drawn(bits: Bits) -> int:
    """How many random words were drawn so far: the work of a draw, whatever the machine."""
    return bits._used


class FailingBits(InsecureSeededBits):
    """Bits that fail in the middle of a draw, as an interrupt or a broken machine would."""

    __slots__ = ("_failure",)

    def __init__(self, failure: type[BaseException]) -> None:
        super().__init__(1)
        self._failure = failure

    def words(self, *shape: int) -> NoReturn:
        raise self._failure("out of order")

    def word(self) -> NoReturn:
        raise self._failure("out of order")


@dataclass
class SpyAccount:
    """An account, and its own reservation, that writes down what it is asked for."""

    total: Fraction = Fraction(10**9)
    diary: list[tuple[Any, ...]] = field(default_factory=list)

    def reserve(self, epsilon: Fraction, purpose: str) -> "SpyAccount":
        if epsilon > self.total:
            raise dpgap.BudgetExhausted("not enough")
        self.diary.append(("reserve", epsilon, purpose))
        return self

    def settle(self, epsilon: Fraction) -> None:
        self.diary.append(("settle", epsilon))

    @property
    def moves(self) -> list[tuple[str, Fraction]]:
        """What was reserved and settled, in order."""
        return [(each[0], each[1]) for each in self.diary if len(each) > 1]


def quick_in(cases: Iterable[Any], quick: Collection[Any]) -> list[Any]:
    """All cases, for `parametrize`: the quick ones for `make test`, the others for `make long`.

    For cases that show the same thing again, with other numbers.
    """
    every = list(cases)
    assert all(each in every for each in quick)
    return [case if case in quick else long_case(case) for case in every]


def long_case(case: Any) -> Any:
    """A case that is left to `make long`."""
    values = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.long)
