"""Is it as private as it says? An audit of any function from answers to an output.

Nothing else need be known of it: not how it works, nor what would give it away. Some of
the calls go into a search, for neighbouring answers and for an event that tells them apart. Then
one hypothesis is left, and the others, fresh calls, test it. So the level is right however long
the search was.

What is not rejected is not proved. An audit sees leaks that happen often enough to be counted.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import groupby
from typing import Any

from dpgap.exact.parameters import positive_integer, rational
from dpgap.proof.auditing import searching
from dpgap.proof.auditing.calling import Answers, Calls, frequency
from dpgap.proof.auditing.searching import lower_bound
from dpgap.proof.checker.proving import stated

__all__ = ["AuditResult", "audit", "frequency", "lower_bound"]

_FEWEST = 2_000
_SEARCHING = 0.6
"""The share of calls that search; the others test."""
_AT_ONCE = 50_000
_IN_A_ROW = 8
_HITS = 100
"""So often must an event happen in the test, as a rule, to be seen."""
_FLOATS = "This is a floating-point leak: low bits of a float tell what it was computed from.\n"


@dataclass(frozen=True, slots=True, repr=False)
class AuditResult:
    """What an audit found: one event, counted on answers and on a neighbour in fresh calls.

    Attributes
    ----------
    epsilon, delta
        What was claimed.
    lower_bound
        What ε is at least, given δ, with confidence 1 − level.
    p_value
        How likely so strong evidence is, at most, if the claim is true.
    hits, hits_neighbour
        How often the event happened on the answers and on the neighbour, in `runs` calls each.
    samples
        Calls in all.
    left_out, why_left_out
        How many pairs of neighbours were left out, because the function refused both of them, and
        what it said to the first of them, and to the first with large answers.
    not_looked_at
        How many numbers and texts of an output were not looked at, because there were too many.
    pairs, sizes, values
        How many pairs of neighbours were tried; how few answers these have, and how many; the
        least answer that was tried, and the largest.
    rising
        Parts of the output that only ever rose from call to call, as a clock or a counter does.
    in_floats
        Whether the event is one on bits that real numbers do not have: a floating-point leak.
    raised
        How often it raised what, on answers that it does not refuse. Whoever asked got nothing.
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
    rising: tuple[str, ...]
    in_floats: bool
    raised: Mapping[str, int]
    seconds: float = field(compare=False)

    @property
    def rejected(self) -> bool:
        """Whether the claim is refuted, at the level."""
        return self.p_value <= self.level

    def __str__(self) -> str:
        claim = f"ε = {self.epsilon:.4g}" + (f" with δ = {self.delta:.4g}" if self.delta else "")
        said = f"REJECTED: not {claim}" if self.rejected else f"not rejected: {claim}"
        few, many = self.sizes
        sizes = _many(many, "answer") if few == many else f"{few} to {many} answers"
        unsaid = (
            f"This is no proof. It was tried on answers from {self.values[0]} to {self.values[1]}. "
            "It says nothing of other answers and more of them,\n"
            f"of what happens less often than about {_many(_HITS, 'time')} in {self.runs:,}, or of "
            "what is no output: time, memory, logs.\n"
        )
        return (
            f"{said} (p = {self.p_value:.2g}, level {self.level:.2g}). "
            f"ε is at least {self.lower_bound:.3g}.\n"
            f"{_FLOATS * (self.rejected and self.in_floats)}"
            f"event      {self.event}\n"
            f"answers    {_spelt(self.answers)}: {self.hits:,} times in {self.runs:,}\n"
            f"neighbour  {_spelt(self.neighbour)}: {self.hits_neighbour:,} times in {self.runs:,}\n"
            f"tried      {_many(self.pairs, 'pair')} of {sizes}\n"
            f"{self._omissions()}"
            f"{unsaid * (not self.rejected)}"
            f"{self.samples:,} calls in {self.seconds:.1f} s"
        )

    __repr__ = __str__

    def _omissions(self) -> str:
        pairs = f"left out   {_many(self.left_out, 'pair')} of answers: {self.why_left_out}\n"
        parts = f"left out   {_many(self.not_looked_at, 'part')} of the output, of too many\n"
        rising = "".join(
            f"warning    {path} only rises, as a clock or a counter does: audit without it\n"
            for path in self.rising
        )
        raised = "".join(
            f"raised     {name} in {times:,} calls: the user gets an error and no answer\n"
            for name, times in self.raised.items()
        )
        return pairs * bool(self.left_out) + parts * bool(self.not_looked_at) + raised + rising


def _many(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _spelt(answers: Answers) -> str:
    """The answers; many equal ones in a row as one and their number."""
    runs = [(each, len(list(same))) for each, same in groupby(answers)]
    said = (f"{each} × {n}" if n > _IN_A_ROW else ", ".join([str(each)] * n) for each, n in runs)
    return f"[{', '.join(said)}]"


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
    """Search for neighbours and an event that refute ε, and test them on fresh calls.

    Parameters
    ----------
    function
        Takes a list of answers and returns an output: numbers, words, or lists, mappings and
        dataclasses of them, or a release, of which the document is looked at. To raise is an
        output, too, and so is a warning. Or a mechanism as `prove` takes it, with
        `run(answers, noise)`; many of its runs are then taken together. Calls must be independent.
    epsilon, delta
        What is claimed. A mechanism may say it itself, also if `function` is a method of it; so
        it may say `monotonic`, `sensitivity` and `reach`.
    samples
        How many calls in all. Six in ten search, the others test.
    level
        How often a function that keeps its promise may be rejected.
    monotonic
        Whether all answers move one way together, as counts do.
    sensitivity
        How far one answer can move.
    reach
        How many sensitivities all answers together can move; without it, each can move by one.
    neighbours
        Pairs of answers to try in place of the built-in ones. That the function refuses one of
        two is an output; if it refuses both, the pair is left out.
    event
        What to look at in place of everything: whether this is true of an output.
    batch
        Whether the function is called with the answers and a number of runs, and returns as many
        outputs.
    bits
        Whether to look at the lowest bit and the exponent of numbers, too: noise that was added in
        floats, or in steps of two, shows there which answer it was added to.
    progress
        Is told how many calls were made, again and again.

    >>> import secrets
    >>> def answered(answers):  # the truth, three times in four: ε is log 3
    ...     return (answers[0] > 0) == (secrets.randbelow(4) > 0)
    >>> audit(answered, epsilon=2, samples=10_000).rejected
    False
    >>> audit(answered, epsilon="1/2", samples=10_000).rejected
    True
    """
    searching.require_scipy()
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
    to_search = int(_SEARCHING * most)
    calls = Calls(function, event, batch, bits, progress)
    tried = (
        searching.neighbours_to_try(
            calls,
            to_search,
            epsilon=claimed,
            sensitivity=_plain(stated(mechanism, "sensitivity", sensitivity, 1)),
            monotonic=bool(
                getattr(mechanism, "monotonic", False) if monotonic is None else monotonic
            ),
            reach=getattr(mechanism, "reach", None) if reach is None else reach,
        )
        if neighbours is None
        else searching.taken(calls, ((tuple(one), tuple(other)) for one, other in neighbours), most)
    )
    if not tried.pairs:
        raise ValueError(f"the function took none of the answers that were tried: {tried.reason}")
    found = searching.search(calls, tried.pairs, to_search, claimed, allowed)
    runs = (most - to_search) // 2
    pair = found.answers, found.neighbour
    counted = [
        [found.event.count(side) for side in calls.both(pair, size, to_test=True)]
        for size in (min(_AT_ONCE, runs - done) for done in range(0, runs, _AT_ONCE))
    ]
    hits, others = map(sum, zip(*counted, strict=True))
    sizes = [len(one) for one, _ in tried.pairs]
    values = [answer for pair in tried.pairs for side in pair for answer in side]
    return AuditResult(
        claimed,
        allowed,
        lower_bound(hits, others, runs, level, delta=allowed),
        searching.p_value(hits, others, runs, claimed, allowed, spare=level / 100),
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
        tuple(sorted(calls.rising)),
        found.event.in_floats,
        dict(calls.raised),
        time.perf_counter() - start,
    )


def _plain(number: Fraction) -> int | float:
    """A whole number as such, for functions that take nothing else."""
    return number.numerator if number.denominator == 1 else float(number)
