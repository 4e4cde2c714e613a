r"""Text that is safe in a terminal: what cannot be seen is written out, as in \x1b or \u202e."""


def printable(text: str) -> str:
    r"""The text with control characters, overrides and the like spelled out.

    >>> print(printable("fig\x1b[2J"))
    fig\x1b[2J
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def visible(name: object) -> str:
    r"""A name in which everything can be seen, and nothing moves the text around it.

    >>> print(visible("fig\x1b[2J\u202egnp"))
    fig\x1b[2J\u202egnp
    """
    return printable(str(name)) or '""'
