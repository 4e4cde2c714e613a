"""Pages as a browser shows them: on a phone, a tablet and a screen, in the dark and on paper."""

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import dpgap
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger
from dpgap.releases.ledger_page import ledger_page
from dpgap.releases.page import STYLE, content_policy, page
from dpgap.research.claims import Claim
from dpgap.research.page import as_html
from releases_to_show import NAMES, SESSION, released, session
from seams import quick_in

pytestmark = pytest.mark.xdist_group("chromium")

WIDTHS = (360, 768, 1200)
PAPER = 688
"""How many pixels wide a sheet of A4 is within its margins."""
HOME = "http://page.test/"
CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")
FIGURES = Path(__file__).parents[1] / "docs" / "figures"


def _above(rows: int) -> Any:
    return released(rows, how="above")


def _hopeless() -> Any:
    return released(10, "long", first=20, step=1, epsilon="0.05")


def _ledger(folder: Path) -> str:
    ledger = Ledger(folder / "budget.db")
    for name, total in {"sales": 10, "w" * 60: 1, "a long name " * 5: "1/3"}.items():
        ledger.create(name.strip(), total)
    account = ledger.account("sales")
    for person in ("ann", "צוות המכירות", "b" * 60):
        account.of(person).reserve(Cost.pure(Fraction(1, 2)), "top 1").settle(
            Cost.pure(Fraction(1, 4))
        )
    account.of("ann").reserve(Cost.pure(Fraction(1, 7)), "under way")
    ledger.steward("sales").allow("ann", 5)
    return ledger_page([ledger.outline(name) for name in ledger.datasets()])


def _reproduction(_: Path) -> str:
    drawing = (FIGURES / "figure-4.svg").read_bytes()
    claims = [Claim("figure 4", "so much is left " * 5, "40 %", "confirmed in part", "nearly")]
    return as_html(claims, [], {"figure-4": drawing}, 1000)


DARK_NOTEBOOK = """<!DOCTYPE html><meta name=viewport content="width=device-width"><style>
.cell { background: #111; } .cell table { color: #fff; font-size: 12px; text-align: right; }
.cell tbody tr:nth-child(odd) { background: #222; } .cell p { color: #fff; }
</style><body class="cell">"""
"""A page with styles of its own, which are dark whatever the reader prefers."""

SHOWN: dict[str, Callable[[Path], str]] = {
    **{
        f"{rows} rows, {kind} names": lambda _, rows=rows, kind=kind: page(released(rows, kind))
        for rows in (3, 10, 50)
        for kind in NAMES
    },
    **{f"above, {rows} rows": lambda _, rows=rows: page(_above(rows)) for rows in (0, 3, 10, 50)},
    **{
        f"10 rows, {how}": lambda _, how=how: page(released(10, how=how))
        for how in ("joint", "ranked", "paper")
    },
    **{
        name: lambda _, place=place: page(session().releases[place])
        for place, name in enumerate(SESSION)
    },
    "a session": lambda _: session().to_html(),
    "mostly noise": lambda _: page(_hopeless()),
    "not private": lambda _: page(
        released(3, domain="observed-not-private"),
    ),
    "an array": lambda _: page(dpgap.NoisyTopK(3, 1).release([10, 200, 5, 80])),
    "values": lambda _: page(dpgap.Laplace(1).release([10**6, 200])),
    "a titled page": lambda _: released(3).to_html(title="What sold best, " * 6),
    "a notebook": lambda _: DARK_NOTEBOOK + released(10)._repr_html_(),
    "a notebook with a session": lambda _: DARK_NOTEBOOK + session()._repr_html_(),
    "a ledger": _ledger,
    "no ledger": lambda _: ledger_page([]),
    "the paper": _reproduction,
}


JUPYTER = """html { font-size: 10px; } body { font: 13px/2 serif; }
.cell { color: #777; font-size: 14px; line-height: 2; text-align: right; white-space: pre-wrap; }
.cell :is(h1, h2, h3) { font-weight: normal; font-style: italic; margin: 1em 0; color: red; }
.cell h2 { font-size: 28px; } .cell p { text-align: left; margin: 0 0 1em; color: #777; }
.cell ul:not(.list-inline) { padding-left: 2em; list-style: square; margin-bottom: 1em; }
.cell table { border: 1px solid; color: black; font-size: 12px; table-layout: fixed;
  margin-left: auto; margin-right: auto; }
.cell thead { border-bottom: 1px solid black; } .cell tr { line-height: normal; }
.cell:not(.markdown) :is(td, th, tr) { vertical-align: middle; padding: .5em; text-align: center;
  white-space: normal; border: 1px solid; max-width: 9px; }
.cell tbody tr:nth-child(odd) { background: #f5f5f5; }
.cell dl dt { float: left; width: 20%; font-weight: bold; } .cell dd { margin-left: 2em; }
.cell svg { max-width: 50%; } .cell figure { margin: 1em 40px; text-align: center; }
.cell details { border: 1px solid; padding: 1em; } .cell summary { font-size: 30px; }
"""
"""Rules such as those of JupyterLab and of the classic notebook, and worse ones."""

LOOKS = """[...document.querySelectorAll('.dpgap, .dpgap *')].map(it => {
  const {x, y, width, height} = it.getBoundingClientRect(), style = getComputedStyle(it);
  return [it.tagName, x, y, width, height, ...['color', 'fontSize', 'fontFamily', 'fontWeight',
    'fontStyle', 'lineHeight', 'textAlign', 'backgroundColor', 'borderTopWidth', 'listStyleType',
    'whiteSpace', 'float'].map(name => style[name])].join(' '); })"""


@pytest.fixture(scope="module")
def tab(browser: Any) -> Iterator[Any]:
    """One tab for all; nothing leaves it."""
    with browser.new_context() as context:
        opened = context.new_page()
        opened.route("**/*", lambda route: route.abort())  # between two pages, too
        yield opened


@pytest.fixture
def show(tab: Any) -> Iterator[Callable[..., list[str]]]:
    """Show a page; returns a list that grows by what it asks for, and what it complains of."""
    heard: list[str] = []

    def said(message: Any) -> None:
        heard.append(message.text)

    def shown(content: str, policy: str | None = None) -> list[str]:
        headers = {"Content-Type": "text/html; charset=utf-8"}
        headers |= {} if policy is None else {"Content-Security-Policy": policy}

        def answer(route: Any) -> None:
            if route.request.url == HOME:
                route.fulfill(body=content, headers=headers)
            else:
                heard.append(f"asks for {route.request.url}")
                route.abort()

        tab.unroute("**")
        tab.route("**", answer)
        tab.goto(HOME)
        return heard

    tab.on("console", said)
    yield shown
    tab.remove_listener("console", said)


VIEWS = [("screen", scheme, width) for scheme in ("light", "dark") for width in WIDTHS]
VIEWS.append(("print", "dark", PAPER))


def _faults(tab: Any, views: list[tuple[str, str, int]] = VIEWS) -> dict[Any, list[str]]:
    """What is wrong, at every width, in the light, in the dark and on paper."""
    found = {}
    for media, scheme, width in views:
        tab.emulate_media(media=media, color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 800})
        if faults := tab.evaluate(CHECKS):
            found[media, scheme, width] = faults
    return found


OTHER_ROWS = {f"3 rows, {kind} names" for kind in ("forty", "long", "right to left")}
OTHER_ROWS |= {f"50 rows, {kind} names" for kind in ("short", "forty", "right to left")}
OTHER_ROWS |= {"above, 3 rows", "above, 50 rows"}
"""What is shown with ten rows, or by another kind of release, already."""


@pytest.mark.parametrize("name", quick_in(SHOWN, SHOWN.keys() - OTHER_ROWS))
def test_a_page_fits_and_can_be_read(
    tab: Any, show: Callable[..., list[str]], name: str, tmp_path: Path
) -> None:
    content = SHOWN[name](tmp_path)
    heard = show(content)
    assert _faults(tab) == {}
    assert heard == []
    assert tab.evaluate("document.querySelectorAll('[style], script, img, link').length") == 0


PAPERS = """<!DOCTYPE html><style>body { margin: 0; background: #ffffff; }
@media (prefers-color-scheme: dark) { body { background: #141b24; } }</style>"""


@pytest.mark.parametrize("name", sorted(path.stem for path in FIGURES.parent.glob("*.svg")))
def test_a_picture_of_the_documentation_can_be_read(
    tab: Any, show: Callable[..., list[str]], name: str
) -> None:
    drawn = (FIGURES.parent / f"{name}.svg").read_text(encoding="utf-8")
    heard = show(PAPERS + drawn)
    views = [("screen", scheme, 1200) for scheme in ("light", "dark")]
    assert _faults(tab, views) == {}
    assert heard == []
    show(PAPERS + drawn.replace("</style>", "text { font-size: 60px !important; }</style>", 1))
    assert "overlap" in str(_faults(tab, views))


BROKEN = {
    "the page scrolls sideways": ".dpgap table { display: block; min-width: 900px; }",
    "DIV scrolls sideways": ".dpgap .measured { overflow-x: auto; } .dpgap table { width: 900px; }",
    "outside of the page": ".dpgap h1 { margin-left: -30px; }",
    "overlap": ".dpgap .row .value { margin-left: -9rem; }",
    "overlap: 2,": ".dpgap .row text { font-size: 2.4rem; }",
    "lines for a name": ".dpgap .row .name { width: 3.5rem; }",
    "contrast": ".dpgap { --quiet: #93a0b0; }",
    "contrast 1.00": ".dpgap .row text { fill: var(--paper); }",
}


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_stylesheet_is_found(tab: Any, show: Callable[..., list[str]], fault: str) -> None:
    sound = re.sub("<meta http-equiv.*?>", "", page(released(10)))
    show(sound.replace("</style>", f"{BROKEN[fault]}</style>"))
    seen = [each for faults in _faults(tab, VIEWS[:2]).values() for each in faults]
    assert any(each.startswith(fault) or f" {fault}" in each for each in seen), seen


@pytest.mark.parametrize("how", ["best", "above"])
def test_a_page_can_be_served_under_the_strictest_policy(
    tab: Any, show: Callable[..., list[str]], how: str
) -> None:
    content = page(released(10, how=how))
    heard = show(content, content_policy(STYLE))
    tab.emulate_media(media="screen", color_scheme="light")
    assert heard == []
    assert tab.evaluate("getComputedStyle(document.querySelector('.dot')).fill") == (
        "rgb(29, 92, 184)"
    )
    assert "unsafe" not in content


def test_whatever_breaks_the_policy_is_heard(tab: Any, show: Callable[..., list[str]]) -> None:
    sound = re.sub("<meta http-equiv.*?>", "", page(released(3)))
    heard = show(sound.replace("<h1>", '<h1 style="color: red">'), content_policy(STYLE))
    assert "inline style" in heard.pop()
    assert show(sound.replace(STYLE, STYLE + " "), content_policy(STYLE))
    heard.clear()
    assert show(sound.replace("<h1>", '<img src="http://elsewhere.test/x.png"><h1>')) == [
        "asks for http://elsewhere.test/x.png",
        "Failed to load resource: net::ERR_FAILED",
    ]


def _sheets(tab: Any) -> int:
    tab.emulate_media(media="print")
    return len(re.findall(rb"/Type\s*/Page\b", tab.pdf(format="A4")))


@pytest.mark.parametrize("how", ["best", "joint", "ranked", "paper", "above"])
def test_ten_rows_are_printed_on_two_sheets(
    tab: Any, show: Callable[..., list[str]], how: str
) -> None:
    content = page(released(10, how=how))
    show(content)
    assert _sheets(tab) <= 2
    parts = "[...document.querySelectorAll('table, tr, .row')]"
    assert tab.evaluate(f"{parts}.every(it => getComputedStyle(it).breakInside === 'avoid')")


def test_a_page_that_takes_more_sheets_is_found(tab: Any, show: Callable[..., list[str]]) -> None:
    show(re.sub("<meta http-equiv.*?>", "", page(released(10))).replace("9pt", "15pt"))
    assert _sheets(tab) > 2


@pytest.mark.parametrize("width", WIDTHS[::2])
def test_a_screen_reader_finds_the_title_the_table_and_its_headings(
    tab: Any, show: Callable[..., list[str]], width: int
) -> None:
    release = released(3)
    show(page(release))
    tab.emulate_media(media="screen")
    tab.set_viewport_size({"width": width, "height": 800})
    tree = tab.context.new_cdp_session(tab).send("Accessibility.getFullAXTree")["nodes"]
    seen = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"]
    ]
    roles = [role for role, _ in seen]
    assert [roles.count(role) for role in ("main", "contentinfo", "table")] == [1, 1, 1]
    assert [name for role, name in seen if role == "columnheader"] == list(release._cells())
    assert [name for role, name in seen if role == "rowheader"] == list(release.labels)
    assert roles.count("row") == 4
    assert [name for role, name in seen if role == "image"] == [
        "Top 3: product, by customer count: the estimates and 95 % intervals of the table, drawn"
    ]
    headings = [
        (node["name"]["value"], prop["value"]["value"])
        for node in tree
        for prop in node.get("properties", ())
        if prop["name"] == "level" and node["role"]["value"] == "heading"
    ]
    assert headings[0] == ("Top 3: product, by customer count", 1)
    assert {level for _, level in headings[1:]} == {2}


@pytest.mark.parametrize("shows", ["20 groups", "a session"])
def test_headings_are_in_order_and_every_link_leads_to_one(
    tab: Any, show: Callable[..., list[str]], shows: str, tmp_path: Path
) -> None:
    show(SHOWN[shows](tmp_path))
    levels = tab.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(it => +it.tagName[1])")
    assert levels[0] == 1 < min(levels[1:])
    assert all(after <= before + 1 for before, after in pairwise(levels))
    target = "document.querySelector(it.hash).firstElementChild.innerText === it.innerText"
    links = tab.evaluate(f"[...document.querySelectorAll('a')].map(it => {target})")
    assert len(links) == (20 if shows == "20 groups" else 26)
    assert all(links)


@pytest.mark.parametrize("width", WIDTHS[::2])
def test_the_styles_of_a_notebook_change_nothing_in_a_cell(
    tab: Any, show: Callable[..., list[str]], width: int
) -> None:
    tab.set_viewport_size({"width": width, "height": 800})
    cell = released(3)._repr_html_().replace("<details>", "<details open>")
    looks = []
    for style in ("", JUPYTER):
        show(f"<!DOCTYPE html><style>{style}</style><body><div class=cell>{cell}</div>")
        looks.append(tab.evaluate(LOOKS))
    plain, inside = looks
    assert len(plain) > 100
    assert [pair for pair in zip(plain, inside, strict=True) if pair[0] != pair[1]] == []
    outside = "getComputedStyle(document.querySelector('.cell')).fontSize"
    assert tab.evaluate(outside) == "14px"
