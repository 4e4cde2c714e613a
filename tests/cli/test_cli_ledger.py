"""`dpgap ledger` and what it refuses: in plain words, and before anything is charged."""

import csv
import getpass
import hashlib
import html
import io
import json
import re
import shlex
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.cost import Cost
from dpgap.budget.ledger import Ledger
from dpgap.budget.store import Rows
from dpgap.cli.main import app
from dpgap.releases.ledger_page import ledger_page

BUDGET = ["--ledger", "budget.db", "--dataset", "sales"]
ASK = ["sold.csv", "--unit", "who", "--item", "what", "--domain", "items.txt", "-k", "1"]
WHY = ["--reason", "the board said so"]
HALF = Fraction(1, 2)
Clock = Callable[[str], None]
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{who},{'fig' if who % 3 else 'pea'}\n" for who in range(900))
    Path("sold.csv").write_text("who,what\n" + rows)
    Path("items.txt").write_text("fig\npea\n")
    return tmp_path


def _run(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.stderr
    return done.stdout


def _refusal(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("dpgap: ")
    assert done.stderr.count("\n") == 1
    return done.stderr


def _book() -> list[Any]:
    return Ledger("budget.db").entries("sales")


def _create(*more: str) -> str:
    return _run("ledger", "create", *BUDGET, "--epsilon", "2", *more)


def test_a_steward_does_everything_from_the_command_line_and_each_act_is_an_entry() -> None:
    _create("--table", "sold.csv", "--unit", "who", "--neighbours", "replace", *WHY)
    assert "total      3" in _run("ledger", "raise", *BUDGET, "--epsilon", "3", *WHY)
    assert "total      2.5" in _run("ledger", "lower", *BUDGET, "--epsilon", "2.5", *WHY)
    _run("ledger", "allow", *BUDGET, "--person", "ann", "--epsilon", "1")
    _run("ledger", "bind", *BUDGET, "--unit", "who", "--unbind", *WHY)
    Ledger("budget.db").account("sales").of("ann").reserve(
        Cost.pure(Fraction(1, 4)), "top 1 of what"
    )
    said = _run("ledger", "write-off", *BUDGET, "--entry", "5", *WHY)
    assert said == "reservation 5 is written off: ε = 0.25 counts as spent\n"
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1, 4)), "top 1 of what")
    write_off = ["ledger", "write-off", *BUDGET, *WHY]
    today, who = str(datetime.now(UTC).date()), getpass.getuser()
    assert _run(*write_off, "--before", today) == (
        f"None was made before {today}. Open: entry 7 ({who}, {today}, ε = 0.25).\n"
    )
    assert "--before must not be later than today" in _refusal(*write_off, "--before", "2999-01-01")
    _run(*write_off, "--entry", "7")
    assert _run(*write_off, "--before", today).endswith("Open: none.\n")
    closed = json.loads(_run("ledger", "close", *BUDGET, *WHY, "--json"))
    assert (closed["closed"], closed["spent"]) == (True, "1/2")
    kinds = "create raise lower allow bind reserve write-off reserve write-off close"
    assert [entry.kind for entry in _book()] == kinds.split()
    assert {entry.reason for entry in _book()} == {"the board said so", ""}
    assert "intact" in _run("ledger", "verify", "--ledger", "budget.db")


def test_show_fits_a_screen_and_all_shows_everything() -> None:
    _create("--table", "sold.csv", "--unit", "who")
    account = Ledger("budget.db").account("sales").of("ann", reason="a report")
    for number in range(30):
        purpose = f"top {number} of what by who " + "x" * 200
        account.reserve(Cost.pure(Fraction(1, 1000)), purpose).settle(Cost.pure(Fraction(1, 1000)))
    shown = _run("ledger", "show", *BUDGET)
    assert f"for        table {Path('sold.csv').resolve()}, unit who" in shown
    assert len(shown.splitlines()) <= 24
    assert "51 earlier entries: --all shows them" in shown
    assert "ann  reserve ε = 0.001  top 29 of what by who" in shown
    assert "top 2 of what" not in shown
    everything = _run("ledger", "show", *BUDGET, "--all")
    assert "top 2 of what by who " + "x" * 200 + " (a report)" in everything
    assert len(json.loads(_run("ledger", "show", *BUDGET, "--json"))["entries"]) == 61


WRONG: dict[str, tuple[list[str], str]] = {
    "table": (
        ["log.csv", *ASK[1:]],
        "is for the table '.*sold.csv', and this release has the table '.*log.csv",
    ),
    "unit": ([*ASK, "--unit", "row"], "is for the unit 'who', and this release has the unit 'row'"),
    "neighbours": ([*ASK, "--neighbours", "replace"], "is for the neighbours 'add-or-remove', and"),
    "not private": ([*ASK, "--domain", "observed-not-private"], "would not be private"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_release_that_contradicts_its_budget_is_refused_before_any_charge(what: str) -> None:
    shutil.copy("sold.csv", "log.csv")
    _create("--table", "sold.csv", "--unit", "who", "--neighbours", "add-or-remove")
    asked, words = WRONG[what]
    assert re.search(words, _refusal("top-k", *asked, "--epsilon", "1", *BUDGET))
    assert len(_book()) == 1
    _run("top-k", *ASK, "--epsilon", "1", *BUDGET)
    assert [entry.purpose for entry in _book()] == ["", "top 1 of what by who", ""]


def test_a_table_that_has_other_columns_by_now_is_refused_until_it_is_stated_anew() -> None:
    _create("--table", "sold.csv", "--unit", "who")
    lines = Path("sold.csv").read_text().splitlines()
    Path("sold.csv").write_text("\n".join([f"{lines[0]},where", *(f"{it},x" for it in lines[1:])]))
    said = _refusal("top-k", *ASK, "--epsilon", "1", *BUDGET)
    assert "in that table: none. Only in the table of this release: where (text). So use" in said
    assert len(_book()) == 1
    _run("ledger", "bind", *BUDGET, "--table", "sold.csv", "--unit", "who", *WHY)
    _run("top-k", *ASK, "--epsilon", "1", *BUDGET)


def test_a_paid_answer_is_shown_again_for_nothing_and_says_so() -> None:
    _create()
    ask = ["top-k", *ASK, "--epsilon", "1", *BUDGET]
    first = json.loads(_run(*ask, "--json", "--reason", "the monthly report"))
    again = json.loads(_run(*ask, "--json"))
    assert again["items"] == first["items"]
    assert again["epsilon_remaining"] == first["epsilon_remaining"] == 1
    shown = " ".join(_run(*ask, "--key", "tuesday").split())
    assert shown.startswith("Asked before at 20")
    assert " UTC, nothing charged; --fresh pays for the rows as they are now." in shown
    assert " again of 1  top 1 of what by who" in _run("ledger", "show", *BUDGET)
    assert json.loads(_run(*ask, "--json", "--fresh"))["epsilon_remaining"] == 0
    assert "the monthly report" in _run("ledger", "show", *BUDGET)


def test_a_request_that_is_sent_twice_is_charged_once() -> None:
    _create()
    ask = ["top-k", *ASK, "--epsilon", "1", *BUDGET, "--fresh", "--key", "monday"]
    first = json.loads(_run(*ask, "--json"))
    assert json.loads(_run(*ask, "--json"))["items"] == first["items"]
    assert "--ledger and --dataset" in _refusal("top-k", *ASK, "--epsilon", "1", "--key", "x")


def test_an_allowance_a_closed_budget_and_an_empty_one_refuse_a_release_before_any_charge() -> None:
    _create()
    _run("ledger", "allow", *BUDGET, "--person", getpass.getuser(), "--epsilon", "0.5")
    said = _refusal("top-k", *ASK, "--epsilon", "1", *BUDGET)
    assert (
        "may spend ε = 0.5 of data set 'sales' and has spent or reserved ε = 0, so ε = 0.5 is left"
        in said
    )
    assert "a steward can allow more" in said
    _run("ledger", "allow", *BUDGET, "--person", getpass.getuser(), "--epsilon", "9")
    assert "cannot cover" in _refusal("top-k", *ASK, "--epsilon", "3", *BUDGET)
    _run("ledger", "close", *BUDGET, *WHY)
    assert "is closed" in _refusal("top-k", *ASK, "--epsilon", "1", *BUDGET)
    assert {entry.kind for entry in _book()} == {"create", "allow", "close"}


REFUSED = {
    "raise --epsilon 1 --reason r": "to raise it, state a larger one",
    "lower --epsilon 3 --reason r": "to lower it, state a smaller one",
    "lower --epsilon 0.1 --reason r": "has spent and reserved ε = 0.25",
    "close --reason ''": "--reason must say why",
    "allow --person ann --epsilon -1": "must not be less than 0",
    "bind --reason r": "--table, --unit, --neighbours or columns must be given",
    "bind --neighbours friends --reason r": "--neighbours must be one of",
    "write-off --reason r": "either --entry or --before",
    "write-off --entry 0 --reason r": "is no reservation",
    "write-off --before yesterday --reason r": "--before must be a day such as",
    "write-off --entry 99999999999999999999 --reason r": "is no reservation",
    "archive --entry 99999999999999999999": "has no document",
    "archive --entry 1": "has no document",
    "renew": "state either --every day, week or month, with --epsilon; or --off alone",
    "renew --every week --off --epsilon 1": "state either --every day, week or month, with",
    "renew --every year --epsilon 1": "state either --every day, week or month, with --epsilon",
    "renew --every never": "state either --every day, week or month, with --epsilon",
    "renew --every week": "--epsilon must say what a period may cost",
    "renew --off --epsilon 1": "may cost; to stop the renewal, state none",
    "renew --off": "is not renewed now",
    "renew sales --every week --epsilon 1": "state the data set once",
    "export --month 2026-13": "--month must be a month such as 2026-10, not '2026-13'",
    "export --month 9999-12": "--month must be a month such as 2026-10, not '9999-12'",
    "export --from yesterday": "--from must be a day such as 2026-10-01, not 'yesterday'",
    "export --to 2026-02-30": "--to must be a day such as 2026-10-01, not '2026-02-30'",
    "export --from 2026-10-02 --to 2026-10-01": "--from must not be later than --to",
    "export --month 2026-10 --to 2026-10-01": "state either --month or --from and --to",
    "export --csv --documents": "--documents goes into JSON",
    "verify ledger.json": "state either FILE or --ledger",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_a_steward_cannot_do_is_refused_and_writes_nothing(words: str) -> None:
    _create()
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1, 4)), "top 1")
    name, *rest = shlex.split(words)
    assert REFUSED[words] in _refusal("ledger", name, *BUDGET, *rest)
    assert len(_book()) == 2


@pytest.mark.parametrize("name", ["raise", "lower", "close", "bind", "write-off"])
def test_help_says_which_acts_need_a_reason(name: str) -> None:
    lines = _run("ledger", name, "--help").splitlines()
    assert any("--reason" in line and "[required]" in line for line in lines)
    done = CliRunner().invoke(app, ["ledger", name, *BUDGET, "--epsilon", "1"])
    assert done.exit_code == 2
    assert "--reason" not in _run("ledger", "renew", "--help").partition("[required]")[0]


def test_an_allowance_for_somebody_who_never_asked_is_noted_once() -> None:
    _create()
    words = ["ledger", "allow", *BUDGET, "--person", "Anne", "--epsilon", "1", "--json"]
    first, second = (CliRunner().invoke(app, words) for _ in range(2))
    assert first.stderr == "dpgap: note: nobody called 'Anne' has asked yet\n"
    assert json.loads(first.stdout)["entries"][0]["person"] == "Anne"
    assert (second.exit_code, second.stderr) == (0, "")
    refused = CliRunner().invoke(app, [*words[:-2], "-1"])
    assert "note" not in refused.stderr


def test_archived_releases_are_listed_and_printed() -> None:
    _create()
    assert _run("ledger", "archive", *BUDGET) == "Nothing is archived yet.\n"
    account = Ledger("budget.db").account("sales")
    account.reserve(Cost.pure(Fraction(1, 4)), "top 1 of what by who").settle(
        Cost.pure(Fraction(1, 4)), '{"a": 1}'
    )
    account.reserve(Cost.pure(Fraction(1, 4)), "no document").settle(Cost.pure(Fraction(1, 4)))
    assert re.fullmatch(
        r" +1  .* reserve ε = 0\.25  top 1 of what by who\n", _run("ledger", "archive", *BUDGET)
    )
    assert _run("ledger", "archive", *BUDGET, "--entry", "1") == '{"a": 1}\n'


def test_an_export_as_json_can_be_verified_by_anybody_and_as_csv_holds_no_formula() -> None:
    for name in ("sales", "clinic é"):
        Ledger("budget.db").create(name, 1)
    Ledger("budget.db").account("sales").of("=cmd()").reserve(Cost.pure(Fraction(1, 3)), "@SUM(A1)")
    said = json.loads(_run("ledger", "export", *BUDGET))
    previous = ""
    for entry in said["entries"]:
        assert hashlib.sha256(entry["body"].encode()).hexdigest() == entry["hash"]
        assert json.loads(entry["body"])["previous"] == previous
        previous = entry["hash"]
    assert previous == Ledger("budget.db").account("sales").head
    _run("ledger", "export", "--ledger", "budget.db", "--csv", "--out", "book.csv")
    rows = list(csv.DictReader(io.StringIO(Path("book.csv").read_text())))
    assert {row["dataset"] for row in rows} == {"sales", "clinic é"}
    assert (rows[-1]["person"], rows[-1]["purpose"]) == ("'=cmd()", "'@SUM(A1)")
    assert (rows[-1]["epsilon"], rows[-1]["exact epsilon"]) == ("0.333333333333", "1/3")
    assert not [cell for row in rows for cell in row.values() if cell.startswith(("=", "+", "@"))]


def test_a_file_that_ends_in_csv_is_written_as_csv() -> None:
    _create()
    _run("ledger", "export", *BUDGET, "--out", "book.CSV")
    assert Path("book.CSV").read_text().startswith("dataset,number,at,")
    words = ["ledger", "export", *BUDGET, "--out", "other.csv", "--documents"]
    assert "--documents goes into JSON" in _refusal(*words)


def test_a_budget_is_not_unbound_by_what_is_left_out() -> None:
    _run("ledger", "create", *BUDGET, "--epsilon", "1", "--table", "sold.csv", "--unit", "who")
    words = ["ledger", "bind", *BUDGET, *WHY]
    refused = _refusal(*words, "--unit", "who")
    table = str(Path("sold.csv").resolve())
    again = "state it again, or drop it with --unbind"
    assert f"the budget is for --table {table}: {again}" in refused
    assert f"the budget is for --unit who: {again}" in _refusal(*words, "--table", "sold.csv")
    assert Ledger("budget.db").account("sales").facts["table"] == table
    unbound = CliRunner().invoke(app, [*words, "--unit", "who", "--unbind"])
    assert (unbound.exit_code, unbound.stderr) == (
        0,
        f"dpgap: note: the budget is no longer for --table {table} only: it pays for others, too\n",
    )
    assert Ledger("budget.db").account("sales").facts["table"] is None


NO_EXPORT = {
    "postgresql://ann:secret@host/db": "is an address and no file: state it as --ledger",
    "budget.db": "is a database: use --ledger budget.db if it is a ledger",
    "release.json": "cannot be verified: it is a release document: `dpgap show` reads it",
    "sold.csv": "sold.csv cannot be verified: the file was damaged or edited after export, or",
    "flipped.json": "flipped.json cannot be verified: the file was damaged or edited after export",
    "book.csv": "only the JSON export can be verified",
    "nothing.json": "there is no file 'nothing.json' that can be read",
}


@pytest.mark.parametrize("file", NO_EXPORT)
def test_what_is_no_export_is_named_and_is_wrong_usage_but_no_flaw(file: str) -> None:
    _create()
    said = dpgap.NoisyMax(epsilon=1).release([3, 1]).to_json()
    Path("release.json").write_text(said)
    export = bytearray(_run("ledger", "export", "--ledger", "budget.db").encode())
    export[1] ^= 128  # it is no UTF-8 any more
    Path("flipped.json").write_bytes(export)
    _run("ledger", "export", "--ledger", "budget.db", "--out", "book.csv")
    done = CliRunner().invoke(app, ["ledger", "verify", file])
    assert (done.exit_code, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert NO_EXPORT[file] in done.stderr
    assert "secret" not in done.stderr


def test_files_are_not_written_onto_the_ledger_or_onto_others() -> None:
    _create()
    for words in (["export"], ["page"]):
        ledger = ["ledger", *words, "--ledger", "budget.db", "--out"]
        assert "is the ledger" in _refusal(*ledger, "budget.db", "--force")
        assert "--force replaces it" in _refusal(*ledger, "items.txt")
    assert "intact" in _run("ledger", "verify", "--ledger", "budget.db")


def test_the_page_shows_data_sets_people_and_time_and_runs_nothing() -> None:
    _create()
    ledger = Ledger("budget.db")
    ledger.create(HOSTILE, 1)
    account = ledger.account("sales")
    account.of("ann").reserve(Cost.pure(Fraction(1, 2)), "top 1").settle(Cost.pure(Fraction(1, 4)))
    account.of("bob").reserve(Cost.pure(Fraction(1, 2)), "broken off")
    account.of('"><img src=x onerror=alert(1)>').reserve(Cost.pure(Fraction(1, 8)), "top 1")
    ledger.steward("sales").allow("ann", "0.75")
    _run("ledger", "page", "--ledger", "budget.db", "--out", "page.html")
    page = Path("page.html").read_text()
    for words in ("By data set", "By person", "Over time", "ann · sales", "bob · sales"):
        assert words in page
    assert "of 0.75 (allowance)" in page
    assert "<dt>people</dt><dd>3</dd>" in page
    assert "<dt>under way or interrupted</dt><dd>2</dd>" in page
    assert "&lt;script&gt;" in page
    assert "The ε of different data sets add up for people who are in both." in page
    for harm in ("<script", "<img", " style=", "onerror=alert(1)>", "http://", "https://", "url("):
        assert harm not in page
    assert page.count("<style>") == 1
    assert page == _run("ledger", "page", "--ledger", "budget.db")


def test_allowances_are_shown_and_so_are_people_who_spent_nothing() -> None:
    _create()
    ledger = Ledger("budget.db")
    ledger.steward("sales").of("sue").allow("eve", 0)
    ledger.steward("sales").of("sue").allow("ann", "0.5")
    ledger.account("sales").of("ann").reserve(Cost.pure(Fraction(1, 4)), "top 1")
    ledger.account("sales").of("bob").reserve(Cost.pure(Fraction(1, 4)), "top 2").settle(
        Cost.pure(Fraction(1, 8))
    )
    said = _run("ledger", "show", *BUDGET)
    assert "sue  allow for eve ε = 0\n" in said
    for line in (
        "  ann: spent or reserved ε = 0.25; allowance ε = 0.5; left ε = 0.25\n",
        "  bob: spent or reserved ε = 0.125; allowance none; left ε = ",
        "  eve: spent or reserved ε = 0; allowance ε = 0; left ε = 0\n",
    ):
        assert line in said
    people = json.loads(_run("ledger", "show", *BUDGET, "--json"))["people"]
    assert people[2] == {
        "person": "eve",
        "spent": {"epsilon": "0", "rho": "0", "delta": "0"},
        "allowance": {"currency": "epsilon", "amount": "0", "delta": "0"},
    }
    done = _run("ledger", "allow", *BUDGET, "--person", "dan", "--epsilon", "0")
    assert "allow for dan ε = 0" in done


def test_budgets_for_one_table_are_refused_unless_meant_and_then_shown_together() -> None:
    Path("sold.csv").write_text("who,what\nann,fig\n")
    stated = ["--ledger", "budget.db", "--table", "sold.csv", "--unit", "who", "--epsilon"]
    _run("ledger", "create", "--dataset", "sales", *stated, "2")
    again = ["ledger", "create", "--dataset", "survey", *stated, "3"]
    assert "'sales' has a budget for the same table and unit" in _refusal(*again)
    _run(*again, "--beside", "sales")
    _run("ledger", "create", "--dataset", "another", "--ledger", "budget.db", "--epsilon", "1")
    bind = ["ledger", "bind", "--dataset", "another", *stated[:-1], *WHY]
    assert "--beside" in _refusal(*bind)
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1)), "top 1").settle(
        Cost.pure(Fraction(1))
    )
    assert "beside     survey   (for the same table: their ε add up)" in _run(
        "ledger", "show", *BUDGET
    )
    said = json.loads(_run("ledger", "show", "--ledger", "budget.db", "--json"))["datasets"]
    assert [each["beside"] for each in said] == [[], ["survey"], ["sales"]]
    page = _run("ledger", "page", "--ledger", "budget.db")
    assert "<bdi>sales + survey</bdi>" in page
    assert "1 <small>of 5 (one table, so they add up)</small>" in page
    _run(*bind, "--beside", "sales")
    assert "<bdi>another + sales + survey</bdi>" in _run("ledger", "page", "--ledger", "budget.db")


def test_a_budget_is_renewed_from_the_command_line_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _create()
    monkeypatch.setattr(Rows, "now", lambda _: "2026-11-18T12:00:00.000000+00:00")
    said = _run("ledger", "renew", "sales", *BUDGET[:2], "--every", "week", "--epsilon", "0.5")
    words = "ε = 0.5 every week; what is left lapses"
    assert f"renewed    {words}; next on 2026-11-23\n" in said
    assert said.endswith(f"  renew {words}\n")
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1)), "top 1")
    monkeypatch.setattr(Rows, "now", lambda _: "2026-11-26T12:00:00.000000+00:00")
    assert "remaining  0.5\n" in _run("ledger", "show", *BUDGET)
    assert json.loads(_run("ledger", "show", *BUDGET, "--json"))["remaining"] == "1/2"
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1, 4)), "top 2")
    said = _run("ledger", "show", *BUDGET)
    assert re.search(r"  new-period ε = 0\.5  from 2026-11-23\n", said)
    page = " ".join(_run("ledger", "page", *BUDGET[:2]).split())
    assert "<strong><bdi>sales</bdi></strong>: the budget is E = 0.5 a week. " in page
    assert " 1.25 was spent or reserved since it was opened on " in page
    assert (
        "Before 2026-11-23, the privacy loss of somebody in the table was at most ε = 1 for "
        "all answers together. "
        "In all other weeks: what a week's answers tell about a person is bounded by E; what n "
        "weeks tell, by n times E, unless each week's table has other people or other events. This "
        "holds while the total is not raised. Unspent ε lapses at the end of a week."
    ) in html.unescape(page)
    _run("ledger", "renew", *BUDGET, "--off")
    assert "renewed" not in _run("ledger", "show", *BUDGET)
    assert "Budgets that renew" not in _run("ledger", "page", *BUDGET[:2])


def test_open_reservations_are_shown_first_with_their_keys() -> None:
    _create()
    account = Ledger("budget.db").account("sales").of("ann")
    account.reserve(Cost.pure(Fraction(1, 8)), "settled").settle(Cost.pure(Fraction(1, 8)))
    for hour in range(11):
        purpose = "an hour" if hour else "the first " + 20 * "long "
        account.of(key=f"2026-11-18 {hour:02}:00").reserve(Cost.pure(Fraction(1, 16)), purpose)
    account.reserve(Cost.pure(Fraction(1, 16)), "without a key")
    lines = _run("ledger", "show", *BUDGET).splitlines()
    assert lines[0] == "data set   sales"
    assert re.fullmatch(
        r"open       entry 3, \d{4}-\d\d-\d\d \d\d:\d\d, ann, ε = 0\.0625, "
        r"key '2026-11-18 00:00': the first long .*…",
        lines[1],
    )
    assert lines[10].endswith(", ann, ε = 0.0625, key '2026-11-18 09:00': an hour")
    assert lines[11] == "open       2 more: --all shows them"
    assert lines[12].startswith("for ")
    every = _run("ledger", "show", *BUDGET, "--all").splitlines()
    assert every[12].endswith(", ann, ε = 0.0625: without a key")
    assert "the first " + 19 * "long " in every[1]
    found = json.loads(_run("ledger", "show", *BUDGET, "--json"))["open"]
    assert [each["number"] for each in found] == [*range(3, 15)]
    assert (found[0]["key"], found[-1]["key"]) == ("2026-11-18 00:00", None)
    assert found[0]["epsilon"] == "1/16"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Set the clocks of the database and of this machine to noon of a day."""
    author = Ledger._author

    def turn(day: str) -> None:
        noon = f"{day}T12:00:00.000000+00:00"
        monkeypatch.setattr(Rows, "now", lambda _: noon)
        monkeypatch.setattr(
            Ledger, "_author", lambda *said, **more: author(*said, **more)._replace(at=noon)
        )

    return turn


def _week(*words: str) -> str:
    said = _run("ledger", "show", *BUDGET, *words)
    week = next(line for line in said.splitlines() if line.startswith("this week: "))
    assert said.index(week) < said.index("\ntotal ")
    return week.removeprefix("this week: ").removesuffix(", renews Monday 00:00 UTC")


@pytest.mark.parametrize("carry", [False, True])
def test_a_renewing_budget_says_first_what_this_week_cost(clock: Clock, carry: bool) -> None:
    clock("2026-11-18")
    _run("ledger", "create", *BUDGET, "--epsilon", "1")
    kept = ["--carry"] if carry else []
    _run("ledger", "renew", *BUDGET, "--every", "week", "--epsilon", "1", *kept)
    account = Ledger("budget.db").account("sales")
    assert _week() == "0 of 1 spent"
    late = account.reserve(Cost.pure(Fraction(1, 4)), "settled in the week after")
    account.reserve(Cost.pure(Fraction(1, 8)), "never settled")
    account.reserve(Cost.pure(Fraction(1, 10)), "settled").settle(Cost.pure(Fraction(33, 1000)))
    assert _week() == "0.033 of 1 spent, 0.375 reserved"
    clock("2026-11-26")
    begun = Fraction("1.592") if carry else 1
    assert _week() == f"0 of {float(begun):g} spent"
    account.reserve(Cost.pure(Fraction(1, 2)), "in the new week").settle(Cost.pure(Fraction(1, 5)))
    account.reserve(Cost.pure(Fraction(1, 16)), "open in the new week")
    late.settle(Cost.pure(Fraction(1, 20)))
    begun += Fraction(1, 5) if carry else 0  # given back, and kept
    assert _week("--all") == f"0.2 of {float(begun):g} spent, 0.0625 reserved"
    found = json.loads(_run("ledger", "show", *BUDGET, "--json"))
    expected = {"spent": "1/5", "reserved": "1/16", "total": str(begun)}
    assert found["period"] == expected
    assert found["reserved"] == "3/16"
    _run("ledger", "close", *BUDGET, *WHY)
    assert "this week" not in _run("ledger", "show", *BUDGET)


def test_days_and_months_say_the_day_on_which_the_next_begins(clock: Clock) -> None:
    clock("2026-11-18")
    _run("ledger", "create", *BUDGET, "--epsilon", "1")
    _run("ledger", "renew", *BUDGET, "--every", "month", "--epsilon", "1")
    said = _run("ledger", "show", *BUDGET)
    assert "\nthis month: 0 of 1 spent, renews 2026-12-01 00:00 UTC\n" in said
    _run("ledger", "renew", *BUDGET, "--every", "day", "--epsilon", "1")
    said = _run("ledger", "show", *BUDGET)
    assert "\ntoday: 0 of 1 spent, renews 2026-11-19 00:00 UTC\n" in said


def test_the_page_says_how_much_a_week_may_tell_whose_total_was_raised(clock: Clock) -> None:
    """Reservations of the week before are none of it, whether they were settled in it or not."""
    clock("2026-11-18")
    _create()
    _run("ledger", "renew", *BUDGET, "--every", "week", "--epsilon", "0.5")
    account = Ledger("budget.db").account("sales")
    late = account.reserve(Cost.pure(Fraction(1, 4)), "settled in the week after")
    account.reserve(Cost.pure(Fraction(1, 8)), "never settled")
    assert (
        "In the week from 2026-11-16, the privacy loss of somebody in the table is at most ε = 2. "
        in _page()
    )
    clock("2026-11-26")
    account.reserve(Cost.pure(Fraction(1, 2)), "all of the new week").settle(
        Cost.pure(Fraction(1, 3))
    )
    late.settle(Cost.pure(Fraction(1, 5)))
    assert "What a week's answers tell about a person is bounded by E; what n weeks" in _page()
    more = account.total + Fraction(1, 4)
    _run("ledger", "raise", *BUDGET, "--epsilon", str(more), "--reason", "a second survey")
    account.reserve(Cost.pure(Fraction(1, 3)), "what was raised")
    more_that_week = (
        "In the week from 2026-11-23, the privacy loss of somebody in the table is at most "
        "ε = 0.75. In all other "
        "weeks: what a week's answers tell about a person is bounded by E; what n weeks tell, by n "
    )
    assert more_that_week in _page()
    clock("2026-12-10")
    account.reserve(Cost.pure(Fraction(1, 4)), "weeks later")
    assert more_that_week in _page(), "a raised week is not forgotten"


def test_the_page_forgets_no_week_that_could_cost_more_than_the_others(clock: Clock) -> None:
    clock("2026-08-31")
    _run("ledger", "create", *BUDGET, "--epsilon", "3")
    renew = ["ledger", "renew", *BUDGET, "--every", "week", "--epsilon"]
    _run(*renew, "1")
    account = Ledger("budget.db").account("sales")
    account.reserve(Cost.pure(Fraction(29, 10)), "in the first week").settle(
        Cost.pure(Fraction(29, 10))
    )
    assert (
        "In the week from 2026-08-31, the privacy loss of somebody in the table is at most ε = 3. "
        in _page()
    )
    clock("2026-10-05")
    account.reserve(Cost.pure(HALF), "five weeks later")
    first = (
        "Before 2026-10-05, the privacy loss of somebody in the table was at most ε = 2.9 for "
        "all answers together"
    )
    assert f"{first}. In all other weeks: what a week's answers tell about a person is" in _page()
    _run(*renew, "0.5")
    for day in ("2026-10-12", "2026-10-19", "2026-10-26"):
        clock(day)
        account.reserve(Cost.pure(HALF), "each week")
        _run("ledger", "raise", *BUDGET, "--epsilon", str(account.total + 1), *WHY)
    said = _page()
    second = "In the week from 2026-10-12, the privacy loss of somebody in the table is at most"
    assert f"{first}. {second} ε = 1.5" in said
    assert "In every other week with a larger total, it is at most ε = 1. " in said
    _run("ledger", "renew", *BUDGET, "--off")
    _run("ledger", "renew", *BUDGET, "--every", "day", "--epsilon", "0.25")
    assert (
        "Before 2026-10-26, the privacy loss of somebody in the table was at most ε = 4.4 for all"
        in _page()
    )


def test_a_budget_that_keeps_unspent_epsilon_grows_only_in_periods_with_a_charge() -> None:
    _create()
    _run("ledger", "renew", *BUDGET, "--every", "week", "--epsilon", "1/3", "--carry")
    assert "the total, which grows by E in each week with a charge. " in _page()


def test_the_page_rounds_bounds_up_and_what_is_left_down() -> None:
    _run("ledger", "create", *BUDGET, "--epsilon", "12345/9876")
    account = Ledger("budget.db").account("sales")
    account.reserve(Cost.pure(Fraction(1111, 9999)), "top 1").settle(
        Cost.pure(Fraction(1111, 9999))
    )
    account.reserve(Cost.pure(Fraction(1235, 9876)), "broken off")
    _run("ledger", "renew", *BUDGET, "--every", "week", "--epsilon", "1234/9876")
    said = _page()
    assert "1/9 <small>+ ≈0.125051 reserved, of 1.25</small>" in said
    assert "the budget is E ≈ 0.12495 a week. " in said
    assert "= ≈" not in said
    assert "ε ≈ 0.124949 every week" in _run("ledger", "show", *BUDGET)


def test_the_axis_of_a_page_is_the_asked_period(clock: Clock) -> None:
    clock("2026-10-11")
    _create()
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1)), "top 1")
    page = _run("ledger", "page", *BUDGET[:2], "--month", "2026-10")
    assert re.findall(r">(2026-10-\d\d)</text>", page) == ["2026-10-01", "2026-10-31"]
    assert 'class="gone" d="M338.7 100.0' in page
    page = _run("ledger", "page", *BUDGET[:2], "--from", "2026-11-02", "--to", "2026-11-03")
    assert re.findall(r">(2026-1\d-\d\d)</text>", page) == ["2026-11-02", "2026-11-03"]
    assert 'class="gone" d="M0.0 50.0' in page
    assert "Last entry: 2026-10-11 12:00 UTC." in page
    page = _run("ledger", "page", *BUDGET[:2], "--month", "2026-09")
    assert "Nothing in 2026-09.</p>" in page
    assert "never" not in page


def test_a_budget_without_a_table_says_so() -> None:
    _run("ledger", "create", *BUDGET, "--epsilon", "1", "--unit", "who")
    said = _run("ledger", "show", *BUDGET)
    assert "for        any table (--table binds it to one), unit who\n" in said
    bound = (*BUDGET[:2], "--dataset", "b")
    _run("ledger", "create", *bound, "--table", "sold.csv", "--epsilon", "1")
    assert "any table" not in _run("ledger", "show", *bound)


def test_what_a_closed_budget_did_not_use_does_not_remain() -> None:
    _create()
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(6, 5)), "top 1")
    said = _run("ledger", "close", *BUDGET, *WHY)
    assert "remaining  0   (closed; 0.8 was not used)\n" in said


def test_show_says_what_the_first_charge_of_a_new_period_adds(clock: Clock) -> None:
    clock("2026-11-18")
    _create()
    _run("ledger", "renew", *BUDGET, "--every", "week", "--epsilon", "0.5")
    begun = "a new period began: its first charge adds ε = 0.5, counted here already\n"
    assert begun not in _run("ledger", "show", *BUDGET)
    clock("2026-11-26")
    assert begun in _run("ledger", "show", *BUDGET)
    Ledger("budget.db").account("sales").reserve(Cost.pure(Fraction(1, 4)), "top 1")
    assert begun not in _run("ledger", "show", *BUDGET)


def test_a_head_that_is_none_is_wrong_usage() -> None:
    _create()
    done = CliRunner().invoke(app, ["ledger", "verify", *BUDGET, "--head", "abc"])
    assert done.exit_code == 2
    assert "a head has 64 hexadecimal digits" in done.stderr


@pytest.mark.parametrize("force", [[], ["--force"]])
def test_a_full_disk_names_the_file_of_a_page(
    force: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _create()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dpgap.cli.release.write_new", full)
    words = ["ledger", "page", *BUDGET[:2], "--out", "spent.html", *force]
    assert _refusal(*words) == "dpgap: No space left on device: spent.html\n"


def _page() -> str:
    return html.unescape(" ".join(_run("ledger", "page", *BUDGET[:2]).split()))


def test_a_month_is_exported_with_its_documents_and_verified_without_the_ledger() -> None:
    _create()
    _run("top-k", *ASK, "--epsilon", "1", *BUDGET)
    month = _book()[-1].at[:7]
    _run("ledger", "export", *BUDGET, "--month", month, "--documents", "--out", "month.json")
    Path("budget.db").unlink()
    said = _run("ledger", "verify", "month.json", "--head", json.loads(_read())[-1]["hash"])
    assert said.startswith(
        "Everything in the file is intact.\nData sets in the file: sales. Days: from "
    )
    noted = json.loads(_run("ledger", "verify", "month.json", "--json"))
    assert (noted["intact"], len(noted["unchecked"])) == (True, 2)
    Path("month.json").write_text(Path("month.json").read_text().replace("sold.csv", "old.csv"))
    done = CliRunner().invoke(app, ["ledger", "verify", "month.json"])
    assert (done.exit_code, done.stdout) == (1, "")
    assert "entry 1 was edited" in done.stderr


def _read() -> str:
    return json.dumps(json.loads(Path("month.json").read_text())["entries"])


def test_a_page_of_some_days_names_them_and_leaves_out_what_was_not_there_yet() -> None:
    _create()
    _run("top-k", *ASK, "--epsilon", "1", *BUDGET)
    page = _run("ledger", "page", *BUDGET[:2], "--from", "2020-01-01", "--to", "2020-01-31")
    assert "<h1>What was spent from 2020-01-01 to 2020-01-31</h1>" in page
    assert "<dt>data sets</dt><dd>0</dd>" in page
    page = _run("ledger", "page", *BUDGET[:2], "--month", _book()[-1].at[:7])
    assert "<dt>data sets</dt><dd>1</dd>" in page
    assert '<p class="lead">1 data set. Last entry: ' in page


def test_a_page_of_days_without_entries_shows_what_was_spent_before_them() -> None:
    _create()
    _run("top-k", *ASK, "--epsilon", "1", *BUDGET)
    page = _run("ledger", "page", *BUDGET[:2], "--month", "2999-12")
    assert "0 <small>after 1, of 2<" in page
    assert '<rect class="before" width="50.0%"' in page
    assert "Grey was spent before the days of this page." in page


def test_an_empty_ledger_has_a_page_as_well() -> None:
    assert "Nothing yet." in ledger_page([])


def test_heads_are_one_line_of_options_and_verify_says_how_far_it_looked() -> None:
    _create()
    _run("ledger", "create", "--ledger", "budget.db", "--dataset", "the shop", "--epsilon", "1")
    line = _run("ledger", "heads", "--ledger", "budget.db")
    assert re.fullmatch(r"--head [0-9a-f]{64} --head [0-9a-f]{64}\n", line)
    Ledger("budget.db").account("sales").reserve(Cost.pure(HALF), "later").settle(Cost.pure(HALF))
    verify = ["ledger", "verify", "--ledger", "budget.db", *line.split()]
    assert re.fullmatch(
        "sales: intact up to entry 2 of 20..-..-.. ..:.. UTC; later entries would not be missed\n"
        "the shop: intact up to entry 0 of .* UTC; later entries would not be missed\n",
        _run(*verify),
    )
    shown = json.loads(_run(*verify, "--json"))
    assert [(it["dataset"], it["number"]) for it in shown["heads"]] == [
        ("sales", 2),
        ("the shop", 0),
    ]
    missing = "cd" * 32
    assert f"no entry has the hash {missing}" in _refusal(*verify, "--head", missing)
    lost = [*BUDGET, "--head", missing, "--epsilon", "1/4", *WHY]
    assert "spent      0.75" in _run("ledger", "accept", *lost)
    assert "intact up to entry 3" in _run(*verify, "--head", missing)


def test_one_head_is_accepted_at_a_time_and_can_be_noted_by_itself() -> None:
    _create()
    _run("ledger", "create", "--ledger", "budget.db", "--dataset", "the shop", "--epsilon", "1")
    both = _run("ledger", "heads", "--ledger", "budget.db").split()
    assert _run("ledger", "heads", *BUDGET).split() == both[:2]
    lost = ["--head", "ab" * 32, "--head", "cd" * 32, "--epsilon", "1/4"]
    assert "--head must be stated once" in _refusal("ledger", "accept", *BUDGET, *lost, *WHY)
    assert Ledger("budget.db").account("sales").spent == 0


def test_a_period_is_begun_from_the_command_line_only_if_none_has_begun() -> None:
    _create()
    _run("ledger", "renew", "sales", "--ledger", "budget.db", "--every", "week", "--epsilon", "1")
    assert "has begun already" in _refusal("ledger", "begin-period", *BUDGET, *WHY)
