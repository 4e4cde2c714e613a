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
    different = dict.fromkeys(dataset.warning for dataset in datasets)
    return [warning for warning in different if warning]


def _tables(claims: Sequence[Claim], datasets: Sequence[Dataset]) -> dict[str, Rows]:
    """The page's tables by title; the first row of each has the headings."""
    data = [["data set", "records", "items", "in the paper", "source"]]
    for dataset in datasets:
        records = "unknown" if dataset.records is None else f"{dataset.records:,}"
        size_in_paper = ""
        if dataset.name in PUBLISHED:
            published_records, published_items = PUBLISHED[dataset.name]
            size_in_paper = f"{published_records:,} × {published_items:,}"
        items = f"{dataset.items:,}"
        data.append([dataset.name, records, items, size_in_paper, dataset.source])
    judgements = [["figure", "the paper", "measured", "verdict", "remark"]]
    for claim in claims:
        judgements.append(list(map(str, claim)))
    return {"Claims": judgements, "Data": data}


def as_html(
    claims: Sequence[Claim], datasets: Sequence[Dataset], figures: Mapping[str, bytes], runs: int
) -> str:
    """One page with everything on it; `figures` are SVG."""
    drawings = {}
    for name, title in TITLES.items():
        if name in figures:
            drawings[title] = Markup(_with_own_names(name, figures[name]))
    return _rendered(
        "reproduction.html",
        claims,
        datasets,
        runs,
        classes={CONFIRMED: "confirmed", PARTLY: "in-part", MORE: "in-part", NOT: "not"},
        figures=drawings,
        styles=sorted(set(_STYLE.findall("".join(drawings.values())))),
    )


def _with_own_names(figure: str, svg: bytes) -> str:
    """The drawing without its header; no two drawings on the page share the name of an element."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    for before in ('id="', "url(#", 'href="#'):
        text = text.replace(before, f"{before}{figure}-")
    return text


def as_markdown(
    claims: Sequence[Claim], datasets: Sequence[Dataset], figures: Mapping[str, str], runs: int
) -> str:
    """The same as Markdown; `figures` are paths."""
    paths = {title: figures[name] for name, title in TITLES.items() if name in figures}
    return _rendered("reproduction.md.jinja", claims, datasets, runs, figures=paths)


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
