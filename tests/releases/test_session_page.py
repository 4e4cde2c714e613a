"""Several releases on one page: what is the same for all of them is said once."""

import html
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pandas

import dpgap
from dpgap.releases.detail import LedgerReference
from dpgap.releases.findings import general_findings
from dpgap.releases.page import page, session_page
from releases_to_show import SESSION, released, session


def _words(text: str) -> str:
    return " ".join(html.unescape(re.sub("<[^>]*>", " ", text)).split())


def _headings(text: str, level: int) -> list[str]:
    return [_words(each) for each in re.findall(f"<h{level}>(.*?)</h{level}>", text)]


def test_every_question_has_its_part_and_all_have_one_guarantee() -> None:
    shown = session().to_html()
    titles = _headings(shown, 2)
    assert titles[: len(SESSION)] == [
        "Count: visitor, with a filter",
        "Top 3: page, by total amount",
        "Top 4: page, by visitor count",
        "Top 9: page, by visitor count",
        "Above 500: page, by visitor count",
        "Top 3: page, by visitor count, for each country",
    ]
    assert titles[len(SESSION) :] == [
        "What is guaranteed",
        "How to read the numbers",
        "How it was made",
    ]
    words = _words(shown)
    assert words.count("ifferential privacy with ε") == 1
    assert words.count("p: how often luck") == words.count("A unit is all rows") == 1
    assert words.count("There are no p-values") == 2
    assert words.index("There are no p-values") < words.index("What is guaranteed")
    assert words.count("A dot is an estimate") == len(SESSION) - 1
    assert _headings(shown, 1) == ["6 questions"]


def _promised(shown: str) -> Fraction:
    return Fraction(re.findall(r"together: .*?ifferential privacy with ε = ([\d.]+) ", shown)[0])


def test_the_guarantee_is_of_what_all_questions_came_to_and_never_less() -> None:
    asked = session()
    words = _words(asked.to_html())
    assert asked.spent <= _promised(words) < asked.spent * Fraction(101, 100)
    assert asked.spent.denominator > 1000  # so that it was rounded
    assert "and δ = 10⁻⁶: if one unit" in words
    assert words.count("Each visitor counts for at most 2 items") == 1


def test_a_release_that_is_shown_again_is_paid_for_once() -> None:
    release = released(3)
    paid = replace(release, made=release.made._replace(ledger=LedgerReference("s", 7, "ab" * 32)))
    assert _promised(_words(session_page([paid, paid._again()], ""))) == release.epsilon
    assert _promised(_words(session_page([release, release], ""))) == 2 * release.epsilon


def test_a_question_that_is_not_private_takes_the_guarantee_from_the_page() -> None:
    exposed = released(3, domain="observed-not-private")
    shown = session_page([released(3), exposed], "")
    assert "Not private" in _headings(shown, 2)
    assert "What is guaranteed" not in shown


def test_a_session_of_no_question_says_so() -> None:
    shown = dpgap.Session(pandas.DataFrame({"a": [1]}), unit="row", epsilon=1).to_html()
    assert _headings(shown, 1) == ["No question"]
    assert "ε = 1 left." in _words(shown)


def test_a_page_of_groups_explains_once_and_finds_for_each() -> None:
    groups: Any = session().releases[SESSION.index("20 groups")]
    words = _words(page(groups))
    assert words.count("In each group, claims about who belongs are all correct") == 1
    assert words.count("p: how often luck") == words.count("A dot is an estimate") == 1
    assert _headings(page(groups), 3) == ["What may be believed", "The numbers"] * 20
    cut = "Each visitor counts in one country only, drawn at random, so counts may be too low."
    assert words.count(cut) == 1
    assert groups.findings[0] == cut
    for group, answer in groups.items():
        assert answer.findings[0] == cut
        assert f"{group} What may be believed {answer.findings[1]}" in words
    assert groups.findings[1].startswith(f"CH: {groups['CH'].findings[1]} ")
    assert len(groups.findings) == 1 + 20 + len(general_findings(groups))


def test_few_groups_need_no_table_of_contents() -> None:
    groups: Any = session().releases[SESSION.index("20 groups")]
    assert "<nav" in page(groups)
    assert "<nav" not in page(replace(groups, _answers=groups._answers[:3]))
