"""Words never cost a release: it is archived first, and what cannot be said is left out."""

import json
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas
import pytest
from typer.testing import CliRunner

import dpgap
from dpgap.budget.ledger import Ledger, LedgerAccount
from dpgap.cli.main import app
from dpgap.releases.document import _KINDS, SHOWN, handed_out
from dpgap.releases.page import environment, page, session_page
from dpgap.releases.release import Release
from dpgap.releases.text import shown
from seams import quick_in

EPSILONS = ("0.001", 5, 1000, 10**6)
NAMES = ["fig", "pea", "oat", "rye"]
COUNTS = {"ties": [60, 60, 60, 60], "one apart": [61, 60, 59, 58], "one winner": [90, 2, 1, 0]}

Ask = Callable[[int, Any], Release]
Kind = Callable[[list[int]], Ask]


def _sold(counts: list[int]) -> pandas.DataFrame:
    rows = [name for name, count in zip(NAMES, counts, strict=True) for _ in range(count)]
    lands = ["ch" if at % 2 else "de" for at in range(len(rows))]
    return pandas.DataFrame(
        {"who": range(len(rows)), "what": rows, "land": lands, "paid": [2] * len(rows)}
    )


def _asked(function: Callable[..., Any], **options: Any) -> Kind:
    """A question of a table, which is counted once for all ε."""
    counting = {"unit": "who", "item": "what", "domain": NAMES} | options
    ask = {name: counting.pop(name) for name in ("threshold", "method", "delta") if name in options}

    def counted(counts: list[int]) -> Ask:
        answers = dpgap.counts(_sold(counts), **counting)
        return lambda k, epsilon: function(answers, k=k, epsilon=epsilon, **ask)

    return counted


def _of_array(release: Callable[[Any, int, Any], Release]) -> Kind:
    return lambda counts: partial(release, counts)


_BY = {"by": "land", "groups": ["ch", "de"]}
_SUM = {"sum": "paid", "at_most": 3, "at_least": -1}
_UNKNOWN = {"domain": None, "delta": "1e-6"}
RELEASES: dict[str, Kind] = {
    "top-k": _of_array(
        lambda counts, k, epsilon: dpgap.NoisyTopK(k, epsilon, noise="exponential").release(counts)
    ),
    "max": _of_array(lambda counts, _, epsilon: dpgap.NoisyMax(epsilon).release(counts)),
    "hybrid": _of_array(
        lambda counts, k, epsilon: dpgap.HybridTopK(60, k, epsilon).release(counts)
    ),
    "above": _of_array(
        lambda counts, k, epsilon: dpgap.AdaptiveSparseVector(60, k, epsilon).release(counts)
    ),
    "joint": _of_array(
        lambda counts, k, epsilon: dpgap.JointTopK(k, epsilon, monotonic=True).release(counts)
    ),
    "values": _of_array(
        lambda counts, _, epsilon: dpgap.NoisyHistogram(epsilon, reach=2).release(counts)
    ),
    "measured": _of_array(partial(dpgap.measured_top_k, monotonic=True)),
    "measured above": _of_array(
        lambda counts, k, epsilon: dpgap.measured_above(counts, 60, k, epsilon, monotonic=True)
    ),
    "table": _asked(dpgap.top_k),
    "ranked": _asked(dpgap.top_k, method="ranked"),
    "joint of a table": _asked(dpgap.top_k, method="joint"),
    "paper": _asked(dpgap.top_k, method="paper"),
    "rows": _asked(dpgap.top_k, unit="row"),
    "few items": _asked(dpgap.top_k, max_items=1),
    "sums": _asked(dpgap.top_k, **_SUM),
    "sums of rows": _asked(dpgap.top_k, **_SUM, unit="row"),
    "unknown": _asked(dpgap.top_k, **_UNKNOWN, max_items=1),
    "unknown, far reach": _asked(dpgap.top_k, **_UNKNOWN, max_items=50),
    "above a line": _asked(dpgap.above, threshold=60),
    "above, paper": _asked(dpgap.above, threshold=60, method="paper"),
    "above, rows": _asked(dpgap.above, threshold=60, unit="row"),
    "nothing above": _asked(dpgap.above, threshold=10**12),
    "nothing above, rows": _asked(dpgap.above, threshold=10**12, unit="row"),
    "groups": _asked(dpgap.top_k, **_BY, max_groups=1),
    "groups of rows": _asked(dpgap.top_k, **_BY, unit="row"),
    "count": _of_array(
        lambda counts, _, epsilon: dpgap.count(_sold(counts), unit="who", epsilon=epsilon)
    ),
    "total": _of_array(
        lambda counts, _, epsilon: dpgap.total(_sold(counts), unit="who", epsilon=epsilon, **_SUM)
    ),
}


def _left_out(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "dpgap.words"]


@pytest.mark.parametrize("counts", quick_in(COUNTS, ["ties", "one winner"]))
@pytest.mark.parametrize("kind", RELEASES)
def test_every_kind_of_release_is_shown_whatever_it_found(
    kind: str, counts: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """From ε = 10⁻³ to 10⁶, with ties, one winner and none; and nothing had to be left out."""
    ask, k = RELEASES[kind](COUNTS[counts]), 1 if counts == "one winner" else 2
    for epsilon in EPSILONS:
        release = ask(k, epsilon)
        assert dpgap.read_release(release.to_json()).to_json() == release.to_json()
        assert release.guarantee in str(release)
        assert "The numbers" in page(release) or not release._columns().popitem()[1]
        assert "What is guaranteed" in release._repr_html_()
        file = tmp_path / "release.json"
        file.write_text(release._to_archive())
        result = CliRunner().invoke(app, ["show", str(file)])
        assert (result.exit_code, result.stderr) == (0, "")
        assert release.guarantee in " ".join(result.stdout.split())
    assert _left_out(caplog) == []


def test_every_kind_of_document_is_among_those_that_are_shown() -> None:
    made = {type(make(COUNTS["ties"])(2, 1)) for make in RELEASES.values()}
    assert made == {kind for kind, _ in _KINDS.values()}


def test_ties_of_a_histogram_have_an_end_in_words() -> None:
    """They divided by zero in most releases, after the charge."""
    ask = RELEASES["rows"]([60, 60, 0, 0])
    for _ in range(30):
        release = ask(2, 5)
        assert json.loads(release.to_json())["findings"]
        if release.estimates[0] == release.estimates[1]:
            assert "even ten times this ε may not be enough" in " ".join(release.findings)


@pytest.fixture
def account(tmp_path: Path) -> LedgerAccount:
    return Ledger(f"sqlite:///{tmp_path}/budget.db").create("sales", 100)


BROKEN = {
    "dpgap.releases.findings._facts": "findings",
    "dpgap.releases.findings._members": "members",
    "dpgap.releases.findings._order": "order",
    "dpgap.releases.release.MeasuredItems.groups": "shade of noise",
    "dpgap.question.Question.limits": "cutting",
    "dpgap.releases.release._of_question": "title",
    "dpgap.releases.release.approximately": "remark",
    "dpgap.question.Question.guarantee": "guarantee",
    "dpgap.releases.release.MeasuredItems._rows": "rows",
    "dpgap.releases.release._shown": "rows",
    "dpgap.releases.release.MeasuredItems._half_widths_of_gaps": "items",
    "dpgap.releases.page.Scale.of": "picture",
    "dpgap.budget.cost.Cost.in_words": "lead",
    "dpgap.releases.page._reading": "reading",
    "dpgap.releases.page.exact_text": "making",
}


@pytest.mark.parametrize("broken", BROKEN)
def test_what_fails_is_left_out_of_every_face_and_logged_by_its_kind(
    broken: str,
    account: LedgerAccount,
    monkeypatch: pytest.MonkeyPatch,
    caplog: Any,
    tmp_path: Path,
) -> None:
    def fails(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("what fig is")

    fails.__name__ = broken.rpartition(".")[2]
    whole = {"unit": "who", "item": "what", "domain": NAMES, "k": 2, "epsilon": 9}
    sold = tmp_path / "sold.csv"
    _sold([600, 300, 5, 0]).to_csv(sold, index=False)
    monkeypatch.setattr(broken, fails)
    release = dpgap.top_k(str(sold), **whole, max_items=1, account=account)
    (entry,) = account.archive()
    kept = account.document(entry.number)
    assert dpgap.read_release(kept).labels == release.labels == ("fig", "pea")
    assert _left_out(caplog) == []  # nothing was made of it so far
    texts = [
        str(release),
        release._repr_html_(),
        page(release),
        session_page([release], "spent"),
        shown(release, None),
        release.to_json(),
        handed_out(kept),
    ]
    assert all(texts)
    said = {message.partition(":")[0] for message in _left_out(caplog)}
    assert f"{BROKEN[broken]} is left out" in said
    assert all(message.endswith(": ZeroDivisionError") for message in _left_out(caplog))
    files = ["--html", str(tmp_path / "page.html")]
    document = tmp_path / "kept.json"
    document.write_text(kept)
    result = CliRunner().invoke(app, ["show", str(document), *files])
    assert result.exit_code == 0
    monkeypatch.undo()
    assert dpgap.read_release(handed_out(kept)).to_json() == release.to_json()


def test_a_part_of_a_page_that_its_template_cannot_make_is_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*columns: Any) -> None:
        raise ValueError(f"{columns}")

    release = RELEASES["table"]([600, 300, 5, 0])(2, 9)
    assert "<table>" in page(release)
    broken = environment()
    broken.globals["zip"] = fails
    monkeypatch.setattr("dpgap.releases.page._templates", lambda: broken)
    rest = page(release)
    assert "The numbers" not in rest
    assert "<figure>" not in rest
    assert "What may be believed" in rest
    assert "What is guaranteed" in rest
    assert _left_out(caplog) == ["numbers is left out: ValueError"]


def test_the_other_sentences_are_said_where_one_fails(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = RELEASES["table"]([600, 300, 5, 0])(2, 9)
    whole = release.findings

    def _order(release: Release, facts: Any) -> None:
        raise ValueError(f"{release.labels}")

    monkeypatch.setattr("dpgap.releases.findings._order", _order)
    assert release.findings == tuple(each for each in whole if "order of both" not in each)
    assert caplog.record_tuples == [("dpgap.words", logging.ERROR, "order is left out: ValueError")]


def test_a_document_without_words_gives_the_same_release() -> None:
    for make in RELEASES.values():
        release = make(COUNTS["one apart"])(2, 1)
        kept = release._to_archive()
        assert not json.loads(kept).keys() & set(SHOWN)
        assert handed_out(kept) == release.to_json()
    assert handed_out("no document") == "no document"
