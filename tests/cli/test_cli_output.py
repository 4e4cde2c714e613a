"""What the command line writes: never onto its inputs, never half, and never lost once paid for."""

import gzip
import json
import os
import stat
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
from typer.testing import CliRunner, Result

import dpgap
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerError
from dpgap.cli.main import app
from dpgap.pipelines import tables

SOLD = "who,what\n" + "".join(
    f"{who},{name}\n"
    for place, name in enumerate(("fig", "pea"))
    for who in range(400 - 100 * place)
)
QUESTION = ["--unit", "who", "--item", "what", "-k", "1", "--epsilon", "1"]
ASK = ["top-k", "sold.csv", *QUESTION, "--domain", "items.txt"]
BUDGET = ["--ledger", "sqlite:///budget.db", "--dataset", "sales"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    Path("sold.csv").write_text(SOLD)
    Path("sold.csv.gz").write_bytes(gzip.compress(SOLD.encode()))
    Path("items.txt").write_text("fig\npea\n")
    Path("items.csv").write_text("name\nfig\npea\n")
    Ledger("budget.db").create("sales", 100)
    return here


def _ask(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def _kept(folder: Path) -> dict[str, Any]:
    """The one release that was kept in a folder, which only its owner can read."""
    (file,) = folder.glob("dpgap-release-*.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content: dict[str, Any] = json.loads(file.read_text())
    assert dpgap.read_release(file.read_bytes())._to_dict().items() <= content.items()
    shown = _ask("show", str(file))
    assert shown.exit_code == 0
    assert ("was not checked" in shown.stderr) == ("ledger" in content["made"])
    assert "ε spent 1" in shown.stdout
    assert content["items"][0]["item"] in ("fig", "pea")
    assert "ε = 1" in content["guarantee"]
    return content


INPUTS = {
    "the table": ("sold.csv", ASK),
    "a gzipped table": ("sold.csv.gz", ["top-k", "sold.csv.gz", *ASK[2:]]),
    "the domain": ("items.txt", ASK),
    "a column": ("items.csv", [*ASK[:-1], "items.csv:name"]),
    "the ledger": ("budget.db", ASK),
    "its journal": ("budget.db-journal", ASK),
    "its log": ("budget.db-wal", ASK),
}


@pytest.mark.parametrize("option", ["--csv", "--html"])
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["plain", "force"])
@pytest.mark.parametrize(("name", "words"), INPUTS.values(), ids=INPUTS)
def test_output_onto_an_input_is_refused(
    name: str, words: list[str], force: list[str], option: str, folder: Path
) -> None:
    before = {file: file.read_bytes() for file in folder.iterdir()}
    result = _ask(*words, *BUDGET, option, name, *force)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "it must be another file" in result.stderr
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(
    "way", ["./{name}", "sub/../{name}", "soft", "soft to soft", "hard", "{here}/{name}"]
)
@pytest.mark.parametrize("name", ["sold.csv", "items.txt", "budget.db"])
def test_an_input_is_known_by_any_other_name(name: str, way: str, folder: Path) -> None:
    Path("sub").mkdir()
    Path("soft").symlink_to(name)
    Path("soft to soft").symlink_to("soft")
    os.link(name, "hard")
    before = Path(name).read_bytes()
    target = way.format(name=name, here=folder)
    result = _ask(*ASK, *BUDGET, "--html", target, "--force")
    assert result.exit_code == 1
    assert "it must be another file" in result.stderr
    assert Path(name).read_bytes() == before


@pytest.mark.parametrize(
    "url",
    [
        "budget.db",
        "{here}/budget.db",
        "sqlite:////{here}/budget.db",
        "sqlite:///link.db",
    ],
)
@pytest.mark.parametrize("ending", ["", "-journal"])
def test_a_ledger_is_known_however_its_address_is_written(
    url: str, ending: str, folder: Path
) -> None:
    Path("link.db").symlink_to("budget.db")
    before = Path("budget.db").read_bytes()
    ledger = ["--ledger", url.format(here=folder), "--dataset", "sales"]
    result = _ask(*ASK, *ledger, "--csv", f"budget.db{ending}", "--force")
    assert result.exit_code == 1
    assert "is the ledger: it must be another file" in result.stderr
    assert Path("budget.db").read_bytes() == before


def test_a_table_in_a_database_that_is_a_file_is_an_input_too(folder: Path) -> None:
    with duckdb.connect("shop.db") as database:
        database.sql("CREATE TABLE sold AS FROM read_csv('sold.csv')")
    before = Path("shop.db").read_bytes()
    words = ["top-k", "duckdb://shop.db?table=sold", *ASK[2:]]
    result = _ask(*words, "--html", "shop.db", "--force")
    assert result.exit_code == 1
    assert "is the table: it must be another file" in result.stderr
    assert Path("shop.db").read_bytes() == before


@pytest.mark.parametrize(
    ("one", "other"), [("x", "x"), ("x", "./x"), ("x.Page", "X.page"), ("x", "link")]
)
def test_two_outputs_are_two_files(one: str, other: str, folder: Path) -> None:
    Path("link").symlink_to("x")
    result = _ask(*ASK, *BUDGET, "--csv", one, "--html", other, "--force")
    assert result.exit_code == 1
    assert f"--html {Path(other)} is the file of --csv, {one}" in result.stderr
    assert Ledger("budget.db").account("sales").remaining == 100


def test_a_file_that_is_there_is_replaced_only_if_forced(folder: Path) -> None:
    Path("out.csv").write_text("precious")
    Path("out.csv").chmod(0o600)
    refused = _ask(*ASK, *BUDGET, "--csv", "out.csv")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "out.csv is there already: --force replaces it" in refused.stderr
    assert Path("out.csv").read_text() == "precious"
    assert Ledger("budget.db").account("sales").remaining == 100
    before = os.umask(0o027)
    try:
        assert _ask(*ASK, "--csv", "out.csv", "--html", "new.html", "--force").exit_code == 0
    finally:
        os.umask(before)
    assert Path("out.csv").read_text().startswith("rank,item")
    for name in ("out.csv", "new.html"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o640
    assert not list(folder.glob(".*"))


def test_a_forced_link_stays_and_the_file_that_it_leads_to_is_replaced(folder: Path) -> None:
    Path("runs").mkdir()
    Path("runs/old.csv").write_text("old")
    Path("latest.csv").symlink_to("runs/old.csv")
    assert _ask(*ASK, "--csv", "latest.csv").exit_code == 1
    assert _ask(*ASK, "--csv", "latest.csv", "--force").exit_code == 0
    assert Path("latest.csv").is_symlink()
    assert Path("runs/old.csv").read_text().startswith("rank,item")
    assert [file.name for file in Path("runs").iterdir()] == ["old.csv"]


def _while_counting(monkeypatch: pytest.MonkeyPatch, happens: Any) -> None:
    release = tables.answer

    def later(*args: Any, **options: Any) -> Any:
        happens()
        return release(*args, **options)

    monkeypatch.setattr(tables, "answer", later)


def test_a_file_that_appears_in_the_meantime_is_not_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_counting(monkeypatch, lambda: Path("out.csv").write_text("precious"))
    result = _ask(*ASK, "--csv", "out.csv")
    assert result.exit_code == 1
    assert "out.csv could not be written (File exists" in result.stderr
    assert Path("out.csv").read_text() == "precious"
    assert _kept(folder)["epsilon_spent"] == 1
    assert not list(folder.glob(".*"))


def test_an_output_that_becomes_an_input_in_the_meantime_is_not_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _while_counting(monkeypatch, lambda: Path("out.csv").symlink_to("sold.csv"))
    result = _ask(*ASK, "--csv", "out.csv", "--force")
    assert result.exit_code == 1
    assert "is the table" in result.stderr
    assert Path("sold.csv").read_text() == SOLD
    assert _kept(folder)["epsilon_spent"] == 1
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("target", ["socket", "sub", "nowhere/out.csv"])
def test_what_is_no_file_is_refused_before_the_charge(target: str, folder: Path) -> None:
    import socket

    Path("sub").mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        result = _ask(*ASK, *BUDGET, "--csv", target, "--force")
    assert result.exit_code == 1
    assert "cannot be written" in result.stderr
    assert Ledger("budget.db").account("sales").remaining == 100


def _shell(command: str, folder: Path, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a shell's command in which $DPGAP stands for the program."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ
        | {"DPGAP": f"{sys.executable} -m dpgap", "PYTHONIOENCODING": "utf-8"}
        | environment,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


WORDS = " ".join(ASK)


def test_what_is_printed_is_not_replaced(folder: Path) -> None:
    for target in ("both.txt", "/dev/stdout", "/dev/fd/1"):
        refused = _shell(f"$DPGAP {WORDS} --json --csv {target} --force > both.txt", folder)
        assert refused.returncode == 1
        assert f"{target} is the standard output: it must be another file" in refused.stderr
    told = _shell(f"$DPGAP {WORDS} --html told.txt --force 2> told.txt; cat told.txt", folder)
    assert "told.txt is the standard error: it must be another file" in told.stdout


@pytest.mark.parametrize("target", ["pipe", "/dev/null", "."])
def test_pipes_devices_and_folders_are_refused(target: str, folder: Path) -> None:
    os.mkfifo("pipe")
    refused = _ask(*ASK, *BUDGET, "--csv", target, "--force")
    assert refused.exit_code == 1
    assert f"{target} cannot be written: it must be a file" in refused.stderr
    assert Ledger("budget.db").account("sales").remaining == 100


def test_a_release_whose_reader_has_gone_is_kept(folder: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "dpgap", *ASK, *BUDGET],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert f"it is in {folder}/dpgap-release-" in done.stderr
    kept = _kept(folder)
    assert (kept["epsilon_spent"], kept["epsilon_remaining"]) == (1, 99)


@pytest.mark.parametrize(
    "streams",
    [">&-", "> /dev/full", ">&- 2>&-", "> /dev/full 2> /dev/full", "--json > /dev/full"],
)
def test_a_release_that_cannot_be_printed_is_kept(streams: str, folder: Path) -> None:
    done = _shell(f"$DPGAP {WORDS} {streams}", folder)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ("it is in" in done.stderr) == ("2>" not in streams)
    assert _kept(folder)["epsilon_spent"] == 1


def test_a_release_that_was_printed_whole_is_kept_nowhere_else(folder: Path) -> None:
    done = _shell(f"ulimit -f 8; $DPGAP {WORDS} --json --html out.html", folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["epsilon_spent"] == 1
    assert "out.html could not be written (File too large" in done.stderr
    assert "it was printed as well" in done.stderr
    assert not list(folder.glob("dpgap-release-*"))


def test_a_table_on_the_terminal_rounds_so_the_file_s_numbers_are_kept(folder: Path) -> None:
    done = _shell(f"ulimit -f 8; $DPGAP {WORDS} --html out.html", folder)
    assert done.returncode == 1
    assert "ε spent 1" in done.stdout
    assert f"it is in {folder}/dpgap-release-" in done.stderr
    assert _kept(folder)["epsilon_spent"] == 1


def test_the_next_folder_takes_what_the_first_does_not(folder: Path, tmp_path: Path) -> None:
    """Nobody can make a file in /proc, not even root."""
    words = [*ASK[:1], str(folder / "sold.csv"), *ASK[2:-1], str(folder / "items.txt")]
    for place, home in (("home", tmp_path / "home"), ("temporary", Path("/proc"))):
        expected = tmp_path / place
        expected.mkdir()
        done = _shell(
            f"cd /proc; $DPGAP {' '.join(words)} > /dev/full",
            folder,
            HOME=str(home),
            TMPDIR=str(expected),
        )
        assert done.returncode == 1
        assert f"it is in {expected}/dpgap-release-" in done.stderr
        assert _kept(expected)["epsilon_spent"] == 1


def test_where_no_folder_takes_it_the_release_is_said_on_the_other_stream(folder: Path) -> None:
    before = set(folder.iterdir())
    done = _shell(f"ulimit -f 1; $DPGAP {WORDS} -k 2 --html out.html", folder)
    assert done.returncode == 1
    assert "out.html could not be written (File too large" in done.stderr
    assert "fig" in done.stdout
    assert json.loads(done.stderr[done.stderr.index("{") :])["epsilon_spent"] == 1
    assert set(folder.iterdir()) == before


def test_other_commands_end_quietly_with_a_closed_pipe_and_in_words_with_a_full_disk(
    folder: Path,
) -> None:
    plan = "$DPGAP plan -k 2 --epsilon 1"
    closed = _shell(f"({plan}; echo status $? >&2) | true", folder)
    assert closed.stderr in ("status 1\n", "status 0\n")  # 0 where it was quicker than `true`
    full = _shell(f"{plan} > /dev/full", folder)
    assert (full.returncode, full.stderr) == (1, "dpgap: No space left on device\n")


@pytest.mark.parametrize("as_json", [True, False])
def test_a_ledger_that_goes_away_after_the_charge_takes_no_release_with_it(
    as_json: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_: LedgerAccount) -> Fraction:
        raise LedgerError("the ledger cannot be reached")

    monkeypatch.setattr(LedgerAccount, "remaining", property(gone))
    result = _ask(*ASK, *BUDGET, *(["--json"] if as_json else []))
    assert result.exit_code == 0
    if as_json:
        assert json.loads(result.stdout)["epsilon_remaining"] is None
    else:
        assert "ε left unknown for you in data set 'sales'" in result.stdout


def test_a_name_that_begins_with_a_tilde_is_a_name_like_any_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/nowhere")
    for name in ("sold.csv", "sold.csv.gz", "items.txt", "items.csv"):
        Path(name).rename(f"~{name}")
    Ledger("~budget.db").create("sales", 9)
    budget = ["--ledger", "~budget.db", "--dataset", "sales"]
    for table in ("~sold.csv", "~sold.csv.gz"):
        for domain in ("~items.txt", "~items.csv:name"):
            words = ["top-k", table, *QUESTION, "--domain", domain, *budget]
            result = _ask(*words, "--csv", "~out.csv", "--force")
            assert result.exit_code == 0, result.stderr
    assert Path("~out.csv").read_text().startswith("rank,item")
    assert Ledger("~budget.db").account("sales").remaining == 5
    refused = _ask(*words, "--csv", "~/out.csv")
    assert refused.exit_code == 1
    assert "~/out.csv cannot be written" in refused.stderr


@pytest.mark.parametrize(
    "command",
    [
        "plan -k 2 --epsilon 1",
        "ledger show --ledger budget.db",
        "--help",
        "top-k --help",
        "audit --help",
    ],
)
def test_a_console_that_lacks_letters_shows_everything(command: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpgap", *command.split()],
        env=os.environ | {"PYTHONIOENCODING": "cp1252:strict", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout) > 100


def test_an_error_in_letters_that_a_console_lacks_is_still_said(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpgap", "plan", "-k", "2", "--epsilon", "ε∞"],
        env=os.environ | {"PYTHONIOENCODING": "cp1252:strict", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 1
    assert rb"not '\u03b5\u221e'" in done.stderr


def test_modules_that_run_alone_show_everything_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dpgap", "audit", "--help"],
        env=os.environ | {"PYTHONIOENCODING": "ascii:strict", "PYTHONUTF8": "0"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
