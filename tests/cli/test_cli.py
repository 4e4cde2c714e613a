"""The command line: one command from a file to a release, in every output."""

import csv
import errno
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.ledger import Ledger
from dpgap.cli.main import app
from dpgap.cli.release import OutputFile

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1+1",
    "\x1b[2J\x1b]0;owned\x07",
    "\u202egnp.exe",
    "\u2066isolate\u2069",
    "[bold red]markup[/] :smile:",
    "zero\u200bwidth",
    "\x9b31m",
    "fig;=1+2",
    '; "@SUM(A1)',
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with open("sold.csv", "w", newline="", encoding="utf-8") as file:
        write = csv.writer(file).writerow
        write(["who", "what"])
        for place, name in enumerate(["fig", "pea", "oat", "rye"]):
            for who in range(4000 - 1000 * place):
                write([who, name])
    Path("items.txt").write_text("fig\npea\noat\nrye\nyam\n")
    return tmp_path


HELP = [
    [],
    *(
        [name]
        for name in ("top-k", "above", "show", "plan", "ledger", "prove", "audit", "reproduce")
    ),
    *(["ledger", name] for name in ("create", "show", "verify")),
]

ASK = ["sold.csv", "--unit", "who", "--item", "what", "--domain", "items.txt", "--epsilon", "1"]


def _run(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return result.stdout


@pytest.mark.filterwarnings("always::dpgap.PromiseWarning")
def test_an_epsilon_above_20_is_noted_before_it_is_charged(folder: Path) -> None:
    asked = ["count", "sold.csv", "--unit", "who", "--epsilon", "21"]
    noted = CliRunner().invoke(app, asked)
    assert noted.exit_code == 0
    assert noted.stderr.startswith("dpgap: note: ε is above 20, which promises hardly")
    Ledger("sqlite:///budget.db").create("sales", 1)
    refused = CliRunner().invoke(
        app, [*asked, "--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    )
    assert refused.exit_code == 1
    assert refused.stderr.startswith("dpgap: note: ε is above 20")  # before the charge is refused


def test_top_k_prints_a_table_the_budget_and_the_guarantee(folder: Path) -> None:
    said = _run("top-k", *ASK, "-k", "2", "--method", "ranked")
    assert re.search(r"1\s+fig(\s+[34],\d{3}\.\d){3}\s", said)
    assert re.search(r"2\s+pea\s+[23],\d{3}\.\d", said)
    assert "gap to" in said
    assert said.startswith(
        "Top 2: what, by who count\nBoth are surely among the top two (p < 0.001).\n"
        "The order of both is sure.\n"
    )
    assert "ε spent 1\n" in said
    assert "Pure differential privacy with ε = 1 and no δ" in said
    assert "column 'who'" in " ".join(said.split())
    assert "a file of 5 items" in " ".join(said.split())


def test_top_k_says_which_route_it_took_and_a_set_has_gaps_between_estimates_alone(
    folder: Path,
) -> None:
    said = " ".join(_run("top-k", *ASK, "-k", "2").split())
    assert "ε went: 1.2 % to look ahead, 15 % to choose the two, 83.8 % to measure them." in said
    assert "gap to next" in said
    found = json.loads(_run("top-k", *ASK, "-k", "2", "--json"))
    assert found["route"] == "joint"
    assert [rank for rank, _ in found["looked"]] == [2, 5]
    assert found["gaps"] == []
    assert found["lead"] > 0
    ranked = _run("top-k", *ASK, "-k", "2", "--method", "ranked", "--split", "0.3")
    assert "ε went: 30 % to rank the two, 70 % to measure them." in " ".join(ranked.split())


def test_an_odd_domain_is_a_note_and_no_error(folder: Path) -> None:
    Path("odd.txt").write_text('fig \npea\npea\n"oat"\n')
    ask = ["odd.txt" if word == "items.txt" else word for word in ASK]
    command = [sys.executable, "-m", "dpgap", "top-k", *ask, "-k", "1", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(said.stdout)["items"][0]["item"] == "pea"
    assert said.stderr.count("\n") == 1
    assert said.stderr.startswith("dpgap: note: domain is taken as it is written")
    assert "1 with spaces around them, 1 in quotes, 1 repeated" in said.stderr


def test_json_has_the_items_the_budget_and_the_guarantee(folder: Path) -> None:
    said = json.loads(_run("top-k", *ASK, "-k", "2", "--json"))
    assert [row["item"] for row in said["items"]] == ["fig", "pea"]
    assert [row["rank"] for row in said["items"]] == [1, 2]
    for row in said["items"]:
        columns = ["rank", "item", "estimate", "low", "high", "gap", "give_or_take", "p"]
        assert list(row) == columns
        assert row["low"] < row["estimate"] < row["high"]
    assert (said["epsilon_spent"], said["epsilon_remaining"]) == (1, 0)
    assert "ε = 1" in said["guarantee"]


def test_json_is_the_release_document(folder: Path) -> None:
    said = _run("above", *ASK, "--threshold", "1500", "-k", "3", "--json")
    written, release = json.loads(said), dpgap.read_release(said)
    beside = {"epsilon_spent", "epsilon_remaining", "exact"}
    assert written.keys() - release._to_dict().keys() == beside
    assert {name: value for name, value in written.items() if name not in beside} == (
        release._to_dict()
    )
    assert Fraction(written["exact"]["epsilon_spent"]) == release.spent


def test_a_document_that_is_shown_as_json_says_again_what_was_spent(folder: Path) -> None:
    ask = ("above", *ASK, "--threshold", "1500", "-k", "3", "--json")
    for more in ((), ("--ledger", "sqlite:///budget.db", "--dataset", "sold")):
        if more:
            _run("ledger", "create", *more, "--epsilon", "2")
        document = _run(*ask, *more)
        Path("found.json").write_text(document, encoding="utf-8")
        expected = json.loads(document)
        if more:
            expected["epsilon_remaining"] = expected["exact"]["epsilon_remaining"] = None
        shown = CliRunner().invoke(app, ["show", "found.json", "--json"]).stdout
        assert json.loads(shown) == expected


def test_a_file_of_rows_says_what_was_asked_at_which_epsilon_and_when(folder: Path) -> None:
    said = _run("top-k", *ASK, "-k", "2", "--epsilon", "2/3", "--json", "--csv", "out.csv")
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[-3:] == ["question", "epsilon", "time"]
    for row in rows:
        assert row["question"] == "top 2 of what by who"
        assert float(row["epsilon"]) == 2 / 3
        assert row["time"] == json.loads(said)["made"]["time"]
    _run("top-k", *ASK, "-k", "1", "--domain", "observed-not-private", "--csv", "seen.csv")
    with open("seen.csv", newline="", encoding="utf-8") as file:
        assert next(csv.DictReader(file))["question"] == "top 1 of what by who (NOT private)"


def test_the_terminal_says_in_one_line_when_and_by_what_it_was_made(folder: Path) -> None:
    last = _run("top-k", *ASK, "-k", "2").splitlines()[-1]
    assert re.fullmatch(rf"(.*, )?\d{{4}}-\d\d-\d\d \d\d:\d\d UTC, dpgap {dpgap.__version__}", last)


def test_above_finds_items_and_says_what_is_left(folder: Path) -> None:
    said = json.loads(_run("above", *ASK, "--threshold", "1500", "-k", "3", "--json"))
    assert sorted(row["item"] for row in said["items"]) == ["fig", "oat", "pea"]
    estimates = [row["estimate"] for row in said["items"]]
    assert estimates == sorted(estimates, reverse=True)
    gaps = zip(said["gaps"], estimates, strict=True)
    assert all(abs(gap + 1500 - estimate) < 400 for gap, estimate in gaps)
    assert 0 < said["epsilon_remaining"] < 1
    assert said["epsilon_spent"] + said["epsilon_remaining"] == pytest.approx(1)
    assert "above 1,500" in _run("above", *ASK, "--threshold", "1500", "-k", "3", "--plain")


def test_above_asks_in_another_order_each_time(folder: Path) -> None:
    """With k = 1 and two items far above, each is found first in about half of the runs."""
    Path("two.txt").write_text("fig\npea\n")
    words = ["above", *ASK, "--threshold", "1", "-k", "1", "--plain", "--json", "--domain"]
    found, runs = set(), 0
    while found != {"fig", "pea"} and runs < 40:  # fails by chance once in 2^39 runs
        found.add(json.loads(_run(*words, "two.txt"))["items"][0]["item"])
        runs += 1
    assert found == {"fig", "pea"}


def test_a_ledger_is_charged_and_stops_the_release_that_it_cannot_cover(folder: Path) -> None:
    budget = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    assert "remaining  2.5" in _run("ledger", "create", *budget, "--epsilon", "2.5")
    said = json.loads(_run("top-k", *ASK, "-k", "1", *budget, "--json"))
    assert said["epsilon_remaining"] == 1.5
    assert "ε left 0.5 for you in data set 'sales'" in _run(
        "top-k", *ASK, "-k", "1", *budget, "--fresh"
    )
    refused = CliRunner().invoke(app, ["top-k", *ASK, "-k", "1", *budget, "--fresh"])
    assert (refused.exit_code, refused.stdout) == (1, "")
    for figure in ("total ε = 2.5", "spent ε = 2", "reserved ε = 0", "requested ε = 1"):
        assert figure in refused.stderr
    assert Ledger("sqlite:///budget.db").account("sales").spent == 2


def test_the_ledger_shows_its_head_and_verifies_against_it(folder: Path) -> None:
    budget = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    _run("ledger", "create", *budget, "--epsilon", "2")
    _run("top-k", *ASK, "-k", "1", *budget)
    shown = json.loads(_run("ledger", "show", *budget, "--json"))
    assert (shown["total"], shown["spent"], shown["remaining"]) == ("2", "1", "1")
    assert [entry["kind"] for entry in shown["entries"]] == ["create", "reserve", "settle"]
    assert shown["head"] in _run("ledger", "show", "--ledger", "sqlite:///budget.db")
    assert "intact" in _run("ledger", "verify", *budget, "--head", shown["head"])
    with sqlite3.connect("budget.db") as database:
        database.execute("DELETE FROM dpgap_entries WHERE number = 2")
    database.close()
    noticed = CliRunner().invoke(app, ["ledger", "verify", *budget])
    assert noticed.exit_code == 1
    assert "entry 2 is missing, though its document is there" in noticed.stderr
    noticed = CliRunner().invoke(app, ["ledger", "verify", *budget, "--head", shown["head"]])
    assert noticed.exit_code == 1
    assert "truncated" in noticed.stderr


def test_an_observed_domain_says_loudly_that_it_is_not_private(folder: Path) -> None:
    words = [*ASK, "-k", "1", "--domain", "observed-not-private"]
    assert "NOT differentially private" in _run("top-k", *words)
    said = json.loads(_run("top-k", *words, "--json", "--html", "page.html"))
    assert "the result is not private" in said["guarantee"]
    assert said["private"] is False
    assert "<h2>Not private</h2>" in Path("page.html").read_text(encoding="utf-8")


def test_replacing_a_unit_is_said_and_costs_accuracy(folder: Path) -> None:
    plain = json.loads(_run("top-k", *ASK, "-k", "2", "--json"))
    said = json.loads(_run("top-k", *ASK, "-k", "2", "--neighbours", "replace", "--json"))
    assert "were replaced by any other" in said["guarantee"]

    def width(answer: dict[str, list[dict[str, float]]]) -> float:
        return answer["items"][0]["high"] - answer["items"][0]["low"]

    assert width(said) > width(plain)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The words of a question whose answer is all the hostile names, the first the largest."""
    monkeypatch.chdir(tmp_path)
    rows = [
        json.dumps({"who": who, "what": name})
        for place, name in enumerate(HOSTILE)
        for who in range(300 - 20 * place)
    ]
    Path("sold.jsonl").write_text("\n".join(rows))
    Path("items.jsonl").write_text("\n".join(json.dumps({"name": name}) for name in HOSTILE))
    words = "top-k sold.jsonl --unit who --item what --domain items.jsonl:name --epsilon 9000"
    return [*words.split(), "-k", str(len(HOSTILE))]


def test_hostile_names_are_harmless_in_a_terminal(
    hostile: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    said = _run(*hostile)
    assert said.replace("\n", "").isprintable()
    assert "[bold red]markup[/] :smile:" in said
    assert r"\x1b[2J" in said
    assert r"\u202egnp.exe" in said


def test_hostile_names_are_exact_and_plain_ascii_in_json(hostile: list[str]) -> None:
    said = _run(*hostile, "--json")
    assert said.isascii()
    assert said.replace("\n", "").isprintable()
    assert [row["item"] for row in json.loads(said)["items"]] == HOSTILE


def test_hostile_names_are_no_formulas_in_csv(hostile: list[str]) -> None:
    _run(*hostile, "--csv", "out.csv")
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["rank"]) for row in rows] == list(range(1, len(HOSTILE) + 1))
    for row in rows:
        assert row["item"].isprintable()
        for cell in row["item"].split(";"):  # as spreadsheets split lines in some countries
            assert not cell.lstrip(' "').startswith(("=", "+", "-", "@"))
    assert rows[2]["item"] == "'" + HOSTILE[2]
    assert float(rows[0]["estimate"]) == pytest.approx(300, abs=2)


def test_hostile_names_are_text_on_a_page_that_loads_nothing(hostile: list[str]) -> None:
    _run(*hostile, "--html", "page.html")
    page = Path("page.html").read_text(encoding="utf-8")
    assert page.replace("\n", "").isprintable()
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "default-src &#39;none&#39;" in page
    assert not re.search(r"https?://|url\(|@import|<link|\bsrc=[^x]", page)
    assert page.count("<circle") == len(HOSTILE)
    assert "<svg" in page


def test_a_page_of_an_empty_result_says_so(folder: Path) -> None:
    said = _run("above", *ASK, "--threshold", "900000", "-k", "3", "--html", "page.html")
    assert "ε spent" in said
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Nothing was found above 900,000." in page
    assert "<table>" not in page


def test_what_was_paid_for_is_printed_even_if_a_file_cannot_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(OutputFile, "write", full)
    result = CliRunner().invoke(app, ["top-k", *ASK, "-k", "1", "--csv", "full.csv"])
    assert result.exit_code == 1
    assert "fig" in result.stdout
    assert "No space left" in result.stderr


def _process(*words: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    environment = os.environ | {"PYTHONIOENCODING": "utf-8"}
    return subprocess.run(
        [sys.executable, "-m", "dpgap", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )


def test_a_real_process_is_silent_on_stderr_and_leaves_nothing_behind(folder: Path) -> None:
    before = set(folder.iterdir())
    done = _process("top-k", *ASK, "-k", "2", "--json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(json.loads(done.stdout)["items"]) == 2
    assert set(folder.iterdir()) == before


def test_progress_is_shown_to_people_only(folder: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "dpgap", "top-k", *ASK, "-k", "2", "--json"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    said, _ = process.communicate()
    os.close(theirs)
    assert len(json.loads(said)["items"]) == 2
    assert b"Counting" in os.read(ours, 4096)
    os.close(ours)


def test_a_terminal_without_greek_letters_still_shows_the_release(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpgap", "top-k", *ASK, "-k", "2"],
        cwd=folder,
        env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"},
        capture_output=True,
        check=True,
    )
    assert b"fig" in done.stdout
    assert rb"\u03b5 spent 1" in done.stdout


def test_a_real_process_ends_without_a_traceback(folder: Path) -> None:
    done = _process("top-k", *ASK, "-k", "9", folder=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert "-k must be at most the number of items in the domain, 5, not 9" in done.stderr


def test_help_does_not_load_what_it_does_not_need() -> None:
    """Neither NumPy nor any engine: that is what keeps help at hand at once."""
    code = (
        "import sys; from dpgap.cli.main import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print(*sorted({'numpy', 'duckdb', 'narwhals', 'sqlalchemy', 'scipy', 'pandas'}"
        " & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == ""
    assert "top-k" in done.stdout


def test_a_budget_is_exact_on_the_command_line(folder: Path) -> None:
    budget = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    _run("ledger", "create", *budget, "--epsilon", "0.3")
    for _ in range(3):
        _run("top-k", *ASK, "-k", "1", "--epsilon", "0.1", *budget, "--fresh")
    assert Ledger("sqlite:///budget.db").account("sales").remaining == Fraction(0)


def test_a_plan_says_what_to_expect_and_spends_nothing() -> None:
    said = json.loads(_run("plan", "-k", "10", "--epsilon", "0.7", "--json"))
    errors = {row["method"]: row["error"] for row in said["methods"]}
    assert errors["best"] < errors["paper"] < errors["baseline"]
    words = _run("plan", "-k", "10", "--epsilon", "0.7").split()
    assert "Nothing has been spent" in " ".join(words)
    wanted = json.loads(_run("plan", "-k", "10", "--error", "10", "--method", "best", "--json"))
    assert wanted["methods"][0]["epsilon"] == pytest.approx(0.638)
    assert wanted["methods"][0]["error"] <= 10
    above = json.loads(_run("plan", "-k", "5", "--epsilon", "1", "--select", "above", "--json"))
    assert above["select"] == "above"
    replace = ["--neighbours", "replace", "--json"]
    general = json.loads(_run("plan", "-k", "10", "--epsilon", "0.7", *replace))
    assert general["methods"][0]["error"] > errors["best"]


def test_a_plan_for_stated_counts_says_who_is_right_and_refuses_what_it_cannot_read() -> None:
    ask = ("plan", "-k", "10", "--epsilon", "0.7", "--items", "10000")
    said = json.loads(_run(*ask, "--counts", "1:9000,10:2000,100:300", "--json"))
    assert said["methods"][0]["precision"] > 0.99
    assert "100.0 %" in _run(*ask, "--counts", "1:9000,10:2000,100:300")
    failed = CliRunner().invoke(app, [*ask, "--counts", "1:27.000"])
    assert failed.exit_code != 0
    assert "--counts must be ranks and whole counts" in failed.stderr
    twice = CliRunner().invoke(app, [*ask, "--counts", "1:9000,10:2000,10:300"])
    assert twice.exit_code != 0
    assert "--counts must name every rank once" in twice.stderr


LISTED = (
    "state the items: --domain FILE (public, one on each line); or, without a list, "
    "--max-items 3 --delta 1e-6"
)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--unit who --item what -k 2", LISTED),
        ("--unit who --item what -k 2 --max-items 3", LISTED),
        ("--item what --domain 0..9 -k 2", "--unit must be given: the column with the unit"),
        ("--unit who --domain 0..9 -k 2", "--item must be given: the column to count"),
        ("--unit who --item what --domain 0..9 -k 0", "-k must be at least 1, not 0"),
        ("--unit who --item what --domain 0..9 -k 2 --by at", "--by needs --groups: the public"),
        (
            "--unit who --item what --domain 0..9 -k 2 --by at --groups 1,2",
            "--by needs --max-groups: the most groups that a unit counts in. With 1, each",
        ),
        ("--unit who --item what --domain 0..9 -k 2 --sum at", "--sum needs --at-most: the most"),
        (
            "--unit who --item what --domain 0..9 -k 2 --at-most 3",
            "--at-most, --at-least and --step need --sum: the column of amounts",
        ),
        (
            "--unit who --item what --domain at_most.txt -k 2",
            "there is no file 'at_most.txt': a domain in text is a file with an item on each line",
        ),
    ],
)
def test_errors_name_options_and_not_arguments(folder: Path, words: str, says: str) -> None:
    result = CliRunner().invoke(app, ["top-k", "sold.csv", "--epsilon", "1", *words.split()])
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"dpgap: {says}")
    assert result.stderr.count("\n") == 1


def test_what_a_message_sets_is_set_by_its_option(folder: Path) -> None:
    Path("old.csv").write_bytes("who,what\n1,Süß\n".encode("latin-1"))
    words = ["--unit", "who", "--item", "what", "--domain", "0..9", "-k", "1", "--epsilon", "1"]
    said = CliRunner().invoke(app, ["top-k", "old.csv", *words]).stderr
    assert "--encoding cp1252" in said
    assert "encoding=" not in said


def test_what_only_some_commands_need_is_named_by_their_options(folder: Path) -> None:
    above = CliRunner().invoke(app, ["above", *ASK, "--threshold", "5"])
    assert above.stderr.startswith("dpgap: -k must be given, unless --max-items says how many a u")
    count = CliRunner().invoke(app, ["count", "sold.csv", "--epsilon", "1"])
    assert count.stderr.startswith("dpgap: --unit must be given: ")


def test_a_wrong_filter_is_shown_with_its_place(folder: Path) -> None:
    result = CliRunner().invoke(app, ["top-k", *ASK, "-k", "2", "--where", "what = fig"])
    said, *where = result.stderr.splitlines()
    assert said.startswith("dpgap: --where: at character ")
    assert "did you mean 'fig'?" in said
    assert where == ["  what = fig", "         ^"]


def test_no_line_that_looks_like_ours_can_be_forged(folder: Path) -> None:
    result = CliRunner().invoke(app, ["show", "gone\ndpgap: all is well\x1b[2J"])
    assert result.stderr.count("\n") == 1
    assert "\x1b" not in result.stderr


def test_without_a_ledger_it_is_said_that_nobody_keeps_count(folder: Path) -> None:
    said = "ε spent 1\nNothing remembers this ε: add your runs up, or use --ledger.\n"
    assert said in _run("top-k", *ASK, "-k", "2")
    ledger = ["--ledger", f"sqlite:///{folder}/budget.db"]
    _run("ledger", "create", *ledger, "--dataset", "sales", "--epsilon", "3")
    paid = _run("top-k", *ASK, "-k", "2", *ledger, "--dataset", "sales")
    assert "ε spent 1   ε left 2 for you in data set 'sales'\n" in paid


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["below"], "no such command 'below' (see dpgap --help)"),
        (["--bad"], "no such option: --bad (see dpgap --help)"),
        (["top-k"], "missing argument 'TABLE' (see dpgap top-k --help)"),
        (["plan", "--k", "many"], "'many' is not a valid int"),
        (["ledger", "show"], "missing option '--ledger' (see dpgap ledger show --help)"),
        (["prove", "--bad"], "no such option: --bad (see dpgap prove --help)"),
    ],
)
def test_wrong_usage_is_one_line_with_a_hint(words: list[str], says: str) -> None:
    result = CliRunner().invoke(app, words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("dpgap: ")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_interrupted_command_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgap.pipelines.plan.plan", interrupted)
    result = CliRunner().invoke(app, ["plan", "-k", "1", "--epsilon", "1"])
    assert (result.exit_code, result.stderr) == (130, "dpgap: interrupted\n")


def test_the_version_is_said() -> None:
    assert _run("--version") == f"dpgap {dpgap.__version__}\n"


def _completed(words: str) -> "subprocess.CompletedProcess[str]":
    code = (
        "import sys; from dpgap.cli.main import app\n"
        "try: app(prog_name='dpgap')\n"
        "finally: print(*sorted({'numpy', 'duckdb', 'sqlalchemy', 'z3'} & set(sys.modules)),"
        " file=sys.stderr)"
    )
    asked = {"_DPGAP_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": f"dpgap {words}"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | asked,
        capture_output=True,
        text=True,
        check=True,
    )


def test_a_shell_completes_commands_and_options_without_loading_what_they_need() -> None:
    commands = _completed("")
    assert commands.stderr.strip() == ""
    assert all(name in commands.stdout for name in ("top-k", "ledger", "prove", "reproduce"))
    assert "--epsilon" in _completed("top-k --").stdout
    assert "--json" in _completed("audit --").stdout


def test_the_help_of_a_total_speaks_of_no_items() -> None:
    said = CliRunner().invoke(app, ["total", "--help"], env={"COLUMNS": "200"}).stdout
    assert "The most that a unit adds to the total." in said
    assert "item" not in said


@pytest.mark.parametrize("words", HELP, ids=" ".join)
def test_help_fits_eighty_columns(words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    said = _run(*words, "--help")
    assert max(map(len, said.split("\n"))) <= 80
    assert not re.search(r"\w…|…\w", said)


@pytest.mark.parametrize("width", ["40", "60", "80"])
def test_no_number_and_no_word_is_cut_in_a_narrow_terminal(
    width: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    said = _run("top-k", *ASK, "-k", "4")
    assert all(len(line) <= int(width) for line in said.split("\n"))
    for name in ("fig", "pea", "oat", "rye", "rank", "estimate"):
        assert re.search(rf"\b{name}\b", said)
    assert len(re.findall(r"[\d,]+\.\d\b", said)) >= 4 * 3 + 3 * 2
    planned = _run("plan", "-k", "10", "--epsilon", "0.7")
    assert all(len(line) <= int(width) for line in planned.split("\n"))
    for word in ("baseline", "14.2", "28.9", "85.5"):
        assert re.search(rf"(?<![\d.]){word}\b", planned)


def test_budgets_are_short_for_people_and_exact_in_json(folder: Path) -> None:
    budget = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]
    _run("ledger", "create", *budget, "--epsilon", "2")
    ask = [*ASK, "--threshold", "1500", "-k", "3", "--epsilon", "11501705/6093798"]
    _run("top-k", *ASK, "-k", "1", "--epsilon", "11501705/6093798", *budget)
    shown = _run("ledger", "show", *budget)
    assert "spent      ≈1.88745" in shown
    assert "remaining  ≈0.112555" in shown
    exact = json.loads(_run("ledger", "show", *budget, "--json"))
    assert Fraction(exact["spent"]) >= Fraction(11501705, 6093798)
    refused = CliRunner().invoke(app, ["above", *ask, *budget])
    assert (
        "spent ε ≈ 1.88745, reserved ε = 0, remaining ε ≈ 0.112555, requested ε ≈ 1.88745"
        in refused.stderr
    )
