"""What pages and notes say: never more than is left, and always what to do next."""

import html
import re
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from desks import Running, form_in, question, running, token_of, write_file

import dpgap.desk.queue as queue
from dpgap.budget import store
from dpgap.budget.cost import Cost
from dpgap.budget.entries import LedgerError
from dpgap.budget.ledger import Ledger
from dpgap.budget.store import BUSY_SECONDS, Rows
from dpgap.desk.app import check_desk, greeting, open_desk, other_amounts, place_of
from dpgap.desk.auth import hash_of_token
from dpgap.desk.config import read_stewards_file

ASK = "/api/v1/datasets/sales/ask"


def _text(page: str) -> str:
    """The text of a page, without its tags."""
    return " ".join(html.unescape(re.sub("<[^>]+>", " ", page)).split())


def _pages(desk: Running, person: str, *places: str) -> list[str]:
    with desk.browser(person) as browser:
        return [_text(browser.get(place).text) for place in places]


def _act(desk: Running, what: str, said: Mapping[str, object]) -> str:
    """The page after a steward's form."""
    with desk.browser("sue") as sue:
        form = form_in(sue.get("/steward/sales").text, f"/steward/sales/{what}")
        sent = {**form, "reason": "why", **said, "token": token_of("sue")}
        done = sue.post(f"/steward/sales/{what}", data=sent)
        return _text(
            sue.get(done.headers["location"]).text if done.has_redirect_location else done.text
        )


def test_a_fault_in_the_file_is_logged_once_with_its_line_and_pages_say_what_to_do(
    desk: Running, tmp_path: Path
) -> None:
    path = tmp_path / "desk.toml"
    good = path.read_text()
    hashed = hash_of_token(token_of("ann"))
    line = good.splitlines().index('[people."ann"]') + 1
    gone = good.replace(f'[people."ann"]\ntokens = ["{hashed}"]\n', "")
    people = gone.splitlines().index("[datasets.sales]") + 5
    words = "The steward's file has a fault: run <code>dpgap desk FILE --check</code>."
    faults = {
        gone: f"line {people}: datasets.sales.people names 'ann'",
        good.replace(f'["{hashed}"]', "[]"): f"line {line + 1}: people.ann.tokens must be a list",
        good.replace(hashed, token_of("ann")): f"line {line + 1}: people.ann.tokens must be a line",
    }
    with desk.browser("bob") as bob, desk.program("ann") as ann:
        for text, fault in faults.items():
            path.write_text(text)
            for _ in range(2):
                answer = bob.get("/")
                assert (answer.status_code, words in html.unescape(answer.text)) == (503, True)
                refused = ann.get("/api/v1/datasets")
                assert "run `dpgap desk FILE --check`" in refused.json()["error"]
            assert len([each for each in desk.lines if fault in each]) == 1
            assert token_of("ann") not in "".join(desk.lines)
        path.unlink()
        assert bob.get("/").status_code == 503
        path.write_text(good.replace(f'tokens = ["{hashed}"]\n', ""))  # how Ann is removed
        assert (bob.get("/").status_code, ann.get("/api/v1/datasets").status_code) == (200, 401)
    assert [each for each in desk.lines if "No such file" in each] != []


def test_what_is_left_is_rounded_down_and_what_is_spent_up(tmp_path: Path) -> None:
    with running(write_file(tmp_path, shares='{ ann = "0.50000078", bob = "all" }')) as desk:
        desk.desk.ledger.account("sales").of("ann").reserve(
            Cost.pure(Fraction("0.1943730")), "so much"
        ).settle(Cost.pure(Fraction("0.19437222")))
        places = ("/", "/data/sales", "/data/sales/archive", "/data/sales?epsilon=0.1234564")
        home, form, archive, other = _pages(desk, "ann", *places)
        for page in (home, form, archive):
            assert "≈0.305628" in page
            assert "≈0.305629" not in page
        assert "it costs at most ≈0.123457" in other
        (steward,) = _pages(desk, "sue", "/steward/sales")
        assert "spent ≈0.194373 " in steward
        assert "left ≈9.80562 " in steward
        assert "settle of 2 ≈0.194373" in steward
        assert "allow for ann 0.500001" not in steward


def test_pages_say_of_how_much_a_person_has_something_left(desk: Running) -> None:
    for page in _pages(desk, "ann", "/", "/data/sales/archive"):
        assert "of your 5; the whole budget is 10" in page
    for page in _pages(desk, "bob", "/", "/data/sales/archive"):
        assert "of 10 in all" in page


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, desk: Running, tmp_path: Path) -> Any:
    """A desk whose ledger is locked, and which does not wait long for it."""
    monkeypatch.setattr("dpgap.budget.store.BUSY_SECONDS", 0.01)
    desk.desk.ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    lock = sqlite3.connect(tmp_path / "budget.db", isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    yield desk
    lock.close()


def test_a_ledger_that_stays_locked_is_a_503_in_words(impatient: Running) -> None:
    """The request outlives the waiting for the ledger, so nothing is charged later."""
    words = "The ledger was busy for 60 seconds. Try again later: paid answers are kept."
    with impatient.program("ann") as ann, impatient.browser("ann") as browser:
        answer = ann.post(ASK, json=question())
        assert (answer.status_code, words in answer.json()["error"]) == (503, True)
        form = form_in(browser.get("/data/sales").text, "/data/sales/ask")
        page = browser.post("/data/sales/ask", data=form)
        assert (page.status_code, words in page.text) == (503, True)
    assert queue._SECONDS > 2 * BUSY_SECONDS


def test_a_question_that_waited_too_long_for_its_turn_is_not_charged(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "BUSY_SECONDS", -1)
    with desk.program("ann") as ann:
        answer = ann.post(ASK, json=question())
    assert (answer.status_code, desk.desk.ledger.entries("sales")[-1].reserved) == (503, 0)


def test_expected_precision_speaks_of_losers_only_if_there_are_some(desk: Running) -> None:
    some, every = _pages(desk, "ann", "/data/sales?k=6", "/data/sales?k=7")
    assert "Winners that lead the best loser by about" in some
    assert "loser" not in every


def test_nothing_left_and_closed_are_said(desk: Running) -> None:
    desk.desk.ledger.account("sales").of("ann").reserve(Cost.pure(Fraction(4)), "most")
    (page,) = _pages(desk, "ann", "/data/sales?epsilon=2")
    assert "There is not enough left for this. Choose a smaller ε." in page
    desk.desk.ledger.account("sales").of("ann").reserve(Cost.pure(Fraction(1)), "the rest")
    (page,) = _pages(desk, "ann", "/data/sales")
    assert "You have nothing left. Ask a steward." in page
    assert "Choose a smaller" not in page
    desk.desk.ledger.steward("sales").close(reason="over")
    (page,) = _pages(desk, "ann", "/data/sales")
    assert "This budget is closed." in page
    assert "Ask a steward" not in page


def test_forms_of_stewards_say_what_holds_now(desk: Running) -> None:
    entry = (
        desk.desk.ledger.account("sales").of("ann").reserve(Cost.pure(Fraction(1)), "lost").entry
    )
    acts: list[tuple[str, dict[str, object], str]] = [
        ("allow", {"person": "bob", "epsilon": "2"}, "bob may spend ε = 2 in all, by entry "),
        (
            "allow",
            {"person": "bob", "epsilon": "99"},
            "This is more than the total, 10.",
        ),
        ("raise", {"epsilon": "12"}, "The total is now ε = 12, and ε = 11 is left."),
        ("lower", {"epsilon": "11"}, "The total is now ε = 11, and ε = 10 is left."),
        ("write-off", {"entry": entry.number}, "is written off: its ε = 1 counts as spent."),
        ("refresh", {}, "The table is counted again."),
        ("close", {}, "The budget is closed. Nobody can ask any more."),
    ]
    for what, said, words in acts:
        assert words in _act(desk, what, said), what


def test_a_renewal_says_how_often(desk: Running) -> None:
    desk.desk.ledger.steward("sales").renew(every="week", epsilon=1, reason="weekly")
    (page,) = _pages(desk, "sue", "/steward/sales")
    assert "renew: ε = 1 every week; what is left lapses" in page


def test_errors_on_pages_have_the_labels_of_the_form(desk: Running) -> None:
    wanted = {
        "k=8": "“How many” must be at most 7",
        "epsilon=0,5": "ε must be a finite number such as 0.7, 1e-3 or 7/10, with an exponent "
        "within ±400, not '0,5': write 0.5",
        "epsilon=-1": "ε must be a number from 0 up",
        "kind=above&threshold=x": "“Above” must be a finite number",
        f"epsilon={'9' * 89}": "ε must be a number from 0 up, of at most 40 digits",
    }
    pages = _pages(desk, "ann", *(f"/data/sales?{query}" for query in wanted))
    for words, page in zip(wanted.values(), pages, strict=True):
        assert words in page
    assert "“Reason” must say why" in _act(desk, "raise", {"epsilon": "11", "reason": " "})
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question(k=8)).json()["error"].startswith("k must be at most 7")


def test_an_epsilon_above_20_gets_a_sentence_before_it_is_paid(desk: Running) -> None:
    pages = _pages(desk, "ann", "/data/sales?epsilon=20", "/data/sales?epsilon=21")
    assert [said.count("ε is above 20, which promises hardly anything") for said in pages] == [0, 1]
    with desk.program("ann") as ann:
        asked = {"topic": "what", "k": 2, "epsilon": "21"}
        planned = ann.post("/api/v1/datasets/sales/plan", json=asked).json()
    assert planned["words"][0].startswith("ε is above 20")


def test_a_delta_above_a_thousandth_gets_a_sentence_before_it_is_paid(tmp_path: Path) -> None:
    topic = '[[datasets.sales.topics]]\nname = "all"\nitem = "what"\nmax_items = 2\n'
    with running(write_file(tmp_path, data='epsilon = 10\ndelta = "0.1"', more=topic)) as desk:
        places = (f"/data/sales?topic=all&delta={delta}" for delta in ("1/1000", "0.0011"))
        pages = _pages(desk, "ann", *places)
    assert [said.count("δ is above 1/1,000") for said in pages] == [0, 1]


def test_a_form_of_a_table_with_a_decimal_comma_takes_one(tmp_path: Path) -> None:
    data = 'epsilon = 10\ndecimal = ","'
    with running(write_file(tmp_path, data=data)) as desk:
        page, ambiguous = _pages(
            desk,
            "ann",
            "/data/sales?kind=above&threshold=100,5&epsilon=0,5",
            "/data/sales?kind=above&threshold=1,500",
        )
        assert "Ask, and pay ε = 0.5" in page
        assert "write 1500 or 1.500" in ambiguous
        with desk.program("ann") as ann:
            asked = question(kind="above", threshold="100,5", epsilon="0,5")
            answer = ann.post(ASK, json=asked).json()["release"]
    assert answer["question"]["epsilon"] == "1/2"
    assert answer["question"]["threshold"] == "201/2"


def test_lists_of_questions_name_the_topic(tmp_path: Path) -> None:
    twice = '[[datasets.sales.topics]]\nname = "other"\ntitle = "In Bern"\nitem = "what"\n'
    twice += 'domain = "items.txt"\nwhere = "city = \'Bern\'"'
    with running(write_file(tmp_path, more=twice)) as desk:
        desk.desk.ledger.account("sales").of("bob").reserve(Cost.pure(Fraction(1)), "of a program")
        with desk.program("ann") as ann:
            for topic in ("what", "other"):
                ann.post(ASK, json=question(topic=topic)).raise_for_status()
        for page in _pages(desk, "ann", "/data/sales", "/data/sales/archive"):
            assert page.count("In Bern · ε") == 1
            assert page.count("what · ε") == 1


def test_commands_and_names_in_texts_for_programs_are_shown_as_code(desk: Running) -> None:
    with desk.browser("ann") as ann:
        page = ann.get("/programs").text
    assert "`" not in page
    assert "send <code>next</code> as <code>before</code>" in page


def test_a_number_stays_with_its_sign(desk: Running) -> None:
    with desk.browser("ann") as ann:
        assert "± " not in ann.get("/data/sales").text


def _notes(path: Path) -> list[str]:
    return other_amounts(read_stewards_file(path))


def test_amounts_that_contradict_each_other_are_noted(tmp_path: Path) -> None:
    path = write_file(tmp_path, shares='{ ann = 11, bob = "all" }')
    beyond = "'ann' may spend ε = {} of 'sales', more than its total, ε = {}"
    assert _notes(path) == [beyond.format(11, 10)]
    open_desk(read_stewards_file(path)).spool.close()
    assert _notes(path) == [beyond.format(11, 10)]
    path.write_text(path.read_text().replace("epsilon = 10", "epsilon = 12"))
    total, allowance = _notes(path)
    assert allowance == beyond.format(11, 10)
    assert "datasets.sales gives a total of ε = 12, but the ledger gives ε = 10" in total
    assert "`dpgap ledger raise` or `dpgap ledger lower --dataset sales --epsilon …`" in total
    steward = Ledger(f"sqlite:///{tmp_path}/budget.db").steward("sales")
    steward.raise_to(12, reason="as the file says")
    assert _notes(path) == []
    steward.renew(every="week", epsilon=1, carry=True, reason="weekly")
    path.write_text(path.read_text().replace("epsilon = 12", "epsilon = 13"))
    assert _notes(path) == []


SUM = """[[datasets.sales.topics]]
name = "money"
item = "what"
domain = "items.txt"
sum = "paid"
at_most = 3
"""


@pytest.mark.parametrize("stated", ["", 'decimal = "."', 'decimal = ","'])
def test_a_sum_of_text_without_a_decimal_mark_is_noted(tmp_path: Path, stated: str) -> None:
    path = write_file(tmp_path, data=f"epsilon = 10\n{stated}", more=SUM)
    _, notes = check_desk(read_stewards_file(path))
    assert len(notes) == (not stated)
    assert all("'money' adds up text: amounts such as 16,48" in each for each in notes)


def test_a_start_with_hosts_says_where_the_desk_listens(tmp_path: Path) -> None:
    for https, words in {
        "": "127.0.0.1:8797, behind your TLS proxy (https is true by default). If people call a "
        "port other than 443, `hosts` must name it",
        "https = false": "127.0.0.1:8797. If people call a port other than 80, `hosts` must "
        "name it",
    }.items():
        file = read_stewards_file(write_file(tmp_path, desk=f'hosts = ["localhost"]\n{https}'))
        desk = open_desk(file)
        lines = greeting(desk, place_of(desk, "127.0.0.1", 8797), "127.0.0.1")
        desk.spool.close()
        assert lines[-1] == f"It listens on http://{words}"


def _at_connect(pragma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection to a ledger begins with this."""
    begin = store._leave_transactions_to_us

    def opened(connection: Any, record: object) -> None:
        begin(connection, record)
        connection.execute(pragma)

    monkeypatch.setattr(store, "_leave_transactions_to_us", opened)


def _fill(account: Any) -> None:
    """Use up the room in the pages that the file has."""
    with suppress(LedgerError):
        for _ in range(1000):
            account.reserve(Cost.pure(Fraction(1, 10**9)), "a release " * 100)


FAILURES = {
    "full": ("PRAGMA max_page_count = 1", "has no room left on the disk"),
    "read-only": ("PRAGMA query_only = ON", "is read-only: this user must be allowed to write"),
    "gone": (None, "is gone: there is no file"),
    "damaged": (None, "is damaged or no ledger at all"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_the_log_says_why_the_ledger_fails_and_the_client_does_not_learn_it(
    desk: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    pragma, words = FAILURES[failure]
    file = tmp_path / "budget.db"
    if pragma is not None:
        _at_connect(pragma, monkeypatch)
        desk.desk.ledger = Ledger(f"sqlite:///{file}")
    if failure == "full":
        _fill(desk.desk.ledger.account("sales"))
    if failure == "gone":
        file.unlink()
    if failure == "damaged":
        file.write_bytes(bytes(5000))
    with desk.program("ann") as ann:
        answer = ann.post(ASK, json=question())
    assert answer.status_code == 503
    assert answer.json()["error"].startswith("The ledger cannot be reached or written just now")
    assert [line for line in desk.lines if line.startswith(f"the ledger {words}")]


def test_the_log_says_that_a_clock_is_wrong(desk: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.desk.ledger.steward("sales").renew(every="week", epsilon=1)
    monkeypatch.setattr(Rows, "now", lambda _: "2099-01-07T12:00:00.000000+00:00")
    with desk.program("ann") as ann:
        answer = ann.post(ASK, json=question())
    assert (answer.status_code, "2099-01-07" in answer.json()["error"]) == (503, True)
    assert [line for line in desk.lines if line.startswith("the clock says 2099-01-07")]


@pytest.mark.parametrize("pragma", [pragma for pragma, _ in FAILURES.values() if pragma])
def test_a_check_finds_a_ledger_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pragma: str
) -> None:
    file = read_stewards_file(write_file(tmp_path))
    assert check_desk(file)[0] == ["sales"]
    open_desk(file).spool.close()
    before = Ledger(file.ledger).entries("sales")
    assert check_desk(file)[0] == []
    assert Ledger(file.ledger).entries("sales") == before
    _at_connect(pragma, monkeypatch)
    _fill(Ledger(file.ledger).account("sales"))
    with pytest.raises(LedgerError, match=r"read-only: this user|no room left on the disk"):
        check_desk(file)
