r"""Where in a TOML file a key stands, so that a fault can name its line.

>>> text = "[desk]\ntick = 1\n\n[[data.sales.topics]]\nitem = 'product'\n"
>>> lines = key_lines(text)
>>> lines["desk", "tick"], lines["data", "sales", "topics", "0", "item"]
(2, 5)
"""

import re
import tomllib

Path = tuple[str, ...]

_MOST_PARTS = 32

_HEADER = re.compile(r"^\s*(\[\[?)(.+?)\]\]?\s*(?:#.*)?$")
_KEY = re.compile(
    r"""^\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*="""
)


def key_lines(text: str) -> dict[Path, int]:
    """The line of every table and key, by its path; an entry of an array has its number.

    A key of very many parts raises `RecursionError`: tomllib would take minutes to read it.
    """
    found: dict[Path, int] = {}
    entries: dict[Path, int] = {}
    table: Path = ()
    for line, content in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(content):
            table = _parts(header[2])
            if header[1] == "[[":
                entries[table] = entries.get(table, -1) + 1
            table = _numbered(table, entries)
            found.setdefault(table, line)
        elif key := _KEY.match(content):
            found.setdefault((*table, *_parts(key[1])), line)
    return found


def line_of(path: Path, lines: dict[Path, int]) -> int:
    """The line of a path, or of the nearest table around it."""
    return next((lines[path[:end]] for end in range(len(path), 0, -1) if path[:end] in lines), 1)


def _parts(words: str) -> Path:
    """The parts of a dotted key, as TOML reads them."""
    if words.count(".") > _MOST_PARTS:
        raise RecursionError
    try:
        value = tomllib.loads(f"{words} = 0")
    except tomllib.TOMLDecodeError:
        return (words,)
    parts = []
    while isinstance(value, dict):
        ((part, value),) = value.items()
        parts.append(part)
    return tuple(parts)


def _numbered(table: Path, entries: dict[Path, int]) -> Path:
    """The path with the number of the entry after every array that it goes through."""
    path: Path = ()
    for end in range(1, len(table) + 1):
        path = (*path, table[end - 1])
        if table[:end] in entries:
            path = (*path, str(entries[table[:end]]))
    return path
