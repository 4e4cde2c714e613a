"""The site: it builds without a warning, its links lead somewhere, and it is whole on a phone."""

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from pages import PAGES, ROOT

pytestmark = pytest.mark.xdist_group("site")

CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")
HOME = "http://site.test"
SHOWN = [
    "docs/index",
    "docs/privacy",
    "docs/epsilon",
    "docs/tutorial-analyst",
    "docs/how-to/file",
    "docs/explain-hull",
    "docs/scale",
    "docs/comparison",
    "docs/reference/tables",
    "docs/reference/command-line",
    "SECURITY",
]
"""A page of every kind."""
SEPARATE = """() => {
  // Drawers are out of sight until they are asked for. What commands print scrolls in its box.
  for (const it of document.querySelectorAll(".sidebar-drawer, .toc-drawer, .skip-to-content"))
    it.remove();
  for (const it of document.querySelectorAll("pre .go"))
    if (getComputedStyle(it.closest("pre")).overflowX === "auto") it.remove();
}"""

TORN = r"""() => {
  // Words of code in the cells of tables that begin on one line and end on another.
  const isTorn = (text, word) => {
    const range = document.createRange();
    range.setStart(text, word.index);
    range.setEnd(text, word.index + word[0].length);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
  };
  const texts = [...document.querySelectorAll("td code *, td code")]
    .flatMap((it) => [...it.childNodes]).filter((node) => node.nodeType === Node.TEXT_NODE);
  return texts.flatMap((text) => [...text.data.matchAll(/\S+/g)]
    .filter((word) => isTorn(text, word)).map((word) => word[0]));
}"""


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` makes it: a warning would be an error."""
    folder = tmp_path_factory.mktemp("site")
    command = "-m sphinx -n -q -W --keep-going -c docs -b html".split()
    command += ["-d", str(folder / "doctrees"), ".", str(folder / "html")]
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    return folder / "html"


def test_make_docs_builds_the_same_site_that_is_tested() -> None:
    assert "sphinx -n -q -W --keep-going -c docs" in (ROOT / "Makefile").read_text()


class Anchors(HTMLParser):
    """The names in a page that links can lead to, and where its own links and pictures lead."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.names |= {name for key in ("id", "name") if (name := given.get(key))}
        links = [link for key in ("href", "src") if (link := given.get(key)) is not None]
        self.links += links
        self.loads += links if tag != "a" else []


def _broken(folder: Path) -> Iterator[str]:
    """Links within the site that lead nowhere."""
    pages = {path: Anchors(path) for path in folder.rglob("*.html")}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            names = pages[target].names if target in pages else {parts.fragment}
            is_there = not parts.fragment or unquote(parts.fragment) in names
            if not (target.is_file() and is_there):
                yield f"{path.name}: {link}"


def test_no_link_of_the_site_leads_nowhere(site: Path) -> None:
    assert [*_broken(site)] == []
    assert sum(len(Anchors(path).links) for path in site.rglob("*.html")) > 1000


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    loads = {link for path in site.rglob("*.html") for link in Anchors(path).loads}
    assert "../_static/site.css" in {link.partition("?")[0] for link in loads}
    assert {link for link in loads if urlsplit(link).scheme or urlsplit(link).netloc} == set()


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text('<a href="two.html#there"></a><a href="#here"></a>')
    (tmp_path / "two.html").write_text('<p id="there"><a href="three.html"></a><img src="x.svg">')
    assert sorted(_broken(tmp_path)) == [
        "one.html: #here",
        "two.html: three.html",
        "two.html: x.svg",
    ]


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT).with_suffix(".html") for path in PAGES}
    missing = {path for path in pages if not (site / path).is_file()}
    assert missing == {Path("README.html")}  # its door is docs/index


@pytest.mark.parametrize("module", ["dpgap", "dpgap.estimates", "dpgap.proof", "dpgap.simulation"])
def test_every_public_name_is_in_the_reference(site: Path, module: str) -> None:
    pages = (site / "docs" / "reference").glob("*.html")
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    public = importlib.import_module(module)
    things = {name: getattr(public, name) for name in public.__all__}
    homes = {
        name: "dpgap" if thing.__module__ == "dpgap" else module
        for name, thing in things.items()
        if not inspect.ismodule(thing)
    }
    assert [name for name, home in homes.items() if f'id="{home}.{name}"' not in text] == []


def test_no_page_of_the_reference_says_that_it_is_empty(site: Path) -> None:
    assert "are empty" not in (site / "docs/reference/index.html").read_text(encoding="utf-8")


def test_every_command_and_option_is_in_the_reference(site: Path) -> None:
    import typer.main

    from dpgap.cli.main import app

    text = (site / "docs" / "reference" / "command-line.html").read_text(encoding="utf-8")
    for name, command in typer.main.get_command(app).commands.items():
        section = text.partition(f'<section id="dpgap-{name}')[2].partition("</section>")[0]
        assert f">dpgap {name}" in section, name
        loaded = command.make_context(name, [], resilient_parsing=True).command
        for option in (each for one in loaded.params for each in one.opts):
            assert option in section, option
    assert "--samples" in text


@pytest.fixture(scope="module")
def tab(browser: Any, site: Path) -> Iterator[tuple[Any, list[str]]]:
    """A tab, and a list of what it asked for elsewhere or complained of."""
    heard: list[str] = []

    def answer(route: Any) -> None:
        parts = urlsplit(route.request.url)
        file = site / unquote(parts.path).lstrip("/")
        if f"{parts.scheme}://{parts.netloc}" == HOME and file.is_file():
            route.fulfill(path=file)
        else:
            heard.append(route.request.url)
            route.abort()

    with browser.new_context() as context:
        page = context.new_page()
        page.on("console", lambda message: heard.append(message.text))
        page.route("**/*", answer)
        yield page, heard


def _faults(tab: Any, page: str) -> list[str]:
    """What is wrong with a page, on a phone and on a screen, in the light and in the dark."""
    tab.goto(f"{HOME}/{page}.html")
    tab.set_viewport_size({"width": 360, "height": 800})
    tab.evaluate(SEPARATE)
    found = []
    for scheme in ("light", "dark"):
        for width in (360, 1200):
            tab.emulate_media(color_scheme=scheme)
            tab.set_viewport_size({"width": width, "height": 800})
            faults = [each for each in tab.evaluate(CHECKS) if " lines for " not in each]
            found += [f"{page}, {scheme}, {width}: {each}" for each in faults]
    return found


@pytest.mark.parametrize("page", SHOWN)
def test_a_page_fits_a_phone_and_can_be_read_in_the_dark(
    tab: tuple[Any, list[str]], page: str
) -> None:
    assert _faults(tab[0], page) == []
    assert tab[1] == []


@pytest.mark.parametrize("page", ["install", "choosing", "opendp", "audit-others"])
def test_no_word_of_code_in_a_table_is_torn_on_a_phone(
    tab: tuple[Any, list[str]], page: str
) -> None:
    tab[0].set_viewport_size({"width": 360, "height": 800})
    tab[0].goto(f"{HOME}/docs/{page}.html")
    assert tab[0].evaluate(TORN) == []
    tab[0].add_style_tag(content="article table.docutils td { width: 2em; display: block; }")
    assert tab[0].evaluate(TORN) != []


@pytest.mark.long
def test_every_page_fits_a_phone_and_can_be_read_in_the_dark(
    tab: tuple[Any, list[str]], site: Path
) -> None:
    pages = (path.relative_to(site) for path in site.rglob("*.html"))
    names = sorted(str(path.with_suffix("")) for path in pages if str(path) != "index.html")
    assert [fault for name in names for fault in _faults(tab[0], name)] == []
    assert tab[1] == []


def test_what_leaves_the_machine_or_is_cut_off_is_found(
    tab: tuple[Any, list[str]], site: Path
) -> None:
    page, heard = tab
    sound = (site / "docs" / "privacy.html").read_text(encoding="utf-8")
    wide = '<div style="width: 900px; background: #fff; color: #ccc">far too wide</div>'
    far = '<img src="https://elsewhere.test/x.png">'
    (site / "docs" / "broken.html").write_text(
        sound.replace("<h1>", f"{wide}{far}<h1>", 1), encoding="utf-8"
    )
    faults = " ".join(_faults(page, "docs/broken"))
    (site / "docs" / "broken.html").unlink()
    assert "scrolls sideways" in faults
    assert "contrast" in faults
    assert "https://elsewhere.test/x.png" in heard
    heard.clear()


def test_the_search_finds_gaps(tab: tuple[Any, list[str]]) -> None:
    page, heard = tab
    page.goto(f"{HOME}/docs/index.html")
    page.set_viewport_size({"width": 1200, "height": 800})
    page.fill("input.sidebar-search", "gaps")
    page.press("input.sidebar-search", "Enter")
    page.wait_for_selector("#search-results li a")
    found = page.locator("#search-results li a").all_inner_texts()
    assert any("Gaps: what comes free" in each for each in found)
    assert heard == []
