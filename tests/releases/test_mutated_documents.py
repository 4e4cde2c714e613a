"""A document in which anything was changed is refused in clear words, or shown in every form."""

import copy
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import dpgap
from dpgap.printable import DocumentError
from dpgap.releases.document import SHOWN
from dpgap.releases.page import page
from dpgap.releases.text import shown

KEPT = Path(__file__).parent / "documents"
DOCUMENTS = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(KEPT.glob("*.json"))}

GONE = object()
"""In place of a value: the field or the entry is taken out."""
LARGE, SMALL = "0x1" + "0" * 4000 + "/0x1", "0x1/0x1" + "0" * 4000
"""Exact numbers of more digits than Python writes in base 10."""
WORDS = ("top-k", "above", "count", "best", "histogram", "joint", "paper", "ranked", "hybrid")
NUMBERS = ("0", "-1", "1/3", "999999999999", "0xffffff/0x7", LARGE, SMALL)
VALUES = (
    *(GONE, None, True, False, 0, 1, -1, 2, 1 << 53, (1 << 63) - 1),
    *(0.5, 1e99, -1e99, 5e-324, "", "x", [], {}, *WORDS, *NUMBERS),
)
FEW = 3
"""Of a list, so many entries are changed: the others are of the same form."""


class Mutant(NamedTuple):
    """A kept document with one value changed; or with one number changed wherever it stands."""

    name: str
    path: tuple[Any, ...] | str
    value: Any

    @property
    def place(self) -> str:
        words = "gone" if self.value is GONE else repr(self.value)[:20]
        if isinstance(self.path, str):
            return f"every {self.path}: {words}"
        return f"{'.'.join(map(str, self.path))}: {words}"

    @property
    def text(self) -> str:
        content = copy.deepcopy(_without_words(self.name))
        if isinstance(self.path, str):
            return json.dumps(content).replace(json.dumps(self.path), json.dumps(self.value))
        *outer, last = self.path
        place: Any = content
        for step in outer:
            place = place[step]
        if self.value is GONE:
            del place[last]
        else:
            place[last] = self.value
        return json.dumps(content)


def mutants(name: str) -> Iterator[Mutant]:
    """All mutants of a kept document."""
    content = _without_words(name)
    for path in _paths(content):
        yield from (Mutant(name, path, value) for value in VALUES)
    for number in sorted(set(_numbers(content))):
        yield from (Mutant(name, number, value) for value in NUMBERS)


def _without_words(name: str) -> dict[str, Any]:
    return {field: each for field, each in DOCUMENTS[name].items() if field not in SHOWN}


def _paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = list(enumerate(value))[:FEW]
    for step, each in inside:
        yield (*at, step)
        yield from _paths(each, (*at, step))


def _numbers(value: Any) -> Iterator[str]:
    """Every exact number of a document."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, str) and value.replace("/", "").isdigit():
        yield value


def _require_refused_or_shown(mutant: Mutant, caplog: pytest.LogCaptureFixture) -> bool:
    """Whether it was read; then nothing that it shows fails, or had to be left out."""
    try:
        release = dpgap.read_release(mutant.text)
    except DocumentError as error:
        refused = str(error)
    else:
        refused = ""
    if refused:
        assert len(refused) < 300
        assert refused.isprintable()
        return False
    caplog.clear()
    with caplog.at_level(logging.ERROR, "dpgap.words"):
        for show in (str, repr, page, type(release).to_csv):
            assert show(release)
        assert shown(release, release.epsilon)
        release._repr_html_()
        release.to_frame()
        release._to_dict()
        assert all(release.findings)
        assert release.guarantee
        for ends in ("interval", "lower_bounds"):
            getattr(release, ends, lambda: None)()
        document = release.to_json()
        again = dpgap.read_release(document)
        assert again.to_json() == document
        assert dpgap.read_release(release._to_archive()).to_json() == document
    assert caplog.messages == []
    return True


SHOWN_NO_MORE = {
    ("count", "values: []"): "values contradict",
    ("count", "values.0: gone"): "values contradict",
    ("count", "question.kind: 'top-k'"): "question contradict",
    ("table-top-k", "question.k: gone"): "a top-k and its k contradict",
    ("groups", "question.k: gone"): "a top-k and its k contradict",
    ("joint", "every 1/3: '0x10000000000000000"): "below 2^400",
    ("table-sum", "question.at_most: '0x10000000000000000"): "below 2^400",
    (
        "above-staircase",
        "gap_errors.threshold_law.share: '0x1/0x1000000000000",
    ): "a share of at most 1",
    ("top-k-labels", "every 1/3: '0x1/0x1000000000000"): None,
    ("max", "epsilon: '1/3'"): "contradict each other",
    ("max", "every 1: '0x1/0x1000000000000"): None,
    ("top-k", "promise.sensitivity: '0x1/0x1000000000000"): None,
    ("max", "mechanisms.0.parameters.epsilon: '1/3'"): "epsilon and the mechanisms contradict",
    ("max", "mechanisms.0.parameters.epsilon: gone"): "epsilon and the mechanisms contradict",
    ("max", "mechanisms.0.parameters.epsilon: 1"): "epsilon and the mechanisms contradict",
    ("values-hull", "mechanisms: []"): "epsilon and the mechanisms contradict",
    ("measured-best", "mechanisms.0: gone"): "epsilon and the mechanisms contradict",
    ("groups", "mechanisms: []"): "the groups and their mechanisms contradict",
    ("groups", "answers.0.mechanisms.0.parameters.epsilon: '1/3'"): "mechanisms contradict",
}
"""What was read once, though it could not be shown or contradicted itself; None: it is shown."""


@pytest.mark.parametrize(("name", "place"), SHOWN_NO_MORE)
def test_what_could_not_be_shown_is_refused_or_shown(
    name: str, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    mutant = next(each for each in mutants(name) if each.place == place)
    words = SHOWN_NO_MORE[name, place]
    if words is None:
        assert _require_refused_or_shown(mutant, caplog)
    else:
        with pytest.raises(DocumentError, match=re.escape(words)):
            dpgap.read_release(mutant.text)


def _check(every: int, names: list[str], caplog: pytest.LogCaptureFixture) -> tuple[int, int]:
    """How many mutants were tried, and how many of them were read."""
    tried = read = count = 0
    failed = []
    for name in names:
        for mutant in mutants(name):
            count += 1
            if count % every:
                continue
            tried += 1
            try:
                read += _require_refused_or_shown(mutant, caplog)
            except Exception as error:  # all of them are worth seeing
                failed.append(
                    f"{mutant.name}, {mutant.place}: {type(error).__name__} {error}"[:160]
                )
    assert failed == []
    return tried, read


def test_some_mutants_of_every_kept_document(caplog: pytest.LogCaptureFixture) -> None:
    tried, read = _check(997, list(DOCUMENTS), caplog)
    assert tried > 80
    assert 5 < read < tried


@pytest.mark.long
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_mutant_of_a_kept_document(name: str, caplog: pytest.LogCaptureFixture) -> None:
    tried, read = _check(1, [name], caplog)
    assert 100 < read < tried
