"""What a release is called, as a person would say it: "The 10 products with the most customers"."""

import re

from dpgap.exact.parameters import readable
from dpgap.releases.printable import printable
from dpgap.releases.questions import Question, TableRelease
from dpgap.releases.results import (
    AboveRelease,
    IndexRelease,
    JointRelease,
    MaxRelease,
    Measured,
    MeasuredValues,
    Release,
    TopKRelease,
)

_OF_ARRAYS: dict[type[Release], str] = {
    IndexRelease: "Selected answers",
    TopKRelease: "The largest answers",
    MaxRelease: "The largest answer",
    AboveRelease: "Answers above a threshold",
    JointRelease: "The set of the largest answers",
    MeasuredValues: "Measured values",
    Measured: "Selected answers with estimates",
}
_WORDS = re.compile(r"[^\W\d_]+([ -][^\W\d_]+)*")
_ENDING = re.compile(r"[ _](id|name|key|code|no)$", re.IGNORECASE)


def title_of(release: Release) -> str:
    """The title, as plain text in which no name can do harm."""
    if isinstance(release, TableRelease):
        return _of_question(release.question)
    return _OF_ARRAYS[type(release)]


def _of_question(question: Question) -> str:
    units = plural(question.origin.unit)
    if question.threshold is not None:
        items = plural(question.origin.item)
        return f"{items[0].upper()}{items[1:]} with more than {line_text(question)} {units}"
    if question.k == 1:
        return f"The {singular(question.origin.item)} with the most {units}"
    return f"The {question.k:,} {plural(question.origin.item)} with the most {units}"


def line_text(question: Question) -> str:
    """The threshold for people; nothing where there is none."""
    line = question.threshold
    if line is None:
        return ""
    return f"{int(line):,}" if line.denominator == 1 else readable(line)


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
