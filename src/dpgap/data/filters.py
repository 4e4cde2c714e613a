"""The language of filters: which rows a question is about, as `country = 'CH' and amount >= 10`.

Text is read into a small tree of frozen values, and never passed on as text. The grammar:

    either     = both { "or" both }
    both       = single { "and" single }
    single     = "not" single | "(" either ")" | comparison
    comparison = column sign literal | column [ "not" ] "in" "(" literal { "," literal } ")"
    sign       = "=" | "==" | "!=" | "<>" | "<" | "<=" | ">" | ">="
    column     = a bare name, or one in double quotes, in which "" is a quote
    literal    = a number, 'text' in which '' is a quote, true or false

Keywords may be written in any case. What filters mean, row by row, is in `dpgap.data.filtering`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import TypeAlias

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
    |(?P<mark>[(),])""",
    re.VERBOSE,
)

_A_COLUMN = "a column"
_A_COMPARISON = "a comparison (=, !=, <, <=, >, >=, in, not in)"
_A_LITERAL = "a number, 'text', true or false"


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column and what it is compared with: one literal, or for "in" and "not in" several."""

    column: str
    sign: str
    literals: tuple[Literal, ...]
    at: int
    """Where it stands in the text."""


@dataclass(frozen=True, slots=True)
class Negation:
    """What matches where its part does not."""

    part: "Clause"


@dataclass(frozen=True, slots=True)
class Joined:
    """Several parts joined by "and", or by "or"."""

    word: str
    parts: tuple["Clause", ...]


Clause: TypeAlias = "Comparison | Negation | Joined"


@dataclass(frozen=True, slots=True)
class Filter:
    r"""Which rows to keep. Filters are equal if they differ by their spelling only.

    >>> read_filter("NOT(a==1) and b<>'x'") == read_filter("not a = 1.0 AND \"b\" != 'x'")
    True
    """

    text: str
    """The same filter in its one spelling."""
    columns: tuple[str, ...] = field(compare=False)
    """The columns that it looks at."""
    clause: Clause = field(compare=False, repr=False)
    given: str = field(compare=False, repr=False)
    """The text that was read."""

    def error_at(self, comparison: Comparison, why: str) -> ValueError:
        """What is wrong with a comparison, and where it stands."""
        return _error(self.given, comparison.at, why)


def read_filter(text: str) -> Filter:
    """The filter that a text states, or an error that says where it is wrong.

    >>> read_filter("Country = 'CH' AND (amount>=10.0)").text
    "Country = 'CH' and amount >= 10"
    >>> read_filter("country = 'CH' and amount")
    Traceback (most recent call last):
    ValueError: where: at character 26, expected a comparison (=, !=, <, <=, >, >=, in, not in) after 'amount'
      country = 'CH' and amount
                               ^
    """  # noqa: E501 (an error in one line)
    if not isinstance(text, str):
        raise TypeError(f'where must be text, such as "amount >= 10", not {type(text).__name__}')
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"where must have at most {_MAX_LENGTH:,} characters, not {len(text):,}")
    for at, letter in enumerate(text):
        if letter == "\0" or "\ud800" <= letter <= "\udfff":
            raise _error(text, at, "there is a character that no text can hold")
    clause = _Reader(text).read()
    columns = dict.fromkeys(comparison.column for comparison in comparisons_of(clause))
    return Filter(_written(clause), tuple(columns), clause, text)


def comparisons_of(clause: Clause) -> Iterator[Comparison]:
    """All comparisons, as they stand in the text."""
    if isinstance(clause, Comparison):
        yield clause
    else:
        for part in clause.parts if isinstance(clause, Joined) else (clause.part,):
            yield from comparisons_of(part)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    """"word", "number", "text", "name", "sign", "mark" or "end"."""
    text: str
    at: int

    @property
    def keyword(self) -> str | None:
        """The keyword or mark that it is."""
        if self.kind == "mark":
            return self.text
        small = self.text.lower()
        return small if self.kind == "word" and small in _KEYWORDS else None


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _error(text, at, _NO_TOKEN.get(text[at], _NO_NAME.format(text[at])))
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found[0], at)
        at = found.end()
    yield _Token("end", "", len(text))


_NO_TOKEN = {
    "'": "a text begins and does not end: a quote ' is missing (within text, write '')",
    '"': 'a name begins and does not end: a quote " is missing (within names, write "")',
}
_NO_NAME = (
    "{!r} cannot stand here: text stands in single quotes, and a column's name in double quotes "
    "if it has more than letters, digits and _"
)


class _Reader:
    """Reads from left to right, and looks one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._last: _Token | None = None
        self._next = next(self._tokens)
        self._depth = 0

    def read(self) -> Clause:
        clause = self._joined("or")
        if self._next.kind != "end":
            raise self._expected("and, or, or the end")
        return clause

    def _joined(self, word: str) -> Clause:
        """Parts joined by "or", each of which has parts joined by "and"."""
        parts: list[Clause] = []
        while not parts or self._takes(word):
            part = self._joined("and") if word == "or" else self._single()
            is_same = isinstance(part, Joined) and part.word == word
            parts += part.parts if isinstance(part, Joined) and is_same else (part,)
        return Joined(word, tuple(parts)) if len(parts) > 1 else parts[0]

    def _single(self) -> Clause:
        if self._next.keyword not in ("not", "("):
            return self._comparison()
        if self._depth == _MAX_DEPTH:
            raise _error(
                self._text, self._next.at, f"( and not may be nested {_MAX_DEPTH} deep, no more"
            )
        self._depth += 1
        clause: Clause
        if self._takes("not"):
            clause = Negation(self._single())
        else:
            self._take()
            clause = self._joined("or")
            self._require(")", "and, or, or )")
        self._depth -= 1
        return clause

    def _comparison(self) -> Comparison:
        at, column = self._next.at, self._column()
        if self._next.kind == "sign":
            sign = _SIGNS[self._take().text]
            literals = [self._literal()]
        else:
            sign = "not in" if self._takes("not") else "in"
            self._require("in", _A_COMPARISON if sign == "in" else "in")
            literals = self._list()
        if sign in ORDERS and isinstance(literals[0], bool):
            raise _error(self._text, at, f"true and false have no order: use = or !=, not {sign}")
        return Comparison(column, sign, tuple(literals), at)

    def _column(self) -> str:
        if self._next.kind == "name":
            if self._next.text == '""':
                raise _error(self._text, self._next.at, "a column's name must not be empty")
            return self._take().text[1:-1].replace('""', '"')
        if self._next.kind != "word" or self._next.keyword is not None:
            raise self._expected(_A_COLUMN)
        return self._take().text

    def _list(self) -> list[Literal]:
        self._require("(", "( and a list")
        literals: list[Literal] = []
        while not literals or self._takes(","):
            at = self._next.at
            literals.append(self._literal())
            if type(literals[-1]) is not type(literals[0]):
                raise _error(
                    self._text, at, "a list must hold numbers only, text only, or true and false"
                )
        self._require(")", ", or )")
        return literals

    def _literal(self) -> Literal:
        token = self._next
        if token.kind == "text":
            return self._take().text[1:-1].replace("''", "'")
        if token.keyword in ("true", "false"):
            return self._take().keyword == "true"
        if token.kind == "number":
            return _number(self._take(), self._text)
        hint = {
            "name": "; text stands in single quotes",
            "word": f"; did you mean '{token.text[:_SHOWN]}'? (columns are not compared with each "
            "other)",
        }
        raise self._expected(_A_LITERAL, hint.get("mark" if token.keyword else token.kind, ""))

    def _take(self) -> _Token:
        self._last, self._next = self._next, next(self._tokens, self._next)
        return self._last

    def _takes(self, keyword: str) -> bool:
        if self._next.keyword != keyword:
            return False
        self._take()
        return True

    def _require(self, keyword: str, what: str) -> None:
        if not self._takes(keyword):
            raise self._expected(what)

    def _expected(self, what: str, hint: str = "") -> ValueError:
        after = f" after {self._last.text[:_SHOWN]!r}" if self._last else ""
        return _error(self._text, self._next.at, f"expected {what}{after}{hint}")


def _number(token: _Token, text: str) -> Decimal:
    """A number without zeros that say nothing; so limited that no engine overflows."""
    exponent = token.text.lower().partition("e")[2].lstrip("+-0")
    if len(exponent) <= len(str(_LARGEST)):
        number = Decimal(token.text).normalize(_EXACT)
        if not number:
            return Decimal(0)  # and not −0
        if abs(number.adjusted()) <= _LARGEST and len(number.as_tuple().digits) <= _DIGITS:
            return number
    raise _error(
        text, token.at, f"a number may have {_DIGITS} digits and an exponent up to ±{_LARGEST}"
    )


def _error(text: str, at: int, why: str) -> ValueError:
    """Says what is wrong, and shows where."""
    first = max(0, at - _SHOWN)
    line = "".join(each if each.isprintable() else " " for each in text[first : at + _SHOWN // 3])
    caret = " " * (at - first) + "^"
    return ValueError(f"where: at character {at + 1}, {why}\n  {line}\n  {caret}")


def _written(clause: Clause) -> str:
    """A clause in its one spelling, with no more parentheses than it needs."""
    if isinstance(clause, Comparison):
        literals = ", ".join(map(_literal_text, clause.literals))
        is_list = clause.sign in ("in", "not in")
        return f"{_name(clause.column)} {clause.sign} {f'({literals})' if is_list else literals}"
    if isinstance(clause, Negation):
        return f"not {_within(clause.part)}"
    # "and" binds closer than "or", and parts that are joined by the same word are one clause.
    write = _written if clause.word == "or" else _within
    return f" {clause.word} ".join(map(write, clause.parts))


def _within(clause: Clause) -> str:
    return f"({_written(clause)})" if isinstance(clause, Joined) else _written(clause)


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
"""Numbers that begin at so many digits from the point are written with an exponent."""
