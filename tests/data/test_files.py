"""A line of a file speaks for itself: whatever one unit writes, all others are read as before."""

import gzip
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

import dpgap
from dpgap.data.counts import counts
from dpgap.data.domain import OBSERVED
from seams import long_case, quick_in

PLAIN = ["fig", "fig", "pea", "oat"]
DOMAIN = ["fig", "pea", "oat", "7"]


def _counts(path: Path, domain: Any = DOMAIN, **options: Any) -> list[int]:
    settings = {"unit": "who", "item": "what"} | options
    return counts(path, domain=domain, **settings).expanded().tolist()


def _write(path: Path, data: bytes) -> Path:
    if path.suffix == ".gz":
        data = gzip.compress(data, 1)
    path.write_bytes(data)
    return path


def _object(who: Any, what: Any) -> bytes:
    return json.dumps({"who": who, "what": what}).encode()


ODD_LINES = {
    "other capitals": b'{"who": "x", "WHAT": "fig", "What": "pea"}',
    "other capitals before": b'{"WHO": "x", "Who": "y", "who": "z", "what": "fig"}',
    "key with a number": b'{"who": "x", "what_1": "fig", "what": "pea"}',
    "many keys": json.dumps({f"key {n}": n for n in range(500)} | {"who": 1}).encode(),
    "number": b"3",
    "text": b'"x"',
    "list": b'["fig", "pea"]',
    "object in a list": b'[{"who": "x", "what": "fig"}]',
    "null": b"null",
    "blank": b"",
    "spaces": b" \t ",
    "empty object": b"{}",
    "torn": b'{"who": "x", "what": "fi',
    "two objects": b'{"who": "x", "what": "fig"} {"who": "y", "what": "fig"}',
    "carriage return": b'{"who": "x", "what": "fig"}\r{"who": "y", "what": "fig"}',
    "junk after": b'{"who": "x", "what": "fig"} junk',
    "comment": b"// fig",
    "NUL": b'{"who": "x", "what": "fig\0"}',
    "NUL alone": b"\0",
    "escaped NUL": b'{"who": "x", "what": "fig\\u0000"}',
    "not UTF-8": b'{"who": "x", "what": "\xff\xfe"}',
    "half a letter": b'{"who": "x", "what": "\\ud800"}',
    "control letter": b'{"who": "x", "what": "fig\x01"}',
    "next line": '{"who": "x", "what": "fig\u0085"}'.encode(),
    "line separator": '{"who": "x", "what": "fig\u2028"}'.encode(),
    "byte-order mark": b'\xef\xbb\xbf{"who": "x", "what": "fig"}',
    "open": b"[" * 100_000,
    "deep": b'{"who": "x", "what": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "huge": b'{"who": 1e999, "what": 1e999}',
    "long number": b'{"who": "x", "what": 1' + b"0" * 400 + b"}",
    "real": b'{"who": 1.5, "what": 7.5}',
    "no number": b'{"who": NaN, "what": "fig"}',
    "object": b'{"who": "x", "what": {"fig": 1}}',
    "object as unit": b'{"who": {}, "what": "fig"}',
    "true": b'{"who": true, "what": true}',
    "whole number": b'{"who": 8, "what": 7}',
    "long name": b'{"who": "x", "what": "' + b"n" * 3_000_000 + b'"}',
    "carriage return and newline": b'{"who": "x", "what": "fig"}\r',
}
COUNTED = {
    "other capitals before": "fig",
    "key with a number": "pea",
    "whole number": "7",
    "carriage return and newline": "fig",
}


@pytest.mark.parametrize(
    ("name", "unit"),
    quick_in(
        itertools.product(ODD_LINES, ["who", "row"]),
        {
            *((name, "who") for name in ODD_LINES),
            *((name, "row") for name in (*COUNTED, "no number", "object as unit", "deep")),
        },
    ),
)
def test_one_line_of_json_moves_its_own_item_and_nothing_else(
    tmp_path: Path, name: str, unit: str
) -> None:
    plain = [_object(f"unit {who}", what) for who, what in enumerate(PLAIN)]
    for place in (2, 4) if name == "byte-order mark" else (0, 2, 4):
        lines = [*plain[:place], ODD_LINES[name], *plain[place:]]
        after = _counts(_write(tmp_path / "sold.jsonl.gz", b"\n".join(lines)), unit=unit)
        more = dict.fromkeys(DOMAIN, 0)
        counted = COUNTED.get(name)
        if unit == "row" and name in ("no number", "object as unit"):
            counted = "fig"
        if counted is not None:
            more[counted] = 1
        assert [b - a for a, b in zip([2, 1, 1, 0], after, strict=True)] == list(more.values())


@pytest.mark.parametrize("unit", ["who", "row"])
def test_plain_lines_of_json_are_counted(tmp_path: Path, unit: str) -> None:
    plain = [_object(f"unit {who}", what) for who, what in enumerate(PLAIN)]
    path = _write(tmp_path / "sold.jsonl", b"\n".join(plain))
    assert _counts(path, unit=unit) == [2, 1, 1, 0]


ODD_KEYS = [
    *("", "~", "/", "a/b", "~1", "$", "$.a", "a.b", "*", "[0]", 'a "b"', "it's", "0", "-", "#"),
    *(" what ", "žluť 🍐", "{", "a\\b", "TAG", "a\nb", "a\tb"),
]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_any_key_is_found_and_no_other(tmp_path: Path, key: str) -> None:
    rows = [{"who": 1, key: "fig"}, {"who": 2, key + "x": "fig", key.swapcase() + "y": "pea"}]
    lines = [*map(json.dumps, rows), '["fig", "fig"]']
    path = _write(tmp_path / "sold.jsonl", "\n".join(lines).encode())
    assert _counts(path, item=key) == [1, 0, 0, 0]
    assert _counts(path, item=key, unit="row") == [1, 0, 0, 0]
    assert _counts(path, item="who", unit=key, domain=[1, 2]) == [1, 0]


@pytest.mark.parametrize(
    "spellings",
    [
        ["7", "7.0", "7e0", "70E-1", '"7"', '"\\u0037"'],
        ["0", "-0", "0.0", "-0.0", "0e9"],
        ["10000000000000000000", "1e19"],
        ["10000000000000000000000", "1e22"],
    ],
)
def test_numbers_in_json_that_are_equal_are_one_unit(tmp_path: Path, spellings: list[str]) -> None:
    others = ["8", "1e300", "123456789012345678901234567890", "123456789012345678901234567891"]
    lines = [f'{{"who": {who}, "what": "fig"}}' for who in [*spellings, *others]]
    path = _write(tmp_path / "sold.jsonl", "\n".join(lines).encode())
    assert _counts(path, domain=["fig"]) == [1 + len(others)]


def test_the_first_of_two_equal_keys_counts(tmp_path: Path) -> None:
    path = _write(tmp_path / "sold.jsonl", b'{"who": 1, "what": "fig", "what": "pea", "who": 2}\n')
    assert _counts(path) == [1, 0, 0, 0]


def test_json_is_compared_by_text_whatever_its_type(tmp_path: Path) -> None:
    rows = [(7, "7"), ("7", 7), (7, 7), ("8", True), (True, "true"), ("true", 1.5)]
    path = _write(tmp_path / "sold.jsonl", b"\n".join(_object(*row) for row in rows))
    assert _counts(path, domain=[7, "true", "1.5"]) == [1, 2, 1]
    assert _counts(path, domain=range(8)) == [0] * 7 + [1]


def test_a_key_that_no_line_has_counts_nothing(tmp_path: Path) -> None:
    """A single line could have it, and must not decide whether there is a release."""
    path = _write(tmp_path / "sold.jsonl", _object(1, "fig"))
    assert _counts(path, item="product") == _counts(path, unit="customer") == [0, 0, 0, 0]
    assert _counts(_write(path, b"")) == [0, 0, 0, 0]


def test_lines_of_json_beyond_the_limit_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    path, plain = tmp_path / "sold.jsonl", _object("x" * 1000, "fig") + b"\n"
    for size, is_read in ((1 << 24) - 100, True), (1 << 24, False):
        long = _object("x", "n" * size) + b"\n"
        for before in (0, 5_000, 20_000):
            _write(path, plain * before + long + plain * 10)
            if is_read:
                assert _counts(path) == [1, 0, 0, 0]
            else:
                with pytest.raises(ValueError, match="could not be read"):
                    _counts(path)


FIELD = b'x,"' + b"user,fig\n" * 110_000 + b'"\n'
ROW = b"user 12345,pea\n"


@pytest.mark.parametrize(
    ("suffix", "megabytes", "parts"),
    [
        *(("csv", 9, 6), ("csv.gz", 9, 3), *map(long_case, [("csv", 34, 1), ("csv.gz", 34, 1)])),
        *(pytest.param("csv", megabytes, 20, marks=pytest.mark.long) for megabytes in (9, 34)),
    ],
)
def test_a_long_quoted_field_is_read_wherever_it_stands(
    tmp_path: Path, suffix: str, megabytes: int, parts: int
) -> None:
    """At both ends, at some places between, and across every border of what is read at once."""
    rows, path = (megabytes << 20) // len(ROW), tmp_path / f"sold.{suffix}"
    ends = range(8_000_000, megabytes << 20, 8_000_000)
    places = [rows * part // parts for part in range(parts + 1)]
    places += [(end - len(FIELD) // 2) // len(ROW) for end in ends]
    for place in places:
        _write(path, b"who,what\n" + ROW * place + FIELD + ROW * (rows - place))
        assert _counts(path, unit="row") == [0, rows, 0, 0], place


@pytest.mark.parametrize("is_quoted", [False, True])
def test_lines_of_csv_may_have_16_megabytes_and_no_more(tmp_path: Path, is_quoted: bool) -> None:
    path = tmp_path / "sold.csv"
    for size, is_read in (3 << 20, True), ((1 << 24) - 10, True), ((1 << 24) + 10, False):
        name = b'"' + b"n,\n" * (size // 3) + b'"' if is_quoted else b"n" * size
        for before in (0, 1_000_000):
            _write(path, b"who,what\n" + ROW * before + b"x," + name + b"\n" + ROW)
            if is_read:
                assert _counts(path) == [0, 1, 0, 0]
            else:
                with pytest.raises(ValueError, match="could not be read"):
                    _counts(path)


ODD_RECORDS = {
    "NUL": b"x,fig\0",
    "next line": "x,fig\u0085".encode(),
    "line separator": "x,fig\u2028".encode(),
    "lines in quotes": b'x,"fig\r\nx,fig\nx\rfig"',
    "quote inside": b'x,fi"g',
    "quote at the end": b'x,fig"',
    "two quotes inside": b'x,"a""b"',
    "quoted border": b'x,"fig,"',
    "only borders": b'",",","',
    "empty": b"x,",
    "quoted empty": b'x,""',
    "nothing": b",",
    "empty line": b"",
    "spaces": b" x, fig",
    "long name": b"x," + b"n" * 100_000,
    "hash": b"#x,#fig",
    "backslash": b'x,"fig\\"',
    "byte-order mark": b"\xef\xbb\xbfx,\xef\xbb\xbffig",
}


@pytest.mark.parametrize(
    ("name", "newline"),
    quick_in(
        itertools.product(ODD_RECORDS, [b"\n", b"\r\n"]),
        {(name, [b"\n", b"\r\n"][at % 2]) for at, name in enumerate(ODD_RECORDS)},
    ),
)
def test_odd_records_of_csv_change_no_other(tmp_path: Path, name: str, newline: bytes) -> None:
    plain = [f"unit {who},{what}".encode() for who, what in enumerate(PLAIN)]
    for place in (0, 2, 4):
        lines = [b"who,what", *plain[:place], ODD_RECORDS[name], *plain[place:]]
        path = _write(tmp_path / "sold.csv", newline.join(lines) + newline)
        assert _counts(path) == [2, 1, 1, 0]


TORN = [
    *(b'x,"', b'x,"fig', b'"x', b'x, "fig', b'x,"fig""', b'x,"""', b'x,"fig,', b'x,"a" "'),
    *(b'x,"fig\ny,""', b'","",","'),
]


@pytest.mark.parametrize("torn", TORN)
def test_a_quote_that_is_never_closed_is_refused_and_hides_no_rows(
    tmp_path: Path, torn: bytes
) -> None:
    plain = [f"unit {who},{what}".encode() for who, what in enumerate(PLAIN * 30_000)]
    for place in (0, 2, len(plain)):
        lines = [b"who,what", *plain[:place], torn, *plain[place:]]
        for suffix in ("csv", "csv.gz"):
            path = _write(tmp_path / f"sold.{suffix}", b"\n".join(lines) + b"\n")
            with pytest.raises(ValueError, match="could not be read"):
                _counts(path)


@pytest.mark.parametrize("suffix", ["csv", "csv.gz"])
def test_the_bytes_of_a_file_are_nowhere_in_an_error(tmp_path: Path, suffix: str) -> None:
    path = _write(tmp_path / f"sold.{suffix}", b"who,what\nSECRET,\xff\xfe\n")
    items = _write(tmp_path / "items.txt", b"SECRET\xff\n")
    asked: list[Callable[[], Any]] = [
        lambda: _counts(path),
        lambda: _counts(path, domain=f"{path}:what"),
        lambda: _counts(tmp_path / "missing.csv", domain=["fig"]),
        lambda: counts(_write(tmp_path / "a.csv", b"who,what\n1,2\n"), unit="who", item="what",
                       domain=items),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises((ValueError, FileNotFoundError)) as refusal:
            ask()
        assert refusal.value.__context__ is None
        assert refusal.value.__cause__ is None
        assert "SECRET" not in str(refusal.value)


def test_a_header_longer_than_a_megabyte_is_refused(tmp_path: Path) -> None:
    path = _write(tmp_path / "sold.csv", b"who,what," + b"n," * 600_000 + b"\n1,fig\n")
    with pytest.raises(ValueError, match="could not be read"):
        _counts(path)


WORDS = ["apple", "007", "+3", "2.0", "1e2", "1_0", "9" * 30, "3\0", "٣", "3\u0085", '"3"', "3\x01",
         "#", "\u20283", "--", "n" * 2_000_000]  # fmt: skip


@pytest.mark.parametrize(
    ("newline", "place"),
    quick_in(itertools.product(["\n", "\r\n"], [0, 1, 3]), {("\n", 0), ("\r\n", 3)}),
)
def test_words_on_a_fimi_line_that_are_no_whole_numbers_are_no_items(
    tmp_path: Path, newline: str, place: int
) -> None:
    plain = ["1 2", "3", "2 3"]
    for word in WORDS:
        lines = [*plain[:place], f"{word} 3\t{word} 3", *plain[place:]]
        path = _write(tmp_path / "baskets.dat", newline.join(lines).encode())
        for domain in (range(4), [0, "1", 2, 3]):
            assert counts(path, domain=domain).expanded().tolist() == [0, 1, 2, 3]
    assert counts(path, domain=OBSERVED).expanded().tolist() == [1, 2, 3]


def test_fimi_lines_that_end_in_two_ways_are_refused(tmp_path: Path) -> None:
    for lines in (b"1 2\n3\r3\r3\n2", b"1 2\r\n3\r3\r3\r\n2", b"1 2\n3\r\n2\n", b"3\r3\n1 2\n2\n"):
        with pytest.raises(ValueError, match="table could not be read"):
            counts(_write(tmp_path / "baskets.dat", lines), domain=range(4))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_items": 1},
        {"where": "paid > 3"},
        {"by": "land", "groups": ["ch", "at"], "max_groups": 2},
        {"sum": "paid", "at_most": 8},
    ],
    ids=repr,
)
def test_times_that_duckdb_cannot_read_refuse_only_questions_that_read_them(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    path = tmp_path / "times.parquet"
    rows = {"who": [*range(300)], "what": ["fig"] * 300, "paid": [5] * 300, "land": ["ch"] * 300}
    times = pyarrow.array([0] * 299 + [1 << 62], pyarrow.timestamp("ms"))
    parquet.write_table(pyarrow.table(rows | {"when": times}), path)
    asked = {"unit": "who", "item": "what", "k": 1, "epsilon": 100} | options
    assert dpgap.top_k(path, domain=["fig", "pea"], **asked)
    with pytest.raises(ValueError, match="table could not be read; nothing was charged"):
        dpgap.top_k(path, domain=["fig", "pea"], **asked | {"where": "when > '2026-10-01'"})
