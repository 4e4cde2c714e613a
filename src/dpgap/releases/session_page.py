"""Several releases about one table as one page: each answer, then one guarantee for all of them.

What is the same for all of them is said once: the guarantee, how to read numbers, how they were
made. What a question has of its own is said under its title.
"""

import html
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import partial
from itertools import chain

from dpgap.releases.findings import general_findings, why_no_p_values
from dpgap.releases.page import answer, how_to_read, made, reading_of, terms_and_mechanisms
from dpgap.releases.printable import printable
from dpgap.releases.questions import Question
from dpgap.releases.release import Release, Selected, few_digits_up
from dpgap.releases.standalone import contents, section, standalone, text
from dpgap.releases.titles import question_of, title_of
from dpgap.releases.words import sentences


def session_page(releases: Sequence[Release], words: str) -> str:
    """All releases as one document; `words` say what they came to."""
    titles = [html.escape(title_of(release)) for release in releases]
    names = [f"question-{place}" for place in range(1, len(releases) + 1)]
    said = (sentences("reading", partial(_reading, release)) for release in releases)
    reading = list(dict.fromkeys(chain.from_iterable(said)))
    parts = [
        f'<p class="lead">{text(words)}</p>',
        contents(titles, names, "questions"),
        *map(_answered, releases, titles, names),
        *sentences("guarantee", lambda: _guarantees(releases, titles)),
        *how_to_read(reading),
        *sentences("making", lambda: _making(releases, titles)),
    ]
    last = f"{html.escape(releases[-1].made.words())}." if releases else ""
    return standalone(html.escape(_title(releases)), "\n".join(filter(None, parts)), last)


def _title(releases: Sequence[Release]) -> str:
    asked = [question for release in releases if (question := question_of(release))]
    tables = {question.origin.table for question in asked}
    many = {0: "No question", 1: "1 question"}.get(len(releases), f"{len(releases):,} questions")
    table = tables.pop() if len(tables) == 1 else None
    return many if table is None else f"{many} about {printable(table)}"


def _answered(release: Release, title: str, name: str) -> str:
    made = sentences("answer", lambda: answer(release, 3, f"{name}-group", is_alone=False))
    content = "\n".join(made)
    return f'<div class="part">{section(title, content, 2, name)}</div>'


def _reading(release: Release) -> Iterator[str]:
    """How far claims may be trusted, which is said of each question; and how to read numbers."""
    if isinstance(release, Selected):
        said = [each for each in general_findings(release) if each not in why_no_p_values(release)]
        for sentence in said:
            yield text(sentence.replace("Claims about", "For each question, claims about"))
    yield from reading_of(release)


def _guarantees(releases: Sequence[Release], titles: Sequence[str]) -> Iterator[str]:
    """One for all of it, and under what conditions; those of one question have its title."""
    asked = [question for release in releases if (question := question_of(release))]
    exposed = [question for question in asked if not question.origin.is_private]
    if exposed:
        words = "".join(f"<p>{text(question.guarantee())}</p>" for question in exposed)
        yield f'<div class="warning">{section("Not private", words)}</div>'
    elif asked:
        said = [[text(printable(each)) for each in question.conditions()] for question in asked]
        common = [each for each in said[0] if all(each in own for own in said)]
        promise = text(f"All of this page together: {_promise(releases, asked)}")
        whole = f"<p>{' '.join([promise, *common])}</p>"
        own: dict[str, str] = {}
        for title, each in zip(titles, said, strict=True):
            rest = " ".join(sentence for sentence in each if sentence not in common)
            own[rest] = f"{own.get(rest, '')}<dt>{title}</dt>"
        parts = "".join(f"{whose}<dd>{rest}</dd>" for rest, whose in own.items() if rest)
        more = f'<dl class="of-each">{parts}</dl>' if parts else ""
        yield section("What is guaranteed", whole + more)


def _promise(releases: Sequence[Release], asked: Sequence[Question]) -> str:
    """What the ε of all questions come to. A release that is shown again counts once."""
    paid = {release.made.ledger or place: release for place, release in enumerate(releases)}
    epsilon = sum((getattr(each, "spent", each.epsilon) for each in paid.values()), Fraction(0))
    delta = sum((each.promise.delta for each in paid.values()), Fraction(0))
    chance = Fraction(few_digits_up(delta)) if delta else delta
    said = max(asked, key=lambda question: question.kind != "count")
    promise = said.promise_of(Fraction(few_digits_up(epsilon)), chance)
    return promise[0].lower() + promise[1:]


def _making(releases: Sequence[Release], titles: Sequence[str]) -> Iterator[str]:
    """What is the same for all releases, then what is not."""
    terms = [made(release) for release in releases]
    if not terms:
        return
    common = dict(item for item in terms[0].items() if all(item in own.items() for own in terms))
    parts = [terms_and_mechanisms(common, ())] if common else []
    for release, title, own in zip(releases, titles, terms, strict=True):
        rest = {name: term for name, term in own.items() if name not in common}
        parts.append(section(title, terms_and_mechanisms(rest, release.mechanisms), 3))
    yield section("How it was made", "\n".join(parts))
