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
from itertools import groupby
from typing import Any

import numpy as np

from dpgap.exact.parameters import many, or_none, positive_integer, rational, readable, require_made
from dpgap.proof.auditing import searching
from dpgap.proof.auditing.calling import Answers, Calls, frequency
from dpgap.proof.auditing.searching import lower_bound
from dpgap.proof.checker.numbers import BadProgram, exact
from dpgap.proof.checker.proving import stated

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
        claim = f"ε = {self.epsilon:.4g}" + (f" with δ = {self.delta:.4g}" if self.delta else "")
        verdict = f"REJECTED: not {claim}" if self.rejected else f"not rejected: {claim}"
        few, most = self.sizes
        sizes = many(most, "answer") if few == most else f"{few} to {most} answers"
        unsaid = (
            "This is no proof: no event was found that refutes the claim, and the one above is the "
            "most suspicious.\n"
            "It says nothing about other pairs of answers, about events that happen in fewer than "
            f"about {_HITS} of {self.runs:,} calls,\n"
            "or about time, memory and logs, which were not looked at.\n"
        )
        return (
            f"{verdict} (p = {self.p_value:.2g}, level {self.level:.2g}). "
            f"With confidence {1 - self.level:.8g}, ε is at least {self.lower_bound:.3g}.\n"
            f"{_FLOATS * (self.rejected and self.in_floats)}"
            f"event      {self.event}\n"
            f"answers    {_spelt(self.answers)}: in {self.hits:,} of {self.runs:,} calls\n"
            f"neighbour  {_spelt(self.neighbour)}: in {self.hits_neighbour:,} of {self.runs:,}\n"
            f"tried      {many(self.pairs, 'pair')} of neighbours, with {sizes} from "
            f"{self.values[0]} to {self.values[1]}\n"
            f"{self._omissions()}"
            f"{unsaid * (not self.rejected)}"
            f"{self.samples:,} calls in {self.seconds:.1f} s"
        )

    __repr__ = __str__

    def _omissions(self) -> str:
        pairs = f"left out   {many(self.left_out, 'pair')}, refused: {self.why_left_out}\n"
        parts = (
            f"left out   {many(self.not_looked_at, 'value')} of the output: there are too many\n"
        )
        raised = "".join(
            f"raised     {name} in {times:,} calls: the user gets an error and no answer\n"
            for name, times in self.raised.items()
        )
        return pairs * bool(self.left_out) + parts * bool(self.not_looked_at) + raised


def _neighbours(
    one: Sequence[Any], other: Sequence[Any], sensitivity: Any, monotonic: bool, reach: int | None
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """A pair of neighbours; refuse a pair that the claim is not about.

    All is computed exactly. Floats may be off by their rounding (0.2 + 0.1 > 0.3), if this is much
    less than the sensitivity.
    """
    if len(one) != len(other):
        raise ValueError("neighbours must be pairs of as many answers each")
    try:
        moves = [exact(after) - exact(before) for before, after in zip(one, other, strict=True)]
    except (BadProgram, RecursionError):  # NumPy has no number of Python for a long double
        raise ValueError("neighbours must be finite numbers") from None
    rise, fall = (sum(max(sign * move, 0) for move in moves) for sign in (1, -1))
    most = sensitivity * (len(moves) if reach is None else reach)
    floats: list[Any] = [a for a in (*one, *other) if isinstance(a, float | np.floating)]
    slack = min(exact(sum(abs(np.spacing(a)) for a in floats if a % 1)), sensitivity / 1024)
    if any(abs(move) > sensitivity + slack for move in moves) or rise + fall > most + slack:
        near = f"as near as sensitivity {readable(sensitivity)} and reach say"
        raise ValueError(
            f"neighbours must be {near}, unlike {[*one]} and {[*other]}: state them, or other pairs"
        )
    if monotonic and min(rise, fall) > slack:
        raise ValueError(f"neighbours must move in one direction, unlike {[*one]} and {[*other]}")
    return tuple(one), tuple(other)


def _spelt(answers: Answers) -> str:
    """The answers; many equal ones in a row as `answer × count`."""
    runs = [(each, len(list(same))) for each, same in groupby(answers)]
    words = (f"{each} × {n}" if n > _IN_A_ROW else ", ".join([str(each)] * n) for each, n in runs)
    return f"[{', '.join(words)}]"


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
    searching.require_scipy()
    require_made(function)
    start = time.perf_counter()
    mechanism = getattr(function, "__self__", function)
    claimed = float(stated(mechanism, "epsilon", epsilon))
    allowed = float(rational("delta", delta))
    if not 0 <= allowed < 1:
        raise ValueError("delta must be at least 0 and less than 1")
    most = positive_integer("samples", samples)
    if most < _FEWEST:
        raise ValueError(f"samples must be at least {_FEWEST:,}")
    if not 0 < level < 1:
        raise ValueError("level must be between 0 and 1")
    or_none(positive_integer)("reach", reach)
    to_search = int(_SHARE_THAT_SEARCHES * most)
    calls = Calls(function, event, batch, bits, progress)
    claims: dict[str, Any] = {"monotonic": monotonic, "reach": reach}
    claims |= {name: getattr(mechanism, name, None) for name in claims if claims[name] is None}
    claims["sensitivity"] = moved = stated(mechanism, "sensitivity", sensitivity, 1)
    if neighbours is None:  # whole numbers as ints, for functions that accept only these
        claims["sensitivity"] = moved.numerator if moved.denominator == 1 else float(moved)
        tried = searching.neighbours_to_try(calls, to_search, epsilon=claimed, **claims)
    else:
        pairs = [_neighbours(*pair, **claims) for pair in neighbours]
        tried = searching.taken(calls, pairs, most)
    if not tried.pairs:
        raise ValueError(f"the function refused all answers that were tried: {tried.reason}")
    found = searching.search(calls, tried.pairs, to_search, claimed, allowed)
    runs = (most - to_search) // 2
    pair = found.answers, found.neighbour
    counted = [
        [found.event.count(side) for side in calls.both(pair, size, to_test=True)]
        for size in (min(_AT_ONCE, runs - done) for done in range(0, runs, _AT_ONCE))
    ]
    hits, others = map(sum, zip(*counted, strict=True))
    p_value = searching.p_value(hits, others, runs, claimed, allowed, spare=level / 100)
    if p_value > level and not calls.returned:
        who = "run" if hasattr(function, "run") else "function"
        raise ValueError(f"{who} returned None in every call: does it return anything?")
    sizes = [len(one) for one, _ in tried.pairs]
    values = [answer for pair in tried.pairs for side in pair for answer in side]
    return AuditResult(
        claimed,
        allowed,
        lower_bound(hits, others, runs, level, delta=allowed),
        p_value,
        level,
        found.answers,
        found.neighbour,
        found.event.in_words(calls.codes),
        hits,
        others,
        runs,
        calls.made,
        tried.left_out,
        tried.reason,
        found.not_looked_at,
        len(tried.pairs),
        (min(sizes), max(sizes)),
        (min(values), max(values)),
        found.event.in_floats,
        dict(calls.raised),
        time.perf_counter() - start,
    )
