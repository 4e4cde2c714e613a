"""The page that compares claims with measurements: as self-contained HTML, and as Markdown."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpgap.releases.page import environment
from dpgap.research.claims import CONFIRMED, MORE, NOT, PARTLY, Claim
from dpgap.research.datasets import PUBLISHED, WHERE, Dataset

TITLES = {
    "datasets": "The data sets: how often items occur, by rank",
    "figure-1": "Figure 1: less squared error, against k (ε = 0.7)",
    "figure-2": "Figure 2: less squared error, against ε (k = 10)",
    "figure-3": "Figure 3: answers, precision and F-measure, against k (ε = 0.7, monotonic)",
    "figure-4": "Figure 4: budget left after k answers (ε = 0.7)",
}
"""All drawings by name, in the order in which they are shown."""
_STYLE = re.compile("<style[^>]*>(.*?)</style>", re.DOTALL)

Rows = list[list[str]]


def warnings_about(datasets: Sequence[Dataset]) -> list[str]:
    """Warnings about the data: that they are synthetic, or shown without privacy."""
    return [each for each in dict.fromkeys(data.warning for data in datasets) if each]


def _tables(claims: Sequence[Claim], datasets: Sequence[Dataset]) -> dict[str, Rows]:
    """The page's tables by title; the first row of each has the headings."""
    data = [["data set", "records", "items", "in the paper", "source"]]
    for each in datasets:
        records = "unknown" if each.records is None else f"{each.records:,}"
        published = PUBLISHED.get(each.name)
        stated = "" if published is None else f"{published[0]:,} × {published[1]:,}"
        data.append([each.name, records, f"{each.items:,}", stated, each.source])
    judged = [[str(cell) for cell in claim] for claim in claims]
    return {
        "Claims": [["figure", "the paper", "measured", "verdict", "remark"], *judged],
        "Data": data,
    }


def as_html(
    claims: Sequence[Claim], datasets: Sequence[Dataset], figures: Mapping[str, bytes], runs: int
) -> str:
    """One page with everything on it; `figures` are SVG."""
    drawn = {}
    for name in (each for each in TITLES if each in figures):
        text = figures[name].decode()
        text = text[text.index("<svg") :]
        for before in ('id="', "url(#", 'href="#'):  # so no two drawings share a name
            text = text.replace(before, f"{before}{name}-")
        drawn[name] = text
    return _rendered(
        "reproduction.html",
        claims,
        datasets,
        runs,
        classes={CONFIRMED: "confirmed", PARTLY: "in-part", MORE: "in-part", NOT: "not"},
        figures={TITLES[name]: Markup(svg) for name, svg in drawn.items()},
        styles=sorted(set(_STYLE.findall("".join(drawn.values())))),
    )


def as_markdown(
    claims: Sequence[Claim], datasets: Sequence[Dataset], figures: Mapping[str, str], runs: int
) -> str:
    """The same as Markdown; `figures` are paths."""
    shown = {title: figures[name] for name, title in TITLES.items() if name in figures}
    return _rendered("reproduction.md.jinja", claims, datasets, runs, figures=shown)


def _rendered(
    name: str, claims: Sequence[Claim], datasets: Sequence[Dataset], runs: int, **values: Any
) -> str:
    template = environment("dpgap.research").get_template(name)
    return template.render(
        title="The paper, reproduced",
        warnings=warnings_about(datasets),
        where=WHERE,
        runs=runs,
        tables=_tables(claims, datasets),
        **values,
    )
