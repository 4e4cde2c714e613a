"""A release as HTML: findings, picture, numbers, guarantee, and how it was made.

The templates beside this file make pages, and escape every value. The functions here return words,
numbers and positions in drawings, as plain text.
"""

import base64
import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cache, lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpgap._package import how_to_get
from dpgap.budget.cost import Cost
from dpgap.exact.parameters import exact_text, few_digits, readable
from dpgap.printable import printable, visible
from dpgap.releases.detail import MechanismUsed
from dpgap.releases.findings import (
    answer_findings,
    cut_in_words,
    general_findings,
    is_mostly_noise,
    is_private,
    own_findings,
    why_no_p_values,
)
from dpgap.releases.plain import attempted, plain, returned_or_written
from dpgap.releases.release import (
    NAMES,
    Items,
    MeasuredItems,
    Place,
    Release,
    ReleasesByGroup,
    SelectedItems,
    Table,
    measured_in,
    title_of,
)

if TYPE_CHECKING:  # Jinja2 is loaded when a page is made
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.axes import Axes

# --------------------------------------------------------------------------------------------------
# A self-contained page: one stylesheet, and a content security policy that forbids everything else.
#
# The page has no scripts, fonts or images, loads nothing, and has no styles but those of
# `page.css`. All rules there apply only inside the class `dpgap`, so they do not change a page
# around it.


STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")

_RESET = """.dpgap { all: initial; display: block; }
.dpgap :where(:not(svg *)) { all: revert; }
"""
CELL_STYLE = re.sub(
    r"([\d.]+)rem",
    lambda size: f"{16 * float(size[1]):g}px",
    _RESET + STYLE.replace("@page { margin: 14mm; }", ""),
).replace(".dpgap", ":is(#dpgap, .dpgap)")
"""The stylesheet for a notebook: no element has the id `dpgap`, but it raises the specificity."""

_TOGETHER = re.compile(r"(?<=[εδp]) (?=[=<≈])|(?<=[εδp] [=<≈]) |(?<=\d) (?=%)")


def content_policy(*styles: str) -> str:
    """The strictest content security policy that allows these stylesheets, by their hashes.

    >>> content_policy("p { margin: 0 }")
    "default-src 'none'; style-src 'sha256-7IWhgxoOGTB5NQzjGk9OPt0FwhVeBvZGoWgF9xLLh8c='"
    """
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()) for each in styles)
    allowed = " ".join(f"'sha256-{each.decode()}'" for each in hashes)
    return f"default-src 'none'; style-src {allowed}"


def together(sentence: str) -> "Markup":
    """An escaped sentence without line breaks inside "ε = 1", "p < 0.001" or "95 %"."""
    from markupsafe import Markup

    return Markup("&nbsp;").join(_TOGETHER.split(sentence))


# --------------------------------------------------------------------------------------------------
# The rows of a release as a dot plot: names and numbers are text, dots and lines are drawn.
#
# Every position in the drawing is a share of its width. So the drawing fits phones and wide
# screens, and its letters are as large as those around it.


_NEAR_ZERO = 0.1
"""The scale begins at 0 if that takes no more than this share of it."""
_NARROW = 270
"""The smallest width of the drawing in pixels: its axis has room on a phone."""
_LETTER, _PALE = 7.5, "#7ba6e3"
_LABEL = 20
"""The most letters of a name in a plot; of a longer name it shows the beginning and the end."""


class Scale(NamedTuple):
    """The positions of values on the drawing, and the round numbers on its axis."""

    low: float
    high: float
    step: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Scale | None":
        """A scale that shows these values; None if they are too large for that."""
        low, high = min(values), max(values)
        if 0 < low <= _NEAR_ZERO * high or low == high > 0:
            low = 0.0
        if high < 0 or low == high:
            high = max(high + 1.0, 0.0)
        span = high - low
        if not math.isfinite(span) or span < 1e-9 * max(abs(low), abs(high)):
            return None
        power = 10.0 ** math.floor(math.log10(span / 10))
        steps = (power * factor for factor in (1, 2, 5, 10, 20, 50, 100))
        return next(scale for step in steps if (scale := cls(low, high, step)).has_room)

    @property
    def has_room(self) -> bool:
        """Whether the numbers on the axis do not touch each other."""
        longest = max((len(self.text(tick)) for tick in self.ticks), default=0)
        apart = self.step / (self.high - self.low) * 0.92 * _NARROW
        return apart >= _LETTER * (longest + 1) or len(self.ticks) <= 1

    @property
    def ticks(self) -> list[float]:
        """The round numbers on the scale."""
        first, last = math.ceil(self.low / self.step), math.floor(self.high / self.step)
        return [self.step * number for number in range(first, last + 1)]

    def text(self, tick: float) -> str:
        """A round number with as many digits as its step has."""
        digits = max(0, -math.floor(math.log10(self.step)))
        if abs(tick) >= 1e15 or digits > 3:
            return f"{tick:.6g}"
        return f"{tick:,.{digits}f}"

    def side(self, value: float) -> str:
        """The side of a value on which there is more room for words."""
        return "start" if float(self(value)[:-1]) < 50 else "end"

    def __call__(self, value: float) -> str:
        share = (value - self.low) / (self.high - self.low)
        return f"{4 + 92 * min(max(share, 0.0), 1.0):.2f}%"


def _picture(release: MeasuredItems) -> tuple[Scale | None, float | None, str, list[list[Any]]]:
    """The scale (None if values are too large), the threshold, the units and the rows.

    Rows whose order is not sure are in one block.
    """
    rows = list(zip(release, release._cells()["estimate"], strict=True))
    line = None if release._line is None else float(release._line)
    ends = [end for row, _ in rows for end in (row.low, row.estimate, row.high) if end is not None]
    scale = Scale.of(ends if line is None else [*ends, line])
    units = "answer" if release.question is None else measured_in(release.question)
    return scale, line, units, [[rows[rank - 1] for rank in ranks] for ranks in release.groups()]


def plot(release: Release, ax: "Axes | None" = None) -> "Axes":
    """Draw a release with Matplotlib: estimates with intervals, or gaps; the largest on top."""
    units, bars = _bars(release)
    if not bars:
        raise ValueError("there is nothing to draw: this release has no numbers")
    if ax is None:
        try:
            from matplotlib import pyplot
        except ModuleNotFoundError:
            how = how_to_get("paper")
            raise ModuleNotFoundError(f"plot() needs Matplotlib: {how}") from None
        size = (7, 1.2 + 0.3 * len(bars))
        _, ax = pyplot.subplots(figsize=size, layout="constrained")  # a notebook shows it
    texts, values, ends = zip(*bars, strict=True)
    places = range(len(bars))
    names = [text if len(text) <= _LABEL else f"{text[:11]}…{text[-8:]}" for text in texts]
    if len({*names}) < len({*texts}):  # no two items get one name
        names = list(texts)
    if ends[0] is None:
        ax.barh(places, values, height=0.6, color=_PALE)
    else:
        least = min([*values, *(low for low, _ in ends if low is not None)])
        low, high = np.array([(least if low is None else low, high) for low, high in ends]).T
        half = (high - low) / 2
        bands: Any = {"ecolor": _PALE, "elinewidth": 5, "capsize": 5}  # ends show beside any dot
        ax.errorbar(low + half, places, xerr=half, fmt="none", **bands)
        ax.plot(values, places, "o", color="#1d5cb8", markersize=4)
        question = release.question
        line = getattr(release, "_line", None) if question is None else question.threshold
        if line is not None:
            ax.axvline(float(line), color="#a8500a", linestyle="--", linewidth=1)
    ax.set_yticks(places, names, parse_math=False)
    ax.set_ylim(len(bars) - 0.5, -0.5)
    units += "" if ends[0] is None else ", 95 % interval"
    ax.set_xlabel(units, loc="right", parse_math=False)  # so it has the width of names as well
    if not ax.get_title(loc="left"):
        title = title_of(release)
        ax.set_title(title, loc="left", fontsize="medium", wrap=True, parse_math=False)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    if ax.get_xscale() == "linear":
        inches = ax.get_window_extent().width / ax.figure.dpi
        ax.locator_params(axis="x", nbins=max(2, int(0.8 * inches)))
    return ax


def _bars(release: Release) -> tuple[str, list[Any]]:
    """The units of a plot; and for each row its name, its value and its ends, if any."""
    question, columns = release.question, release._columns()
    units = "answer" if question is None else measured_in(question)
    if isinstance(release, SelectedItems) and release._is_set:
        return "lead over every other set", [("the set", release.lead, None)]
    numbers = columns["estimate"] if "estimate" in columns else columns.get("gap", ())
    if not numbers:
        return "", []
    names = release._cells().get("item") or [units]
    if getattr(release, "labels", None) is None and question is None:
        names = [f"answer {item}" for item in columns["item"]]
    if "group" in columns:
        names = list(map("{}: {}".format, release._cells()["group"], names))
    ends: Iterable[Any] = [None] * len(numbers)
    if "estimate" in columns:
        ends = zip(columns["low"], columns["high"], strict=True)
    else:
        units = "above the threshold by" if "threshold" in columns else "gap to the next"
    bars = zip(names, numbers, ends, strict=True)
    return units, [bar for bar in bars if bar[1] is not None]


# --------------------------------------------------------------------------------------------------


def page(release: Release, title: str | None = None, path: Place | None = None) -> str:
    """A self-contained page: its text, or the path of the file that it is written to."""
    question = release.question
    made = release.made.words(None if question is None else question.table)
    title = heading(title, title_of(release))
    return returned_or_written(rendered("page.html", release=release, title=title, made=made), path)


def heading(title: object, otherwise: str) -> str:
    """The heading of a page; letters that could do harm are made visible."""
    if title is None:
        return otherwise
    if not isinstance(title, str):
        raise TypeError(f"title must be text, not {type(title).__name__}")
    return visible(title)


def cell(*releases: Table, words: str = "") -> str:
    """The HTML that a notebook shows: findings, picture and table. The rest is folded.

    `words` state the cost of several releases. Tables that are not releases show only their rows.
    """
    if not all(isinstance(each, Release) for each in releases):
        return rendered("table.html", table=releases[0])
    return rendered("notebook.html", releases=releases, words=words)


def _said(release: Release, is_alone: bool) -> tuple[str, ...]:
    """The findings; on a page of several releases, without those about confidence."""
    if is_alone or not isinstance(release, Items):
        return release.findings
    return (*answer_findings(release), *why_no_p_values(release))


def _lead(release: Release) -> Iterator[str]:
    """The numbers of items shown and asked, the filter, and the spent ε."""
    if release.made.again:
        yield release.made.notice
    question = release.question
    if question is None:
        return
    words = release._shown_in_words()
    if question.where is not None:
        words += f"Only these rows count: {visible(question.where)}. "
    spent = f"about {few_digits(release.cost.pure_epsilon)}" if release.remaining else "all of it"
    yield f"{words}{release.detail.promise.cost}, {spent} spent."


Guarantee = tuple[list[str], str, dict[str, list[str]]]
"""Warnings, or a promise; and conditions of single questions, with their titles."""


def _guarantee(release: Release) -> Guarantee:
    words = printable(release.guarantee)
    return [] if is_private(release) else [words], words, {}


def _reading(release: Release) -> list[str]:
    """How to read the numbers."""
    if isinstance(release, ReleasesByGroup):
        said = (sentence for each in release.values() for sentence in _reading(each))
        return list(dict.fromkeys((*general_findings(release), *said)))
    return rendered("reading.txt", release=release).splitlines()


def _made(release: Release) -> list[tuple[str, str]]:
    """Names and values of the section “How it was made”."""
    terms = {"made": release.made.words()}
    if release.made.ledger is not None:
        terms["hash of that entry"] = release.made.ledger.hash
    question = release.question
    if question is not None:
        terms |= {
            "question": question.purpose,
            "table": question.table or "a frame",
            "ε, exactly": exact_text(question.epsilon),
            "unit": question.unit,
            "neighbours": question.neighbours,
        }
        if not question.is_of_all:
            terms |= {"item": question.item, "domain": question.domain, "method": question.method}
        if question.delta:
            terms["δ, exactly"] = exact_text(question.delta)
        bounds = question.bounds()
        terms |= {name.replace("_", " "): str(bounds[name]) for name in bounds if name != "unknown"}
        if question.threshold is not None:
            terms["threshold, exactly"] = exact_text(question.threshold)
            terms["adaptive"] = "yes" if question.adaptive else "no"
    remark = attempted("remark", "", getattr, release, "_remark")
    if remark:
        terms["how it was found"] = remark
    looked = release.detail.looked
    if looked:
        seen = "; ".join(f"rank {rank}: {value:,.1f}" for rank, value in looked)
        terms["what the look measured"] = f"{seen} (part of the release)"
    return list(terms.items())


def _used(mechanism: MechanismUsed) -> str:
    words = {True: "yes", False: "no"}
    parameters = ", ".join(
        f"{name} {words[value] if isinstance(value, bool) else value}"
        for name, value in mechanism.parameters
        if value is not None
    )
    return f"{mechanism.name}: {parameters}"


# --------------------------------------------------------------------------------------------------
# Several releases about one table as one page: each answer, then one guarantee for all of them.
#
# The page says only once what is the same for all of them: the guarantee, how to read numbers, how
# they were made. Under the title of each question it says what is different.


def session_page(
    releases: Sequence[Release], words: str, title: str | None = None, path: Place | None = None
) -> str:
    """All releases as one page; `words` state what they cost together."""
    tables = {asked.table for release in releases if (asked := release.question)}
    table = tables.pop() if len(tables) == 1 else None
    many = {0: "No question", 1: "1 question"}.get(len(releases), f"{len(releases):,} questions")
    said = (attempted("reading", [], _session_reading, each) for each in releases)
    text = rendered(
        "session.html",
        releases=releases,
        title=heading(title, many if table is None else f"{many} about {printable(table)}"),
        words=words,
        reading=list(dict.fromkeys(chain.from_iterable(said))),
    )
    return returned_or_written(text, path)


def _session_reading(release: Release) -> list[str]:
    """Sentences about confidence, for each question; and how to read the numbers."""
    if not isinstance(release, Items):
        return _reading(release)
    said = [each for each in general_findings(release) if each not in why_no_p_values(release)]
    of_each = [each.replace("Claims about", "For each question, claims about") for each in said]
    return [*of_each, *_reading(release)]


def _guarantee_of_all(releases: Sequence[Release]) -> Guarantee:
    """One guarantee for all releases; conditions of one question are under its title."""
    asked = [(title_of(each), each.question) for each in releases if each.question is not None]
    questions = [question for _, question in asked]
    exposed = [each.guarantee() for each in questions if not each.is_private]
    if exposed or not asked:
        return exposed, "", {}
    said = [[printable(each) for each in question.conditions()] for question in questions]
    common = _common(said)
    own: dict[str, list[str]] = {}
    for (title, _), each in zip(asked, said, strict=True):
        if rest := " ".join(sentence for sentence in each if sentence not in common):
            own.setdefault(rest, []).append(title)
    # A release that is shown again counts once.
    paid = {release.made.ledger or place: release for place, release in enumerate(releases)}
    together = Cost.sum(release.cost for release in paid.values())
    chance = together.delta
    if chance:
        chance = Fraction(few_digits(chance))
    asked_most = max(questions, key=lambda question: not question.is_of_all)
    promise = asked_most.promise_of(Fraction(few_digits(together.pure_epsilon)), chance)
    promise = f"All of this page together: {promise[0].lower()}{promise[1:]}"
    return [], " ".join([promise, *common]), own


def _common(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """The elements that all lists have."""
    return [each for each in lists[0] if all(each in other for other in lists)]


# --------------------------------------------------------------------------------------------------
# The templates, and the functions that they call.


def environment(*packages: str) -> "Environment":
    """The templates of these packages and of this one; they escape every value.

    Only the stylesheet is not escaped. `attempt` leaves out a part that cannot be made.
    """
    import jinja2
    from markupsafe import Markup

    loaders = [jinja2.PackageLoader(package) for package in (*packages, "dpgap.releases")]
    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader(loaders),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "attempt": lambda part, caller: attempted(part, "", caller),
        "content_policy": content_policy,
        "names": NAMES,
        "cell_style": Markup(CELL_STYLE),
        "style": Markup(STYLE),
        "zip": zip,
    }
    made.tests |= {
        "by_group": lambda release: release._is_by_group,
        "measured": lambda release: release._is_measured,
        "mostly_noise": is_mostly_noise,
        "private": is_private,
    }
    named: list[Any] = [_common, _guarantee, _guarantee_of_all, _lead, _made, _picture, plain]
    named += [own_findings, _reading, _said, title_of, together, _used]
    made.filters |= {each.__name__.strip("_"): each for each in named}
    made.filters |= {
        "cut": cut_in_words,
        "epsilon": lru_cache(maxsize=1024)(readable),  # lists have the same ones again and again
        "moment": lambda at: at[:16].replace("T", " "),
        "seen": visible,
    }
    return made


@cache
def _templates() -> "Environment":
    return environment()


def rendered(template: str, **values: Any) -> str:
    """The text that a template makes of these values."""
    return _templates().get_template(template).render(values)
