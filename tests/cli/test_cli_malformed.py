"""A hundred malformed inputs to the command line: each is refused in one clear message.

None ends in a traceback, shows anything of the table, or charges the ledger.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from dpgap.budget.ledger import Ledger
from dpgap.cli.main import app

SECRET = "S3CRET"
GOOD_CSV = f"who,what\n{SECRET}1,fig\n{SECRET}2,{SECRET}\n".encode()
JUNK = bytes(range(256)) * 40
PARQUET_HEAD = b"PAR1" + SECRET.encode() * 50

FILES: dict[str, bytes] = {
    "empty.csv": b"",
    "header only with spaces.csv": b"   \n",
    "no header.csv": f"{SECRET}1,fig\n{SECRET}2,pea\n".encode(),
    "other columns.csv": f"a,b\n{SECRET},fig\n".encode(),
    "upper case.csv": f"WHO,WHAT\n{SECRET},fig\n".encode(),
    "only a unit.csv": f"who\n{SECRET}\n".encode(),
    "only items.csv": b"what\nfig\n",
    "junk.csv": JUNK,
    "latin1.csv": "who,what\nS3CRET\xe9,caf\xe9\n".encode("latin-1"),
    "utf16.csv": f"who,what\n{SECRET},fig\n".encode("utf-16"),
    "ragged.csv": b"who,what\n" + f"{SECRET},fig,a,b\n{SECRET}\n".encode() * 30,
    "open quote.csv": f'who,what\n"{SECRET},fig\n{SECRET},pea\n'.encode() * 20,
    "nulls.csv": f"who,what\n{SECRET}\0,fig\n".encode() + b"\0" * 100,
    "not gzip.csv.gz": GOOD_CSV,
    "cut.csv.gz": gzip.compress(GOOD_CSV * 1000)[:-20],
    "junk.csv.gz": b"\x1f\x8b" + JUNK,
    "gzip of junk.csv.gz": gzip.compress(JUNK),
    "empty.parquet": b"",
    "junk.parquet": JUNK,
    "head.parquet": PARQUET_HEAD,
    "head and foot.parquet": PARQUET_HEAD + b"\xff\xff\xff\x7fPAR1",
    "text.parquet": GOOD_CSV,
    "gzipped.parquet.gz": gzip.compress(JUNK),
    "byte-order mark.jsonl": f'\ufeff{{"who": "{SECRET}", "what": "fig"}}\n'.encode(),
    "utf16.jsonl": f'{{"who": "{SECRET}", "what": "fig"}}\n'.encode("utf-16"),
    "not gzip.jsonl.gz": f'{{"who": "{SECRET}", "what": "fig"}}\n'.encode(),
    "cut.jsonl.gz": gzip.compress(b'{"who": 1, "what": "fig"}\n' * 1000)[:-30],
    "words.dat": f"1 2\n{SECRET} 3\n".encode(),
    "signs.dat": b"1 -2\n",
    "reals.dat": b"1 2.5\n",
    "zeros.dat": b"1 007\n",
    "junk.dat": JUNK,
    "cut.dat.gz": gzip.compress(b"1 2 3\n" * 10000)[:-30],
    "unknown.xlsx": GOOD_CSV,
    "unknown": GOOD_CSV,
}

FIXTURES = {"good.csv": GOOD_CSV, "items.txt": b"fig\npea\n", "junk.txt": JUNK, "empty.txt": b"\n"}

ASK = ["--unit", "who", "--item", "what", "--domain", "items.txt", "-k", "1", "--epsilon", "1"]


def _but(**changes: str) -> list[str]:
    """A right question about the good file, with some options changed."""
    options = dict(zip(ASK[::2], ASK[1::2], strict=True))
    for name, value in changes.items():
        options["-k" if name == "k" else f"--{name}"] = value
    return ["top-k", "good.csv", *(word for pair in options.items() for word in pair)]


OPTIONS: list[list[str]] = [
    _but(unit="customer"),
    _but(unit=""),
    _but(item="product"),
    _but(item="who"),
    _but(item=""),
    _but(unit="who' OR 1=1 --"),
    _but(item='what"; DROP TABLE x'),
    _but(domain="nowhere.txt"),
    _but(domain=""),
    _but(domain="junk.txt"),
    _but(domain="empty.txt"),
    _but(domain="5..1"),
    _but(domain="1...5"),
    _but(domain="0..999999999999999999999"),
    _but(domain="good.csv"),
    _but(domain="good.csv:"),
    _but(domain="good.csv:price"),
    _but(domain="nowhere.parquet:item"),
    _but(domain="\x1b[2J\u202e"),
    _but(domain="a" * 5000),
    _but(domain="items.txt\0"),
    _but(k="0"),
    _but(k="-3"),
    _but(k="2.5"),
    _but(k="many"),
    _but(k="3"),
    _but(k="99999999999999999999"),
    _but(k=""),
    _but(epsilon="0"),
    _but(epsilon="-1"),
    _but(epsilon="nan"),
    _but(epsilon="inf"),
    _but(epsilon="1e999999999"),
    _but(epsilon="1e-300"),
    _but(epsilon="1/0"),
    _but(epsilon="one"),
    _but(epsilon=""),
    _but(epsilon="5"),
    _but(epsilon="1" * 5000),
    _but(method="magic"),
    _but(split="0"),
    _but(split="1"),
    _but(split="half"),
    _but(neighbours="swap"),
    _but(dataset="clinic"),
    _but(dataset="a\nb"),
    _but(ledger="mysql://host/x"),
    _but(ledger="sqlite:///nowhere.db"),
    _but(ledger="sqlite:///junk.txt"),
    _but(ledger="postgresql://nobody@localhost:1/x"),
    _but(csv="nowhere/out.csv"),
    _but(csv="."),
    _but(html="nowhere/out.html"),
    ["top-k"],
    ["top-k", "good.csv"],
    ["top-k", "nowhere.csv", *ASK],
    ["top-k", ".", *ASK],
    ["top-k", "*.csv", *ASK],
    ["top-k", "https://example.com/x.csv", *ASK],
    ["top-k", "good.csv\0", *ASK],
    ["top-k", "good.csv", *ASK, "--unknown"],
    ["top-k", "good.csv", "more.csv", *ASK],
    ["top-k", "good.csv", *ASK[2:]],
    ["above", "good.csv", *ASK],
    ["above", "good.csv", *ASK, "--threshold", "high"],
    ["above", "good.csv", *ASK, "--threshold", "1e300"],
    ["above", "good.csv", *ASK, "--threshold", "nan"],
    ["below", "good.csv", *ASK],
    ["plan", "-k", "3"],
    ["plan", "-k", "3", "--epsilon", "1", "--error", "1"],
    ["plan", "-k", "3", "--error", "none"],
    ["plan", "-k", "3", "--epsilon", "1", "--select", "below"],
    ["plan", "-k", "3", "--epsilon", "1", "--adaptive"],
    ["ledger", "create", "--dataset", "x", "--epsilon", "1"],
    ["ledger", "create", "--ledger", "budget.db", "--dataset", "sales", "--epsilon", "9"],
    ["ledger", "create", "--ledger", "budget.db", "--dataset", "x", "--epsilon", "-1"],
    ["ledger", "show", "--ledger", "nowhere.db"],
    ["ledger", "show", "--ledger", "budget.db", "--dataset", "clinic"],
    ["ledger", "verify", "--ledger", "junk.txt"],
    ["ledger", "verify", "--ledger", "budget.db", "--head", "0" * 64],
    ["ledger", "verify", "--ledger", "budget.db", "--dataset", "sales", "--head", "0" * 64],
]

TABLES: dict[str, Callable[[], pyarrow.Table]] = {
    "no columns": lambda: pyarrow.table({"x": [SECRET]}),
    "lists": lambda: pyarrow.table({"who": [SECRET], "what": [["fig"]]}),
    "structs": lambda: pyarrow.table({"who": [SECRET], "what": [{"a": "fig"}]}),
    "bytes": lambda: pyarrow.table({"who": [1], "what": [SECRET.encode()]}),
    "numbers for words": lambda: pyarrow.table({"who": [1], "what": [86753]}),
    "times": lambda: pyarrow.table({"who": [1], "what": pyarrow.array([1], pyarrow.time64("us"))}),
}


def _cases() -> list[tuple[str, list[str]]]:
    files = [(f"file {name}", ["top-k", name, *ASK]) for name in FILES]
    options = [(f"options {at}", words) for at, words in enumerate(OPTIONS)]
    tables = [(f"table of {name}", ["top-k", f"{name}.parquet", *ASK]) for name in TABLES]
    return files + options + tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("malformed")
    for name, content in (FILES | FIXTURES).items():
        (made / name).write_bytes(content)
    for name, table in TABLES.items():
        pyarrow.parquet.write_table(table(), made / f"{name}.parquet")
    Ledger(f"sqlite:///{made}/budget.db").create("sales", 4)
    return made


def _entries(folder: Path) -> int:
    return len(Ledger(f"sqlite:///{folder}/budget.db").entries("sales"))


def test_there_are_a_hundred_of_them() -> None:
    assert len(_cases()) >= 100


@pytest.mark.parametrize("words", [words for _, words in _cases()], ids=[n for n, _ in _cases()])
def test_malformed_input_is_refused_in_one_clear_message(
    words: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    words = words.copy()
    if words[0] not in ("ledger", "plan"):
        for name, value in (("--ledger", "sqlite:///budget.db"), ("--dataset", "sales")):
            words += [] if name in words else [name, value]
        if words[1:2] and words[1].endswith((".dat", ".dat.gz")):
            words[words.index("who")] = "line"
    before = _entries(folder)
    result = CliRunner().invoke(app, words)
    said = result.stdout + result.stderr
    assert result.exit_code in (1, 2), said
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert lines
    assert all(line.startswith("dpgap: ") for line in lines)
    assert ("--help)" in result.stderr) == (result.exit_code == 2)
    assert "Traceback" not in said
    assert "went wrong inside dpgap" not in said
    assert SECRET not in said
    assert "86753" not in said
    assert said.replace("\n", "").isprintable()
    assert _entries(folder) == before


def test_the_question_is_answered_where_nothing_is_malformed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, [*_but(), "--json"])
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["items"]) == 1
