"""Files as people have them: other encodings, a decimal comma, dates in text."""

import gzip
import io
import json
import os
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pandas
import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.account import InMemoryBudget
from dpgap.budget.cost import Limit
from dpgap.cli.main import app
from dpgap.data import sources
from dpgap.data.counts import table_facts

ROWS = "Kunde;Artikel;Betrag;Datum\n1;Müsli;12,50;01.10.2026\n2;Öl €;1.234,56;30.09.2026\n"
DOMAIN = ["Müsli", "Öl €", "Brot"]


def _written(folder: Path, data: bytes, name: str = "verkauf.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def _found(table: Any, domain: list[str] = DOMAIN, **stated: Any) -> list[int]:
    counting: dict[str, Any] = {"unit": "Kunde", "item": "Artikel", "domain": domain, **stated}
    found: list[int] = dpgap.counts(table, **counting).expanded().tolist()
    return found


ENCODED = {
    "utf-8": [ROWS.encode(), ROWS.encode("utf-8-sig")],
    "latin-1": [ROWS.encode("cp1252")],
    "cp1252": [ROWS.encode("cp1252")],
    "utf-16": [
        ROWS.encode("utf-16"),
        ROWS.encode("utf-16-le"),
        b"\xfe\xff" + ROWS.encode("utf-16-be"),
    ],
}


@pytest.mark.parametrize(
    ("held", "names"),
    [
        ("latin-1", ["latin1", "ISO-8859-1", "L1", "cp1252", "windows-1252", "CP1252"]),
        ("utf-8", ["utf8", "UTF-8", "U8"]),
        ("utf-16", ["UTF16", "utf_16"]),
    ],
)
def test_an_encoding_of_several_names_is_one_question(
    tmp_path: Path, held: str, names: list[str]
) -> None:
    path = _written(tmp_path, ENCODED[held][0])
    asked = {"unit": "Kunde", "item": "Artikel", "domain": DOMAIN}
    origins = [dpgap.counts(path, **asked, encoding=name).origin for name in (held, *names)]
    assert [origin and origin.encoding for origin in origins] == [held] * len(origins)
    assert len({origin and origin.identity for origin in origins}) == 1


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("at_once", [3, 1 << 16])
def test_a_file_is_read_in_the_encoding_that_is_stated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, at_once: int
) -> None:
    monkeypatch.setattr(sources, "_BYTES_AT_ONCE", at_once)
    name = "verkauf.csv.gz" if at_once == 3 else "verkauf.csv"
    for data in ENCODED[encoding]:
        assert _found(_written(tmp_path, data, name), encoding=encoding) == [1, 1, 0]


UNDECODED = {
    "utf-8": [b"\xff", b"\xc3", b"M\xfcsli", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"],
    "latin-1": [b"\x81", b"\x8d", b"a\x8fb", b"\x90", b"\x9d"],
    "cp1252": [b"\x81"],
    "utf-16": [b"\x00\xd8", b"\x00\xdca\x00", b"\x00\xdc\x00\xd8"],
}


@pytest.mark.parametrize("encoding", UNDECODED)
def test_what_cannot_be_decoded_is_no_value_in_its_field_and_refuses_nothing(
    tmp_path: Path, encoding: str
) -> None:
    codec = {"latin-1": "cp1252", "utf-16": "utf-16-le"}.get(encoding, encoding)
    data, many = ROWS.encode(codec), len(UNDECODED[encoding])
    for at, odd in enumerate(UNDECODED[encoding]):
        data += f"item {at};".encode(codec) + odd + ";5,00;\n".encode(codec)
        data += f"amount {at};Brot;".encode(codec) + odd + ";\n".encode(codec)
        data += f'quoted {at};"'.encode(codec) + odd + ' ""x""";;\n'.encode(codec)
    path = _written(tmp_path, data)
    assert _found(path, encoding=encoding) == [1, 1, many]
    assert _found(path, encoding=encoding, where="Betrag is null") == [0, 0, many]
    counted = dpgap.count(path, unit="Kunde", epsilon=1000, encoding=encoding)
    assert counted.estimate == 2 + 3 * many


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_only_the_replacement_character_is_taken_for_what_cannot_be_decoded(
    tmp_path: Path, encoding: str
) -> None:
    names = [*"\ufdd0\uffff\ue000?", "\ufffc", "\ufffd", "fig\ufffd"]
    text = "Kunde;Artikel\n" + "".join(f"{at};{name}\n" for at, name in enumerate(names))
    path = _written(tmp_path, text.encode(encoding))
    assert _found(path, names, encoding=encoding) == [1] * 5 + [0, 0]


@pytest.mark.parametrize(("end", "found"), [(b"", [1, 1, 1]), (b"\n\x00", [1, 1, 1])])
def test_half_a_character_at_the_end_refuses_nothing(
    tmp_path: Path, end: bytes, found: list[int]
) -> None:
    text = (ROWS + "3;Brot;;").encode("utf-16") + end
    assert _found(_written(tmp_path, text + b"x"), encoding="utf-16") == found


def test_a_last_field_that_ends_in_half_a_character_is_no_value(tmp_path: Path) -> None:
    """What is left of the field would be another item, or another person."""
    path = _written(tmp_path, b"Kunde;Artikel\n1;Caf\n2;Caf\xc3")
    assert _found(path, ["Caf", "Café"], encoding="utf-8") == [1, 0]
    with pytest.raises(ValueError, match=r"^table could not be read: it must be a CSV file"):
        _found(_written(tmp_path, b""), encoding="utf-8")


@pytest.mark.parametrize("place", [0, 100_000])
def test_a_file_that_is_not_utf_8_is_refused_and_the_error_names_encoding(
    tmp_path: Path, place: int
) -> None:
    path = _written(tmp_path, b"Kunde;Artikel\n" + b"1;Brot\n" * place + b"2;M\xfcsli\n")
    with pytest.raises(
        ValueError, match=r"in UTF-8 .* state another encoding .* encoding='cp1252'"
    ):
        _found(path)
    assert _found(path, encoding="latin-1") == [1, 0, min(place, 1)]


@pytest.mark.parametrize("is_right", [True, False])
def test_what_was_decoded_is_private_and_does_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_right: bool
) -> None:
    monkeypatch.setattr(sources.tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    seen = []

    def decode(path: str, encoding: str, into: str) -> None:
        before(path, encoding, into)
        seen.append((os.stat(into).st_mode & 0o777, os.stat(Path(into).parent).st_mode & 0o777))

    before = sources._decode
    monkeypatch.setattr(sources, "_decode", decode)
    torn = "" if is_right else '"3;x'
    path = _written(tmp_path, (ROWS + torn).encode("cp1252"))
    if is_right:
        counted = dpgap.counts(
            path, unit="Kunde", item="Artikel", domain=DOMAIN, encoding="latin-1"
        )
        counted.close()
    else:
        with pytest.raises(ValueError, match="in the encoding that is stated"):
            _found(path, encoding="latin-1")
    assert seen == [(0o600, 0o700)]
    assert not list((tmp_path / "temporary").iterdir())


AMOUNTS = {
    "12,5": 1250,
    "12": 1200,
    "-1.234,56": -123456,
    "1.234": 123400,
    "1 234,5": 123450,
    "1\u00a0234": 123400,
    "1'234,50": 123450,
    "1,5e1": 1500,
    ",5": 50,
    "12.5": 0,
    "1,234.50": 0,
    "1.23": 0,
    "12.34.567": 0,
    "12,50 €": 0,
    "1,2,3": 0,
    "": 0,
    "x": 0,
}


def test_sums_and_filters_read_numbers_with_a_decimal_comma(tmp_path: Path) -> None:
    lines = "".join(f"{at};{at};{text}\n" for at, text in enumerate(AMOUNTS))
    path = _written(tmp_path, f"Kunde;Artikel;Betrag\n{lines}".encode())
    items = [str(at) for at in range(len(AMOUNTS))]
    summed = {"sum": "Betrag", "at_most": 2000, "at_least": -2000}
    assert _found(path, items, decimal=",", **summed) == list(AMOUNTS.values())
    above = _found(path, items, decimal=",", where="Betrag >= 12.5")
    assert above == [int(value >= 1250) for value in AMOUNTS.values()]
    as_text = _found(path, items, decimal=",", where="Betrag = '12,5' or Betrag like '%€'")
    assert as_text == [int(text in ("12,5", "12,50 €")) for text in AMOUNTS]
    assert _found(path, items, decimal=".", **summed)[:2] == [0, 1200]


SUMMED: dict[str, Any] = {"unit": "Kunde", "sum": "Betrag", "at_most": 50}
SUMS: dict[str, Callable[..., Any]] = {
    "total": partial(dpgap.total, epsilon=1, **SUMMED),
    "top-k": partial(dpgap.top_k, k=1, epsilon=1, item="Artikel", domain=DOMAIN, **SUMMED),
    "counts": partial(dpgap.counts, item="Artikel", domain=DOMAIN, **SUMMED),
}


@pytest.mark.parametrize("kind", SUMS)
@pytest.mark.parametrize("encoding", [None, "utf-16"])
def test_a_sum_over_a_file_with_semicolons_asks_for_the_decimal_mark(
    kind: str, encoding: str | None, tmp_path: Path
) -> None:
    ask = partial(SUMS[kind], encoding=encoding)
    path = _written(tmp_path, ROWS.encode(encoding or "utf-8"))
    account = InMemoryBudget(Limit("epsilon", Fraction(1)))
    paying = {} if kind == "counts" else {"account": account}
    with pytest.raises(ValueError, match=r"decimal must be stated .* ',' if amounts are"):
        ask(path, **paying)
    assert account.spent.epsilon == 0
    for decimal in ".,":
        ask(path, decimal=decimal)
    ask(_written(tmp_path, ROWS.replace(",", ".").replace(";", ",").encode(encoding or "utf-8")))


def test_a_session_and_a_command_ask_for_the_decimal_mark_too(tmp_path: Path) -> None:
    path = _written(tmp_path, ROWS.encode())
    with dpgap.Session(path, unit="Kunde", epsilon=1) as session:
        with pytest.raises(ValueError, match="decimal must be stated"):
            session.total("Betrag", at_most=50, epsilon=1)
        assert session.spent == 0
        session.count(epsilon=1)
    told = ["total", str(path), "--unit", "Kunde", "--sum", "Betrag", "--at-most", "50"]
    done = CliRunner().invoke(app, [*told, "--epsilon", "1"])
    assert done.exit_code == 1
    assert "--decimal must be stated" in done.stderr
    done = CliRunner().invoke(app, [*told, "--epsilon", "1", "--decimal", "."])
    assert done.exit_code == 0


def test_the_decimal_mark_that_files_have_anyway_is_the_same_question(tmp_path: Path) -> None:
    path = _written(tmp_path, b"Kunde,Betrag\n1,12.50\n")
    asked: dict[str, Any] = {"unit": "Kunde", "sum": "Betrag", "at_most": 50, "epsilon": 1}
    plain, stated = dpgap.total(path, **asked), dpgap.total(path, **asked, decimal=".")
    assert plain.question.identity == stated.question.identity is not None


@pytest.mark.parametrize("name", ["sold.csv", "sold.csv.gz", "sold.jsonl"])
def test_a_column_of_a_text_file_is_text(name: str, tmp_path: Path) -> None:
    rows = [f"{at},fig,2026-10-01\n" for at in range(9)]
    if "json" in name:
        rows = [f'{{"who": {at}, "what": "fig", "day": "2026-10-01"}}\n' for at in range(9)]
    text = "".join(rows if "json" in name else ["who,what,day\n", *rows]).encode()
    path = _written(tmp_path, text, name)
    asked: dict[str, Any] = {"unit": "who", "epsilon": 1, "where": "day >= '2026-10-01'"}
    release = dpgap.count(path, **asked)
    for findings in (release.findings, dpgap.read_release(release.to_json()).findings):
        (said,) = (each for each in findings if "day" in each)
        assert said == (
            "Only dates written as 2026-10-01 match in column 'day'. For another form, use day(…)."
        )
    frame = pandas.read_csv(io.StringIO("who,what,day\n1,fig,2026-10-01\n"))
    assert any("If column 'day' is text" in each for each in dpgap.count(frame, **asked).findings)


def test_numbers_that_a_file_states_have_no_comma(tmp_path: Path) -> None:
    table = pandas.DataFrame({"Kunde": [1, 2], "Artikel": ["Brot", "Brot"], "Betrag": [12.5, 7.0]})
    table["Text"] = ["12,5", "7"]
    table.to_parquet(tmp_path / "verkauf.parquet")
    for name in ("Betrag", "Text"):
        summed = {"sum": name, "at_most": 20, "decimal": ","}
        assert _found(tmp_path / "verkauf.parquet", **summed) == [0, 0, 1950]


def test_days_are_read_in_the_form_that_is_stated(tmp_path: Path) -> None:
    path = _written(tmp_path, (ROWS + "3;Brot;1;31.02.2026\n4;Brot;1;2026-11-01\n").encode())
    since = "day(Datum, 'DD.MM.YYYY') >= '2026-10-01'"
    assert _found(path, where=since) == [1, 0, 0]
    assert _found(path, where=f"not {since}") == [0, 1, 2]
    assert _found(path, where="day(Datum, 'DD.MM.YYYY') is null") == [0, 0, 2]


@pytest.mark.parametrize(
    ("stated", "problem"),
    [
        ({"encoding": "koi8-r"}, "encoding must be one of 'utf-8', 'latin-1', 'cp1252', 'utf-16'"),
        ({"encoding": b"utf-8"}, "encoding must be one of"),
        ({"decimal": ";"}, "decimal must be one of '[.]', ',', not ';'"),
    ],
)
def test_other_encodings_and_decimal_marks_are_refused(
    tmp_path: Path, stated: dict[str, Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        _found(_written(tmp_path, ROWS.encode()), **stated)


@pytest.mark.parametrize("stated", [{"encoding": "utf-8"}, {"decimal": ","}])
def test_both_are_for_files(tmp_path: Path, stated: dict[str, str]) -> None:
    frame = pandas.DataFrame({"Kunde": [1], "Artikel": ["Brot"]})
    for table in (frame, duckdb.from_df(frame)):
        with pytest.raises(ValueError, match="encoding and decimal must be left out"):
            _found(table, **stated)
    for name in ("a.parquet", "a.jsonl", "a.dat"):
        path = _written(tmp_path, b"", name)
        with pytest.raises(ValueError, match=r"encoding must be left out: it is for .csv and .tsv"):
            _found(path, encoding="utf-8")


def test_a_session_a_count_and_a_document_keep_both(tmp_path: Path) -> None:
    path = _written(tmp_path, ROWS.encode("cp1252"))
    session = dpgap.Session(path, unit="Kunde", epsilon=900, encoding="latin-1", decimal=",")
    release = session.top_k("Artikel", domain=DOMAIN, k=1, epsilon=300, sum="Betrag", at_most=2000)
    assert release.labels == ("Öl €",)
    assert session.count(epsilon=300, where="Betrag > 12.3").estimate == 2
    with pytest.raises(TypeError, match="unexpected keyword argument 'encoding'"):
        session.top_k("Artikel", domain=DOMAIN, k=1, epsilon=1, encoding="utf-8")
    again = dpgap.read_release(release.to_json())
    assert isinstance(again, type(release))
    assert (again.question.encoding, again.question.decimal) == ("latin-1", ",")
    assert again.question.identity == release.question.identity


def test_a_ledger_knows_the_columns_of_a_file_in_any_encoding(tmp_path: Path) -> None:
    text = "Kunde;Größe\n1;groß\n"
    for codec in ("utf-8", "utf-8-sig", "cp1252", "utf-16"):
        path = _written(tmp_path, text.encode(codec))
        assert table_facts(str(path))[1] == (("Kunde", "text"), ("Größe", "text"))


@pytest.mark.parametrize(
    ("stated", "near"),
    [
        ({"unit": "kunde"}, "Kunde"),
        ({"item": "Artikl"}, "Artikel"),
        ({"sum": "Beträge", "at_most": 3}, "Betrag"),
        ({"by": "Dattum", "groups": ["x"], "max_groups": 1}, "Datum"),
        ({"where": "Betrg > 3"}, "Betrag"),
    ],
)
def test_a_wrong_name_gets_near_ones_and_all_there_are(
    tmp_path: Path, stated: dict[str, Any], near: str
) -> None:
    path = _written(tmp_path, ROWS.encode())
    frame = pandas.read_csv(path, sep=";")
    frame.to_parquet(tmp_path / "verkauf.parquet")
    for table in (path, tmp_path / "verkauf.parquet", frame, duckdb.from_df(frame)):
        with pytest.raises(ValueError, match="there is no column") as refusal:
            _found(table, **stated)
        told = f"(did you mean {near}?); it has Kunde, Artikel, Betrag, Datum"
        assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "write"),
    [
        ("1.500", "write 1500, or 1.5"),
        ("1.000", "write 1000, or 1"),
        ("1.234", "write 1234, or 1.2340"),
        ("+100.000", "write +100000, or +100"),
        ("1.500.000", "write 1500000"),
    ],
)
def test_a_point_that_may_separate_thousands_is_refused(
    tmp_path: Path, text: str, write: str
) -> None:
    """Beside a file with a decimal comma, as text alone: a float has no other meaning."""
    path, account = _written(tmp_path, ROWS.encode()), dpgap.Ledger(f"sqlite:///{tmp_path}/a.db")
    sales = account.create("sales", 100)
    known: dict[str, Any] = {"unit": "Kunde", "epsilon": 9, "decimal": ",", "account": sales}
    items: dict[str, Any] = {**known, "item": "Artikel", "domain": DOMAIN}
    amounts = {"sum": "Betrag", "at_most": 2000}
    why = f"a point, which separates decimals here: {write}"
    with pytest.raises(ValueError, match="has a point") as refusal:
        dpgap.total(path, **known, **amounts | {"at_most": text})
    assert str(refusal.value) == f"at_most has {why}"
    with pytest.raises(ValueError, match="has a point") as refusal:
        dpgap.above(path, **items, **amounts, threshold=text, k=1)
    assert str(refusal.value) == f"threshold has {why}"
    with pytest.raises(ValueError, match="has a point") as refusal:
        dpgap.count(path, **known, where=f"Betrag >= {text}")
    assert str(refusal.value).startswith(f"where: at character 11, this number has {why}\n")
    assert sales.spent == 0
    counted = dpgap.counts(path, unit="Kunde", item="Artikel", domain=DOMAIN, decimal=",")
    with pytest.raises(ValueError, match="threshold has a point"):
        dpgap.above(counted, threshold=text, k=1, epsilon=1)
    session = dpgap.Session(path, unit="Kunde", epsilon=1, decimal=",")
    with pytest.raises(ValueError, match="threshold has a point"):
        session.above("Artikel", domain=DOMAIN, threshold=text, k=1, epsilon=1)


def test_a_point_that_separates_decimals_is_read(tmp_path: Path) -> None:
    path = _written(tmp_path, ROWS.encode())
    known: dict[str, Any] = {"unit": "Kunde", "epsilon": 9000, "sum": "Betrag", "step": "0.001"}
    for at_most in (1.5, "1.5", "1.5000", "0.500", "1500"):
        dpgap.total(path, **known, at_most=at_most, decimal=",")
    with pytest.raises(ValueError, match="at_least has a point"):
        dpgap.total(path, **known, at_most=1, at_least="-1.500", decimal=",")
    plain = dpgap.total(path, **known, at_most="1.500", decimal=".")
    assert plain.question.at_most == Fraction(3, 2)
    asked = "total verkauf.csv --unit Kunde --sum Betrag --epsilon 9 --decimal , --at-most 1.500"
    words = [str(path) if word == "verkauf.csv" else word for word in asked.split()]
    said = CliRunner().invoke(app, words)
    assert said.stderr.startswith("dpgap: --at-most has a point, which separates decimals here")
    where = [*words[:-2], "--at-most", "1500", "--where", "Betrag > 1.500"]
    assert "write 1500, or 1.5" in CliRunner().invoke(app, where).stderr


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_says_which_encoding_to_state(tmp_path: Path, codec: str) -> None:
    path = _written(tmp_path, ("\ufeff" + ROWS).encode(codec))
    with pytest.raises(ValueError, match=r"as in encoding='utf-16'$"):
        _found(path)
    assert _found(path, encoding="utf-16") == _found(_written(tmp_path, ROWS.encode()))


def test_what_is_not_utf_8_is_misread_or_missing(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"unit": "Kunde", "epsilon": 9}
    said = [
        dpgap.count(_written(tmp_path, ROWS.encode(stated)), **asked, encoding=stated).findings
        for stated in ("utf-8", "cp1252", "utf-16")
    ]
    assert said[0][-1] == "If the file is not UTF-8, text with letters such as é and ö is missing."
    assert said[1][-1] == "If the file is UTF-8, text with letters such as é and ö is misread."
    assert not any("UTF-8" in each for each in said[2])


def test_the_command_line_takes_all_of_it(tmp_path: Path) -> None:
    path = _written(tmp_path, ROWS.encode("cp1252"))
    options = "--unit Kunde --item Artikel -k 1 --epsilon 300 --encoding latin-1 --decimal , --json"
    more = ["--domain", "Müsli, Öl €", "--sum", "Betrag", "--at-most", "2000"]
    more += ["--where", "day(Datum, 'DD.MM.YYYY') between '2026-09-01' and '2026-10-01'"]
    ran = CliRunner().invoke(app, ["top-k", str(path), *options.split(), *more])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.output)["labels"] == ["Öl €"]
    count = ["count", str(path), *"--unit Kunde --epsilon 300 --encoding cp1252 --json".split()]
    assert CliRunner().invoke(app, count).exit_code == 0


def test_a_file_whose_name_has_a_comma_is_still_a_domain(tmp_path: Path) -> None:
    path, items = _written(tmp_path, ROWS.encode()), tmp_path / "a,b.txt"
    items.write_text("Müsli\nBrot\n")
    asked = f"top-k {path} --unit Kunde --item Artikel -k 1 --epsilon 300 --domain {items} --json"
    ran = CliRunner().invoke(app, asked.split())
    assert json.loads(ran.output)["labels"] == ["Müsli"]


def test_a_row_that_stands_for_names_is_not_told_however_near(tmp_path: Path) -> None:
    path = _written(tmp_path, b"user42,Anna Muster,HIV positive,120.5\n" * 2)
    for table in (path, pandas.read_csv(path)):
        with pytest.raises(ValueError, match="no column 'user_id'") as refused:
            dpgap.count(table, unit="user_id", epsilon=1)
        assert not any(word in str(refused.value) for word in ("user42", "Anna", "HIV", "120"))


def test_json_has_numbers_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "sales.jsonl"
    path.write_text('{"who": 1, "paid": 1.125}\n')
    with pytest.raises(ValueError, match="decimal must be left out for JSON"):
        dpgap.total(path, unit="who", sum="paid", at_most=5, epsilon=1, decimal=",")


def test_shares_are_of_a_whole_that_was_read_in_the_same_way(tmp_path: Path) -> None:
    path = _written(tmp_path, b"Kunde;Artikel;Betrag\n1;x;10\n2;y;2,5\n")
    asked: dict[str, Any] = {"unit": "Kunde", "sum": "Betrag", "at_most": 20, "epsilon": 900}
    part = dpgap.top_k(path, item="Artikel", domain=["x", "y"], k=2, decimal=",", **asked)
    with pytest.raises(ValueError, match="the same decimal as these items"):
        part.shares(dpgap.total(path, decimal=".", **asked))
    assert part.shares(dpgap.total(path, decimal=",", **asked)).items[0].estimate > 0.7
