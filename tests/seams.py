"""What tests put in the place of the real thing: a thread's bits, an account, and what builds.

No release has a parameter for its bits. `bits_are` replaces those of the thread, where every
release finds them; `secure_bits()` then returns the stand-in, after it called its `freshen`.
"""

import getpass
import hashlib
import inspect
import itertools
import pkgutil
import platform
import secrets
import time
import uuid
import warnings
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from fractions import Fraction
from functools import cache, partialmethod
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any, NoReturn
from unittest import mock

import numpy as np
import pytest
from numpy.typing import ArrayLike

import dpgap
from dpgap.budget.account import Request
from dpgap.budget.cost import Cost, Limit
from dpgap.cli.main import app as app
from dpgap.data.private_counts import CountsInMemory
from dpgap.exact import bits as bits_of_threads
from dpgap.exact.bits import Bits, InsecureSeededBits
from dpgap.mechanisms.measuring import Measurement
from dpgap.pipelines.routes import HistogramRoute, HybridRoute
from dpgap.pipelines.tables import Answering

MAKERS = (
    Answering,
    HistogramRoute,
    HybridRoute,
    Measurement,
    dpgap.HybridTopK,
    dpgap.JointTopK,
    dpgap.MeasuredAbove,
    dpgap.MeasuredTopK,
    dpgap.NoisyHistogram,
    dpgap.NoisyMax,
    dpgap.NoisyTopK,
    dpgap.SparseVector,
)
"""Whatever has a `build` that makes a release."""

Built = tuple[Any, tuple[Any, ...]]
"""What made a release, and the whole numbers and public facts that it was made of."""


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


IN_ORDER = {"maintain_order": True}
MOMENT = datetime(2026, 11, 16, 8, tzinfo=UTC)


@contextmanager
def fixed_world(name: str, moment: datetime = MOMENT) -> Iterator[None]:
    """Give all threads the same bits, and stop the clock; fix user, machine, version and tokens.

    Bits and tokens follow from `name`. Modules are found by what they use, so that they may move.
    Engines of this process give groups in one order: DuckDB has one thread, Polars keeps the rows'.
    """
    import duckdb
    import polars

    number = itertools.count()

    def token(size: int | None = None) -> bytes:
        return hashlib.shake_256(f"{name} {next(number)}".encode()).digest(size or 32)

    def in_base64(size: int | None = None) -> str:
        return urlsafe_b64encode(token(size)).rstrip(b"=").decode()

    class Class(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class Clock(datetime, metaclass=Class):
        @classmethod
        def now(cls, zone: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return moment.astimezone(zone)

    with ExitStack() as patches:
        for owner, attribute, value in (
            (bits_of_threads, "_threads", SimpleNamespace(bits=InsecureSeededBits(name))),
            (secrets, "token_bytes", token),
            (secrets, "token_hex", lambda size=None: token(size).hex()),
            (secrets, "token_urlsafe", in_base64),
            (uuid, "uuid4", lambda: uuid.UUID(bytes=token(16), version=4)),
            (time, "time", moment.timestamp),
            (duckdb, "connect", _with_one_thread(duckdb.connect)),
            (polars.DataFrame, "group_by", partialmethod(polars.DataFrame.group_by, **IN_ORDER)),
            (polars.LazyFrame, "group_by", partialmethod(polars.LazyFrame.group_by, **IN_ORDER)),
            (getpass, "getuser", lambda: "ann"),
            (platform, "node", lambda: "machine"),
            *((module, "datetime", Clock) for module in _modules() if _asks_for_time(module)),
            *((each, "__version__", "1.2.3") for each in _modules() if "__version__" in vars(each)),
        ):
            patches.enter_context(mock.patch.object(owner, attribute, value))
        yield


def _with_one_thread(connect: Callable[..., Any]) -> Callable[..., Any]:
    def connect_slowly(*given: Any, config: Any = None, **options: Any) -> Any:
        return connect(*given, config={"threads": 1, **(config or {})}, **options)

    return connect_slowly


@cache
def _modules() -> list[ModuleType]:
    """All of dpgap, loaded: what is loaded later would not be patched."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of libraries, once for each process
        names = [each.name for each in pkgutil.walk_packages(dpgap.__path__, "dpgap.")]
        return [dpgap, *(import_module(name) for name in names if not name.endswith("__main__"))]


@cache
def _asks_for_time(module: ModuleType) -> bool:
    """Whether it calls `datetime.now`; others are left alone, as they may compare types."""
    has_class = vars(module).get("datetime") is datetime
    return has_class and "datetime.now(" in inspect.getsource(module)


class WatchedBits(InsecureSeededBits):
    """Seeded bits that call `asked` whenever somebody asks the thread for its bits."""

    __slots__ = ("_asked",)

    def __init__(self, asked: Callable[[], object], seed: int = 1) -> None:
        super().__init__(seed)
        self._asked = asked

    def freshen(self) -> None:
        self._asked()


class FollowedBits(InsecureSeededBits):
    """Seeded bits that keep how many words were asked for each time."""

    __slots__ = ("asked",)

    def __init__(self, seed: int = 1) -> None:
        super().__init__(seed)
        self.asked: list[tuple[int, ...]] = []

    def words(self, *shape: int) -> Any:
        self.asked.append(shape)
        return super().words(*shape)

    def word(self) -> int:
        self.asked.append(())
        return super().word()


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

    def reserve(self, cost: Cost, purpose: str) -> "SpyAccount":
        if not Limit("epsilon", self.total, Fraction(1)).covers(cost):
            raise dpgap.BudgetExhausted("not enough")
        self.diary.append(("reserve", cost.epsilon, purpose))
        return self

    def settle(self, cost: Cost) -> None:
        self.diary.append(("settle", cost.epsilon))

    @property
    def moves(self) -> list[tuple[str, Fraction]]:
        """What was reserved and settled, in order."""
        return [(each[0], each[1]) for each in self.diary if len(each) > 1]


@dataclass
class SpyArchive(SpyAccount):
    """The same for an account that is told all that a ledger is told, and so all it can show."""

    reference: dict[str, Any] = field(
        default_factory=lambda: {
            "dataset": "spied",
            "entry": 1,
            "hash": "0" * 64,
            "time": "2026-11-16T08:00:00Z",
        }
    )

    def reserve_for(self, request: Request) -> "SpyArchive":
        self.reserve(request.cost, request.purpose)
        said = (
            request.cost.delta,
            request.facts,
            request.identity,
            None,
        )  # no key: accounts have keys
        self.diary.append(("request", *said))
        return self

    def settle(self, cost: Cost, document: str | None = None) -> None:
        self.diary.append(("settle", cost.epsilon, document))

    def free_answer(self, request: Request, fresh: bool) -> None:
        """Nothing was asked before."""

    def answered(self, key: str) -> None:
        """Nothing was sent before."""


@contextmanager
def builds_kept() -> Iterator[list[Built]]:
    """Each release that is built, as its maker and what it was built from; the outermost alone."""
    built: list[Built] = []
    depth = [0]

    def watched(build: Callable[..., Any]) -> Callable[..., Any]:
        def watch(maker: Any, *arguments: Any) -> Any:
            if not depth[0]:
                built.append((maker, arguments))
            depth[0] += 1
            try:
                return build(maker, *arguments)
            finally:
                depth[0] -= 1

        return watch

    with ExitStack() as patches:
        for each in MAKERS:
            patches.enter_context(mock.patch.object(each, "build", watched(each.build)))
        yield built


def as_counts(answers: ArrayLike, size: int | None = None) -> CountsInMemory:
    """Private counts with these answers; items after them, up to a size, are absent."""
    counts = np.asarray(answers)
    present = np.flatnonzero(counts)
    facts: dict[str, Any] = {"sensitivity": Fraction(1), "monotonic": True}
    return CountsInMemory(range(size or counts.size), present, counts[present], **facts)


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
