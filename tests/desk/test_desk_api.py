"""The desk for programs and for stewards: the same as the pages, and no more than the ledger."""

import re
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import sqlalchemy as sql
from desks import Running, form_in, question, running, token_of, write_file

from dpgap.budget.cost import Cost
from dpgap.desk.queue import ACTS

DOCS = Path(__file__).parents[2] / "docs" / "desk.md"
ACT = "/api/v1/datasets/sales/acts/"


def test_the_client_of_the_documentation_works_and_has_ten_lines(desk: Running) -> None:
    (client,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    lines = [line for line in client.splitlines() if line.strip()]
    assert len(lines) <= 12
    given = client.replace('"products"', '"what"').replace('"k": 3', '"k": 1')
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", given],
        env={
            "DPGAP_DESK": f"http://127.0.0.1:{desk.port}",
            "DPGAP_DESK_TOKEN": token_of("ann"),
            "PYTHONPATH": ":".join(sys.path),
            "PYTHONIOENCODING": "utf-8",
        },
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert "fig" in done.stdout


def test_every_route_of_the_api_is_described_and_shown(desk: Running) -> None:
    with desk.program("ann") as ann, desk.browser("ann") as browser:
        described = ann.get("/api/openapi.json").json()
        page = browser.get("/programs").text
    routes = {
        (method.upper(), path) for path, each in described["paths"].items() for method in each
    }
    assert ("POST", "/api/v1/datasets/{name}/ask") in routes
    assert len(routes) >= 11
    for _, path in routes:
        assert path in page
    assert described["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


SAID = {
    "raise": {"epsilon": "12"},
    "lower": {"epsilon": 7},
    "allow": {"epsilon": "1/2", "person": "bob"},
    "close": {},
}


@pytest.mark.parametrize("what", SAID)
def test_a_steward_does_what_the_ledger_does_and_it_says_who_and_why(
    desk: Running, what: str
) -> None:
    with desk.program("sue") as sue:
        assert sue.post(ACT + what, json=SAID[what]).status_code == 422
        done = sue.post(ACT + what, json={**SAID[what], "reason": "a survey"})
        assert done.status_code == 200, done.text
    last = desk.desk.ledger.entries("sales")[-1]
    assert last.kind == what
    assert last.reason == "a survey (sue, at the desk)"


def test_the_same_by_forms(desk: Running) -> None:
    with desk.browser("sue") as sue:
        for what, said in SAID.items():
            form = form_in(sue.get("/steward/sales").text, f"/steward/sales/{what}")
            sent = {**form, **{name: str(value) for name, value in said.items()}, "reason": "why"}
            sent["token"] = token_of("sue")
            done = sue.post(f"/steward/sales/{what}", data=sent)
            assert done.headers["location"] == f"/steward/sales?done={what}", done.text
    kinds = [entry.kind for entry in desk.desk.ledger.entries("sales")]
    assert kinds[-4:] == list(SAID)
    assert set(SAID) | {"write-off"} == set(ACTS[:5])
    with desk.program("ann") as ann:
        refused = ann.post("/api/v1/datasets/sales/ask", json=question())
        assert refused.status_code == 409
        assert ann.get("/api/v1/datasets/sales").json()["left"] == "0"


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("raise", {"epsilon": 9}),
        ("lower", {"epsilon": "0"}),
        ("allow", {"epsilon": -1, "person": "bob"}),
        ("allow", {"epsilon": 1, "person": ""}),
        ("allow", {"epsilon": 1, "person": "nobody"}),
        ("write-off", {"entry": 0}),
        ("write-off", {}),
    ],
)
def test_what_the_ledger_refuses_the_desk_refuses(
    desk: Running, what: str, said: dict[str, object]
) -> None:
    before = len(desk.desk.ledger.entries("sales"))
    with desk.program("sue") as sue:
        answer = sue.post(ACT + what, json={**said, "reason": "why"})
        assert answer.status_code == 422, answer.text
        assert sue.post(ACT + "bind", json={"reason": "why"}).status_code == 404
    assert len(desk.desk.ledger.entries("sales")) == before


def test_what_is_left_is_what_the_ledger_says(desk: Running) -> None:
    with desk.program("ann") as ann, desk.program("bob") as bob:
        ann.post("/api/v1/datasets/sales/ask", json=question(epsilon="3/2"))
        lefts = [each.get("/api/v1/datasets/sales").json()["left"] for each in (ann, bob)]
        (row,) = bob.get("/api/v1/datasets/sales/releases").json()["releases"]
    assert lefts == ["7/2", "17/2"]
    assert (row["state"], row["person"], Fraction(row["epsilon"])) == (
        "settled",
        "ann",
        Fraction(3, 2),
    )


def test_programs_page_through_everything_and_so_do_pages(tmp_path: Path) -> None:
    with running(write_file(tmp_path)) as desk:  # a steward's program sees where the table is
        _page_through(desk)


def _page_through(desk: Running) -> None:
    account = desk.desk.ledger.account("sales").of("bob")
    for number in range(7):
        reservation = account.reserve(Cost.pure(Fraction(1, 10)), f"number {number}")
        if number != 2:
            reservation.settle(Cost.pure(Fraction(1, 10)))
    api = "/api/v1/datasets/sales/"
    with desk.program("sue") as sue, desk.browser("sue") as browser:
        for what, wanted in (("releases", 7), ("entries", 15)):
            rows, before = [], {}
            while True:
                part = sue.get(api + what, params={"limit": 3, **before}).json()
                rows += part[what]
                if part["next"] is None:
                    break
                before = {"before": part["next"]}
            assert len(rows) == wanted
            assert rows == sue.get(api + what).json()[what]
        for place in ("/data/sales/archive", "/steward/sales"):
            shown = browser.get(place, params={"limit": 3}).text
            (older,) = re.findall(rf'href="({place}\?before=\d+)"', shown)
            assert "number 6" in shown
            assert "number 6" not in browser.get(older).text
        for wrong in ("limit=0", "limit=1001", "before=-1", "before=x", "limit=1e3"):
            assert sue.get(f"{api}releases?{wrong}").status_code == 422
            assert browser.get(f"/data/sales/archive?{wrong}").status_code == 422
        far = sue.get(f"{api}releases?before={10**30}").json()
        assert len(far["releases"]) == 7


def test_programs_see_what_nobody_settled_and_verify_the_book(desk: Running) -> None:
    reservation = (
        desk.desk.ledger.account("sales").of("bob").reserve(Cost.pure(Fraction(1, 10)), "it died")
    )
    api = "/api/v1/datasets/sales/"
    with desk.program("sue") as sue, desk.program("ann") as ann:
        (stale,) = sue.get(f"{api}stale").json()["reservations"]
        assert (stale["entry"], stale["state"]) == (reservation.entry.number, "under way")
        said = {"entry": stale["entry"], "reason": "it died"}
        assert sue.post(ACT + "write-off", json=said).status_code == 200
        listed = sue.get(f"{api}stale").json()
        assert listed["reservations"] == []
        (written_off,) = listed["written_off"]
        assert (written_off["entry"], written_off["person"]) == (stale["entry"], "bob")
        head = desk.desk.ledger.account("sales").head
        assert sue.get(f"{api}verify").json() == {"flaws": [], "head": head}
        with sql.create_engine(desk.desk.file.ledger).begin() as connection:
            connection.execute(sql.text("UPDATE dpgap_entries SET kind = 'close' WHERE number = 1"))
        (flaw,) = sue.get(f"{api}verify").json()["flaws"]
        assert "entry 1 was edited" in flaw
        for what in ("stale", "verify", "entries"):
            assert ann.get(api + what).status_code == 403


def test_a_key_that_was_used_and_a_budget_for_another_unit_are_refused_in_words_of_their_own(
    desk: Running,
) -> None:
    with desk.program("ann") as ann:
        asked = question(key="number-one")
        assert ann.post("/api/v1/datasets/sales/ask", json=asked).status_code == 200
        used = ann.post("/api/v1/datasets/sales/ask", json={**asked, "epsilon": "0.2"})
        desk.desk.ledger.steward("sales").bind(unit="city", reason="a slip")
        other = ann.post("/api/v1/datasets/sales/ask", json=question(k=1))
    assert (used.status_code, other.status_code) == (409, 409)
    assert "key was used for another question" in used.json()["error"]
    assert "budget is for another table, unit or columns" in other.json()["error"]
    assert "key" not in other.json()["error"]
    assert "table" not in used.json()["error"]
