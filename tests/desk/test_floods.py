"""Floods cost their author: what one person asks for is bounded before anything is charged."""

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from fractions import Fraction
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from desks import Running, form_in, process_of, question, running, token_of, write_file

from dpgap.budget.cost import Cost, Limit
from dpgap.budget.entries import Author, Balance, Entry, following
from dpgap.budget.ledger import Ledger
from dpgap.desk import questions
from dpgap.desk.app import open_desk
from dpgap.desk.config import FileFaults, read_stewards_file
from dpgap.desk.questions import FilledForm, number_in, text_of
from dpgap.desk.queue import Desk

API = "/api/v1/datasets/sales"
SLIDER = {"topic": "what", "k": "2", "epsilon": "0.37", "part": "expect"}


def test_a_moving_slider_works_nothing_out_twice_and_reads_no_archive(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[Any] = []
    choose = questions.choose

    def counted(question: Any, facts: Any) -> Any:
        planned.append(question.epsilon)
        return choose(question, facts)

    monkeypatch.setattr(questions, "choose", counted)
    with desk.browser("ann") as ann:
        whole = ann.get("/data/sales", params={**SLIDER, "part": ""}).text
        assert len(planned) == len(set(planned)) == 5
        monkeypatch.setattr(Desk, "archive", lambda *_: 1 / 0)
        part = ann.get("/data/sales", params=SLIDER)
        wider = ann.get("/data/sales", params={**SLIDER, "epsilon": "0.74"})
    assert len(planned) == 6  # of the other ε, those for less were there already
    assert (part.status_code, wider.status_code) == (200, 200)
    shown = part.text.strip()
    assert shown.startswith('<section id="expect"')
    assert shown.endswith("</section>")
    without_keys = [line for line in shown.splitlines() if 'name="key"' not in line]
    assert all(line in whole for line in without_keys)


def test_a_question_costs_at_least_what_the_file_says(tmp_path: Path) -> None:
    people = {"ann": "least_epsilon = 0.2", "bob": "", "sue": 'role = "steward"'}
    path = write_file(tmp_path, people=people, data="epsilon = 10\nleast_epsilon = 0.1")
    with running(path) as desk, desk.program("ann") as ann, desk.program("bob") as bob:
        tiny = bob.post(f"{API}/ask", json=question(epsilon="1e-8"))
        assert (tiny.status_code, bob.post(f"{API}/ask", json=question()).status_code) == (422, 200)
        assert "epsilon must be at least 0.1" in tiny.json()["error"]
        assert ann.post(f"{API}/ask", json=question(fresh=True)).status_code == 422
        plan = bob.post(f"{API}/plan", json={"topic": "what", "k": 2, "epsilon": "0.2"}).json()
        assert [row["epsilon"] for row in plan["rows"]] == ["1/10", "1/5", "2/5", "4/5"]
        assert len(desk.desk.ledger.account("sales").requests(9)) == 1


@pytest.mark.usefixtures("within_a_day")
def test_a_person_asks_so_many_questions_a_day_at_all_desks_together(tmp_path: Path) -> None:
    people = {"ann": "questions_a_day = 2", "bob": "", "sue": 'role = "steward"'}
    path = write_file(tmp_path, people=people)
    with running(path) as one, running(path) as other:
        with one.program("ann") as here, other.program("ann") as there, one.program("bob") as bob:
            first = question(fresh=True)
            assert here.post(f"{API}/ask", json=first).status_code == 200
            assert there.post(f"{API}/ask", json=question(fresh=True)).status_code == 200
            for desk in (here, there):
                refused = desk.post(f"{API}/ask", json=question(fresh=True))
                assert refused.status_code == 429
                assert "may ask 2 questions" in refused.json()["error"]
                assert desk.post(f"{API}/ask", json=first).json()["state"] == "settled"
            assert here.post(f"{API}/ask", json=question()).json()["again"]  # it was paid before
            assert bob.post(f"{API}/ask", json=question(fresh=True)).status_code == 200
            with one.browser("ann") as browser:
                form = form_in(browser.get("/data/sales?k=3").text, "/data/sales/ask")
                page = browser.post("/data/sales/ask", data=form)
        assert len(one.desk.ledger.account("sales").requests(9)) == 3
    assert page.status_code == 429
    assert "may ask 2 questions" in page.text


@pytest.mark.usefixtures("within_a_day")
def test_keys_of_free_answers_fill_no_ledger(tmp_path: Path) -> None:
    people = {"ann": "questions_a_day = 1", "bob": "", "sue": 'role = "steward"'}
    with running(write_file(tmp_path, people=people)) as desk, desk.program("ann") as ann:
        asked = [question() for _ in range(12)]
        answers = [ann.post(f"{API}/ask", json=each) for each in asked]
        assert [each.status_code for each in answers] == [200] * 11 + [429]
        assert "free answers" in answers[-1].json()["error"]
        assert ann.post(f"{API}/ask", json=asked[5]).json()["state"] == "settled"
        with desk.program("bob") as bob:
            assert bob.post(f"{API}/ask", json=question()).json()["again"]


def test_an_archive_grows_as_far_as_the_file_says(tmp_path: Path) -> None:
    path = write_file(tmp_path, data="epsilon = 10\nmegabytes = 1")
    with running(path) as desk, desk.program("ann") as ann, desk.program("bob") as bob:
        desk.desk.ledger.account("sales").of("eve").reserve(Cost.pure(Fraction(1)), "long").settle(
            Cost.pure(Fraction(1)), "x" * 10**6
        )
        for client in (ann, bob):
            refused = client.post(f"{API}/ask", json=question())
            assert refused.status_code == 429
            assert "may take 1 MB" in refused.json()["error"]
        assert len(desk.desk.ledger.account("sales").requests(9)) == 1


def test_one_rule_of_delta_for_the_file_the_pages_and_programs(tmp_path: Path) -> None:
    shares = '{ ann = 5, bob = { epsilon = 1, delta = "1e-9" } }'
    path = write_file(tmp_path, data='epsilon = 10\ndelta = "1e-6"', shares=shares)
    with running(path) as desk, desk.browser("sue") as sue, desk.program("sue") as program:
        steward = desk.desk.ledger.steward("sales")

        def allowance(person: str) -> Limit | None:
            mine = steward.balance_of(person).mine
            return None if mine is None else mine.allowance

        assert allowance("ann") == Limit("epsilon", Fraction(5), Fraction(1, 2 * 10**6))
        assert allowance("bob") == Limit("epsilon", Fraction(1), Fraction(1, 10**9))
        form = form_in(sue.get("/steward/sales").text, "/steward/sales/allow")
        for person, delta in (("bob", ""), ("ann", "1e-8"), ("eve", "")):
            said = {**form, "person": person, "epsilon": "2", "delta": delta, "reason": "so"}
            said["token"] = token_of("sue")
            assert sue.post("/steward/sales/allow", data=said).status_code == 303
        assert allowance("bob") == Limit("epsilon", Fraction(2), Fraction(1, 10**9))
        assert allowance("ann") == Limit("epsilon", Fraction(2), Fraction(1, 10**8))
        assert allowance("eve") == Limit("epsilon", Fraction(2), Fraction(2, 10**7))
        act = {"person": "ann", "epsilon": 3, "delta": "1e-7", "reason": "more"}
        assert program.post(f"{API}/acts/allow", json=act).status_code == 200
        assert allowance("ann") == Limit("epsilon", Fraction(3), Fraction(1, 10**7))


BAD_LIMITS = {
    "questions_a_day = 0": "datasets.sales.questions_a_day must be a whole number from 1 up",
    "least_epsilon = 0": "datasets.sales.least_epsilon must be greater than 0",
    "megabytes_a_day = true": "datasets.sales.megabytes_a_day must be a whole number from 1 up",
    "megabytes = -1": "datasets.sales.megabytes must be a whole number from 1 up",
    "people = { ann = { epsilon = 1 } }": "datasets.sales.people must give each person a number",
}


@pytest.mark.parametrize("line", BAD_LIMITS)
def test_a_limit_that_is_none_is_a_fault(tmp_path: Path, line: str) -> None:
    path = write_file(tmp_path, data=f"epsilon = 10\n{line}", shares="{}")
    path.write_text(path.read_text().replace("people = {}\n", ""))
    with pytest.raises(FileFaults) as caught:
        read_stewards_file(path)
    assert BAD_LIMITS[line] in str(caught.value)


def test_whoever_says_nothing_has_the_usual_limits(desk: Running) -> None:
    with desk.program("bob") as bob:
        assert bob.post(f"{API}/ask", json=question(epsilon="0.0009")).status_code == 422
        assert bob.post(f"{API}/ask", json=question(epsilon="0.001")).status_code == 200


@pytest.mark.parametrize("by", ["token", "cookie beside a header that says nothing"])
def test_one_person_has_few_requests_under_way_and_others_are_served(
    by: str, desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, waiting = threading.Event(), threading.Semaphore(0)
    archive = Desk.archive

    def stuck(self: Desk, *at: Any) -> Any:
        waiting.release()
        free.wait(20)
        return archive(self, *at)

    monkeypatch.setattr(Desk, "archive", stuck)
    client = desk.program("ann") if by == "token" else desk.browser("ann")
    page = f"{API}/releases" if by == "token" else "/data/sales/archive"
    more = {} if by == "token" else {"authorization": "x"}
    with client as ann, desk.program("bob") as bob, ThreadPoolExecutor(30) as threads:
        looks = [threads.submit(ann.get, page, headers=more) for _ in range(30)]
        for _ in range(12):
            assert waiting.acquire(timeout=20)
        refused = list(islice(as_completed(looks, timeout=20), 18))
        assert {look.result().status_code for look in refused} == {429}
        assert bob.get(API).status_code == 200
        free.set()
    assert sorted(look.result().status_code for look in looks) == [200] * 12 + [429] * 18
    with desk.program("ann") as ann:
        assert ann.get(API).status_code == 200


@pytest.mark.parametrize("text", ["1e-13", "1/3", "0.5", "1e-38", "10⁻¹¹", "2.5·10⁻⁷", " 0.25 "])
def test_numbers_that_the_desk_writes_are_numbers_that_it_reads(text: str) -> None:
    value = number_in({"delta": text}, "delta")
    written = text_of(value)
    assert number_in({"delta": written}, "delta") == value
    again = FilledForm.read({"topic": "what", "epsilon": "0.123456789012"}).question.epsilon / 4
    assert number_in({"epsilon": text_of(again)}, "epsilon") == again
    for _ in range(90):
        again /= 4
        assert 0 <= number_in({"epsilon": text_of(again)}, "epsilon") <= again


def test_a_budget_with_a_tiny_delta_can_be_asked_as_its_page_suggests(tmp_path: Path) -> None:
    path = write_file(tmp_path, data='epsilon = 10\ndelta = "1e-11"')
    text = path.read_text().replace('domain = "items.txt"', "max_items = 2")
    path.write_text(text)
    with running(path) as desk, desk.browser("ann") as ann:
        page = ann.get("/data/sales")
    assert page.status_code == 200
    assert "Ask, and pay" in page.text
    assert 'value="1e-13"' in page.text


def test_what_is_left_is_never_below_nothing(desk: Running) -> None:
    with desk.program("ann") as ann, desk.program("sue") as sue:
        assert ann.post(f"{API}/ask", json=question(epsilon=2)).status_code == 200
        act = {"person": "ann", "epsilon": 1, "reason": "less"}
        assert sue.post(f"{API}/acts/allow", json=act).status_code == 200
        assert ann.get(API).json()["left"] == "0"
        rows = ann.post(f"{API}/plan", json={"topic": "what", "k": 2}).json()["rows"]
    assert {row["left"] for row in rows} == {"0"}
    assert not any(row["is_covered"] for row in rows)


def test_a_field_that_is_refused_is_told_what_is_accepted(desk: Running) -> None:
    with desk.program("ann") as ann:
        short = ann.post(f"{API}/ask", json={"topic": "what", "key": "short"})
        wrong = ann.post(f"{API}/ask", json={"topic": "what", "key": "long-enough", "k": "many"})
        other = ann.post(f"{API}/ask", json={"topic": "what", "key": "long-enough", "q": 1})
        many = ann.get(f"{API}/releases?limit=5000")
    assert "key: String should have at least 8 characters" in short.json()["error"]
    assert "k: Input should be a valid integer" in wrong.json()["error"]
    assert "q: Extra inputs are not permitted" in other.json()["error"]
    assert "limit: Input should be less than or equal to 1000" in many.json()["error"]
    assert {each.status_code for each in (short, wrong, other, many)} == {422}


def test_no_page_waits_for_a_book_to_be_verified(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, verify, calls = threading.Event(), Ledger.verify, []

    def slow(self: Ledger, *which: Any, **how: Any) -> list[str]:
        calls.append(which)
        free.wait(20)
        return verify(self, *which, **how)

    monkeypatch.setattr(Ledger, "verify", slow)
    with desk.browser("sue") as sue:
        before = sue.get("/steward/sales").text
        form = form_in(before, "/steward/sales/verify")
        for _ in range(2):
            assert sue.post("/steward/sales/verify", data=form).status_code == 303
        during = sue.get("/steward/sales").text
        free.set()
        desk.desk.checks["sales"].result(20)
        after = sue.get("/steward/sales").text
    assert "Not verified since the desk started." in before
    assert "It is being verified now." in during
    assert re.search(r"Verified 20\d\d-\d\d-\d\d \d\d:\d\d UTC: the book is intact", after)
    assert len(calls) <= 2  # the second press started none of its own


def _write_long_book(ledger: Ledger, entries: int) -> None:
    """Write thousands of settled questions of 200 people in one transaction."""
    tiny = Cost.pure(Fraction(1, 1000))
    with ledger._store.writing("sales") as rows:
        last, mine = rows.find("sales")[-1], dict[str, Entry]()
        for number in range(entries // 2):
            who = f"person {number % 200}"
            at = f"2026-11-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}+00:00"
            author = Author("x@y", at, who, "", who)
            said = {"charge": tiny, "purpose": f"top {number}"}
            charged = following(Balance(last, mine.get(who)), "reserve", author, **said)
            both = Balance(charged, charged)
            last = mine[who] = following(both, "settle", author, charged, charge=tiny)
            for entry in (charged, last):
                rows.append(entry)


@pytest.mark.long
def test_a_slider_costs_less_than_a_question_and_a_long_book_costs_pages_little(
    tmp_path: Path,
) -> None:
    path = write_file(tmp_path, data="epsilon = 1000")
    _write_long_book(open_desk(read_stewards_file(path)).ledger, 20_000)
    with process_of(path) as desk:
        headers = {"origin": desk.url}
        with httpx.Client(base_url=desk.url, headers=headers, timeout=60) as sue:
            sue.post("/enter", data={"token": token_of("sue")})
            token = {"authorization": f"Bearer {token_of('bob')}"}

            def cost(times: int, request: Callable[[int], httpx.Response]) -> float:
                before = desk.processor_seconds
                for number in range(times):
                    assert request(number).status_code == 200
                return (desk.processor_seconds - before) / times

            def ask(_: int) -> httpx.Response:
                return httpx.post(
                    f"{desk.url}{API}/ask", json=question(fresh=True), headers=token, timeout=60
                )

            ask(0)
            asked = cost(50, ask)
            moved = cost(
                50, lambda it: sue.get("/data/sales", params={**SLIDER, "epsilon": f"0.{it + 100}"})
            )
            overview = cost(5, lambda _: sue.get("/steward"))
            budget = cost(5, lambda _: sue.get("/steward/sales"))
            archive = cost(5, lambda _: sue.get("/data/sales/archive?limit=1000"))
    assert moved < asked
    assert max(overview, budget, archive) < 0.25  # seconds; two, and two, before


@pytest.mark.long
def test_a_flood_ends_where_the_usual_limits_say(tmp_path: Path) -> None:
    with running(write_file(tmp_path)) as desk, desk.program("ann") as ann:
        answers = [
            ann.post(f"{API}/ask", json=question(fresh=True, epsilon="0.001")).status_code
            for _ in range(230)
        ]
        assert answers == [200] * 200 + [429] * 30
        assert desk.desk.ledger.entries("sales")[-1].archived < 20 * 10**6
        assert desk.desk.ledger.verify("sales") == []
