"""The page that sets claims beside measurements: as HTML that stands alone, and as Markdown."""

import html
import re
from collections.abc import Mapping, Sequence

from dpgap.releases.page import section, standalone
from dpgap.research.claims import Claim
from dpgap.research.datasets import PUBLISHED, Dataset

TITLES = {
    "datasets": "The data sets: how often items occur, by rank",
    "figure-1": "Figure 1: less squared error, against k (ε = 0.7)",
    "figure-2": "Figure 2: less squared error, against ε (k = 10)",
    "figure-3": "Figure 3: answers, precision and F-measure, against k (ε = 0.7, monotonic)",
    "figure-3-general": "Figure 3 for general queries, which the paper left out",
    "figure-3-branches": "Figure 3 by branches: where the answers come from",
    "figure-4": "Figure 4: budget left after k answers (ε = 0.7)",
}
"""All drawings by name, in the order in which they are shown."""
_INTRODUCTION = (
    "The evaluation of Ding, Wang, Zhang and Kifer, Free Gap Information from the Differentially "
    "Private Sparse Vector and Noisy Max Mechanisms (VLDB 2020), run again by dpgap: every figure "
    "on all data sets, and beside it what the paper left out. Points are measured, with error bars "
    "of two standard errors; lines are theory (in figure 4 an upper bound). A gap is by how much a "
    "noisy answer is above the next, or above the noisy threshold. Answers are monotonic if one "
    "person more moves all of them the same way, else general. A branch is a way to find an answer "
    "above the threshold; the top branch asks for a gap of its margin or more, and costs half."
)
_METHOD = (
    "Counting queries in one shuffled order; k from 2 to 25; thresholds at a random rank from 2k "
    "up to 8k in each run, halfway to the next count; budget between threshold and answers "
    "1 : k^⅔ (general: 1 : (2k)^⅔); half of ε selects, half measures. What is simulated is what a "
    "release shows: whole numbers, floored noise. The best method (of a Top-K the ranked route) is "
    "compared with what Laplace measurements alone would have had at the same ε. The tolerance "
    "around theory is 1.5 points or four standard errors, whichever is more."
)
_STYLE = re.compile("<style[^>]*>(.*?)</style>", re.DOTALL)

Rows = list[list[str]]


def _tables(claims: Sequence[Claim], datasets: Sequence[Dataset]) -> dict[str, Rows]:
    """The page's tables by title; the first row of each is its head."""
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
    claims: Sequence[Claim],
    datasets: Sequence[Dataset],
    figures: Mapping[str, bytes],
    runs: int,
) -> str:
    """One page with everything on it; `figures` are SVG."""
    tables = "".join(
        section(title, _html_table(*rows)) for title, rows in _tables(claims, datasets).items()
    )
    drawn = "".join(
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f"{_inline(figures[name], name)}</figure>"
        for name, title in TITLES.items()
        if name in figures
    )
    method = f"{html.escape(_METHOD)} {runs:,} runs a point."
    body = (
        f"<p>{html.escape(_INTRODUCTION)}</p>{section('Method', f'<p>{method}</p>')}"
        f"{tables}{section('Figures', drawn)}"
    )
    styles = sorted(set(_STYLE.findall(drawn)))
    return standalone("The paper, reproduced", body, "Made with dpgap.", more_styles=styles)


def _inline(svg: bytes, name: str) -> str:
    """The drawing itself, with names that do not clash with those of other drawings."""
    text = svg.decode()
    text = text[text.index("<svg") :]
    for before in ('id="', "url(#", 'href="#'):
        text = text.replace(before, f"{before}{name}-")
    return text


_CLASSES = {"confirmed": "confirmed", "confirmed in part": "in-part", "not confirmed": "not"}


def _html_table(head: list[str], *rows: list[str]) -> str:
    top = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in head)
    body = "".join("<tr>" + "".join(map(_html_cell, head, row)) + "</tr>" for row in rows)
    return f'<table class="words"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>'


def _html_cell(heading: str, cell: str) -> str:
    kind = _CLASSES.get(cell, "words")
    return f'<td class="{kind}" data-heading="{html.escape(heading)}">{html.escape(cell)}</td>'


def as_markdown(
    claims: Sequence[Claim],
    datasets: Sequence[Dataset],
    figures: Mapping[str, str],
    runs: int,
) -> str:
    """The same as Markdown; `figures` are paths."""
    parts = [
        "# The paper, reproduced",
        "*Generated by `dpgap reproduce`; do not edit.*",
        _INTRODUCTION,
        f"{_METHOD} {runs:,} runs a point.",
    ]
    for title, rows in _tables(claims, datasets).items():
        parts += [f"## {title}", _markdown_table(*rows)]
    parts.append("## Figures")
    for name, title in TITLES.items():
        if name in figures:
            parts.append(f"### {title}\n\n![{title}]({figures[name]})")
    return "\n\n".join(parts) + "\n"


def _markdown_table(head: list[str], *rows: list[str]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
