"""What may be believed of a release, in plain sentences, the most important first.

They follow from the release alone, so that a document that is read again says the same. All claims
of one kind hold at once with 95 % confidence: which items belong, which are larger than which, and
which are above 0 or above the line. Advice about ε uses that widths shrink as ε grows.

That an item is above a line can be proved in two ways: by its lead, and by what was measured
afterwards. Each way may be wrong in 2.5 % of releases, so that both together are in at most 5 %.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.errors import HistogramError
from dpgap.exact.parameters import approximately
from dpgap.printable import plural, printable, singular
from dpgap.question import HISTOGRAM, Question
from dpgap.releases.plain import attempted, in_words, ranks_in_words, separated
from dpgap.releases.release import (
    HEADINGS,
    HybridRelease,
    Measured,
    Release,
    ReleasesByGroup,
    Selected,
    Table,
    TableRelease,
    TopKRelease,
    Total,
    UnitCount,
    p_text,
    question_of,
)


def is_private(release: Release) -> bool:
    """Whether its guarantee holds: items were stated, and not read from the table."""
    question = question_of(release)
    return question is None or question.is_private


# --------------------------------------------------------------------------------------------------
# What a question leaves out of its units, in words: the numbers are of what is left.
#
# Noise is in the intervals, and cutting is not: no interval can tell how much was cut. So the first
# finding says what the numbers are of and which way they may be off, and every claim says that it
# is about what is left.


_CLAIM = re.compile(r"\b(sure|surely|truly|belongs?)\b")


def cut_in_words(release: Release) -> tuple[str, ...]:
    """What is cut, and what of a file is not read; nothing where neither is."""
    question = question_of(release)
    return () if question is None else attempted("cutting", partial(_cut, question), ())


def of_what_is_left(release: Release, sentence: str) -> str:
    """The same sentence, which says that it is about what cutting left if it claims something."""
    question = question_of(release)
    if question is None or not _CLAIM.search(sentence) or not [*_clauses(question)]:
        return sentence
    return f"With this limit, {sentence[0].lower()}{sentence[1:]}"


def _cut(question: Question) -> tuple[str, ...]:
    said = []
    if clauses := [*_clauses(question)]:
        off = "counts may be too low"
        if question.sum is not None:
            high = " or too high"
            high = high if question.at_least else f",{high} where amounts are negative"
            off = f"{'the total' if question.is_of_all else 'totals'} may be too low{high}"
        said.append(f"Each {singular(question.unit)} {', and '.join(clauses)}, so {off}.")
    if question.encoding is not None:
        said.append(f"Fields that are not valid {question.encoding} are missing values.")
    return tuple(said)


def _clauses(question: Question) -> Iterator[str]:
    """What a unit may add at most, wherever it may have more."""
    kept = [*_kept(question)]
    if kept:
        yield f"counts {' and '.join(kept)}, drawn at random"
    if question.sum is not None:
        least, most = separated(question.at_least), separated(question.at_most)
        to = "" if question.is_of_all else f" to each {singular(question.item)}"
        yield f"adds at least {least} and at most {most}{to}"


def _kept(question: Question) -> Iterator[str]:
    """In how many groups, and for how many items, a unit counts, if it may have more of them."""
    if question.has_one_item_each:
        return
    groups = 1
    if question.by is not None:
        groups = question.groups_of_a_unit
        if groups < question.groups:
            yield _few("in", groups, singular(question.by), plural(question.by))
    most = question.max_items
    if most is not None and (question.items is None or most < groups * question.items):
        one, several = singular(question.item), plural(question.item)
        if question.by is not None:
            pair = f"of {singular(question.by)} and {one}"
            one, several = f"pair {pair}", f"pairs {pair}"
        yield _few("for", most, one, several)


def _few(preposition: str, number: int, one: str, several: str) -> str:
    if number == 1:
        return f"{preposition} one {one} only"
    return f"{preposition} at most {in_words(number)} {several}"


# --------------------------------------------------------------------------------------------------


Bools = NDArray[np.bool_]
Kind = Callable[[Any], Iterable[str]]
"""A kind of sentence: what makes it of a release. Its name is in the log where it fails."""

_EACH_OF_TWO = 0.975
"""The confidence of each of two ways to prove something that is to hold with 95 %."""
_MOST_EPSILON = 10
"""No more than so many times the ε that was spent is ever advised."""


def findings(release: Table) -> tuple[str, ...]:
    """The sentences about this release; none about an array of indices or values."""
    if isinstance(release, UnitCount):
        return (_count_in_words(release),)
    if isinstance(release, Total):
        return (*cut_in_words(release), _total_in_words(release), *release.question.doubts())
    if isinstance(release, ReleasesByGroup):
        own: Iterable[str] = (
            f"{printable(str(group))}: {' '.join(own_findings(answer))}"
            for group, answer in release.items()
        )
    elif isinstance(release, Selected):
        own = own_findings(release)
    else:
        return ()
    return (*cut_in_words(release), *own, *general_findings(release))


def _count_in_words(release: UnitCount) -> str:
    part = "" if release.question.where is None else " that the filter keeps"
    ends = " to ".join(dict.fromkeys(f"{end:,.0f}" for end in release.interval().tolist()))
    return f"There are {ends} {plural(release.question.unit)}{part} (95 % confidence)."


def _total_in_words(release: Total) -> str:
    part = "" if release.question.where is None else " of the rows that the filter keeps"
    cells = release.cells(",")
    ends = f"{cells[HEADINGS['low']][0]} and {cells[HEADINGS['high']][0]}"
    return f"The total{part} is between {ends} (95 % confidence)."


def own_findings(release: Selected) -> tuple[str, ...]:
    """What is found of this release and of no other."""
    kinds: tuple[Kind, ...] = attempted("findings", partial(_kinds, release), ())
    return _said(release, kinds, partial(of_what_is_left, release))


def general_findings(release: Selected | ReleasesByGroup) -> tuple[str, ...]:
    """How far claims may be trusted; the same for releases that were made in the same way.

    All groups have them once; confidence is for each group.
    """
    if isinstance(release, Selected):
        return _said(release, _GENERAL, str) if release.indices.size else ()
    said = (sentence for answer in release.answers for sentence in general_findings(answer))
    of_each = (sentence.replace("Claims about", "In each group, claims about") for sentence in said)
    return tuple(dict.fromkeys(of_each))


def _said(release: Selected, kinds: Sequence[Kind], mark: Callable[[str], str]) -> tuple[str, ...]:
    """The sentences of these kinds, marked; one that cannot be made costs no other."""
    found: tuple[str, ...] = ()
    for make in kinds:
        part = make.__name__.strip("_")
        found += attempted(part, lambda: tuple(map(mark, make(release))), ())  # noqa: B023
    return found


def is_mostly_noise(release: Release) -> bool:
    """Whether nothing is sure of who was selected and in which order, and values are lost too."""
    return attempted("shade of noise", partial(_is_noise, release), False)


def _is_noise(release: Release) -> bool:
    if not isinstance(release, Measured) or _little not in _kinds(release):
        return False
    return _half_are_near_zero(release)


def _kinds(release: Selected) -> tuple[Kind, ...]:
    """The kinds of sentences that are said of it, in order."""
    if not release.indices.size:
        return (_doubts, _nothing)
    if not isinstance(release, Measured):
        return (_members,)
    sure = _sure(release)
    is_unsure = _half_are_near_zero(release) if sure is None else not sure.any()
    if is_unsure and len(release.groups()) == 1:
        return (_doubts, _little, _outside)
    return (_doubts, _members, _order, _without_value, _outside)


def _doubts(release: Selected) -> Iterator[str]:
    """Why all that is shown may be near 0, where it is."""
    if not isinstance(release, TableRelease):
        return
    if not release.indices.size or _half_are_near_zero(release):
        yield from release.question.doubts()


def _confidence(release: Selected) -> Iterator[str]:
    """How far claims can be trusted, if anything is said to be sure."""
    sure, is_ordered = _sure(release), isinstance(release, Measured) and len(release.groups()) > 1
    belongs = sure is not None and bool(sure.any()) and not release.nobody_lost
    if not is_ordered and not belongs:
        return
    what, more = "order and size", ""
    if sure is not None:
        more = f"; so are claims about {what}" if isinstance(release, Measured) else ""
        what = "who belongs"
    yield f"Claims about {what} are all correct with 95 % confidence{more}."


def _dropped_coin(release: Selected) -> Iterator[str]:
    error = release.measuring_error if isinstance(release, Measured) else None
    if isinstance(error, HistogramError) and error.whole_coin is None:
        yield (
            "This was made before version 0.2.1. Its document held a number that told more than ε "
            "allows. That number is left out here, so intervals near the threshold are longer than "
            "they were."
        )


def _meaning_of_p(release: Selected) -> Iterator[str]:
    if release.p_values is not None and not release.nobody_lost:
        yield "p: how often luck alone would put an outsider this far ahead."


def _nothing(release: Selected) -> Iterator[str]:
    above = "" if release.line is None else f" above {separated(release.line)}"
    yield f"Nothing was found{above}."


def _little(release: Measured) -> Iterator[str]:
    """That nothing is sure."""
    count = release.indices.size
    said = [] if _sure(release) is None else [_unsure(release)]
    if count > 1:
        said.append("their order is not sure")
    if _half_are_near_zero(release):
        close = int(_near_zero(release).sum())
        whole = f"{in_words(close)} of the {in_words(count)} values"
        if close == count:
            whole = {1: "its value", 2: "both values"}.get(count, f"all {in_words(count)} values")
        before = f"{', '.join(said)}, and " if said else ""
        yield f"This is mostly noise: {before}{whole} may be 0."
    else:
        yield f"Little is sure here: {', and '.join(said)}."
    yield "Ask with more ε, or for fewer items."
    if isinstance(release, TableRelease) and _near_zero(release).all():
        yield from release.question.doubts_of_names()


def _members(release: Selected) -> Iterator[str]:
    """Who belongs."""
    sure, count, line = _sure(release), release.indices.size, release.line
    if sure is None:
        near = _may_be_luck(release)
        if near.any():
            yield f"{_capital(_ranks_where(release, near))} may be here by luck."
        return
    if release.nobody_lost:
        yield "Everything was selected, so all of it belongs."
        return
    belongs = _belonging(release)
    if sure.all():
        p_value = _with_p(release) if _sure_by_leads(release).all() else ""
        whole = "Both" if count == 2 else f"All {in_words(count)}"
        verb = "belong" if line is None else "are truly"
        yield f"{'It is truly' if count == 1 else f'{whole} {verb}'} {belongs}{p_value}."
        return
    if not sure.any():
        p_value = _with_p(release) if release.is_proved_as_a_set else ""
        yield f"{_capital(_unsure(release))}{p_value}."
        return
    many = int(sure.sum())
    verb = f"surely belong{'s' if many == 1 else ''}"
    if line is not None:
        verb = "is surely" if many == 1 else "are surely"
    ranks = _ranks_where(release, sure)
    some = f"{_capital(in_words(many))} of the {in_words(count)} {verb} {belongs}"
    yield f"{some}: {ranks}." if ranks else f"{some}."
    if ranks and line is not None:
        are = "is" if many == count - 1 else "are"
        yield f"It is not sure that {_ranks_where(release, ~sure)} {are} {belongs}."


def _may_be_luck(release: Selected) -> Bools:
    """Who may have been read off a histogram by luck: whose interval has no lower end."""
    if not isinstance(release, Measured) or not isinstance(release.measuring_error, HistogramError):
        return np.zeros(release.indices.size, dtype=bool)
    near: Bools = np.isneginf(release.ends_of_all()[:, 0])
    return near


def _unsure(release: Selected) -> str:
    """That nobody is sure to belong."""
    count = release.indices.size
    if release.line is None and release.is_proved_as_a_set and count > 1:
        return f"it is not sure that these are the top {in_words(count)}"
    some = {1: "it", 2: "either of the two"}.get(count, f"any of the {in_words(count)}")
    return f"it is not sure that {some} is {_belonging(release)}"


def _belonging(release: Selected) -> str:
    """Where the selected items belong, if they do."""
    count = release.indices.size
    top = f"among the top {in_words(count)}" if count > 1 else "the largest"
    if release.line is None:
        return top
    above = f"above {separated(release.line)}"
    return f"{above} and {top}" if isinstance(release, HybridRelease) else above


def _with_p(release: Selected) -> str:
    """The p-value of the weakest, which for a top k is that of all."""
    p_values = release.p_values
    if p_values is None:
        return ""
    words = p_text(float(p_values.max()))
    several = release.line is not None and p_values.size > 1
    if words.startswith("<"):
        return f" ({'each with ' if several else ''}p {words})"
    return f" (p = {words}{' for the least sure of them' if several else ''})"


def _sure(release: Selected) -> Bools | None:
    """Which surely belong; None where that cannot be said of any."""
    by_leads = None if release.p_values is None else _sure_by_leads(release)
    if not _is_measured_against_a_line(release):
        return by_leads
    ends = release.ends_of_all(0.95 if by_leads is None else _EACH_OF_TWO)
    measured: Bools = ends[:, 0] > float(release.line or 0)
    return measured if by_leads is None else by_leads | measured


def _is_measured_against_a_line(release: Selected) -> TypeGuard[Measured]:
    measured = isinstance(release, Measured) and release.measuring_error is not None
    return measured and release.line is not None


def _sure_by_leads(release: Selected) -> Bools:
    """Whose leads prove it, with what confidence is left where measurements may prove it too."""
    return release.belong(_EACH_OF_TWO if _is_measured_against_a_line(release) else 0.95)


def _order(release: Measured) -> Iterator[str]:
    """Which are larger than which."""
    count, groups = release.indices.size, release.groups()
    if count == 1:
        return
    if release.measuring_error is None:
        yield "Their order is not known: the document does not hold what that needs."
        return
    if len(groups) == count:
        every = "both" if count == 2 else f"all {in_words(count)}"
        shown = f"Among the {in_words(count)} shown, the order is sure."
        sure = ~_may_be_luck(release) if (proved := _sure(release)) is None else proved
        all_are_sure = release.nobody_lost or sure.all()
        yield f"The order of {every} is sure." if all_are_sure else shown
        return
    alone = next(place for place, group in enumerate(groups) if len(group) > 1)
    if alone == 1:
        yield "Rank 1 is surely the largest of them."
    elif alone:
        yield f"The order of the first {in_words(alone)} is sure."
    close = [group for group in groups if len(group) > 1]
    *first, last = (ranks_in_words(group) for group in close)
    names = f"{', '.join(first)}, and {last}" if first else last
    is_together = not first and not release.tells_apart(np.array(close[0]))
    of = "of" if is_together else "of neighbours in"
    yield f"The order {of} {names} is not sure{_advice(release, close)}."


def _advice(release: Measured, groups: Sequence[Sequence[int]]) -> str:
    """Which ε would separate most neighbours, if the estimates are right."""
    estimates = release.estimates[release.order]
    ranks = np.array([rank for group in groups for rank in group[:-1]])
    apart = np.sort(estimates[ranks - 1] - estimates[ranks])[::-1].tolist()
    rounding = 2 * release.rounding
    wanted = apart[len(apart) // 2] - rounding
    width = release.half_width_of_pairs() - rounding
    if wanted * _MOST_EPSILON < width or wanted <= 0:
        return f"; even {in_words(_MOST_EPSILON)} times this ε may not be enough"
    if width <= wanted:  # what keeps them together is luck, which no width tells of
        return ""
    enough = _rounded_up(float(release.epsilon) * width / wanted)
    them = "them" if len(apart) == 1 else "most of them"
    return f"; about ε = {enough} would separate {them}, if these estimates are right"


def _rounded_up(value: float) -> str:
    """Two digits of a number, or a little more than it.

    >>> _rounded_up(2.21), _rounded_up(0.1), _rounded_up(130.0)
    ('2.3', '0.1', '130')
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return approximately(math.ceil(Fraction(value) / unit - Fraction(1, 10**6)) * unit, 6)


def _without_value(release: Measured) -> Iterator[str]:
    close = _near_zero(release)
    if release.line is None and release.measuring_error is not None and close.any():
        values = "value" if close.sum() == 1 else "values"
        yield f"The true {values} of {_ranks_where(release, close)} may be 0."


def _near_zero(release: Measured) -> Bools:
    """Values whose interval includes 0, ignoring selection."""
    low, high = release.ends_of_all().T
    error = release.measuring_error
    if isinstance(error, HistogramError):
        half = error.half_width(0.95 ** (1 / low.size))
        low = np.where(np.isneginf(low), release.measurements - half, low)
    close: Bools = (low <= 0) & (high >= 0)
    return close


def _half_are_near_zero(release: Measured) -> bool:
    known = release.measuring_error is not None
    return known and 2 * int(_near_zero(release).sum()) >= release.indices.size


def _outside(release: Measured) -> Iterator[str]:
    low, high = release.interval().T
    outside = (release.estimates < low) | (release.estimates > high)
    if not outside.any():
        return
    whose, alone = _ranks_where(release, outside), int(outside.sum()) == 1
    yield (
        f"The estimate of {whose} is outside its interval: the interval uses the measurement "
        "alone, and the estimate also uses the leads."
        if alone
        else f"The estimates of {whose} are outside their intervals: intervals use the "
        "measurement alone, and estimates also use the leads."
    )


def why_no_p_values(release: Selected) -> Iterator[str]:
    """Why there are none, if there are none and the reason is known."""
    if release.p_values is not None:
        return
    if isinstance(release, Measured) and release.route == HISTOGRAM:
        why = "all items are shown, so none of them had to win."
        if any(isinstance(each, HistogramError) for each in release.errors):
            why = (
                "every item got noise, and the largest noisy values are shown. The intervals allow "
                "for that. They say nothing about items that are not shown."
            )
        yield f"There are no p-values: {why}"
    for used in release.mechanisms:
        noise = dict(used.parameters).get("noise")
        if noise in ("laplace", "staircase"):
            called = "Laplace" if noise == "laplace" else "staircase"
            why = f"{called} noise can be negative, so a lead does not prove who belongs."
            yield f"There are no p-values: {why}"
            return


_GENERAL: tuple[Kind, ...] = (_confidence, why_no_p_values, _dropped_coin, _meaning_of_p)


def _ranks_where(release: Selected, chosen: Bools) -> str:
    """The ranks of some answers; nothing where answers have none."""
    if isinstance(release, Measured):
        chosen = chosen[release.order]
    elif not isinstance(release, TopKRelease):
        return ""
    return ranks_in_words((np.flatnonzero(chosen) + 1).tolist())


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
