"""Questions at the desk: charged once each, archived before they are seen, free ever after."""

import html
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from desks import Running, form_in, question, running, token_of, write_file, write_table

import dpgap
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import LedgerReservation
from dpgap.desk.questions import FilledForm
from dpgap.desk.queue import Receipt, own_key
from dpgap.desk.spool import Pending

ASK = "/api/v1/datasets/sales/ask"


def _spent(desk: Running) -> Fraction:
    last = desk.desk.ledger.entries("sales")[-1]
    return last.spent + last.reserved


def test_an_answer_is_charged_archived_and_read_by_everybody_who_may(desk: Running) -> None:
    with desk.program("ann") as ann, desk.program("bob") as bob:
        answer = ann.post(ASK, json=question(k=1, epsilon=5)).json()
        assert answer["state"] == "settled"
        assert not answer["again"]
        assert _spent(desk) == 5
        archived = bob.get(f"/api/v1/datasets/sales/releases/{answer['entry']}")
        release = dpgap.read_release(archived.text)
        assert release.labels == ("fig",)
        assert archived.json() == answer["release"]


def test_the_same_question_is_paid_for_once_whoever_asks_it(desk: Running) -> None:
    with desk.program("ann") as ann, desk.program("bob") as bob:
        first = ann.post(ASK, json=question()).json()
        second = bob.post(ASK, json=question()).json()
        assert second["again"]
        assert second["entry"] == first["entry"]
        assert _spent(desk) == Fraction(1, 10)
        fresh = bob.post(ASK, json=question(fresh=True)).json()
        assert fresh["entry"] != first["entry"]
        assert _spent(desk) == Fraction(2, 10)


def test_a_paid_answer_stays_free_after_it_has_ceased_to_be_recent(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpgap.budget.requests._LATELY", timedelta(0))
    with desk.program("ann") as ann, desk.program("bob") as bob:
        first = ann.post(ASK, json=question()).json()
        second = bob.post(ASK, json=question()).json()
    assert (second["again"], second["entry"]) == (True, first["entry"])
    assert _spent(desk) == Fraction(1, 10)


def test_one_key_is_charged_once_however_many_send_it_at_once(desk: Running) -> None:
    asked = question(fresh=True)
    with desk.program("ann") as ann, ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: ann.post(ASK, json=asked).json(), range(8)))
    assert len({answer["entry"] for answer in answers}) == 1
    assert _spent(desk) == Fraction(1, 10)


def test_two_tabs_that_ask_the_same_at_once_pay_once(desk: Running) -> None:
    with desk.program("ann") as ann, ThreadPoolExecutor(6) as threads:
        tabs = list(threads.map(lambda _: ann.post(ASK, json=question()).json(), range(6)))
    assert {tab["state"] for tab in tabs} == {"settled"}
    assert _spent(desk) == Fraction(1, 10)


def test_a_key_that_was_used_for_another_question_is_refused(desk: Running) -> None:
    key = "one-key-for-two"
    with desk.program("ann") as ann:
        assert ann.post(ASK, json=question(key=key)).status_code == 200
        answer = ann.post(ASK, json=question(key=key, k=3))
        assert answer.status_code == 409
        assert "another question" in answer.json()["error"]
    assert _spent(desk) == Fraction(1, 10)


def _by_form(desk: Running, person: str, said: dict[str, Any]) -> str:
    """Where the form of a question leads, sent with this key."""
    with desk.browser(person) as browser:
        fields = {name: value for name, value in said.items() if name != "key"}
        page = browser.get("/data/sales", params=fields).text
        form = form_in(page, "/data/sales/ask") | {"key": said["key"]}
        answer = browser.post("/data/sales/ask", data=form)
    return answer.headers.get("location", str(answer.status_code))


def test_a_key_gets_its_own_answer_however_often_the_question_was_asked_since(
    desk: Running,
) -> None:
    mine = question()
    with desk.program("ann") as ann, desk.program("bob") as bob:
        first = ann.post(ASK, json=mine).json()
        newer = bob.post(ASK, json=question(fresh=True)).json()
        assert newer["entry"] != first["entry"]
        retry = ann.post(ASK, json=mine).json()
        assert (retry["entry"], retry["release"]) == (first["entry"], first["release"])
    assert f"releases/{first['entry']}?" in _by_form(desk, "ann", mine)
    assert _spent(desk) == Fraction(2, 10)


def test_a_key_under_way_waits_for_its_own_answer(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpgap.desk.queue._PATIENCE", 0)
    mine, data = question(), desk.desk.file.datasets["sales"]
    visitor = desk.desk.auth.with_token(token_of("ann"))
    assert visitor is not None
    form = FilledForm.read({name: str(value) for name, value in mine.items()})
    pending = desk.desk.charge(visitor, data, form, mine["key"])
    assert isinstance(pending, Pending)
    with desk.program("ann") as ann, desk.program("bob") as bob:
        newer = bob.post(ASK, json=question(fresh=True)).json()
        assert newer["state"] == "settled"
        retry = ann.post(ASK, json=mine).json()
        assert (retry["entry"], retry["state"]) == (pending.entry.number, "under way")
        assert _by_form(desk, "ann", mine).endswith(f"asked/{mine['key']}")
        pending.draw()
        desk.desk.settle(pending)
        retry = ann.post(ASK, json=mine).json()
        assert (retry["entry"], retry["state"]) == (pending.entry.number, "settled")
    assert _spent(desk) == Fraction(2, 10)


def test_a_key_whose_answer_was_free_is_kept(desk: Running) -> None:
    free = question()
    with desk.program("ann") as ann, desk.program("bob") as bob:
        first = ann.post(ASK, json=question()).json()
        assert bob.post(ASK, json=free).json()["entry"] == first["entry"]
        ann.post(ASK, json=question(fresh=True)).raise_for_status()
        retry = bob.post(ASK, json=free).json()
        assert (retry["entry"], retry["release"]) == (first["entry"], first["release"])
        refused = bob.post(ASK, json={**free, "k": 1})
        assert (refused.status_code, "another question" in refused.text) == (409, True)
        state = bob.get(f"/api/v1/datasets/sales/asked/{free['key']}").json()
        assert state == {"entry": first["entry"], "state": "settled", "again": True}
    assert f"releases/{first['entry']}?" in _by_form(desk, "bob", free)
    assert _by_form(desk, "bob", {**free, "k": 1}) == "409"
    assert _spent(desk) == Fraction(2, 10)
    assert desk.desk.ledger.verify() == []


def test_a_key_whose_answer_is_free_is_kept_once_however_many_send_it_at_once(
    desk: Running,
) -> None:
    free = question()
    with desk.program("ann") as ann, desk.program("bob") as bob, ThreadPoolExecutor(8) as threads:
        first = ann.post(ASK, json=question()).json()
        answers = list(threads.map(lambda _: bob.post(ASK, json=free).json(), range(8)))
    assert {answer["entry"] for answer in answers} == {first["entry"]}
    kinds = [entry.kind for entry in desk.desk.ledger.entries("sales")]
    assert kinds.count("again") == 1
    assert desk.desk.ledger.verify() == []


def test_a_key_that_joined_a_question_under_way_is_kept(desk: Running) -> None:
    mine, joined, data = question(), question(), desk.desk.file.datasets["sales"]
    ann, bob = (desk.desk.auth.with_token(token_of(name)) for name in ("ann", "bob"))
    assert ann is not None
    assert bob is not None
    form = FilledForm.read({name: str(value) for name, value in mine.items()})
    pending = desk.desk.charge(ann, data, form, mine["key"])
    assert isinstance(pending, Pending)
    for _ in range(2):
        receipt = desk.desk.charge(bob, data, form, joined["key"])
        assert receipt == Receipt(pending.entry.number, "under way", again=True)
    pending.draw()
    desk.desk.settle(pending)
    with desk.program("ann") as program:
        program.post(ASK, json=question(fresh=True)).raise_for_status()
    with desk.program("bob") as program:
        assert program.post(ASK, json=joined).json()["entry"] == pending.entry.number
        assert program.post(ASK, json={**joined, "k": 1}).status_code == 409
    assert _spent(desk) == Fraction(2, 10)


def test_keys_are_kept_when_a_desk_starts_again_and_a_budget_renews(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, paid, free = write_file(tmp_path), question(), question()
    with running(path) as desk, desk.program("ann") as ann, desk.program("bob") as bob:
        first = ann.post(ASK, json=paid).json()
        bob.post(ASK, json=free).raise_for_status()
        desk.desk.ledger.steward("sales").renew(every="day", epsilon=1)
    monkeypatch.setattr("dpgap.budget.requests._LATELY", timedelta(0))
    later = (datetime.now(UTC) + timedelta(1)).isoformat(timespec="microseconds")
    monkeypatch.setattr("dpgap.budget.store.Rows.now", lambda _: later)
    with running(path) as desk, desk.program("ann") as ann, desk.program("bob") as bob:
        for client, said in ((ann, paid), (bob, free)):
            retry = client.post(ASK, json=said).json()
            assert (retry["entry"], retry["release"]) == (first["entry"], first["release"])
        assert _spent(desk) == Fraction(1, 10)
        assert not bob.post(ASK, json=question()).json()["again"]
        assert bob.post(ASK, json=free).json()["release"] == first["release"]
        assert _spent(desk) == Fraction(2, 10)


def test_a_key_keeps_its_answer_when_its_topic_is_another(desk: Running, tmp_path: Path) -> None:
    """The public items were changed, so the question would now be another one, or none."""
    paid, free = question(), question()
    with desk.program("ann") as ann, desk.program("bob") as bob, desk.program("sue") as sue:
        first = ann.post(ASK, json=paid).json()
        bob.post(ASK, json=free).raise_for_status()
        (tmp_path / "items.txt").write_text("fig\n", encoding="utf-8")
        sue.post("/api/v1/datasets/sales/acts/refresh", json={}).raise_for_status()
        assert ann.post(ASK, json=question()).status_code == 422
        for client, said in ((ann, paid), (bob, free)):
            retry = client.post(ASK, json=said).json()
            assert (retry["entry"], retry["release"]) == (first["entry"], first["release"])
    assert _spent(desk) == Fraction(1, 10)


def test_keys_of_two_people_never_meet(desk: Running) -> None:
    key = "the-same-key"
    with desk.program("ann") as ann, desk.program("bob") as bob:
        ann.post(ASK, json=question(key=key))
        assert bob.get(f"/api/v1/datasets/sales/asked/{key}").status_code == 404
        assert bob.post(ASK, json=question(key=key, k=1)).status_code == 200


def test_a_page_says_since_when_an_answer_of_a_budget_that_renews_is_free(desk: Running) -> None:
    words = "If the same was asked before{}, its answer is free"
    with desk.browser("ann") as ann:
        assert words.format("") in ann.get("/data/sales").text
        period = desk.desk.ledger.steward("sales").renew(every="month", epsilon=1).period
        assert period is not None
        assert words.format(f", on {period.since} or later") in ann.get("/data/sales").text


def test_an_allowance_ends_before_the_budget_does(desk: Running) -> None:
    with desk.program("ann") as ann:
        assert ann.get("/api/v1/datasets/sales").json()["left"] == "5"
        answer = ann.post(ASK, json=question(epsilon=6))
        assert answer.status_code == 409
        assert "may spend" in answer.json()["error"]
    assert _spent(desk) == 0


def test_a_form_pays_once_however_often_it_is_sent(desk: Running) -> None:
    with desk.browser("ann") as ann:
        page = ann.get("/data/sales", params={"topic": "what", "k": "2", "fresh": "yes"}).text
        form = form_in(page, "/data/sales/ask")
        places = {ann.post("/data/sales/ask", data=form).headers["location"] for _ in range(3)}
        (_, other) = sorted(places)
        assert other.endswith("?again=yes")
        shown = ann.get(other).text
        assert "nothing was charged" in shown
        assert "What may be believed" in shown
    assert _spent(desk) == Fraction(1, 2)


@pytest.mark.parametrize("ending", ["json", "html", "csv"])
def test_a_release_can_be_kept_as_a_file(desk: Running, ending: str) -> None:
    with desk.browser("ann") as ann, desk.program("ann") as program:
        number = program.post(ASK, json=question()).json()["entry"]
        kept = ann.get(f"/data/sales/releases/{number}.{ending}")
        assert kept.status_code == 200
        assert kept.headers["content-disposition"] == (
            f'attachment; filename="sales-{number}.{ending}"'
        )
        assert "sandbox" in kept.headers["content-security-policy"]
        assert "script>" not in kept.text.replace("<script>alert", "") or ending == "json"


def test_a_plan_spends_nothing_and_is_that_of_the_library(desk: Running) -> None:
    with desk.program("ann") as ann, desk.browser("ann") as browser:
        said = {"topic": "what", "k": 3, "epsilon": "0.4"}
        rows = ann.post("/api/v1/datasets/sales/plan", json=said).json()["rows"]
        sized = {**said, "sizes": "1:4000, 3:900, 7:10"}
        words = ann.post("/api/v1/datasets/sales/plan", json=sized).json()["words"]
        page = browser.get("/data/sales", params=sized).text
    assert all(html.escape(each, quote=False) in page for each in words)
    known = {"k": 3, "epsilon": "0.4", "method": "best", "monotonic": True}
    right = dpgap.plan(**known, counts={1: 4000, 3: 900, 7: 10}, items=7).rows[0].precision
    assert words[-1] == f"With such counts {100 * right:.1f} % of the winners would be right."
    plan = dpgap.plan(**known)
    (asked,) = (row for row in rows if row["epsilon"] == "2/5")
    expected = plan.rows[0]
    assert asked["half_width"] == expected.half_width
    assert (asked["error"], asked["close_error"]) == (expected.error, expected.close_error)
    assert asked["left"] == "23/5"
    assert _spent(desk) == 0


def test_no_question_counts_the_table_and_a_steward_does(desk: Running, tmp_path: Path) -> None:
    asked = question(k=1, epsilon=2, fresh=True)
    write_table(tmp_path / "sales.csv", figs=1)
    with desk.program("ann") as ann, desk.program("sue") as sue:
        before = ann.post(ASK, json=asked).json()["release"]
        assert "fig" in str(before["labels"])
        act = "/api/v1/datasets/sales/acts/refresh"
        assert ann.post(act, json={}).status_code == 403
        assert sue.post(act, json={}).status_code == 200
        after = ann.post(ASK, json=asked | {"key": "another-key"}).json()["release"]
        assert "pea" in str(after["labels"])


def test_a_table_that_cannot_be_counted_again_is_told_and_its_older_counts_stay(
    desk: Running, tmp_path: Path
) -> None:
    (tmp_path / "sales.csv").unlink()
    words = "sales was not counted again, and its older counts stay: there is no file 'sales.csv'"
    with desk.program("sue") as sue, desk.browser("sue") as page, desk.program("ann") as ann:
        answer = sue.post("/api/v1/datasets/sales/acts/refresh", json={})
        assert (answer.status_code, answer.json()) == (503, {"error": words})
        form = form_in(page.get("/steward/sales").text, "/steward/sales/refresh")
        answer = page.post("/steward/sales/refresh", data={**form, "token": token_of("sue")})
        assert answer.status_code == 503
        assert html.escape(words).replace("&#x27;", "&#39;") in answer.text
        assert "fig" in str(ann.post(ASK, json=question(epsilon=2)).json()["release"]["labels"])


def test_a_release_that_was_never_settled_is_shown_as_charged(tmp_path: Path) -> None:
    with running(write_file(tmp_path)) as desk, desk.browser("ann") as ann:
        account = desk.desk.ledger.account("sales")
        visitor = desk.desk.auth.with_token(token_of("ann"))
        assert visitor is not None
        data = desk.desk.file.datasets["sales"]
        key = "a-desk-that-died"
        account.of("ann", key=own_key(visitor, key)).reserve(
            Cost.pure(Fraction(1)), "top 2 of what by who"
        )
        page = ann.get(f"/data/sales/asked/{key}").text
        assert "Charged, and not answered yet" in page
        assert desk.desk.receipt(visitor, data, key).state == "under way"
        with desk.browser("sue") as sue:
            budget = sue.get("/steward/sales").text
            form = form_in(budget, "/steward/sales/write-off")
            said = {"reason": "it died", "token": token_of("sue")}
            done = sue.post("/steward/sales/write-off", data={**form, **said})
            assert done.headers["location"] == "/steward/sales?done=write-off"
        assert "written it off" in ann.get(f"/data/sales/asked/{key}").text
        assert _spent(desk) == 1


def test_what_could_not_be_archived_is_not_handed_out(
    desk: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise dpgap.LedgerError("the ledger is out of reach")

    monkeypatch.setattr(LedgerReservation, "settle", lost)
    monkeypatch.setattr("dpgap.desk.queue._PATIENCE", 0)
    with desk.program("ann") as ann, desk.browser("ann") as browser:
        answer = ann.post(ASK, json=question()).json()
        assert (answer["state"], answer["release"]) == ("under way", None)
        form = form_in(browser.get("/data/sales").text, "/data/sales/ask")
        refused = browser.post("/data/sales/ask", data=form)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert "waits for the ledger" in refused.text
        assert browser.get(f"/data/sales/releases/{answer['entry']}").status_code == 404
        assert desk.desk.ledger.entries("sales")[-1].reserved == Fraction(1, 10)


def test_a_question_says_again_what_it_was_told() -> None:
    said = {"topic": "what", "kind": "above", "threshold": "1/3", "epsilon": "0.25", "k": "7"}
    asked = FilledForm.read(said)
    assert FilledForm.read(asked.fields) == asked
    assert asked.question.threshold == Fraction(1, 3)


def test_whoever_has_an_allowance_can_ask_about_items_that_are_not_stated(tmp_path: Path) -> None:
    any_item = (
        '[[datasets.sales.topics]]\nname = "any"\nitem = "what"\nmax_items = 3\n'
        """where = "what in ('fig', 'pea')\""""
    )
    path = write_file(tmp_path, data='epsilon = 10\ndelta = "1e-3"', more=any_item)
    with running(path) as desk, desk.program("ann") as ann, desk.program("sue") as sue:
        act = {"person": "ann", "epsilon": 4, "reason": "less"}
        for delta in ("1e-5", "2e-5"):
            asked = question(topic="any", delta=delta)
            answer = ann.post("/api/v1/datasets/sales/ask", json=asked)
            assert answer.status_code == 200, answer.text
            sue.post("/api/v1/datasets/sales/acts/allow", json=act).raise_for_status()
        desk.desk.ledger.steward("sales").allow("ann", 4, delta=0)
        with desk.browser("ann") as browser:
            assert "Ask, and pay" in browser.get("/data/sales").text


def test_counting_again_renews_what_is_public_of_a_topic(desk: Running, tmp_path: Path) -> None:
    (tmp_path / "items.txt").write_text("fig\npea\n", encoding="utf-8")
    with desk.program("ann") as ann, desk.program("sue") as sue, desk.browser("ann") as browser:
        plan = {"topic": "what", "k": 3}
        assert ann.post("/api/v1/datasets/sales/plan", json=plan).status_code == 200
        sue.post("/api/v1/datasets/sales/acts/refresh", json={}).raise_for_status()
        refused = ann.post("/api/v1/datasets/sales/plan", json=plan)
        assert refused.json() == {"error": "k must be at most 2: there are no more items"}
        assert ann.post(ASK, json=question(k=3)).status_code == 422
        assert (
            'name="k" type="number" min="1" max="1000" value="2"' in browser.get("/data/sales").text
        )
