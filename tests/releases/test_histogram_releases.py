"""Releases read off a noisy histogram: intervals, differences, groups and documents."""

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpgap
from dpgap.budget.cost import Cost
from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.histogram import Cutoff
from dpgap.releases.detail import Detail, MechanismUsed
from dpgap.releases.findings import findings
from dpgap.releases.release import MeasuredItems
from faces import altered_release, arrays, faces
from seams import bits_are

COUNTS = [812, 640, 637, 95, 93, 88, 3]
NAMES = list("abcdefg")


def _release(
    seed: int = 29, epsilon: Any = 1, k: int | None = None, at_least: int | None = None
) -> MeasuredItems:
    """What a pipeline makes of a histogram."""
    mechanism, wanted = dpgap.NoisyHistogram(epsilon, reach=2), Cutoff(k, at_least)
    with bits_are(InsecureSeededBits(seed)):
        drawn = mechanism.draw_paid(mechanism.prepare(COUNTS, NAMES, wanted), wanted)
    values, error = mechanism.lengths(drawn), mechanism.error_of(drawn)
    return MeasuredItems(
        cost=Cost.composed([("measure", mechanism.cost)]),
        indices=drawn.indices,
        labels=drawn.labels,
        gaps=np.empty(0),
        measurements=values,
        estimates=values,
        variances=np.full(values.size, error.variance),
        detail=Detail(
            promise=mechanism.promise,
            mechanisms=(MechanismUsed.of(mechanism),),
            centres="measurements",
            errors=(error,) if values.size else (),
            rounding=0.0,
            method="best",
            route="histogram",
        ),
    )


WANTED = [{"k": 5}, {"k": 7}, {"at_least": 90}, {"k": 2, "at_least": 80}, {"at_least": 10**6}]


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_whatever_is_read_off_a_histogram_comes_back_from_its_document(wanted: dict[str, Any]):
    release = _release(**wanted)
    again = dpgap.read_release(release.to_json())
    assert faces(again) == faces(release)
    assert arrays(again) == arrays(release)
    assert again.detail == release.detail


def test_a_count_near_the_line_has_no_lower_end_and_null_in_the_document():
    release = _release(k=5)
    low, high = release.interval().T
    near = np.isinf(low)
    assert near.tolist() == [False, False, False, False, True]
    assert (low[~near] > 80).all()
    assert np.isfinite(high).all()
    shown = json.loads(release.to_json())["interval"]
    assert shown[4][0] is None
    assert shown[0] == [low[0], high[0]]


def test_a_difference_lies_between_ends_that_hold_for_all_winners_at_once():
    release = _release(k=5)
    ends = release._ends_of_all(0.9)
    assert ends.tolist() == release.interval(0.9 ** (1 / 5)).tolist()
    found = release.difference(1, 3, level=0.9)
    assert found.estimate == release.estimates[0] - release.estimates[2]
    assert (found.low, found.high) == (ends[0, 0] - ends[2, 1], ends[0, 1] - ends[2, 0])
    assert release.difference(1, 5).high == np.inf
    assert release.difference(1, 5).low > 600
    clear = 2 * release.detail.errors[0].half_width(0.95 ** (1 / 5))
    assert release._half_width_of_pairs() == clear


def test_groups_are_those_whose_ends_do_not_overlap():
    release = _release(k=5)
    assert release.groups() == ((1,), (2, 3), (4, 5))
    assert release.groups() == dpgap.read_release(release.to_json()).groups()
    sure = _release(epsilon=30, k=4)
    assert sure.groups() == ((1,), (2,), (3,), (4,))


def test_rows_say_how_far_a_lead_may_be_off_where_anything_can_be_said():
    release = _release(k=5)
    rows = list(release)
    found = release.difference(1, 2)
    assert rows[0].give_or_take == max(rows[0].gap - found.low, found.high - rows[0].gap)
    assert [row.give_or_take is None for row in rows] == [False, False, True, True, True]


def test_where_all_is_returned_the_noise_alone_counts():
    release = _release(k=7)
    half = release.detail.errors[0].half_width(0.95)
    low, high = release.interval().T
    assert (high - low == 2 * half).all()


def test_findings_speak_of_the_order_and_of_what_cannot_be_told_apart():
    said = " ".join(findings(_release(k=5)))
    assert "Rank 1 is surely the largest of them." in said
    assert "ranks 2 and 3" in said.lower()


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("whole_coin", 1 << 24, "whole_coin must be a whole number from 0 to 2\\^24 - 1"),
        ("whole_coin", -1, "a whole number"),
        ("whole_coin", 0.5, "a whole number"),
        ("coin", 0.5, "a field that is not known here, 'coin'"),
        ("line", 0.5, "a whole number"),
        ("law", {"scale": str(10**40)}, "a scale that dpgap draws from"),
        ("grid", "0", "a step from"),
    ],
)
def test_made_up_errors_are_refused(field: str, value: Any, words: str):
    content = json.loads(_release(k=3).to_json())
    content["errors"][0][field] = value
    with pytest.raises(ValueError, match=words):
        dpgap.read_release(json.dumps(content))


def test_every_number_of_a_release_beside_another_largest_count_is_the_same():
    """Same noise, another largest count: only the winner's own value may differ."""
    shown = []
    for largest in (1_536, 1_537, 10**6 + 1):
        with bits_are(InsecureSeededBits(5)):
            counts = dpgap.NoisyHistogram(1)
            drawn = counts.draw_paid(counts.prepare([largest, 512], None), Cutoff(1))
        shown.append((drawn.line, drawn.coin, int(drawn.values[0]) - largest))
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][1] > 0


def test_a_histogram_has_no_gaps_no_selection_and_no_lead():
    selecting = Cost.composed([("select", Cost.pure(Fraction(1)))])
    for wrong in ({"gaps": np.zeros(5)}, {"lead": 3.0}, {"cost": selecting}):
        release = altered_release(_release(k=5), **wrong)
        with pytest.raises(ValueError, match="contradict each other"):
            dpgap.read_release(release.to_json())
