"""Private answers with their facts: only mechanisms may read them.

A count says how many units (people, baskets, rows) an item has. Counts over a public domain can be
read in three forms. *Groups* are the different values, with the number of items that have each; a
Top-K needs no more, and its winners are looked up afterwards. A *stream* gives a chunk at a time,
for a Sparse Vector. *Expanded* counts are one number for every item.

Mechanisms compare the facts with their own claims, and refuse answers that contradict them. A bare
array states no facts, so there only the mechanism's claims count.
"""

import functools
import sys
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpgap.exact.bits import secure_bits
from dpgap.exact.reals import Flags
from dpgap.exact.reals import Integers as Integers
from dpgap.question import Question

# --------------------------------------------------------------------------------------------------
# Errors without private data.
#
# Engines quote rows in their error messages. None of these passes through: `with_masked_errors`
# raises an error in our own words.
#
# An exception also holds the stack frames that it went through, and a frame holds its variables.
# Error trackers log errors with their variables, and would log private answers. So every function
# that takes answers empties the frames of its errors before they reach the caller. The traceback
# still shows which lines failed. Frames of the caller, and errors that the caller was handling, are
# not changed.


_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

UNREADABLE = (
    "table could not be read; nothing was charged. A row of a file may have too few or too many "
    "fields, an open quote, or another line ending than the others (LF among CRLF); or the engine "
    "that holds the table refused or was stopped"
)

_LET_THROUGH = (KeyboardInterrupt, SystemExit, GeneratorExit)
"""Errors that no engine raises."""


def with_masked_errors(
    action: Callable[[], _Result],
    otherwise: str = UNREADABLE,
    error: type[Exception] = ValueError,
) -> _Result:
    """The result of `action`, or an error that says `otherwise` and nothing from the engine."""
    try:
        return action()
    except _LET_THROUGH:
        raise
    except BaseException:  # its message may quote a row; panics of Polars are no `Exception`
        pass
    raise error(otherwise) from None


def errors_without_answers(function: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
    """Decorate a function: its errors hold none of its arguments and variables."""

    @functools.wraps(function)
    def call(*given: _Given.args, **named: _Given.kwargs) -> _Result:
        handled = sys.exception()
        try:
            return function(*given, **named)
        except BaseException as error:
            del given, named
            _empty_frames(error, handled)
            raise

    return call


def _empty_frames(error: BaseException, handled: BaseException | None) -> None:
    """Empty all frames below the caller's, for the error and for the errors that caused it."""
    waiting = [error]
    done = {id(handled)}
    while waiting:
        current = waiting.pop()
        if id(current) in done:
            continue
        done.add(id(current))
        traceback.clear_frames(current.__traceback__)  # does not touch frames that still run
        if current.__cause__ is not None:
            waiting.append(current.__cause__)
        if current.__context__ is not None:
            waiting.append(current.__context__)
        if isinstance(current, BaseExceptionGroup):
            waiting += current.exceptions


# --------------------------------------------------------------------------------------------------


MAX_EXPANDED = 10**8
"""The most items of a domain that are expanded to an array."""

_FEW = 1 << 16


def redacted_repr(value: object) -> str:
    """The `repr` of a value that holds private numbers: only the name of its type."""
    return f"<private: {type(value).__name__}>"


class Found(NamedTuple):
    """Members of groups: their positions in the public domain, and their labels."""

    positions: Integers
    """−1 if the domain has no order."""
    labels: tuple[Any, ...] | None


class Groups(NamedTuple):
    """Answers by value: the number of answers with each value, and how to find the members."""

    values: NDArray[Any]
    sizes: Integers
    find: Callable[[Integers, Integers], Found]
    """Called with groups and indices in them: whole numbers from 0, below the group's size."""

    def __repr__(self) -> str:
        return redacted_repr(self)


class Chunk(NamedTuple):
    """Some of the answers of a stream: their values, and how to find their labels."""

    values: Integers
    found: Callable[[Integers], Found]
    """Called with indices in this chunk."""
    places: Integers | None = None
    """The indices of the values in this chunk, in rising order; None if every index has one."""
    size: int = 0
    """With `places`: how many answers this chunk has. Answers without a value are 0."""

    def __repr__(self) -> str:
        return redacted_repr(self)

    @property
    def length(self) -> int:
        """How many answers there are."""
        return self.values.size if self.places is None else self.size

    def at(self, places: Integers) -> Integers:
        """The answers at some indices."""
        if self.places is None:
            return self.values[places]
        answers = np.zeros(places.size, dtype=np.int64)
        is_taken, which = standing(self.places, places)
        answers[is_taken] = self.values[which]
        return answers


def standing(taken: Integers, places: Integers) -> tuple[Flags, Integers]:
    """Which places are in `taken`, which is sorted, and at which index of it.

    >>> standing(np.array([2, 5, 7]), np.array([7, 3, 2]))
    (array([ True, False,  True]), array([2, 0]))
    """
    nearest = np.searchsorted(taken, places)
    nearest[nearest == taken.size] = 0
    is_taken = taken[nearest] == places if taken.size else np.zeros(places.size, dtype=bool)
    return is_taken, nearest[is_taken]


def with_absent(
    items: Integers, taken: Integers, places: Integers, absent: Callable[[int], Any]
) -> Integers:
    """The items at some places: those of `taken` have `items`, all others have absent ones."""
    named = np.empty(places.size, dtype=np.int64)
    is_taken, which = standing(taken, places)
    named[is_taken] = items[which]
    named[~is_taken] = absent(int(np.count_nonzero(~is_taken)))
    return named


Chunks = Generator[Chunk, None, None]
"""Chunks that can be closed before their end."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class PrivateCounts(ABC):
    """Counts over a public domain that carry their facts and never show a value."""

    labels: Sequence[Any] | None
    """The public domain in order, if it is known here."""
    _: KW_ONLY
    sensitivity: Fraction
    """The most steps that one unit can move an answer."""
    monotonic: bool
    origin: Question | None = None
    reach: int | None = None
    """The most items (with groups, pairs) that one unit can move; None: any number."""
    step: Fraction = Fraction(1)
    """The step: answers are whole multiples of it. It is 1 for counts."""
    unknown: bool = False
    """Whether no domain was stated: then the items that occur, and their number, are private."""

    def __len__(self) -> int:
        """How many items the domain has. If items are unknown, this is private and refused."""
        if self.unknown:
            raise TypeError("the number of items is private if no domain is stated")
        return self._size

    @property
    def _size(self) -> int:
        return self.stored if self.labels is None else len(self.labels)

    @property
    @abstractmethod
    def stored(self) -> int:
        """How many items have a count here; all others count 0."""

    @property
    def absent(self) -> int:
        """How many items of the domain have no count here."""
        return self._size - self.stored

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest answer, with 0 among them."""
        values = self.groups().values
        return int(values.min(initial=0)), int(values.max(initial=0))

    @abstractmethod
    def groups(self) -> Groups:
        """The counts by value."""

    def expanded(self) -> Integers:
        """All counts in the order of the domain, absent items included."""
        if self.unknown:
            raise ValueError(_UNKNOWN)
        if len(self) > MAX_EXPANDED:
            raise ValueError(
                f"domain must have at most {MAX_EXPANDED:,} items for this mechanism, "
                f"not {len(self):,}"
            )
        parts = []
        for chunk in self.in_order():
            part = np.zeros(chunk.length, dtype=np.int64)
            part[slice(None) if chunk.places is None else chunk.places] = chunk.values
            parts.append(part)
        return np.concatenate(parts)

    @abstractmethod
    def in_order(self) -> Iterator[Chunk]:
        """All counts in the order of the domain, a chunk at a time."""

    @abstractmethod
    def shuffled(self) -> Chunks:
        """All counts in a fresh random order that does not depend on them, a chunk at a time."""

    def _at(self, positions: Integers) -> Found:
        labels = self.labels or ()
        named = tuple(labels[at] for at in positions.tolist())
        # The index of an item among those present would reveal something about the others.
        return Found(np.full_like(positions, -1) if self.unknown else positions, named)

    def close(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what an engine keeps for these answers, where one does."""

    def __repr__(self) -> str:
        items = "unknown" if self.unknown else len(self)
        direction = "monotonic" if self.monotonic else "not monotonic"
        return f"<private answers: {items} items, sensitivity {self.sensitivity}, {direction}>"


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CountsInMemory(PrivateCounts):
    """Counts held in memory: only those of the items that are present.

    >>> one = np.array([3]), np.array([120])
    >>> CountsInMemory(range(5), *one, sensitivity=Fraction(1), monotonic=True)
    <private answers: 5 items, sensitivity 1, monotonic>
    """

    labels: Sequence[Any]
    positions: Integers
    """The positions in `labels` of the items that are present."""
    counts: Integers
    """The count of each present item."""

    @property
    def stored(self) -> int:
        """How many items are present."""
        return self.positions.size

    def groups(self) -> Groups:
        """The counts by value; all absent items are one more group, at 0."""
        values, sizes = tally(self.counts)
        present = values.size
        if self.absent:
            values = np.append(values, 0)
            sizes = np.append(sizes, self.absent)

        def find(groups: Integers, places: Integers) -> Found:
            positions = np.empty(groups.size, dtype=np.int64)
            for group in np.unique(groups[groups < present]):
                members = np.flatnonzero(self.counts == values[group])
                positions[groups == group] = self.positions[members[places[groups == group]]]
            absent = groups == present
            positions[absent] = self._absent_positions(int(np.count_nonzero(absent)))
            return self._at(positions)

        return Groups(values, sizes, find)

    def _absent_positions(self, many: int) -> Integers:
        """Distinct uniform positions of absent items."""
        if not many:
            return np.empty(0, dtype=np.int64)
        present = np.sort(self.positions)
        ranks = secure_bits().distinct(many, self.absent)
        # The number of absent items before the i-th present item is its position minus i.
        return ranks + np.searchsorted(present - np.arange(present.size), ranks, side="right")

    def in_order(self) -> Iterator[Chunk]:
        """All counts in the order of the domain, as one chunk."""
        order = np.argsort(self.positions)
        yield Chunk(self.counts[order], self._at, self.positions[order], len(self.labels))

    def shuffled(self) -> Chunks:
        """All counts in a fresh random order, as one chunk: every order is equally likely.

        Present items get distinct random positions, and absent items have all the others. The
        absent item at a position is drawn only when its name is needed.
        """
        taken, order = secure_bits().scattered(self.positions.size, len(self.labels))
        present = self.positions[order]

        def found(places: Integers) -> Found:
            return self._at(with_absent(present, taken, places, self._absent_positions))

        yield Chunk(self.counts[order], found, taken, len(self.labels))


def tally(counts: Integers) -> tuple[Integers, Integers]:
    """The values that occur and how often; in linear time if they are not far apart."""
    if not counts.size or int(counts.min()) < 0 or int(counts.max()) > 4 * counts.size + _FEW:
        return np.unique(counts, return_counts=True)
    sizes = np.bincount(counts)
    values = np.flatnonzero(sizes)
    return values, sizes[values]


_FINEST = Fraction(1, 1 << 10)
_UNKNOWN = (
    "answers must be over a public domain for this mechanism: which items are present is private"
)


_IMPOSSIBLE = (
    "rows were counted by something else than what is read: an item has two counts, or is not in "
    "the domain, or a count is negative. Nothing was charged or released. This is a fault: report "
    "the types of the columns, and count a Parquet file of the table instead"
)


def require_facts(
    answers: PrivateCounts,
    *,
    sensitivity: Fraction,
    monotonic: bool,
    labelled: bool = False,
    grid: Fraction | None = None,
    unknown: bool = False,
) -> None:
    """Refuse answers that contradict the claims of a mechanism.

    `unknown` says that the mechanism also takes answers without a stated domain.
    """
    if answers.unknown and not unknown:
        raise ValueError(_UNKNOWN)
    if grid is not None and grid < _FINEST:  # so that no count can be too large for its steps
        raise ValueError("grid must be at least 2^-10 for counts of a table, or left out")
    if grid is not None and grid < 1 and answers.step != 1:
        raise ValueError("grid must be at least 1 for sums, which are in steps, or left out")
    if labelled and answers.labels is None:
        raise ValueError("labels must be left out: the domain is a table, which has no order")
    if sensitivity < answers.sensitivity:
        raise ValueError(
            f"sensitivity must be at least that of the answers, {answers.sensitivity}, "
            f"not {sensitivity}"
        )
    if monotonic and not answers.monotonic:
        raise ValueError(
            "monotonic must be False: replacing a unit moves these answers in both directions"
        )


def require_possible(
    counts: Integers, are_one_each: bool, question: Question, least: int = 1
) -> None:
    """Refuse counts of a table that cannot be, before anything is charged.

    `are_one_each` says whether each count is of another item of the domain. `least` is the smallest
    count that an item with a row can have.
    """
    is_counted = question.sum is None
    if not are_one_each or (is_counted and counts.size and int(counts.min()) < least):
        raise RuntimeError(_IMPOSSIBLE)


def require_reach(answers: PrivateCounts) -> int:
    """The most answers that one unit moves; refuse answers if this is not known."""
    if answers.reach is None:
        raise ValueError("answers must have a reach: state max_items, the most items of one unit")
    return answers.reach


def array_of(
    answers: "ArrayLike | PrivateCounts", *, sensitivity: Fraction, monotonic: bool = False
) -> ArrayLike:
    """The answers as an array, if they do not contradict the claims of a mechanism."""
    if not isinstance(answers, PrivateCounts):
        return answers
    require_facts(answers, sensitivity=sensitivity, monotonic=monotonic)
    return answers.expanded()


# --------------------------------------------------------------------------------------------------
# Private counts of several public groups, made in one scan: one for each group, by its label.


class CountsByGroup(dict[Any, PrivateCounts]):
    """The counts of every group, in the order in which the groups were stated.

    Groups share the resources of an engine: closing one group closes all.
    """

    def __init__(
        self, labels: Sequence[Any], make: Callable[[int], PrivateCounts], origin: Question
    ) -> None:
        super().__init__((label, make(place)) for place, label in enumerate(labels))
        self.origin = origin

    def close(self) -> None:
        """Let go of what an engine keeps for these answers, where one does."""
        next(iter(self.values())).close()

    def __repr__(self) -> str:
        return f"<private answers of {len(self)} groups>"
