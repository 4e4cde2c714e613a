"""The language of filters: one spelling for each meaning, and errors that show the place."""

import copy
import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgap.filter_language import read_filter


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("a=1", "a = 1"),
        ("  A\t==\n1.0 ", "A = 1"),
        ("a<>'x'", "a != 'x'"),
        ("NOT(a=1)And b=2", "not a = 1 and b = 2"),
        ("not (a=1 and b=2)", "not (a = 1 and b = 2)"),
        ("(a=1 or b=2) and (c=3 and d=4)", "(a = 1 or b = 2) and c = 3 and d = 4"),
        ("a=1 or (b=2 and c=3) or (d=4 or e=5)", "a = 1 or b = 2 and c = 3 or d = 4 or e = 5"),
        ("a NOT  IN('x','it''s')", "a not in ('x', 'it''s')"),
        ('"a" = True AND "In" = FALSE', 'a = true and "In" = false'),
        ('"two words" < .5 and "a""b" >= -1.50e3', '"two words" < 0.5 and "a""b" >= -1500'),
        ("a in (-0, +1e2, 1e30, 1.50e-30, 007)", "a in (0, 100, 1e30, 1.5e-30, 7)"),
        ("größe = 'ä'", "größe = 'ä'"),
        ("not not a = 1", "not not a = 1"),
        ("a = ' AND  b==1 '", "a = ' AND  b==1 '"),
        ("a Between 1 AND 2 and b=3", "a >= 1 and a <= 2 and b = 3"),
        ("not a between 1 and 2", "not (a >= 1 and a <= 2)"),
        ("a not between 'x' and 'y' or b=3", "a < 'x' or a > 'y' or b = 3"),
        ("(a)is NULL".replace("(a)", '"a"'), "a is null"),
        ("A IS NOT NULL or like is null", "A is not null or like is null"),
        (r"a LIKE '5\%_''%'", r"a like '5\%_''%'"),
        ("between between 1 and 2", "between >= 1 and between <= 2"),
        ("a not LIKE''", "a not like ''"),
        ("Day(\"b c\",'DD.MM.YYYY')>='2024-01-31'", "day(\"b c\", 'DD.MM.YYYY') >= '2024-01-31'"),
        (
            "day(a, 'YYYY''MM DD') between '2024-01-31' and '2024-02-01'",
            "day(a, 'YYYY''MM DD') >= '2024-01-31' and day(a, 'YYYY''MM DD') <= '2024-02-01'",
        ),
        ("day = '2024-01-31' and \"day\" is null", "day = '2024-01-31' and day is null"),
        ("day(day, 'DDMMYYYY') is null", "day(day, 'DDMMYYYY') is null"),
    ],
)
def test_every_spelling_of_a_filter_has_one_text(text: str, canonical: str) -> None:
    assert read_filter(text).text == canonical
    assert read_filter(canonical) == read_filter(text)
    assert hash(read_filter(canonical)) == hash(read_filter(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a = 1", "A = 1"),
        ("a = 1", "a = '1'"),
        ("a = 1", "a = true"),
        ("a = 'x'", "a = 'X'"),
        ("a = 1 and b = 2 or c = 3", "a = 1 and (b = 2 or c = 3)"),
        ("not a = 1 and b = 2", "not (a = 1 and b = 2)"),
        ("not a in (1)", "a not in (1)"),
        ("a = 9007199254740993", "a = 9007199254740992"),
        ("a = 0.1", "a = 0.10000000000000001"),
    ],
)
def test_filters_of_another_meaning_have_another_text(one: str, other: str) -> None:
    assert read_filter(one) != read_filter(other)


def test_a_filter_names_its_columns_once_each_and_can_be_kept() -> None:
    read = read_filter("b = 1 and (\"a b\" = 'x' or not b in (2, 3))")
    assert read.columns == ("b", "a b")
    assert pickle.loads(pickle.dumps(read)) == copy.deepcopy(read) == read
    assert repr(read) == f"Filter(text={read.text!r}, columns=('b', 'a b'))"


COMPARISON = "a comparison (=, !=, <, <=, >, >=, in, between, like, is null)"
FORM = "the date format must have DD, MM and YYYY once each"
LITERAL = "a number, 'text', true or false"


@pytest.mark.parametrize(
    ("text", "at", "why"),
    [
        ("", 1, "expected a column"),
        ("a", 2, f"expected {COMPARISON} after 'a'"),
        ("country = 'CH' and amount", 26, f"expected {COMPARISON} after 'amount'"),
        ("a likes 'x'", 3, f"expected {COMPARISON} after 'a'"),
        ("a like 3", 1, "like compares a column with text"),
        (r"a like 'x\y'", 8, r"in a pattern write \\ for \, and \% or \_ for % or _"),
        ("a is 3", 6, "expected null, or not null after 'is'"),
        ("a is not 3", 10, "expected null after 'not'"),
        ("a between 1 or 2", 13, "expected and after '1'"),
        ("a between 1 and 'x'", 1, "between needs two numbers, or two texts"),
        ("a between true and false", 1, "no order: use = or !="),
        ("day(a) = 'x'", 6, "expected , and the form of its dates"),
        ("day(a, 'DD.MM.YY') = '2024-01-31'", 8, FORM),
        ("day(a, 'D.M.YYYY') = '2024-01-31'", 8, FORM),
        ("day(a, 'DD.DD.MM.YYYY') = '2024-01-31'", 8, FORM),
        ("day(a, 3) = '2024-01-31'", 8, FORM),
        (
            "day(a, 'DD.MM.YYYY') = '31.01.2024'",
            24,
            "is compared with days that exist, always written",
        ),
        (
            "day(a, 'DD.MM.YYYY') = '2023-02-29'",
            24,
            "is compared with days that exist, always written",
        ),
        ("day(a, 'DD.MM.YYYY') > 3", 24, "is compared with days that exist, always written"),
        ("day(a, 'DD.MM.YYYY') like 'x'", 1, "like compares a column with text"),
        ("a =", 4, f"expected {LITERAL} after '='"),
        ("a = and", 5, f"expected {LITERAL} after '='"),
        ("a >> 1", 4, f"expected {LITERAL} after '>'"),
        ('a = "CH"', 5, f"expected {LITERAL} after '='; write text in single quotes"),
        ("a = b", 5, "did you mean 'b'? (columns are not compared with each other)"),
        ("10 < a", 1, "expected a column"),
        ("in = 1", 1, "expected a column"),
        ("a = 1 or", 9, "expected a column after 'or'"),
        ("day(a, 'DD.MM.YYYY') in ('2024-01-31', true)", 40, "is compared with days that exist"),
        ("day(a, 'DD.MM.YYYY') between '2024-01-31' and 'x'", 47, "is compared with days"),
        ("x > 10,50", 7, "the end after '10': write 10.50, as decimals have a point"),
        ("(x between -1,5 and 2)", 14, "expected and after '-1': write -1.5, as decimals"),
        ("a = 1,000", 6, "write 1000 or 1.000, as decimals have a point"),
        ("a = 1 b = 2", 7, "expected and, or, or the end after '1'"),
        ("a = 1)", 6, "expected and, or, or the end after '1'"),
        ("(a = 1", 7, "expected and, or, or ) after '1'"),
        ("a in 1", 6, "expected ( and a list after 'in'"),
        ("a in ()", 7, f"expected {LITERAL} after '('"),
        ("a in (1 2)", 9, "expected , or ) after '1'"),
        ("a in (1, 'x')", 10, "a list must hold numbers only"),
        ("a not 1", 7, "expected in, between or like after 'not'"),
        ("a = 'x", 5, "a text begins and does not end"),
        ("a = 'x''", 5, "a text begins and does not end"),
        ('"a = 1', 1, "a name begins and does not end"),
        ('"" = 1', 1, "a column's name must not be empty"),
        ("a.b = 1", 2, "'.' is not allowed here"),
        ("a.str.contains('x')", 2, "for a part of a text write column like '%part%'"),
        (
            "b = 1 and month(a) = 12",
            11,
            "only day(column, form) is known; for a month write day(…)",
        ),
        (
            "Satisfaction 1-5 >= 4",
            14,
            "after 'Satisfaction'; put a name with a space or - in double",
        ),
        ("unit price > 3", 6, "after 'unit'; put a name with a space or - in double quotes"),
        ("a = 1; drop table t", 6, "';' is not allowed here"),
        ("a = ‘CH’", 5, "write text in single quotes"),
        ("a = 1 & b = 2", 7, "& is not allowed here: write and"),
        ("a = 1 | b = 2", 7, "| is not allowed here: write or"),
        ("a = NULL", 5, "false after '=': write is null, or is not null"),
        ("day(a, 'DD.MM.YYYY') = '2025-02-30'", 24, "with days that exist, always written as"),
        ("a < true", 1, "true and false have no order"),
        ("a = 1e240", 5, "a number may have 60 digits and an exponent up to ±239"),
        ("a = 1e99999999999999999999", 5, "a number may have 60 digits"),
        ("a = " + "1" * 61, 5, "a number may have 60 digits"),
        ("a = 'x\0'", 7, "this character is not allowed"),
        ("a = '\ud800'", 6, "this character is not allowed"),
        ("(" * 51 + "a = 1" + ")" * 51, 51, "may be nested 50 deep"),
        ("not " * 4 + "a = 1 and" + " not" * 51 + " a = 1", 227, "may be nested 50 deep"),
        ("(" * 4_000, 51, "may be nested 50 deep"),
    ],
)
def test_an_error_shows_the_place_and_what_is_accepted(text: str, at: int, why: str) -> None:
    with pytest.raises(ValueError, match=r"^where: at character") as refusal:
        read_filter(text)
    said, line, caret = str(refusal.value).split("\n")
    assert said.startswith(f"where: at character {at}, ")
    assert why in said
    shown = min(at - 1, 60)
    assert caret == "  " + " " * shown + "^"
    before = "".join(each if each.isprintable() else " " for each in text[at - 1 - shown : at - 1])
    assert line.startswith("  " + before)
    assert line.isprintable()


def test_fifty_levels_and_hundreds_of_parts_are_read() -> None:
    assert read_filter("(" * 50 + "a = 1" + ")" * 50).text == "a = 1"
    assert read_filter("not " * 50 + "a = 1").text == "not " * 50 + "a = 1"
    many = " or ".join(["a = 1"] * 400)
    assert read_filter(many).text == many


@pytest.mark.parametrize("text", ["a = '" + "x" * 3_996, "a = 1" + " " * 3_996])
def test_a_filter_that_is_too_long_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="at most 4,000 characters, not 4,001"):
        read_filter(text)


@pytest.mark.parametrize("given", [None, 5, b"a = 1", ["a = 1"]])
def test_a_filter_must_be_text(given: Any) -> None:
    with pytest.raises(TypeError, match='where must be text, such as "amount >= 10"'):
        read_filter(given)


@given(
    st.text(max_size=40)
    | st.lists(
        st.sampled_from(
            [
                "a",
                "=",
                "<=",
                "'x'",
                "1",
                "(",
                ")",
                "not",
                "and",
                "or",
                "in",
                ",",
                '"b"',
                "true",
                "'",
                " ",
                "-",
            ]
        ),
        max_size=20,
    ).map("".join)
    | st.lists(
        st.sampled_from(
            ["a", "=", "<=", "'x'", "1", "(", ")", "not", "and", "or", "in", ",", '"b"', "true"]
        ),
        max_size=20,
    ).map(" ".join)
)
def test_any_text_is_read_or_refused_in_words(text: str) -> None:
    try:
        read = read_filter(text)
    except ValueError:
        with pytest.raises(ValueError, match=r"^where: at character [0-9]+, .*\n  .*\n *\^$"):
            read_filter(text)
    else:
        assert read_filter(read.text) == read


TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[-\w.]+|[<>=!]+|.", re.DOTALL)
OTHERWISE = {"=": "==", "!=": "<>"}


@given(st.data())
def test_spaces_case_and_signs_never_change_a_filter(data: st.DataObject) -> None:
    column = st.sampled_from(["a", "größe", '"and"', '"x ""y"'])
    number = st.sampled_from(["0", "-7", "0.25", "1e30", "12345678901234567890"])
    text = st.text(st.sampled_from("aA '=\"()\\"), max_size=4).map(
        lambda each: "'" + each.replace("'", "''") + "'"
    )
    comparison = st.builds(" ".join, st.tuples(column, st.sampled_from(["=", "!="]), number | text))
    several = st.builds("{} not in ({}, {})".format, column, text, text)
    tree = st.recursive(
        comparison | several,
        lambda part: (
            st.builds("({} and {})".format, part, part)
            | st.builds("({} or {})".format, part, part)
            | st.builds("not {}".format, part)
        ),
        max_leaves=8,
    )
    read = read_filter(data.draw(tree))
    tokens = [token for token in TOKEN.findall(read.text) if token != " "]
    respelled = "".join(_respell(token, data) for token in tokens)
    assert read_filter(respelled).text == read.text


def _respell(token: str, data: st.DataObject) -> str:
    """The same token otherwise, with spaces around."""
    if data.draw(st.booleans()):
        token = OTHERWISE.get(token, token)
        if token in ("and", "or", "not", "in"):
            token = token.title()
        elif token in ("a", "größe"):
            token = f'"{token}"'
        elif re.fullmatch("-?[0-9]+", token):
            token += ".00"
    return data.draw(st.sampled_from([" ", "\n\t"])) + token
