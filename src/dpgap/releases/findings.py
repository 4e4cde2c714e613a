"""Findings: what may be believed of a release, in plain sentences, the most important first.

They are computed from the release alone, so a document that is read again says the same. There are
three kinds of claims: which items belong, which are larger than which, and which are above 0 or
above the threshold. All claims of one kind hold at once with 95 % confidence. Advice about ε
assumes that widths shrink as ε grows.

Two things can prove that an item is above a threshold: its lead, and the measurement after it. Each
proof may be wrong in 2.5 % of releases, so both together are wrong in at most 5 %.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from dpgap.estimates.errors import HistogramError
from dpgap.exact.parameters import approximately, few_digits
from dpgap.exact.reals import Flags
from dpgap.printable import column_name, visible
from dpgap.question import HISTOGRAM, Question
from dpgap.releases.plain import attempted, in_words, ranks_in_words, separated
from dpgap.releases.release import (
    HEADINGS,
    Items,
    MeasuredItems,
    MeasuredValues,
    Release,
    ReleasesByGroup,
    measured_in,
    p_text,
)


def is_private(release: Release) -> bool:
    """Whether its guarantee holds: items were stated, not read from the table."""
    return release.question is None or release.question.is_private


# --------------------------------------------------------------------------------------------------
# Sentences about the limits of a question (the most items, groups or amounts of a unit).
#
# Intervals allow for noise. They do not allow for these limits, because they cannot know how much
# was cut off. So the first finding says what was counted and in which direction the numbers may be
# wrong, and every claim says that it holds with this limit.


_CLAIM = re.compile(r"\b(sure|surely|belongs)\b")


def cut_in_words(release: Release) -> tuple[str, ...]:
    """Sentences about limits, and about how a filter reads text, if there are any."""
    return attempted("cutting", (), lambda: tuple(_cut(release)))


def _cut(release: Release) -> Iterator[str]:
    question = release.question
    if question is None:
        return
    limits = question.limits()
    if limits:
        off = "counts may be too low"
        if question.sum is not None:
            off = f"{'the total' if question.is_of_all else 'totals'} may be too low"
            off += " or too high" if question.at_least else " (too high, if amounts are negative)"
        yield f"Each {column_name(question.unit)} {', and '.join(limits)}, so {off}."
    yield from attempted("dates", (), lambda: tuple(question.forms_of_values()))


# --------------------------------------------------------------------------------------------------


_EACH_OF_TWO = 0.975
"""The confidence of each of two proofs, if the claim must hold with 95 %."""
_MOST_EPSILON = 10
"""The largest advice: at most this many times the ε that was spent."""


class Facts(NamedTuple):
    """Facts that several sentences about a release need; computed once."""

    sure: Flags | None
    """Which surely belong, by leads or measurements; None where nothing can prove it."""
    by_luck: Flags
    """Which a histogram may show by luck: their intervals have no lower end."""
    near_zero: Flags
    """Which have an interval that includes 0, ignoring selection."""
    groups: tuple[tuple[int, ...], ...]
    are_near_zero: bool
    """Whether at least half of the values are near zero; true if there are no values."""
    are_unsure: bool
    """Whether nothing is sure: neither who belongs nor any order."""


Kind = Callable[[Any, Facts], Iterable[str]]


def _facts(release: Items) -> Facts:
    error = release._measuring_error
    nobody = np.zeros(len(release), dtype=bool)
    groups = release._rank_groups()
    level = 0.95 if error is None or release._line is None else _EACH_OF_TWO
    by_leads = None if release.p_values is None else release._belong(level)
    sure = by_leads
    by_luck = near_zero = nobody
    if isinstance(release, MeasuredItems) and error is not None:
        if release._line is not None:
            lows = release._ends_of_all(0.95 if by_leads is None else _EACH_OF_TWO)[:, 0]
            sure = (lows > float(release._line)) | (nobody if by_leads is None else by_leads)
        low, high = release._ends_of_all().T
        if isinstance(error, HistogramError) and low.size:
            by_luck = np.isneginf(low)
            half = error.half_width(0.95 ** (1 / low.size))
            low = np.where(by_luck, release.measurements - half, low)
        near_zero = (low <= 0) & (high >= 0)
    are_near_zero = 2 * int(near_zero.sum()) >= near_zero.size
    is_nobody_sure = are_near_zero if sure is None else not sure.any()
    are_unsure = is_nobody_sure and len(groups) == 1
    return Facts(sure, by_luck, near_zero, groups, are_near_zero, are_unsure)


def findings(release: Release) -> tuple[str, ...]:
    """The sentences about this release; none for measured arrays."""
    return (*answer_findings(release), *general_findings(release))


def answer_findings(release: Release) -> tuple[str, ...]:
    """All sentences but those about confidence.

    Limits come first, because claims hold with them. Above a threshold, what was found is first.
    """
    limits = cut_in_words(release)
    sentences = own_findings(release)
    question = release.question
    if release._is_measured and question is not None and question.kind == "above":
        return (*sentences[:1], *limits, *sentences[1:])
    return (*limits, *sentences)


@singledispatch
def own_findings(release: Release) -> tuple[str, ...]:
    """The sentences about this release alone."""
    return ()


@own_findings.register
def _(release: MeasuredValues) -> tuple[str, ...]:
    return () if release.question is None else tuple(_total(release, release.question))


@own_findings.register
def _(release: ReleasesByGroup) -> tuple[str, ...]:
    return tuple(
        f"{visible(group)}: {' '.join(own_findings(answer))}" for group, answer in release.items()
    )


@own_findings.register
def _(release: Items) -> tuple[str, ...]:
    facts = attempted("findings", None, _facts, release)
    if facts is None:
        return ()
    sentences = _said(release, facts, _kinds(release, facts))
    question = release.question
    if question is None or not attempted("cutting", [], question.limits):
        return sentences
    return tuple(map(_with_limit, sentences))


def _with_limit(sentence: str) -> str:
    """The sentence; a claim says that it holds with this limit."""
    if not _CLAIM.search(sentence):
        return sentence
    return f"With this limit, {sentence[0].lower()}{sentence[1:]}"


def _kinds(release: Items, facts: Facts) -> Sequence[Kind]:
    """The kinds of sentences about this release alone, in their order."""
    is_measured = release._is_measured and len(release) > 0
    result: Kind = _little if is_measured and facts.are_unsure else _members
    first = (_doubts, result) if release._line is None else (result, _unasked, _doubts)
    if not is_measured:
        return first
    if facts.are_unsure:
        return (*first, _more, _names, _outside)
    return (*first, _order, _without_value, _names, _outside)


def _total(release: MeasuredValues, question: Question) -> Iterator[str]:
    """The interval of a count or a total; and reasons why it may be near 0, if it is."""
    low, high = release.interval().tolist()
    rows = "" if question.where is None else " of the rows that the filter keeps"
    cells = release._cells()
    ends = " to ".join(dict.fromkeys(cells[HEADINGS["low"]] + cells[HEADINGS["high"]]))
    the = "With this limit, the" if question.limits() else "The"
    claim = f"{the} {measured_in(question)}{rows} is {ends} (95 % confidence)."
    if low <= 0 <= high:
        yield from question.doubts()
        yield claim
        yield from question.doubts_of_names()
        return
    yield claim
    if question.table is not None:  # amounts of a frame may be numbers in any case
        yield from question.doubts()


def general_findings(release: Release) -> tuple[str, ...]:
    """Sentences about confidence; they are the same for releases that were made in the same way.

    A release by group says each sentence once.
    """
    question = release.question
    misread = () if question is None else tuple(question.misread())
    return (*_general_sentences(release), *misread)


@singledispatch
def _general_sentences(release: Release) -> tuple[str, ...]:
    return ()


@_general_sentences.register
def _(release: Items) -> tuple[str, ...]:
    facts = attempted("findings", None, _facts, release)
    return _said(release, facts, (_general,)) if facts and len(release) else ()


@_general_sentences.register
def _(release: ReleasesByGroup) -> tuple[str, ...]:
    sentences = []
    for answer in release.values():
        for sentence in _general_sentences(answer):
            sentences.append(sentence.replace("Claims about", "In each group, claims about"))
    return tuple(dict.fromkeys(sentences))


def _said(release: Items, facts: Facts, kinds: Sequence[Kind]) -> tuple[str, ...]:
    """The sentences of these kinds. If one kind fails, the others are still made."""
    found: tuple[str, ...] = ()
    for make in kinds:
        part = make.__name__.strip("_")
        found += attempted(part, (), lambda: tuple(make(release, facts)))  # noqa: B023
    return found


def is_mostly_noise(release: Release) -> bool:
    """Whether no winner and no order is sure, and at least half of the values may be 0."""
    if not isinstance(release, MeasuredItems) or not len(release):
        return False
    facts = attempted("shade of noise", None, _facts, release)
    return facts is not None and facts.are_unsure and facts.are_near_zero


def _doubts(release: Items, facts: Facts) -> Iterator[str]:
    """Reasons why the values may be near 0, if they are."""
    if release.question is not None and facts.are_near_zero:
        yield from release.question.doubts()


def _general(release: Items, facts: Facts) -> Iterator[str]:
    """How far claims can be trusted, if there are any; and what p means."""
    belongs = facts.sure is not None and bool(facts.sure.any()) and not release._nobody_lost
    if belongs or len(facts.groups) > 1:
        what, more = "order and size", ""
        if facts.sure is not None:
            more = f"; so are claims about {what}" if release._is_measured else ""
            what = "who belongs"
        yield f"Claims about {what} are all correct with 95 % confidence{more}."
    yield from why_no_p_values(release)
    if _p_value(release, facts):
        yield "p: how often luck alone would put an outsider this far ahead."


def _little(release: MeasuredItems, facts: Facts) -> Iterator[str]:
    """Sentences for a release in which nothing is sure."""
    count = release.indices.size
    said = [] if facts.sure is None else [_unsure(release)]
    if count > 1:
        said.append("their order is not sure")
    if facts.are_near_zero:
        close = int(facts.near_zero.sum())
        whole = f"{in_words(close)} of the {in_words(count)} values"
        if close == count:
            whole = {1: "its value", 2: "both values"}.get(count, f"all {in_words(count)} values")
        before = f"{', '.join(said)}, and " if said else ""
        yield f"This is mostly noise: {before}{whole} may be 0."
    else:
        clauses = ", and ".join(said)
        yield f"{clauses.capitalize()}." if count == 1 else f"Little is sure here: {clauses}."


def _more(release: MeasuredItems, facts: Facts) -> Iterator[str]:
    """What to do if nothing is sure."""
    yield "Ask with more ε, or for fewer items."


def _names(release: Items, facts: Facts) -> Iterator[str]:
    """Reasons why values may be near 0 though the true ones are not, if some are."""
    if release.question is not None and facts.near_zero.any():
        yield from release.question.doubts_of_names(of_all=bool(facts.near_zero.all()))


def _members(release: Items, facts: Facts) -> Iterator[str]:
    """Sentences about who belongs."""
    sure, count = facts.sure, release.indices.size
    if not count:
        above = "" if release._line is None else f" {_above(release)}"
        yield f"Nothing was found{above}."
        return
    if sure is None:
        if facts.by_luck.any():
            yield f"{_ranks_where(release, facts.by_luck).capitalize()} may be here by luck."
        return
    if release._nobody_lost:
        yield "Everything was selected, so all of it belongs."
        return
    belongs = _belonging(release)
    if sure.all():
        whole = {1: "It is", 2: "Both are"}.get(count, f"All {in_words(count)} are")
        yield f"{whole} surely {belongs}{_p_value(release, facts)}."
        return
    if not sure.any():
        yield f"{_unsure(release).capitalize()}{_p_value(release, facts)}."
        return
    many = int(sure.sum())
    ranks, are = _ranks_where(release, sure), "is" if many == 1 else "are"
    some = f"{in_words(many).capitalize()} of the {in_words(count)} {are} surely {belongs}"
    yield f"{some}: {ranks}." if ranks else f"{some}."
    if ranks and release._line is not None:
        are = "is" if many == count - 1 else "are"
        yield f"It is not sure that {_ranks_where(release, ~sure)} {are} {belongs}."


def _unsure(release: Items) -> str:
    """A clause that says that nobody is sure to belong."""
    count = release.indices.size
    if release._line is None and release._is_proved_as_a_set and count > 1:
        return f"it is not sure that these are the top {in_words(count)}"
    some = {1: "it", 2: "either of the two"}.get(count, f"any of the {in_words(count)}")
    return f"it is not sure that {some} is {_belonging(release)}"


def _belonging(release: Items) -> str:
    """Where the selected items belong, if they do."""
    count = release.indices.size
    top = f"among the top {in_words(count)}" if count > 1 else "the largest"
    if release._line is None:
        return top
    above = _above(release)
    return f"{above} and {top}" if release._is_ranked_above else above


def _above(release: Items) -> str:
    """The threshold in words."""
    if release.detail.thresholds is not None:
        return "above the threshold stated with the question"
    return f"above {separated(release._line or Fraction())}"


def _p_value(release: Items, facts: Facts) -> str:
    """The p-value of a whole top k, in parentheses; empty if the sentence is not about all of it.

    Above a threshold there are two proofs, and p is of one of them: only words are right there.
    """
    sure = facts.sure
    p_value = release.set_p_value
    if p_value is None or sure is None or release._nobody_lost:
        return ""
    is_unsure_set = release._is_proved_as_a_set and not facts.are_unsure
    if not (sure.all() or (is_unsure_set and not sure.any())):
        return ""
    text = p_text(p_value)
    return f" (p {text})" if text.startswith("<") else f" (p = {text})"


def _unasked(release: Items, facts: Facts) -> Iterator[str]:
    """That items which were not asked may be above the threshold, if there are any."""
    question = release.question
    if question is None or release.detail.route is not None:
        return
    if len(release) in (0, question.items) or release.detail.processed == question.items:
        return
    yield (
        "Items were asked in a random order while the budget lasted. Others, even larger ones, "
        f"may be above {separated(release._line or Fraction())}, too."
    )


def _order(release: MeasuredItems, facts: Facts) -> Iterator[str]:
    """Sentences about which values are larger than others."""
    count, groups = release.indices.size, facts.groups
    if count == 1:
        return
    if release._measuring_error is None:
        yield "Their order is unknown: the document lacks the error of the measurements."
        return
    if len(groups) == count:
        every = "both" if count == 2 else f"all {in_words(count)}"
        sure = ~facts.by_luck if facts.sure is None else facts.sure
        is_of_all = release._nobody_lost or sure.all()
        shown = f"Among the {in_words(count)} shown, the order is sure."
        yield f"The order of {every} is sure." if is_of_all else shown
        return
    alone = next(place for place, group in enumerate(groups) if len(group) > 1)
    if alone == 1:
        yield "Rank 1 is surely the largest of them."
    elif alone:
        yield f"The order of the first {in_words(alone)} is sure."
    close = [group for group in groups if len(group) > 1]
    ranks = " and within ".join(map(ranks_in_words, close))
    yield f"The order within {ranks} is not sure{_advice(release, close)}."


def _advice(release: MeasuredItems, groups: Sequence[Sequence[int]]) -> str:
    """Which ε would separate most neighbours, if the estimates are right."""
    estimates = release.estimates[release._order]
    ranks = np.array([rank for group in groups for rank in group[:-1]])
    apart = np.sort(estimates[ranks - 1] - estimates[ranks])[::-1].tolist()
    rounding = 2 * release._rounding
    wanted = apart[len(apart) // 2] - rounding
    width = release._half_width_of_pairs() - rounding
    if wanted * _MOST_EPSILON < width or wanted <= 0:
        return f"; even {in_words(_MOST_EPSILON)} times this ε may not be enough"
    if width <= wanted:  # luck hides the order, and more ε promises nothing
        return ""
    two_digits = few_digits(release.detail.promise.cost.epsilon_times(Fraction(width / wanted)), 2)
    enough = approximately(Fraction(two_digits), 6)
    them = "them" if len(apart) == 1 else "most of them"
    return f"; about ε = {enough} would separate {them}, if these estimates are right"


def _without_value(release: MeasuredItems, facts: Facts) -> Iterator[str]:
    close = facts.near_zero
    if release._line is None and close.any():
        values = "value" if close.sum() == 1 else "values"
        yield f"The true {values} of {_ranks_where(release, close)} may be 0."


def _outside(release: MeasuredItems, facts: Facts) -> Iterator[str]:
    low, high = release.interval().T
    outside = (release.estimates < low) | (release.estimates > high)
    if not outside.any():
        return
    yield (
        f"Estimates outside their intervals: {_ranks_where(release, outside)}. An interval uses "
        "the measurement alone, and an estimate also uses the leads."
    )


def why_no_p_values(release: Items) -> Iterator[str]:
    """The reason why a release has no p-values, if it has none and the reason is known."""
    if release.p_values is not None:
        return
    noises, why = {dict(used.parameters).get("noise") for used in release.detail.mechanisms}, ""
    if noises & {"laplace", "staircase"}:
        why = "Laplace and staircase noise can be negative, so a lead does not prove who belongs."
    elif release.detail.route == HISTOGRAM:
        why = "all items are shown, so none of them had to win."
        if any(isinstance(each, HistogramError) for each in release.detail.errors):
            why = (
                "every item got noise, and the largest noisy values are shown. The intervals allow "
                "for that. They say nothing about items that are not shown."
            )
    if why:
        yield f"There are no p-values: {why}"


def _ranks_where(release: Items, chosen: Flags) -> str:
    """The ranks of the chosen answers in words; empty if answers have no ranks."""
    flags = release._by_rank(chosen)
    if flags is None:
        return ""
    return ranks_in_words((np.flatnonzero(flags) + 1).tolist())
