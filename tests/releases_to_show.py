"""Releases to look at: of many or few rows, clear or hopeless, with short, long and odd names.

And of every kind of question: in groups, sums, unknown items, counts, and many in one session.
"""

from functools import cache
from typing import Any

import pandas

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.releases.release import Release
from seams import bits_are

_LETTERS = {
    "short": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "forty": "a name of about forty letters, number {}",
    "long": "a name that goes on and on " * 4 + "AndOnWithoutAnySpace" * 9 + " number {}",
    "right to left": "منتج طويل الاسم جدا רשימה {} <b>&amp;</b>",
}
NAMES = tuple(_LETTERS)


def names(kind: str, count: int) -> list[str]:
    """Different names of a kind."""
    letters = _LETTERS[kind]
    if kind == "short":
        return list(letters[:count])
    made = [letters.format(number) for number in range(count)]
    return [name.rjust(300, "x") for name in made] if kind == "long" else made


def table(sizes: dict[str, int]) -> pandas.DataFrame:
    """Who bought what: as many customers of each product as is said."""
    sold = [(who, name) for name, size in sizes.items() for who in range(size)]
    return pandas.DataFrame(sold, columns=["customer", "product"])


def released(rows: int, kind: str = "forty", *, how: str = "best", **options: Any) -> Release:
    """A top k of that many rows, or what is above a line, of products whose sizes fall."""
    choice = {"first": 3000, "step": 40, "epsilon": 4} | options
    called = names(kind, rows + 8)
    sizes = {name: max(choice["first"] - choice["step"] * at, 0) for at, name in enumerate(called)}
    asked = {"unit": "customer", "item": "product", "epsilon": choice["epsilon"]}
    asked["domain"] = choice.get("domain", called)
    with bits_are(InsecureSeededBits(rows)):
        if how == "above":
            line = choice["first"] - choice["step"] * rows
            line = line + choice["step"] // 2 if rows else 10**6
            return dpgap.above(table(sizes), **asked, threshold=line, k=max(rows, 1))
        return dpgap.top_k(table(sizes), **asked, k=rows, method=how)


def visits() -> pandas.DataFrame:
    """Who looked at which page, where, and what it came to: 20 countries, 12 pages."""
    seen = [
        (f"v{who}", _COUNTRIES[who % 20], f"/page/{place}", 1.5 * place)
        for who in range(4000)
        for place in range(12)
        if who % (2 + place) == 0
    ]
    return pandas.DataFrame(seen, columns=["visitor", "country", "page", "amount"])


_COUNTRIES = [
    "CH",
    "DE",
    "a country with quite a long name",
    "ארץ",
    *(f"C{at}" for at in range(16)),
]
_PAGES = [f"/page/{place}" for place in range(12)]


@cache
def session() -> dpgap.Session:
    """A session of six questions, one of every kind; the last is in 20 groups."""
    asked: dict[str, Any] = {"domain": _PAGES, "k": 3, "epsilon": 4}
    with bits_are(InsecureSeededBits(8)):
        made = dpgap.Session(visits(), unit="visitor", epsilon=100, delta="1e-6")
        made.count(epsilon=1, where="country = 'CH'")
        made.top_k("page", **asked, sum="amount", at_most=20)
        made.top_k("page", k=4, epsilon=1, delta="1e-6", max_items=2)
        made.top_k("page", domain=_PAGES, k=9, epsilon="0.05", max_items=1)
        made.above("page", domain=_PAGES, k=3, epsilon=1, threshold=500)
        made.top_k("page", **asked, by="country", groups=_COUNTRIES, max_groups=1)
    return made


SESSION = ("count", "sum", "unknown", "at most", "above", "20 groups")
"""What the questions of `session` are called, in order."""
