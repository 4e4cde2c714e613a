"""What a release is called, as a person would say it: "The 10 products with the most customers"."""

import re

from dpgap.releases.numbers import separated
from dpgap.releases.printable import printable
from dpgap.releases.questions import Origin, Question
from dpgap.releases.results import (
    AboveRelease,
    HybridRelease,
    IndexRelease,
    JointRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    Release,
    TopKRelease,
)
from dpgap.releases.words import attempted

_OF_ARRAYS: dict[type[Release], str] = {
    IndexRelease: "Selected answers",
    TopKRelease: "The largest answers",
    MaxRelease: "The largest answer",
    HybridRelease: "The largest answers above a line",
    AboveRelease: "Answers above a threshold",
    JointRelease: "The set of the largest answers",
    MeasuredValues: "Measured values",
    Measured: "Selected answers with estimates",
}
_LONGEST = 60
_WORDS = re.compile(r"[^\W\d_]+([ -][^\W\d_]+)*")
_ENDING = re.compile(r"[ _](id|name|key|code|no)$", re.IGNORECASE)


def question_of(release: Release) -> Question | None:
    """What was asked of a table; None where it was an array."""
    asked: Question | None = getattr(release, "question", None)
    return asked


def title_of(release: Release) -> str:
    """The title, as plain text in which no name can do harm."""
    question = question_of(release)
    if question is None:
        return _OF_ARRAYS[type(release)]
    return attempted("title", lambda: _of_question(question), "A release")


def _of_question(question: Question) -> str:
    origin = question.origin
    if question.kind == "count":
        return f"How many {plural(origin.unit)} there are{_where(origin)}"
    most = f"the most {units_of(question)}"
    if origin.sum is not None:
        most = f"the largest total {singular(origin.sum)}"
    if question.threshold is not None:
        items = plural(origin.item)
        more = f"more than {line_text(question)} {units_of(question)}"
        if origin.sum is not None:
            more = f"a total {singular(origin.sum)} above {line_text(question)}"
        title = f"{items[0].upper()}{items[1:]} with {more}"
    elif question.k == 1:
        title = f"The {singular(origin.item)} with {most}"
    else:
        title = f"The {question.k:,} {plural(origin.item)} with {most}"
    if question.group is not None:
        return f"{title}{_where(origin)}: {printable(str(question.group))}"
    by = "" if origin.by is None else f", by {singular(origin.by)}"
    return f"{title}{by}{_where(origin)}"


def _where(origin: Origin) -> str:
    """Which rows counted, if not all did; a long filter is shown below the title only."""
    if origin.where is None:
        return ""
    filtered = printable(origin.where)
    return f", where {filtered}" if len(filtered) <= _LONGEST else ", in a part of the table"


def units_of(question: Question) -> str:
    """What values count."""
    column = question.origin.sum
    return plural(question.origin.unit) if column is None else singular(column)


def measure_of(question: Question) -> str:
    """What items are compared by, in words."""
    if question.origin.sum is not None:
        return f"by the total {singular(question.origin.sum)} of each"
    return f"by how many different {plural(question.origin.unit)} each has"


def line_text(question: Question) -> str:
    """The threshold for people; nothing where there is none."""
    return "" if question.threshold is None else separated(question.threshold)


def singular(column: str) -> str:
    """What one value of a column is called.

    >>> singular("user_id"), singular("q7")
    ('user', 'value of “q7”')
    """
    words = _ENDING.sub("", column).replace("_", " ")
    return words if _WORDS.fullmatch(words) else f"value of “{printable(column)}”"


def plural(column: str) -> str:
    """What several values of a column are called.

    >>> [plural(name) for name in ("product", "user_id", "country", "URL", "visits", "q7")]
    ['products', 'users', 'countries', 'URLs', 'visits', 'values of “q7”']
    """
    one = singular(column)
    if one.startswith("value of “"):
        return one.replace("value", "values", 1)
    if re.search("person$", one):
        return one.removesuffix("person") + "people"
    if re.search("([^aeiou]y)$", one):
        return one.removesuffix("y") + "ies"
    if re.search("(ss|us|x|z|ch|sh)$", one):
        return one + "es"
    return one + "s" if re.search("[A-Za-rt-z]$", one) else one
