r"""Text that is safe in a terminal: invisible characters are escaped, as in \x1b or \u202e."""

import re

# --------------------------------------------------------------------------------------------------
# The error for a document that cannot be read.


class DocumentError(ValueError):
    """A text is not a release document, or this version of dpgap cannot read it."""


# --------------------------------------------------------------------------------------------------


_FORMULA = re.compile("(^|[;|])([ \u00a0\"']*)(?=[=+@%\t\r\n|＝＋－＠-])")
"""Where a formula may begin: at the start, or after a mark that separates cells somewhere."""


def printable(text: str) -> str:
    r"""The text, in which control characters, overrides and the like are escaped.

    >>> print(printable("fig\x1b[2J"))
    fig\x1b[2J
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def visible(name: object) -> str:
    r"""A name in which every character can be seen, and none changes the order of the text.

    >>> print(visible("fig\x1b[2J\u202egnp"))
    fig\x1b[2J\u202egnp
    """
    return printable(str(name)) or '""'


def in_a_cell(value: object) -> object:
    """A value for a cell of a CSV file; an apostrophe prevents that a text becomes a formula.

    Spreadsheets mark text in this way too. If they split lines at semicolons, quotes do not help.

    >>> in_a_cell("=1+2"), in_a_cell("fig;=1+2"), in_a_cell("well-known"), in_a_cell(-2)
    ("'=1+2", "fig;'=1+2", 'well-known', -2)
    """
    return printable(_FORMULA.sub(r"\1'\2", value)) if isinstance(value, str) else value


# --------------------------------------------------------------------------------------------------
# What the values of a column are called in a sentence.


_WORDS = re.compile(r"[^\W\d_]+([ -][^\W\d_]+)*")
_ENDING = re.compile(r"[ _](id|name|key|code|no)$", re.IGNORECASE)


def column_name(column: str) -> str:
    """A column's name as words, if it has words.

    >>> column_name("user_id"), column_name("q7")
    ('user', 'q7')
    """
    words = _ENDING.sub("", column).replace("_", " ")
    return words if _WORDS.fullmatch(words) else visible(column)
