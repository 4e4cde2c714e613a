"""What may be believed of a release, in plain sentences, the most important first.

They follow from the release alone, so that a document that is read again says the same. All claims
of one kind hold at once with 95 % confidence: which items belong, which are larger than which, and
which are above 0 or above the line. Advice about ε uses that widths shrink as ε grows.

That an item is above a line can be proved in two ways: by its lead, and by what was measured
afterwards. Each way may be wrong in 2.5 % of releases, so that both together are in at most 5 %.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import TypeGuard

import numpy as np
from numpy.typing import NDArray

from dpgap.estimates.histogram import HistogramError
from dpgap.exact.draws import Integers
from dpgap.exact.parameters import approximately
from dpgap.releases.numbers import separated
from dpgap.releases.questions import TableRelease
from dpgap.releases.release import Selected, p_text
from dpgap.releases.results import HybridRelease, Measured, TopKRelease
from dpgap.releases.ways import HISTOGRAM

Bools = NDArray[np.bool_]

_WORDS = "none one two three four five six seven eight nine ten".split()
_MEANING = "p is how often noise alone would give a lead this long to an item that does not belong."
_ALL_AT_ONCE = "Claims about {} hold all at once with 95 % confidence"
_OF_VALUES = "; so do claims about order and size"
_EACH_OF_TWO = 0.975
"""The confidence of each of two ways to prove something that is to hold with 95 %."""
_WHY_NOT = (
    "There are no p-values: {} noise can be negative, so that a lead proves nothing about who "
    "belongs."
)
_WHY_NOT_READ_OFF = (
    "There are no p-values, because the largest of all noisy values were read off: what may be "
    "believed are the intervals, which allow for that, and nothing about items that are not shown."
)
_NOBODY_LOST = "There are no p-values, because all items are shown: none of them had to win."
_MOST_EPSILON = 10
"""No more than so many times the ε that was spent is ever advised."""


def findings(release: Selected) -> tuple[str, ...]:
    """The sentences about this release."""
    return (*own_findings(release), *general_findings(release))


def own_findings(release: Selected) -> tuple[str, ...]:
    """What is found of this release and of no other."""
    return (*_doubts(release), *_own(release))


def general_findings(release: Selected) -> tuple[str, ...]:
    """How far claims may be trusted; the same for releases that were made in the same way."""
    return tuple(_general(release)) if release.indices.size else ()


def is_mostly_noise(release: Selected) -> bool:
    """Whether nothing is sure of who was selected and in which order, and values are lost too."""
    if not isinstance(release, Measured) or not release.indices.size:
        return False
    return _nothing_is_sure(release) and _half_are_near_zero(release)


def _nothing_is_sure(release: Measured) -> bool:
    sure = _sure(release)
    if len(release.groups()) > 1:
        return False
    return _half_are_near_zero(release) if sure is None else not sure.any()


def _doubts(release: Selected) -> Iterable[str]:
    """Why all that is shown may be near 0, where it is."""
    if not isinstance(release, TableRelease):
        return ()
    is_near_zero = not release.indices.size or _half_are_near_zero(release)
    return release.question.doubts() if is_near_zero else ()


def _own(release: Selected) -> Iterator[str]:
    count = release.indices.size
    if not count:
        yield _nothing(release)
        return
    if isinstance(release, Measured) and _nothing_is_sure(release):
        yield _little(release)
        yield "Ask with more ε, or for fewer items."
    else:
        yield from _members(release)
        if isinstance(release, Measured):
            yield from _order(release)
            yield from _without_value(release)
    if isinstance(release, Measured):
        yield from _outside(release)


def _general(release: Selected) -> Iterator[str]:
    if _claims_something(release):
        yield _confidence(release)
    yield from why_no_p_values(release)
    if release.p_values is not None and not release.nobody_lost:
        yield _MEANING


def _claims_something(release: Selected) -> bool:
    """Whether anything is said to be sure."""
    sure = None if release.nobody_lost else _sure(release)
    ordered = isinstance(release, Measured) and len(release.groups()) > 1
    return ordered or (sure is not None and bool(sure.any()))


def _confidence(release: Selected) -> str:
    if _sure(release) is None:
        return f"{_ALL_AT_ONCE.format('order and size')}."
    values = _OF_VALUES if isinstance(release, Measured) else ""
    return f"{_ALL_AT_ONCE.format('who belongs')}{values}."


def _nothing(release: Selected) -> str:
    line = release.line
    return "Nothing was found." if line is None else f"Nothing was found above {separated(line)}."


def _little(release: Measured) -> str:
    """That nothing is sure."""
    count = release.indices.size
    said = [] if _sure(release) is None else [_unsure(release)]
    if count > 1:
        said.append("their order is not sure")
    if not _half_are_near_zero(release):
        return f"Little is sure here: {', and '.join(said)}."
    close = int(_near_zero(release).sum())
    whole = f"{_word(close)} of the {_word(count)} values cannot"
    if close == count:
        whole = "its value cannot" if count == 1 else _none_of(count, "values ")
    return f"This is mostly noise: {', '.join(said)}, and {whole} be told from 0."


def _members(release: Selected) -> Iterator[str]:
    """Who belongs."""
    sure, count, line = _sure(release), release.indices.size, release.line
    if sure is None:
        yield from _lucky(release)
        return
    if release.nobody_lost:
        yield "Everything there was to choose from was selected, so that all of it belongs."
        return
    belongs = f"among the top {_word(count)}" if line is None else f"above {separated(line)}"
    if isinstance(release, HybridRelease):
        belongs += f" and among the top {_word(count)}" if count > 1 else " and the largest"
    if sure.all():
        p_value = _with_p(release) if _sure_by_leads(release).all() else ""
        yield f"{_all_belong(count, belongs, line)}{p_value}."
        return
    if not sure.any():
        p_value = _with_p(release) if release.is_proved_as_a_set else ""
        yield f"{_capital(_unsure(release))}{p_value}."
        return
    many = int(sure.sum())
    verb = ("surely belong", "surely belongs") if line is None else ("are surely", "is surely")
    ranks = _ranks_where(release, sure)
    some = f"{_capital(_word(many))} of the {_word(count)} {verb[many == 1]} {belongs}"
    yield f"{some}: {ranks}." if ranks else f"{some}."
    if ranks and line is not None:
        others = _ranks_where(release, ~sure)
        yield f"{_capital(others)} cannot be told from {_what_is_below(release, line)}."


def _lucky(release: Selected) -> Iterator[str]:
    """Who may have been read off a histogram by luck: whose interval has no lower end."""
    if not isinstance(release, Measured):
        return
    near = _may_be_luck(release)
    if near.any():
        whose = "their place" if near.sum() > 1 else "its place"
        yield f"{_capital(_ranks_where(release, near))} may owe {whose} to luck."


def _may_be_luck(release: Measured) -> Bools:
    is_read_off = isinstance(release.measuring_error, HistogramError)
    near: Bools = np.isneginf(release.ends_of_all()[:, 0]) & is_read_off
    return near


def _unsure(release: Selected) -> str:
    """That nobody is sure to belong."""
    count, line = release.indices.size, release.line
    if line is not None:
        return f"{_none_of(count)} be told from {_what_is_below(release, line)}"
    if release.is_proved_as_a_set and count > 1:
        return f"it is not sure that these are the top {_word(count)}"
    return f"{_none_of(count)} be told from items that are not shown"


def _what_is_below(release: Selected, line: Fraction) -> str:
    more = " or from items that are not shown" if isinstance(release, HybridRelease) else ""
    return f"the line of {separated(line)}{more}"


def _all_belong(count: int, belongs: str, line: Fraction | None) -> str:
    if count == 1:
        return "It is truly the largest" if line is None else f"It is truly {belongs}"
    whole = "Both" if count == 2 else f"All {_word(count)}"
    return f"{whole} {'belong' if line is None else 'are truly'} {belongs}"


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
    has_leads = release.p_values is not None
    if not _is_measured_against_a_line(release):
        return _sure_by_leads(release) if has_leads else None
    if not has_leads:
        return _sure_by_measuring(release, 0.95)
    return _sure_by_leads(release) | _sure_by_measuring(release, _EACH_OF_TWO)


def _is_measured_against_a_line(release: Selected) -> TypeGuard[Measured]:
    measured = isinstance(release, Measured) and release.measuring_error is not None
    return measured and release.line is not None


def _sure_by_leads(release: Selected) -> Bools:
    """Whose leads prove it, with what confidence is left where measurements may prove it too."""
    return release.belong(_EACH_OF_TWO if _is_measured_against_a_line(release) else 0.95)


def _sure_by_measuring(release: Measured, level: float) -> Bools:
    """What was measured to be above the line, all of it at once."""
    above: Bools = release.ends_of_all(level)[:, 0] > float(release.line or 0)
    return above


def _order(release: Measured) -> Iterator[str]:
    """Which are larger than which."""
    count, groups = release.indices.size, release.groups()
    if count == 1:
        return
    if release.measuring_error is None:
        yield "Nothing is claimed about their order: what that takes was not kept."
        return
    if len(groups) == count:
        every = "both" if count == 2 else f"all {_word(count)}"
        shown = f"Among the {_word(count)} shown, the order is sure."
        yield f"The order of {every} is sure." if _all_are_sure(release) else shown
        return
    alone = next(place for place, group in enumerate(groups) if len(group) > 1)
    if alone == 1:
        yield "Rank 1 is surely the largest of them."
    elif alone:
        yield f"The order of the first {_word(alone)} is sure."
    close = [group for group in groups if len(group) > 1]
    *first, last = (_ranks(group) for group in close)
    names = f"{', '.join(first)}, and {last}" if first else last
    apart = "apart" if _is_together(release, close) else "from their neighbours"
    yield f"{_capital(names)} cannot be told {apart}{_advice(release, close)}."


def _all_are_sure(release: Measured) -> bool:
    """Whether nothing is said against any that it belongs."""
    sure = _sure(release)
    if sure is None:
        return not _may_be_luck(release).any()
    return release.nobody_lost or bool(sure.all())


def _is_together(release: Measured, groups: Sequence[Sequence[int]]) -> bool:
    """Whether no two of a group can be told apart, be they neighbours or not."""
    return len(groups) == 1 and not release.tells_apart(np.array(groups[0]))


def _advice(release: Measured, groups: Sequence[Sequence[int]]) -> str:
    """Which ε would separate most neighbours, if the estimates are right."""
    estimates = release.estimates[release.order]
    apart = sorted(
        (float(estimates[rank - 1] - estimates[rank]) for group in groups for rank in group[:-1]),
        reverse=True,
    )
    rounding = 2 * release.rounding
    wanted = apart[len(apart) // 2] - rounding
    width = release.half_width_of_pairs() - rounding
    if wanted * _MOST_EPSILON < width:
        return f"; even {_word(_MOST_EPSILON)} times this ε may not be enough"
    enough = _rounded_up(float(release.epsilon) * max(width / wanted, 1.0))
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
        yield f"{_capital(_ranks_where(release, close))} cannot be told from 0."


def _near_zero(release: Measured) -> Bools:
    """What noise alone may have made of 0. Luck in being read off is another matter."""
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
        f"The estimate of {whose} is outside its interval: the interval comes from the "
        "measurement alone, the estimate from the leads as well."
        if alone
        else f"The estimates of {whose} are outside their intervals: intervals come from the "
        "measurement alone, estimates from the leads as well."
    )


def why_no_p_values(release: Selected) -> Iterator[str]:
    """Why there are none, if there are none and the reason is known."""
    if release.p_values is not None:
        return
    if isinstance(release, Measured) and release.route == HISTOGRAM:
        are_all = not any(isinstance(each, HistogramError) for each in release.errors)
        yield _NOBODY_LOST if are_all else _WHY_NOT_READ_OFF
    for used in release.mechanisms:
        noise = dict(used.parameters).get("noise")
        if noise in ("laplace", "staircase"):
            yield _WHY_NOT.format("Laplace" if noise == "laplace" else "staircase")
            return


def _ranks_where(release: Selected, chosen: Bools) -> str:
    """The ranks of some answers; nothing where answers have none."""
    if isinstance(release, Measured):
        chosen = chosen[release.order]
    elif not isinstance(release, TopKRelease):
        return ""
    return _ranks((np.flatnonzero(chosen) + 1).tolist())


def _ranks(ranks: Sequence[int]) -> str:
    """Some ranks in words.

    >>> _ranks([3]), _ranks([1, 2, 5, 6, 7, 9])
    ('rank 3', 'ranks 1, 2, 5 to 7 and 9')
    """
    runs = np.split(np.array(ranks), np.flatnonzero(np.diff(ranks) > 1) + 1)
    return f"rank{'s' if len(ranks) > 1 else ''} {_joined([w for run in runs for w in _run(run)])}"


def _run(run: Integers) -> Iterable[str]:
    return map(str, run.tolist()) if run.size < 3 else [f"{run[0]} to {run[-1]}"]


def _joined(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _word(number: int) -> str:
    return _WORDS[number] if number < len(_WORDS) else f"{number:,}"


def _none_of(count: int, things: str = "") -> str:
    if count == 1:
        return "it cannot"
    none = "neither" if count == 2 else "none"
    return f"{none} of the {_word(count)} {things}can"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]
