"""`dpgap show`: a release from its document alone, in every output, and hostile ones refused."""

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import dpgap
from dpgap.cli.main import app
from dpgap.releases.document import BESIDE, SHOWN
from dpgap.releases.page import page

KEPT = Path(__file__).parents[1] / "releases" / "documents"
NAMES = sorted(path.stem for path in KEPT.glob("*.json"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _show(*words: str, **options: object) -> Result:
    return CliRunner().invoke(app, ["show", *words], **options)


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_release_is_shown_in_every_output(name: str, folder: Path) -> None:
    document = KEPT / f"{name}.json"
    release = dpgap.read_release(document.read_text("utf-8"))
    result = _show(str(document), "--csv", "out.csv", "--html", "out.html")
    assert result.exit_code == 0
    paid = release.made.ledger
    note = "" if paid is None else f"entry {paid.entry} of data set {paid.dataset!r} paid for it"
    assert note in result.stderr
    assert ("That was not checked" in result.stderr) == bool(result.stderr) == bool(note)
    words = " ".join(result.stdout.split())
    assert "ε spent" in words
    assert release.guarantee in words
    assert release.made.words() in words
    assert Path("out.html").read_text("utf-8") == page(release)
    assert Path("out.csv").read_bytes().decode() == release.to_csv()
    for sentence in getattr(release, "findings", ()):
        assert sentence in words
    shown = json.loads(_show(str(document), "--json").stdout)
    stored = json.loads(document.read_text("utf-8"))
    assert shown["exact"]["epsilon_spent"] == str(release.spent)
    assert _without_words(shown) == _without_words(stored)


def _without_words(content: dict[str, Any]) -> dict[str, Any]:
    """All of a document but what follows from the rest."""
    computed = (*SHOWN, *BESIDE)
    return {name: value for name, value in content.items() if name not in computed}


def test_a_document_shows_the_same_as_the_release_did(folder: Path) -> None:
    rows = [f"{who},{'fig' if who % 3 else 'pea'}\n" for who in range(900)]
    Path("sold.csv").write_text("".join(["who,what\n", *rows]))
    Path("items.txt").write_text("fig\npea\n")
    ask = "top-k sold.csv --unit who --item what --domain items.txt -k 2 --epsilon 1"
    files = ["--csv", "then.csv", "--html", "then.html", "--json"]
    asked = CliRunner().invoke(app, [*ask.split(), *files])
    Path("kept.json").write_text(asked.stdout)
    Path("sold.csv").unlink()
    assert _show("kept.json", "--csv", "now.csv", "--html", "now.html").exit_code == 0
    for kind in ("csv", "html"):
        assert Path(f"now.{kind}").read_bytes() == Path(f"then.{kind}").read_bytes()


def test_a_line_is_standard_input() -> None:
    text = (KEPT / "table-top-k.json").read_text("utf-8")
    assert _show("-", input=text).stdout == _show(str(KEPT / "table-top-k.json")).stdout
    empty = _show("-", input="")
    assert (empty.exit_code, empty.stdout) == (1, "")
    assert empty.stderr == "dpgap: this is not JSON: Expecting value in line 1, column 1\n"


def test_a_path_is_no_document_and_says_what_to_pass() -> None:
    with pytest.raises(ValueError, match=r"^this is not JSON: Expecting value in") as refusal:
        dpgap.read_release("best.json")
    mend = ": pass the text of the file, as in read_release(Path('top.json').read_text())"
    assert str(refusal.value).endswith(f"column 1{mend}")
    with pytest.raises(ValueError, match=r"^this is not JSON: .* column 2$"):
        dpgap.read_release("{")


def test_standard_input_that_is_closed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpgap.cli.release import _content

    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        _content("-")


def test_a_document_is_never_written_onto(folder: Path) -> None:
    text = (KEPT / "max.json").read_text("utf-8")
    Path("kept.json").write_text(text)
    Path("there.csv").write_text("precious")
    onto_itself = _show("kept.json", "--html", "kept.json", "--force")
    assert onto_itself.exit_code == 1
    assert "is the document: it must be another file" in onto_itself.stderr
    assert _show("kept.json", "--csv", "there.csv").exit_code == 1
    assert Path("there.csv").read_text() == "precious"
    assert _show("kept.json", "--csv", "there.csv", "--force").exit_code == 0
    assert Path("kept.json").read_text() == text


@pytest.mark.parametrize("name", ["table-top-k", "top-k-labels"])
def test_other_programs_read_the_file_of_rows_without_being_told_of_a_heading(
    name: str, folder: Path
) -> None:
    import pandas

    _show(str(KEPT / f"{name}.json"), "--csv", "out.csv")
    frame = pandas.read_csv("out.csv")
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(frame) == len(rows) > 1
    assert list(frame.columns[-3:]) == ["question", "epsilon", "time"]
    assert pandas.to_datetime(frame["time"]).dt.year.tolist() == [2026] * len(rows)
    assert frame["epsilon"].dtype.kind in "if"


BAD: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"\x00\x01\x02",
    "another JSON": b'{"items": []}',
    "a later version": b'{"format": "dpgap release", "version": 2}',
    "an unknown kind": b'{"format": "dpgap release", "version": 1, "delta": "0", "kind": "x"}',
    "deep": b"[" * 10**6,
    "long": b" " * ((1 << 26) + 1),
    "hostile": b'{"format": "dpgap release", "version": 1, "delta": "0", "kind": "\xe2\x80\xae"}',
}


@pytest.mark.parametrize("content", BAD.values(), ids=BAD)
def test_what_is_no_document_is_refused_in_one_line(content: bytes, folder: Path) -> None:
    Path("bad.json").write_bytes(content)
    result = _show("bad.json", "--html", "out.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("dpgap: ")
    assert result.stderr.count("\n") == 1
    assert result.stderr.strip().isprintable()
    assert "went wrong inside" not in result.stderr
    assert not Path("out.html").exists()


@pytest.mark.parametrize("file", ["nowhere.json", ".", "a\0b", "/dev/zero"])
def test_a_file_that_cannot_be_read_is_refused_in_one_line(file: str, folder: Path) -> None:
    result = _show(file)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("dpgap: ")
    assert result.stderr.count("\n") == 1


def test_a_page_has_the_heading_that_is_asked_for(folder: Path) -> None:
    document, title = str(KEPT / "table-top-k.json"), "Figs & <peas>"
    assert _show(document, "--html", "out.html", "--title", title).exit_code == 0
    assert "<h1>Figs &amp; &lt;peas&gt;</h1>" in Path("out.html").read_text("utf-8")
    alone = _show(document, "--title", title)
    assert (alone.exit_code, alone.stdout) == (1, "")
    assert "--title is the heading of a page: give --html as well" in alone.stderr
    ledger = ["--ledger", f"sqlite:///{folder}/budget.db"]
    for words in (["create", "--dataset", "a", "--epsilon", "1"], ["page", "--title", title]):
        said = CliRunner().invoke(app, ["ledger", words[0], *ledger, *words[1:]])
        assert said.exit_code == 0
    assert "<h1>Figs &amp; &lt;peas&gt;</h1>" in said.stdout
