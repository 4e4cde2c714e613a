"""What a question leaves out of its units, in words: the numbers are of what is left.

Noise is in the intervals, and cutting is not: no interval can tell how much was cut. So the first
finding says what the numbers are of and which way they may be off, and every claim says that it is
about what is left.
"""

import re
from collections.abc import Iterator

from dpgap.releases.numbers import in_words, separated
from dpgap.releases.questions import Question
from dpgap.releases.release import Release
from dpgap.releases.titles import plural, question_of, singular
from dpgap.releases.words import sentences

_CLAIM = re.compile(r"\b(sure|surely|truly|belongs?)\b")


def cut_in_words(release: Release) -> tuple[str, ...]:
    """One sentence where something is cut, and none where nothing is."""
    question = question_of(release)
    return () if question is None else sentences("cutting", lambda: _sentence(question))


def of_what_is_left(release: Release, sentence: str) -> str:
    """The same sentence, which says that it is about what cutting left if it claims something."""
    question = question_of(release)
    if question is None or not _CLAIM.search(sentence) or not [*_clauses(question)]:
        return sentence
    what = "counts" if question.origin.sum is None else "totals"
    return f"Of the {what} after cutting, {sentence[0].lower()}{sentence[1:]}"


def _sentence(question: Question) -> Iterator[str]:
    clauses, origin = [*_clauses(question)], question.origin
    if not clauses:
        return
    may_be = "counts may be larger"
    if origin.sum is not None:
        smaller = "or smaller" if origin.at_least else "or smaller where amounts are negative"
        may_be = f"totals may be larger{'' if origin.at_least else ','} {smaller}"
    yield f"Each {singular(origin.unit)} {', and '.join(clauses)}: true {may_be}."


def _clauses(question: Question) -> Iterator[str]:
    """What a unit may add at most, wherever it may have more."""
    origin, kept = question.origin, [*_kept(question)]
    if kept:
        yield f"counts {' and '.join(kept)}, drawn at random"
    if origin.sum is not None:
        least, most = separated(origin.at_least), separated(origin.at_most)
        item = singular(origin.item)
        yield f"adds at least {least} and at most {most} to each {item}, whatever its amounts are"


def _kept(question: Question) -> Iterator[str]:
    """In how many groups, and for how many items, a unit counts, if it may have more of them."""
    origin = question.origin
    if origin.has_one_item_each:
        return
    groups = 1
    if origin.by is not None:
        groups = min(origin.max_groups, origin.groups)
        if groups < origin.groups:
            yield _few("in", groups, singular(origin.by), plural(origin.by))
    most = origin.max_items
    if most is not None and (question.items is None or most < groups * question.items):
        one, several = singular(origin.item), plural(origin.item)
        if origin.by is not None:
            pair = f"of {singular(origin.by)} and {one}"
            one, several = f"pair {pair}", f"pairs {pair}"
        yield _few("for", most, one, several)


def _few(preposition: str, number: int, one: str, several: str) -> str:
    if number == 1:
        return f"{preposition} one {one} only"
    return f"{preposition} at most {in_words(number)} {several}"
