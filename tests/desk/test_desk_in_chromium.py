"""The desk as people use it: in a real browser, with every press counted and every charge too."""

import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from desks import HOSTILE, KEY, Running, process_of, running, token_of, write_file

import dpgap
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger

pytestmark = pytest.mark.xdist_group("chromium")

CHECKS = (Path(__file__).parents[1] / "page_checks.js").read_text(encoding="utf-8")
NAME = '"><img src=x onerror=alert(1)>'
"""Somebody's name."""


@pytest.fixture
def tab(browser: Any) -> Iterator[Any]:
    """A fresh browser window. It asks nobody but this machine, and nothing complains."""
    heard: list[str] = []
    with browser.new_context() as context:
        context.on("request", lambda it: heard.append(it.url) if ".localhost:" not in it.url else 0)
        context.on("console", lambda it: heard.append(it.text))
        context.on("weberror", lambda it: heard.append(str(it.error)))
        context.on("dialog", lambda it: heard.append("a dialog"))
        yield context.new_page()
    assert heard == []


def _enter(tab: Any, desk: Running, person: str = "ann") -> None:
    tab.goto(desk.url)
    tab.fill("#token", token_of(person))
    tab.press("#token", "Enter")
    tab.wait_for_url(f"{desk.url}/")


def _spent(desk: Running) -> Fraction:
    last = desk.desk.ledger.entries("sales")[-1]
    return last.spent + last.reserved


def _requests(desk: Running) -> int:
    return sum(entry.kind == "reserve" for entry in desk.desk.ledger.entries("sales"))


def test_from_the_link_to_a_kept_release_in_eight_clicks(tab: Any, tmp_path: Path) -> None:
    with running(write_file(tmp_path, people={}, shares="{}")) as desk:
        clicks = 0

        def click(what: str) -> None:
            nonlocal clicks
            tab.click(what)
            clicks += 1

        tab.goto(f"{desk.url}/enter?link={desk.desk.auth.link}")
        click("main button >> text=Enter")
        click("a.button >> text=Ask")
        before = tab.inner_text("#expect .big")
        tab.fill("#k", "2")
        with tab.expect_response("**/data/sales?**"):
            tab.fill("#epsilon", "1")
        tab.wait_for_selector("#expect button:has-text('ε = 1')")
        assert tab.inner_text("#expect .big") != before
        click("#expect button")
        tab.wait_for_selector("text=What may be believed")
        with tab.expect_download() as kept:
            click("text=Document")
        release = dpgap.read_release(Path(kept.value.path()).read_text(encoding="utf-8"))
        assert release.labels == ("fig", "pea")
        assert clicks <= 8
        assert _spent(desk) == 1
        assert "link" not in "".join(desk.lines)


class _Listening(BaseHTTPRequestHandler):
    """Somebody else's server on this machine, which notes the cookies that browsers send it."""

    cookies: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.cookies.append(self.headers.get("cookie", ""))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("person", [None, "sue"])
def test_no_server_at_another_port_gets_the_cookie(
    browser: Any, tmp_path: Path, person: str | None
) -> None:
    """Whoever had it could act as the steward: a port is no border for cookies."""
    _Listening.cookies.clear()
    local = {"people": {}, "shares": "{}"} if person is None else {}
    other = HTTPServer(("127.0.0.1", 0), _Listening)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    try:
        with running(write_file(tmp_path, **local)) as desk, browser.new_context() as context:
            tab = context.new_page()
            if person is None:
                tab.goto(f"{desk.url}/enter?link={desk.desk.auth.link}")
                tab.click("main button >> text=Enter")
            else:
                _enter(tab, desk, person)
            tab.goto(f"{desk.url}/steward")
            assert "What was spent" in tab.inner_text("h1")
            for name in ("127.0.0.1", "localhost", "other.localhost"):
                tab.goto(f"http://{name}:{other.server_port}/")
    finally:
        other.shutdown()
        thread.join()
        other.server_close()
    assert len(_Listening.cookies) >= 3
    assert not any(_Listening.cookies)


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Running]:
    """A desk whose answers take long enough to press twice."""
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace("tick = 0.02", "tick = 0.5"))
    with running(path) as found:
        yield found


FRESH = "/data/sales?topic=what&k=2&epsilon=0.5&fresh=yes"


def test_a_double_click_pays_once(tab: Any, slow: Running) -> None:
    _enter(tab, slow)
    tab.goto(slow.url + FRESH)
    tab.dblclick("#expect button", no_wait_after=True)
    for _ in range(200):  # the second click may break off what the first one loads
        if "/releases/" in tab.url:
            break
        tab.wait_for_timeout(50)
    assert (_spent(slow), _requests(slow)) == (Fraction(1, 2), 1)


def test_reloading_an_answer_and_going_back_to_press_again_pay_once(
    tab: Any, slow: Running
) -> None:
    _enter(tab, slow)
    tab.goto(f"{slow.url}/data/sales?topic=what&k=2&epsilon=0.5")
    tab.click("#expect button")
    tab.wait_for_url("**/releases/*")
    tab.reload()
    tab.go_back()
    tab.click("#expect button")
    tab.wait_for_url("**/releases/*")
    assert "nothing was charged" in tab.inner_text("main")
    assert (_spent(slow), _requests(slow)) == (Fraction(1, 2), 1)


def test_two_tabs_pay_for_their_own_questions_once_each(tab: Any, slow: Running) -> None:
    _enter(tab, slow)
    other = tab.context.new_page()
    for each, question in ((tab, FRESH), (other, FRESH.replace("k=2", "k=1"))):
        each.goto(slow.url + question)
    for each in (tab, other):
        each.click("#expect button", no_wait_after=True)
    for each in (tab, other):
        each.wait_for_url("**/releases/*")
    assert (_spent(slow), _requests(slow)) == (Fraction(1), 2)


NEVER_SETTLED = """
import time
from dpgap.budget.ledger import LedgerReservation
LedgerReservation.settle = lambda *_: time.sleep(600)
"""


def test_a_server_that_is_killed_leaves_one_charge_and_its_answer(
    browser: Any, tmp_path: Path
) -> None:
    path = write_file(tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    with process_of(path, NEVER_SETTLED) as dying, browser.new_context() as context:
        tab = context.new_page()
        tab.goto(dying.url)
        tab.fill("#token", token_of("ann"))
        tab.press("#token", "Enter")
        tab.wait_for_url(f"{dying.url}/")
        tab.goto(dying.url + FRESH)
        form = tab.evaluate(
            "Object.fromEntries(new FormData(document.querySelector('#expect form')))"
        )
        tab.click("#expect button", no_wait_after=True)
        spool = path.with_suffix(".spool")
        while not any(file.stat().st_size > 100 for file in spool.glob("*/[0-9]*.*")):
            tab.wait_for_timeout(20)
        dying.kill()
        with process_of(path, port=int(dying.url.rpartition(":")[2])) as living:
            tab.goto(living.url)
            sent = tab.evaluate(
                "form => fetch('/data/sales/ask', {method: 'POST', "
                "body: new URLSearchParams(form)}).then(answer => answer.url)",
                form,
            )
            assert "/data/sales/releases/" in sent
            tab.goto(sent)
            assert "fig" in tab.inner_text("main")
    kinds = [entry.kind for entry in ledger.entries("sales")]
    assert kinds.count("reserve") == 1
    assert ledger.entries("sales")[-1].spent == Fraction(1, 2)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Running]:
    """A desk with names that nobody should have, long ones, and charges of all kinds."""
    people = {"ann": "", "sue": 'role = "steward"', NAME.replace('"', '\\"'): ""}
    path = write_file(tmp_path, people=people, shares="{ ann = 5, sue = 1 }")
    text = path.read_text().replace('"Sales & more"', f"'{NAME}{'w' * 90}'")
    path.write_text(text)
    with running(path) as found:
        found.desk.ledger.account("sales").of(NAME).reserve(
            Cost.pure(Fraction(1, 7)), "broken off " * 9
        )
        with found.program("ann") as ann:
            said = {"topic": "what", "k": 5, "epsilon": 1, "key": "the-first"}
            ann.post("/api/v1/datasets/sales/ask", json=said)
        yield found


PLACES = [
    "/",
    "/data/sales",
    "/data/sales?topic=what&kind=above&threshold=50&epsilon=900",
    "/data/sales?sizes=1:9000,10:2000&method=ranked",
    "/data/sales/archive",
    "/data/sales/releases/4",
    "/steward",
    "/steward/sales",
    "/programs",
    "/nothing",
]


def test_every_page_fits_a_phone_and_can_be_read_in_the_dark(
    browser: Any, hostile: Running
) -> None:
    faults: dict[tuple[str, str, int], list[str]] = {}
    heard: list[str] = []
    with browser.new_context() as context:
        context.on("dialog", lambda it: heard.append("a dialog"))
        context.on("weberror", lambda it: heard.append(str(it.error)))
        context.on("console", lambda it: heard.append(it.text) if "404" not in it.text else None)
        tab = context.new_page()
        _enter(tab, hostile, "sue")
        for place in PLACES:
            tab.goto(hostile.url + place)
            for scheme in ("light", "dark"):
                tab.emulate_media(color_scheme=scheme)
                for width in (360, 1200):
                    tab.set_viewport_size({"width": width, "height": 800})
                    if found := tab.evaluate(CHECKS):
                        faults[place, scheme, width] = found
    assert faults == {}
    assert [each for each in heard if "422" not in each] == []


def test_hostile_names_are_only_names(tab: Any, hostile: Running) -> None:
    _enter(tab, hostile)
    for place in ("/", "/data/sales", "/data/sales/archive", "/data/sales/releases/4"):
        tab.goto(hostile.url + place)
        assert tab.evaluate("document.images.length") == 0
    assert HOSTILE in tab.inner_text("main")


def test_the_whole_way_needs_no_mouse(tab: Any, desk: Running) -> None:
    _enter(tab, desk)

    def tab_to(wanted: Callable[[], bool]) -> None:
        for _ in range(60):
            tab.keyboard.press("Tab")
            if wanted():
                return
        raise AssertionError("no key leads there")

    def is_at(selector: str) -> Callable[[], bool]:
        return lambda: bool(tab.evaluate(f"document.activeElement.matches({selector!r})"))

    tab_to(is_at("main a.button"))
    tab.keyboard.press("Enter")
    tab.wait_for_selector("#expect")
    tab_to(is_at("#epsilon"))
    tab.keyboard.press("Control+A")
    tab.keyboard.type("0.25")
    tab.wait_for_selector("#expect button:has-text('ε = 0.25')")
    tab_to(is_at("#expect button"))
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/releases/*")
    tab_to(is_at(".downloads a"))
    assert _spent(desk) == Fraction(1, 4)


def test_moving_the_slider_changes_what_to_expect(tab: Any, desk: Running) -> None:
    _enter(tab, desk)
    tab.goto(f"{desk.url}/data/sales")
    width = "document.querySelector('.width.chosen .interval').getBoundingClientRect().width"
    assert tab.evaluate(width) > 0
    tab.focus("#slider")
    with tab.expect_response("**/data/sales?**"):
        tab.keyboard.press("End")
    tab.wait_for_selector("#expect button:has-text('ε = 5')")
    assert "not enough" not in tab.inner_text("#expect")


def test_a_slider_ends_at_what_is_left_though_that_is_no_decimal(tab: Any, tmp_path: Path) -> None:
    with running(write_file(tmp_path, shares='{ ann = "1/3" }')) as desk:
        _enter(tab, desk)
        tab.goto(f"{desk.url}/data/sales?epsilon=0.1")
        tab.focus("#slider")
        with tab.expect_response("**/data/sales?**"):
            tab.keyboard.press("End")
        assert tab.input_value("#epsilon") == "0.333333333333"
        tab.wait_for_selector("#expect button:enabled")


def test_a_forecast_that_fails_says_so_and_can_be_asked_for_again(
    browser: Any, desk: Running
) -> None:
    with browser.new_context() as context:
        tab = context.new_page()
        _enter(tab, desk)
        tab.goto(f"{desk.url}/data/sales")
        tab.route("**/data/sales?**part=expect**", lambda route: route.fulfill(status=503))
        tab.fill("#epsilon", "0.25")
        tab.wait_for_selector("text=cannot be shown just now")
        assert tab.is_disabled("#expect .pay button")  # it is for another ε
        tab.click("text=Show what to expect")
        tab.wait_for_selector("#expect button:enabled:has-text('ε = 0.25')")


def test_it_all_works_without_a_script(browser: Any, desk: Running) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        tab = context.new_page()
        _enter(tab, desk)
        tab.click("a.button >> text=Ask")
        tab.fill("#epsilon", "0.25")
        tab.click("text=Show what to expect")
        tab.click("#expect button:has-text('ε = 0.25')")
        tab.wait_for_url("**/releases/*")
        assert "What may be believed" in tab.content()
    assert _spent(desk) == Fraction(1, 4)
    assert KEY not in "".join(desk.lines)


def test_the_head_of_a_page_stands_on_one_line(tab: Any, desk: Running) -> None:
    _enter(tab, desk)
    tab.set_viewport_size({"width": 1100, "height": 800})
    middles = tab.evaluate(
        "[...document.querySelectorAll('.top > *')].map(it => it.getBoundingClientRect())"
        ".map(it => it.top + it.height / 2)"
    )
    assert len(middles) == 3
    assert max(middles) - min(middles) < 1
