"""The language of filters, which say which rows count: `country = 'CH' and amount >= 10`.

Text is read into a small tree of frozen values, and never passed on as text. The grammar:

    either     = both { "or" both }
    both       = single { "and" single }
    single     = "not" single | "(" either ")" | comparison
    comparison = subject sign literal
               | subject [ "not" ] "in" "(" literal { "," literal } ")"
               | subject [ "not" ] "between" literal "and" literal
               | column [ "not" ] "like" text
               | subject "is" [ "not" ] "null"
    subject    = column | "day" "(" column "," form ")"
    sign       = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    column     = a bare name, or one in double quotes, in which "" is a quote
    literal    = a number, 'text' in which '' is a quote, true or false
    form       = 'text' that says how dates are written, such as 'DD.MM.YYYY'

Keywords may be written in any case. Only "and", "or", "not", "in", "true" and "false" cannot be
the bare name of a column. "a between 1 and 2" is read as "a >= 1 and a <= 2". What filters mean,
row by row, is in `dpgap.data.filtering`. This file is not there: questions and documents have
filters too, and may not import `dpgap.data`.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from decimal import Context, Decimal
from typing import NamedTuple, TypeAlias

from dpgap.exact.parameters import with_point

Literal: TypeAlias = "Decimal | str | bool"

ORDERS = ("<", "<=", ">", ">=")
_SIGNS = {"==": "=", "<>": "!="} | {sign: sign for sign in ("=", "!=", *ORDERS)}
_KEYWORDS = ("and", "or", "not", "in", "true", "false")
_MAX_LENGTH = 4_000
_MAX_DEPTH = 50
_SHOWN = 60
_EXACT = Context(prec=_MAX_LENGTH)
_DIGITS = 60
_LARGEST = 239
_BARE = re.compile(r"[^\W\d]\w*")
_TOKEN = re.compile(
    r"""(?P<space>\s+)
    |(?P<number>[+-]?(?:[0-9]+(?:[.][0-9]*)?|[.][0-9]+)(?:[eE][+-]?[0-9]+)?)
    |(?P<word>[^\W\d]\w*)
    |(?P<text>'(?:[^']|'')*+')
    |(?P<name>"(?:[^"]|"")*+")
    |(?P<sign><=|>=|<>|!=|==|=|<|>)
    |(?P<mark>[(),])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)

_A_COMPARISON = "a comparison (=, !=, <, <=, >, >=, in, between, like, is null)"
_A_FORM = (
    "the date format must have DD, MM and YYYY once each, as in 'DD.MM.YYYY' or 'YYYY-MM-DD "
    "hh:mm:ss'; years of two digits are not read"
)
_NO_FUNCTION = (
    "only day(column, form) is known; for a month write day(…) between '2025-12-01' and "
    "'2025-12-31'"
)
_PART_OF_FORM = re.compile("YYYY|MM|DD|hh|mm|ss|.", re.DOTALL)
_LONGEST_FORM = 40
_LIKE = re.compile(r"(?:[^\\]|\\[%_\\])*+")
THOUSANDS = re.compile("[+-]?[1-9][0-9]{0,2}(?:[.][0-9]{3})+(?![0-9.eE])")
"""A number with points that may separate thousands."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column and what it is compared with: one literal; several for "in", none for "is null"."""

    column: str
    sign: str
    literals: tuple[Literal, ...]
    at: int
    form: str | None = None
    """How dates are written in the column, if it is text that is read as dates."""


@dataclass(frozen=True, slots=True)
class Joined:
    """Several clauses joined by "and" or "or"; or "not" with one clause."""

    word: str
    parts: tuple["Clause", ...]


Clause: TypeAlias = "Comparison | Joined"


@dataclass(frozen=True, slots=True)
class Filter:
    r"""Which rows to keep. Filters that differ only in spelling are equal.

    >>> read_filter("NOT(a==1) and b<>'x'") == read_filter("not a = 1.0 AND \"b\" != 'x'")
    True
    """

    text: str
    """The filter in its normal form: one spelling for each meaning."""
    columns: tuple[str, ...] = field(default=(), compare=False)
    clause: Clause = field(default=Joined("and", ()), compare=False, repr=False)
    """The parsed filter. A document has only the text, so its filter keeps no rows."""
    given: str = field(default="", compare=False, repr=False)

    def __str__(self) -> str:
        return self.text

    def error_at(self, comparison: Comparison, why: str) -> ValueError:
        """An error about a comparison, with its position in the text."""
        return error_at(self.given, comparison.at, why)


def read_filter(text: str) -> Filter:
    """The filter that a text states, or an error that says where it is wrong.

    >>> read_filter("Country = 'CH' AND (amount>=10.0)").text
    "Country = 'CH' and amount >= 10"
    >>> read_filter("country = 'CH' and amount")
    Traceback (most recent call last):
    ValueError: where: at character 26, expected a comparison (=, !=, <, <=, >, >=, in, between, like, is null) after 'amount'
      country = 'CH' and amount
                               ^
    """  # noqa: E501 (an error in one line)
    if not isinstance(text, str):
        raise TypeError(f'where must be text, such as "amount >= 10", not {type(text).__name__}')
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"where must have at most {_MAX_LENGTH:,} characters, not {len(text):,}")
    if (odd := re.search("[\0\ud800-\udfff]", text)) is not None:
        raise error_at(text, odd.start(), "this character is not allowed: NUL, or half of a pair")
    clause = clause_of(text)
    columns = dict.fromkeys(comparison.column for comparison in comparisons_of(clause))
    return Filter(_written(clause), tuple(columns), clause, text)


def clause_of(text: str) -> Clause:
    """The clause that a text of any length states."""
    return _Reader(text).read()


def comparisons_of(clause: Clause) -> Iterator[Comparison]:
    """All comparisons, as they stand in the text."""
    if isinstance(clause, Comparison):
        yield clause
    else:
        for part in clause.parts:
            yield from comparisons_of(part)


class _Token(NamedTuple):
    kind: str
    """"word", "keyword", "number", "text", "name", "sign", "mark" or "end"."""
    text: str
    at: int


class _Subject(NamedTuple):
    """What is compared: a column, and the form of its dates if they are text."""

    column: str
    form: str | None
    at: int


def tokens_of(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        token = _Token(str(match.lastgroup), match[0], match.start())
        if token.kind == "other":
            raise error_at(text, token.at, _NO_TOKEN.get(token.text, _NO_NAME.format(token.text)))
        if token.text.lower() in _KEYWORDS:
            yield token._replace(kind="keyword")
        elif token.kind != "space":
            yield token
    yield _Token("end", "", len(text))


_NO_TOKEN = {
    "'": "a text begins and does not end: a quote ' is missing (within text, write '')",
    '"': 'a name begins and does not end: a quote " is missing (within names, write "")',
    "&": "& is not allowed here: write and",
    "|": "| is not allowed here: write or",
    "[": "[ is not allowed here: write a list as in ('a', 'b')",
    ".": "'.' is not allowed here: put a name with a point in double quotes; for a part of a text "
    "write column like '%part%'",
}
_NO_NAME = (
    "{!r} is not allowed here: write text in single quotes, and a column's name in double quotes "
    "if it has more than letters, digits and _"
)


class _Reader:
    """A parser that reads from left to right, and looks one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokens_of(text)
        self._last: _Token | None = None
        self._next = next(self._tokens)
        self._depth = 0

    def read(self) -> Clause:
        clause = self._joined("or")
        if self._next.kind != "end":
            raise self._expected("and, or, or the end")
        return clause

    def _joined(self, word: str) -> Clause:
        """Clauses joined by "or"; each of them is clauses joined by "and"."""
        parts: list[Clause] = []
        while not parts or self._takes(word):
            part = self._joined("and") if word == "or" else self._single()
            if isinstance(part, Joined) and part.word == word:
                parts += part.parts
            else:
                parts.append(part)
        return Joined(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _single(self) -> Clause:
        at = self._next.at
        is_not = self._takes("not")
        if not is_not and not self._takes("("):
            return self._comparison()
        if self._depth == _MAX_DEPTH:
            why = f"parentheses and not may be nested {_MAX_DEPTH} deep at most"
            raise error_at(self._text, at, why)
        self._depth += 1
        clause = Joined("not", (self._single(),)) if is_not else self._joined("or")
        if not is_not:
            self._require(")", "and, or, or )")
        self._depth -= 1
        return clause

    def _comparison(self) -> Clause:
        subject = self._subject()
        if self._next.kind == "sign":
            sign = _SIGNS[self._take().text]
            return self._compared(subject, sign, self._literal(subject.form))
        if self._takes("is"):
            is_not = self._takes("not")
            self._require("null", "null" if is_not else "null, or not null")
            return self._compared(subject, "is not null" if is_not else "is null")
        is_not = self._takes("not")
        if self._takes("between"):
            return self._between(subject, is_not=is_not)
        if self._takes("like"):
            pattern = self._pattern(subject)
            return self._compared(subject, "not like" if is_not else "like", pattern)
        self._require("in", "in, between or like" if is_not else _A_COMPARISON)
        literals = self._list(subject.form)
        return self._compared(subject, "not in" if is_not else "in", *literals)

    def _compared(self, subject: _Subject, sign: str, *literals: Literal) -> Comparison:
        if sign in ORDERS and isinstance(literals[0], bool):
            raise error_at(self._text, subject.at, "true and false have no order: use = or !=")
        return Comparison(subject.column, sign, literals, subject.at, subject.form)

    def _between(self, subject: _Subject, *, is_not: bool) -> Clause:
        low = self._literal(subject.form)
        self._require("and", "and")
        high = self._literal(subject.form)
        if type(low) is not type(high):
            raise error_at(self._text, subject.at, "between needs two numbers, or two texts")
        if is_not:
            below = self._compared(subject, "<", low)
            above = self._compared(subject, ">", high)
            return Joined("or", (below, above))
        from_low = self._compared(subject, ">=", low)
        to_high = self._compared(subject, "<=", high)
        return Joined("and", (from_low, to_high))

    def _pattern(self, subject: _Subject) -> str:
        """The pattern after "like"."""
        at = self._next.at
        pattern = self._literal()
        if subject.form is not None or not isinstance(pattern, str):
            why = "like compares a column with text, as in a like 'x%'"
            raise error_at(self._text, subject.at, why)
        if not _LIKE.fullmatch(pattern):
            why = r"in a pattern write \\ for \, and \% or \_ for % or _"
            raise error_at(self._text, at, why)
        return pattern

    def _subject(self) -> _Subject:
        """A column, and the form of its dates if it is written as day(column, form)."""
        first = self._next
        column = self._column()
        if not (first.kind == "word" and self._takes("(")):
            return _Subject(column, None, first.at)
        if column.lower() != "day":
            raise error_at(self._text, first.at, _NO_FUNCTION)
        column = self._column()
        self._require(",", ", and the form of its dates, as in day(column, 'DD.MM.YYYY')")
        form_at = self._next.at
        form = self._literal()
        if not isinstance(form, str) or not is_form(form):
            raise error_at(self._text, form_at, _A_FORM)
        self._require(")", ")")
        return _Subject(column, form, first.at)

    def _column(self) -> str:
        if self._next.kind == "name":
            if self._next.text == '""':
                raise error_at(self._text, self._next.at, "a column's name must not be empty")
            return self._take().text[1:-1].replace('""', '"')
        if self._next.kind != "word":
            raise self._expected("a column")
        return self._take().text

    def _list(self, form: str | None) -> list[Literal]:
        self._require("(", "( and a list")
        literals: list[Literal] = []
        while not literals or self._takes(","):
            at = self._next.at
            literals.append(self._literal(form))
            if type(literals[-1]) is not type(literals[0]):
                why = "a list must hold numbers only, text only, or true and false"
                raise error_at(self._text, at, why)
        self._require(")", ", or )")
        return literals

    def _literal(self, form: str | None = None) -> Literal:
        """A number, text, true or false; or a day, if the column has a form of dates."""
        token = self._next
        if form is not None and not _is_day(token.text[1:-1]):
            why = "day(…) is compared with days that exist, always written as '2024-01-31'"
            raise error_at(self._text, token.at, why)
        if token.kind == "text":
            return self._take().text[1:-1].replace("''", "'")
        if token.text.lower() in ("true", "false"):
            return self._take().text.lower() == "true"
        if token.kind == "number":
            return _number(self._take(), self._text)
        hint = {
            "name": "; write text in single quotes",
            "word": f"; did you mean '{token.text[:_SHOWN]}'? (columns are not compared with each "
            "other)",
        }
        if token.text.lower() == "null":
            hint["word"] = ": write is null, or is not null"
        raise self._expected("a number, 'text', true or false", hint.get(token.kind, ""))

    def _take(self) -> _Token:
        self._last, self._next = self._next, next(self._tokens, self._next)
        return self._last

    def _takes(self, keyword: str) -> bool:
        is_word = self._next.kind in ("word", "keyword", "mark")
        if not is_word or self._next.text.lower() != keyword:
            return False
        self._take()
        return True

    def _require(self, keyword: str, expected: str) -> None:
        if not self._takes(keyword):
            raise self._expected(expected)

    def _expected(self, expected: str, hint: str = "") -> ValueError:
        after = ""
        number_at = 0
        if self._last is not None:
            after = f" after {self._last.text[:_SHOWN]!r}"
            number_at = self._last.at
        number = re.sub("(?s)[^0-9,+-].*", "", self._text[number_at:])
        if self._next.text == "," and with_point(number):
            hint = f": write {with_point(number)}, as decimals have a point"
        elif expected == _A_COMPARISON and self._next.kind in ("word", "number"):
            hint = "; put a name with a space or - in double quotes"
        return error_at(self._text, self._next.at, f"expected {expected}{after}{hint}")


def parts_of_form(form: str) -> list[str]:
    """The parts of a date format: DD, MM and so on, and the characters between them.

    >>> parts_of_form("DD.MM.YYYY")
    ['DD', '.', 'MM', '.', 'YYYY']
    """
    return _PART_OF_FORM.findall(form)


def is_form(form: str) -> bool:
    """Whether a text is a date format: DD, MM and YYYY once each, no D, M, Y, h, m, s alone."""
    parts = parts_of_form(form)
    has_a_day = all(parts.count(part) == 1 for part in ("DD", "MM", "YYYY"))
    return has_a_day and len(form) <= _LONGEST_FORM and not {*"DMYhms"} & {*parts}


def _is_day(literal: str) -> bool:
    with suppress(ValueError):
        return date.fromisoformat(literal).isoformat() == literal
    return False


def _number(token: _Token, text: str) -> Decimal:
    """A number in its shortest spelling, within limits that every engine can hold."""
    exponent = token.text.lower().partition("e")[2].lstrip("+-0")
    if len(exponent) <= len(str(_LARGEST)):
        number = Decimal(token.text).normalize(_EXACT)
        if not number:
            return Decimal(0)  # and not −0
        if abs(number.adjusted()) <= _LARGEST and len(number.as_tuple().digits) <= _DIGITS:
            return number
    why = f"a number may have {_DIGITS} digits and an exponent up to ±{_LARGEST}"
    raise error_at(text, token.at, why)


def error_at(text: str, at: int, why: str) -> ValueError:
    """An error that says what is wrong, and shows where."""
    first = max(0, at - _SHOWN)
    letters = text[first : at + _SHOWN // 3]
    line = "".join(letter if letter.isprintable() else " " for letter in letters)
    caret = " " * (at - first) + "^"
    return ValueError(f"where: at character {at + 1}, {why}\n  {line}\n  {caret}")


def _written(clause: Clause, *, is_within: bool = False) -> str:
    """A clause in its normal form, with no more parentheses than it needs.

    `is_within` says that it is inside "and" or "not".
    """
    if isinstance(clause, Comparison):
        subject = _name(clause.column)
        if clause.form is not None:
            subject = f"day({subject}, {_literal_text(clause.form)})"
        literals = ", ".join(map(_literal_text, clause.literals))
        is_list = clause.sign in ("in", "not in")
        return f"{subject} {clause.sign} {f'({literals})' if is_list else literals}".rstrip(" ")
    # "and" binds closer than "or", and parts that are joined by the same word are one clause.
    parts = [_written(part, is_within=clause.word != "or") for part in clause.parts]
    if clause.word == "not":
        return f"not {parts[0]}"
    joined = f" {clause.word} ".join(parts)
    return f"({joined})" if is_within else joined


def _name(column: str) -> str:
    is_bare = _BARE.fullmatch(column) and column.lower() not in _KEYWORDS
    return column if is_bare else '"' + column.replace('"', '""') + '"'


def _literal_text(literal: Literal) -> str:
    if isinstance(literal, bool):
        return str(literal).lower()
    if isinstance(literal, str):
        return "'" + literal.replace("'", "''") + "'"
    is_short = -_WRITTEN_OUT < literal.adjusted() < _WRITTEN_OUT
    return format(literal, "f" if is_short else "e").replace("e+", "e")


_WRITTEN_OUT = 21
"""Numbers whose first digit is this far from the point are written with an exponent."""
