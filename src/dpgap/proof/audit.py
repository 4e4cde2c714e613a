"""An audit of any function from answers to an output: is it as private as it claims?

The audit knows nothing else about the function. Six in ten of its calls search for a pair of
neighbouring answers, and for an event that is much more likely on one of them. Then one hypothesis
is left, and the other calls, which are new, test it. So the level is right for a search of any
length.

"Not rejected" is not a proof. An audit finds only leaks that happen often enough to be counted.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain, groupby
from typing import Any

import numpy as np

from dpgap.exact.parameters import many, or_none, positive_integer, rational, readable, require_made
from dpgap.proof.auditing import chances, searching
from dpgap.proof.auditing.calling import Calls
from dpgap.proof.auditing.chances import lower_bound
from dpgap.proof.auditing.neighbours import Answers
from dpgap.proof.auditing.sampling import frequency
from dpgap.proof.checker.numbers import BadProgram, Exact, exact
from dpgap.proof.checker.proving import stated_number

__all__ = ["AuditResult", "audit", "frequency", "lower_bound"]

_FEWEST = 2_000
_SHARE_THAT_SEARCHES = 0.6
_AT_ONCE = 50_000
_IN_A_ROW = 8
_HITS = 100
"""As a rule, a test sees an event that happens at least so often."""
_FLOATS = "This is a floating-point leak: low bits of a float tell what it was computed from.\n"


@dataclass(frozen=True, slots=True, repr=False)
class AuditResult:
    """What an audit found: one event, counted on answers and on a neighbour in new calls.

    Attributes
    ----------
    epsilon, delta
        The claim.
    lower_bound
        ε is at least this, given δ, with confidence 1 − level.
    p_value
        The probability, at most, of evidence so strong if the claim is true.
    hits, hits_neighbour
        How often the event happened on the answers and on the neighbour, in `runs` calls each.
    samples
        The number of all calls.
    left_out, why_left_out
        How many pairs of neighbours were left out, because the function refused both of them; and
        the error of the first of them, and of the first with large answers.
    not_looked_at
        How many numbers and texts of an output were not looked at, because there were too many.
    pairs, sizes, values
        How many pairs of neighbours were tried; the smallest and the largest number of answers in
        a pair; the smallest and the largest answer.
    in_floats
        Whether the event is about bits that real numbers do not have: a floating-point leak.
    raised
        How often the function raised which error, on answers that it does not always refuse.
    """

    epsilon: float
    delta: float
    lower_bound: float
    p_value: float
    level: float
    answers: Answers
    neighbour: Answers
    event: str
    hits: int
    hits_neighbour: int
    runs: int
    samples: int
    left_out: int
    why_left_out: str
    not_looked_at: int
    pairs: int
    sizes: tuple[int, int]
    values: tuple[Any, Any]
    in_floats: bool
    raised: Mapping[str, int]
    seconds: float = field(compare=False)

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted, at the level."""
        return self.p_value <= self.level

    def __str__(self) -> str:
        return (
            f"{self._verdict()} (p = {self.p_value:.2g}, level {self.level:.2g}). "
            f"With confidence {1 - self.level:.8g}, ε is at least {self.lower_bound:.3g}.\n"
            f"{self._floating_point()}"
            f"event      {self.event}\n"
            f"answers    {_in_brackets(self.answers)}: "
            f"in {self.hits:,} of {self.runs:,} calls\n"
            f"neighbour  {_in_brackets(self.neighbour)}: "
            f"in {self.hits_neighbour:,} of {self.runs:,}\n"
            f"tried      {many(self.pairs, 'pair')} of neighbours, "
            f"with {self._numbers_of_answers()} from {self.values[0]} to {self.values[1]}\n"
            f"{self._omissions()}"
            f"{self._limits_of_the_audit()}"
            f"{self.samples:,} calls in {self.seconds:.1f} s"
        )

    __repr__ = __str__

    def _verdict(self) -> str:
        claim = f"ε = {self.epsilon:.4g}"
        if self.delta:
            claim += f" with δ = {self.delta:.4g}"
        return f"REJECTED: not {claim}" if self.rejected else f"not rejected: {claim}"

    def _floating_point(self) -> str:
        return _FLOATS if self.rejected and self.in_floats else ""

    def _numbers_of_answers(self) -> str:
        smallest, largest = self.sizes
        if smallest == largest:
            return many(largest, "answer")
        return f"{smallest} to {largest} answers"

    def _omissions(self) -> str:
        lines = []
        if self.left_out:
            lines.append(f"left out   {many(self.left_out, 'pair')}, refused: {self.why_left_out}")
        if self.not_looked_at:
            values = many(self.not_looked_at, "value")
            lines.append(f"left out   {values} of the output: there are too many")
        for name, times in self.raised.items():
            lines.append(
                f"raised     {name} in {times:,} calls: the user gets an error and no answer"
            )
        return "".join(line + "\n" for line in lines)

    def _limits_of_the_audit(self) -> str:
        """The meaning of a claim that was not rejected."""
        if self.rejected:
            return ""
        return (
            "This is no proof: no event was found that refutes the claim, and the one above is the "
            "most suspicious.\n"
            "It says nothing about other pairs of answers, about events that happen in fewer than "
            f"about {_HITS} of {self.runs:,} calls,\n"
            "or about time, memory and logs, which were not looked at.\n"
        )


def _neighbours(
    answers: Sequence[Any],
    neighbour: Sequence[Any],
    sensitivity: Any,
    monotonic: bool,
    reach: int | None,
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A pair of neighbours; refuse a pair that the claim is not about.

    All is computed exactly. Floats may be off by their rounding (0.2 + 0.1 > 0.3), if this is much
    less than the sensitivity.
    """
    moves = _moves(answers, neighbour)
    largest_move = max((abs(move) for move in moves), default=0)
    rise = sum(move for move in moves if move > 0)
    fall = -sum(move for move in moves if move < 0)
    limit = sensitivity * (len(moves) if reach is None else reach)
    slack = min(_rounding(answers) + _rounding(neighbour), sensitivity / 1024)
    if largest_move > sensitivity + slack or rise + fall > limit + slack:
        raise ValueError(
            f"neighbours must be as near as sensitivity {readable(sensitivity)} and reach say, "
            f"unlike {list(answers)} and {list(neighbour)}: state them, or other pairs"
        )
    if monotonic and min(rise, fall) > slack:
        raise ValueError(
            f"neighbours must move in one direction, unlike {list(answers)} and {list(neighbour)}"
        )
    return tuple(answers), tuple(neighbour)


def _moves(answers: Sequence[Any], neighbour: Sequence[Any]) -> list[Fraction]:
    """How far each answer moves, exactly."""
    if len(answers) != len(neighbour):
        raise ValueError("neighbours must be pairs of as many answers each")
    try:
        return [
            Fraction(exact(after) - exact(before))
            for before, after in zip(answers, neighbour, strict=True)
        ]
    except (BadProgram, RecursionError):  # NumPy has no number of Python for a long double
        raise ValueError("neighbours must be finite numbers") from None


def _rounding(answers: Sequence[Any]) -> Exact:
    """How far the answers may be off, because floats are rounded."""
    fractions = [a for a in answers if isinstance(a, float | np.floating) and a % 1]
    return exact(sum(abs(np.spacing(number)) for number in fractions))


def _in_brackets(answers: Answers) -> str:
    """The answers; many equal ones in a row as `answer × count`."""
    parts: list[str] = []
    for answer, equal_answers in groupby(answers):
        count = len(list(equal_answers))
        if count > _IN_A_ROW:
            parts.append(f"{answer} × {count}")
        else:
            parts += [str(answer)] * count
    return f"[{', '.join(parts)}]"


def audit(
    function: Any,
    epsilon: Any = None,
    *,
    delta: Any = 0,
    samples: int = 100_000,
    level: float = 1e-3,
    monotonic: bool | None = None,
    sensitivity: Any = None,
    reach: int | None = None,
    neighbours: Iterable[tuple[Sequence[Any], Sequence[Any]]] | None = None,
    event: Callable[[Any], bool] | None = None,
    batch: bool = False,
    bits: bool = True,
    progress: Callable[[int], object] = lambda calls: None,
) -> AuditResult:
    """Search for neighbours and an event that refute ε, and test them on new calls.

    Parameters
    ----------
    function
        Takes a list of answers and returns an output: numbers, words, or lists, mappings and
        dataclasses of them, or a release, of which the audit reads the document. An exception is
        an output, too, and so is a warning. Or a mechanism as `prove` takes it, with
        `run(answers, noise)`; runs on the same path are then computed together. Calls must be
        independent.
    epsilon, delta
        The claim. By default ε is the attribute of the mechanism, also if `function` is a method
        of it; and so are `monotonic`, `sensitivity` and `reach`.
    samples
        The number of all calls. Six in ten search, the others test.
    level
        The probability, at most, that a function that keeps its promise is rejected.
    monotonic
        Whether all answers move in one direction together, as counts do.
    sensitivity
        How far one answer can move.
    reach
        How many sensitivities all answers together can move; without it, each can move by one.
    neighbours
        Pairs of answers to try in place of the built-in ones. They must be as near to each other
        as `sensitivity`, `monotonic` and `reach` say, else they refute nothing. If the function
        refuses one of the two, this is an output; if it refuses both, the pair is left out.
    event
        A function of the output that is true or false: the only event that is tested.
    batch
        Whether the function is called with the answers and a number of runs, and returns as many
        outputs.
    bits
        Whether to look at the lowest bit and the exponent of numbers, too: they show which answer
        noise was added to, if this was done in floats or in steps of two.
    progress
        Is called with the number of calls so far, again and again.

    >>> import secrets
    >>> def answered(answers):  # the truth, three times in four: ε is log 3
    ...     return (answers[0] > 0) == (secrets.randbelow(4) > 0)
    >>> audit(answered, epsilon=2, samples=10_000).rejected
    False
    >>> audit(answered, epsilon="1/2", samples=10_000).rejected
    True
    """
    chances.require_scipy()
    require_made(function)
    start = time.perf_counter()
    mechanism = getattr(function, "__self__", function)
    claimed = float(stated_number(mechanism, "epsilon", epsilon))
    allowed_delta = float(rational("delta", delta))
    if not 0 <= allowed_delta < 1:
        raise ValueError("delta must be at least 0 and less than 1")
    sample_count = positive_integer("samples", samples)
    if sample_count < _FEWEST:
        raise ValueError(f"samples must be at least {_FEWEST:,}")
    if not 0 < level < 1:
        raise ValueError("level must be between 0 and 1")
    or_none(positive_integer)("reach", reach)
    if reach is None:
        reach = getattr(mechanism, "reach", None)
    if monotonic is None:
        monotonic = getattr(mechanism, "monotonic", None)
    exact_sensitivity = stated_number(mechanism, "sensitivity", sensitivity, 1)
    calls_of_search = int(_SHARE_THAT_SEARCHES * sample_count)
    calls = Calls(function, event, batch, bits, progress)
    if neighbours is None:
        selection = searching.neighbours_to_try(
            calls,
            calls_of_search,
            epsilon=claimed,
            sensitivity=_usual_number(exact_sensitivity),
            monotonic=bool(monotonic),
            reach=reach,
        )
    else:
        pairs = [
            _neighbours(answers, neighbour, exact_sensitivity, bool(monotonic), reach)
            for answers, neighbour in neighbours
        ]
        selection = searching.accepted(calls, pairs, sample_count)
    if not selection.pairs:
        raise ValueError(f"the function refused all answers that were tried: {selection.reason}")
    suspicion = searching.search(calls, selection.pairs, calls_of_search, claimed, allowed_delta)
    runs = (sample_count - calls_of_search) // 2
    hits, hits_neighbour = _test_counts(calls, suspicion, runs)
    p_value = chances.p_value(hits, hits_neighbour, runs, claimed, allowed_delta, spare=level / 100)
    if p_value > level and not calls.returned:
        callee = "run" if hasattr(function, "run") else "function"
        raise ValueError(f"{callee} returned None in every call: does it return anything?")
    sizes = [len(answers) for answers, _ in selection.pairs]
    values = list(chain.from_iterable(chain.from_iterable(selection.pairs)))
    return AuditResult(
        epsilon=claimed,
        delta=allowed_delta,
        lower_bound=lower_bound(hits, hits_neighbour, runs, level, delta=allowed_delta),
        p_value=p_value,
        level=level,
        answers=suspicion.answers,
        neighbour=suspicion.neighbour,
        event=suspicion.event.in_words(calls.codes),
        hits=hits,
        hits_neighbour=hits_neighbour,
        runs=runs,
        samples=calls.count,
        left_out=selection.left_out,
        why_left_out=selection.reason,
        not_looked_at=suspicion.not_looked_at,
        pairs=len(selection.pairs),
        sizes=(min(sizes), max(sizes)),
        values=(min(values), max(values)),
        in_floats=suspicion.event.in_floats,
        raised=dict(calls.raised),
        seconds=time.perf_counter() - start,
    )


def _usual_number(number: Fraction) -> int | float:
    """A whole number as an int, for functions that accept only these; others as floats."""
    return number.numerator if number.denominator == 1 else float(number)


def _test_counts(calls: Calls, suspicion: searching.Suspicion, runs: int) -> tuple[int, int]:
    """How often the event happens in new calls, on the answers and on the neighbour."""
    hits = 0
    hits_neighbour = 0
    for done in range(0, runs, _AT_ONCE):
        size = min(_AT_ONCE, runs - done)
        pair = suspicion.answers, suspicion.neighbour
        outputs, outputs_neighbour = calls.on_pair(pair, size, to_test=True)
        hits += suspicion.event.count(outputs)
        hits_neighbour += suspicion.event.count(outputs_neighbour)
    return hits, hits_neighbour
