"""An audit finds leaks that no value shows, untold, and none where the noisy count decides."""

import pytest
from leaks import (
    LEAKS,
    best_of_histogram,
    coin_as_a_float,
    dividing_by_a_noisy_gap,
    leaking,
    mended,
)
from scipy.stats import binom

import dpgap
from dpgap.exact.bits import InsecureSeededBits
from dpgap.proof import audit
from dpgap.proof.auditing.outputs import leaves
from dpgap.proof.cases import DOCUMENT, AuditCase, audit_shipped, audited
from dpgap.releases.document import _KINDS
from seams import bits_are, quick_in

SAMPLES = 2_000
"""As few as an audit takes."""
DOCUMENTS = {f"{each.name}, {each.variant}": each for each in audited() if each.source == DOCUMENT}
OFTEN = {"length of a text", "warning", "refusal after the charge", "field that is there or not"}
"""The leaks whose sound twins are tried in every run."""
IN_WORDS = {
    "length of a text": "length of output[1]",
    "warning": "warning 0 is",
    "refusal after the charge": "output",
    "length of a message": "length of message",
    "field that is there or not": "output['low']",
    "order of fields": "type of output is",
    "type of a label": "output[0][0] is",
    "type of a number": "type of output is",
    "type of the output": "type of output is",
    "zero below zero": "output[0] is",
    "denominator": "denominator of output",
    "places of a decimal": "places of output is",
    "low bits of a large number": "output mod 2³²",
    "division by a true gap": "output",
}
"""What the event that is found is about."""


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_that_no_value_shows_is_found_untold(name):
    found = audit(leaking(name, 1), epsilon=1, samples=SAMPLES)
    assert found.rejected
    assert IN_WORDS[name] in found.event
    assert not found.in_floats


@pytest.mark.parametrize("name", quick_in(LEAKS, OFTEN))
def test_the_same_is_not_rejected_where_the_noisy_count_decides(name):
    assert not audit(mended(name, 2), epsilon=1, samples=SAMPLES, level=1e-6).rejected


def test_a_histograms_coin_as_a_float_is_found_untold_and_called_a_floating_point_leak():
    """With 5,000 calls it was found with each of 12 seeds, with 3,000 calls with 8."""
    with bits_are(InsecureSeededBits(1)), coin_as_a_float():
        found = audit(best_of_histogram, epsilon=1, reach=1, samples=5_000)
    assert found.rejected
    assert found.in_floats
    assert "lowest bit of output[2].whole_coin" in found.event
    assert "\nThis is a floating-point leak: " in str(found)


@pytest.mark.long
def test_a_histograms_whole_coin_is_not_rejected():
    with bits_are(InsecureSeededBits(2)):
        sound = audit(best_of_histogram, epsilon=1, reach=1, samples=SAMPLES, level=1e-6)
    assert not sound.rejected
    assert not sound.raised


def test_what_is_lost_on_a_tie_is_told_although_no_bound_is_broken():
    """Who raises where two *noisy* counts tie tells no more than these do: ε holds."""
    found = audit(dividing_by_a_noisy_gap(3), epsilon=2, samples=SAMPLES, level=1e-6)
    assert not found.rejected
    assert found.raised.keys() == {"ZeroDivisionError"}
    assert f"raised     ZeroDivisionError in {found.raised['ZeroDivisionError']} calls" in str(
        found
    )


def test_a_release_is_looked_at_as_its_document_but_for_when_it_was_made():
    release = dpgap.NoisyTopK(2, 1).release([900, 500, 0], labels=["a", "b", "c"])
    found = dict(leaves(release))
    assert found["output['labels'][0]"] == "a"
    assert {"output['guarantee']", "output['findings'][0]", "output['gaps'][1]"} <= found.keys()
    assert not [path for path in found if "made" in path]


def test_the_result_says_what_was_tried_and_what_not_rejected_does_not_mean():
    result = audit(mended("warning", 4), epsilon=1, samples=SAMPLES, level=1e-6)
    assert "\ntried      8 pairs of neighbours, with 1 to 40 answers from " in str(result)
    assert "This is no proof: no event was found that refutes the claim" in str(result)
    assert "fewer than about 100 of 400 calls" in str(result)
    rejected = audit(leaking("warning", 4), epsilon=1, samples=SAMPLES, neighbours=[((0,), (1,))])
    assert "\ntried      1 pair of neighbours, with 1 answer from " in str(rejected)
    assert "This is no proof" not in str(rejected)


def test_the_document_of_every_kind_of_release_is_audited():
    shown = [each.function([9, 8, 7, 5])._to_dict()["kind"] for each in DOCUMENTS.values()]
    assert set(_KINDS) == set(shown)


def test_a_shipped_release_that_raises_is_caught():
    how = {"epsilon": 1, "reach": 1}
    lost = AuditCase("made up", "ties", DOCUMENT, dividing_by_a_noisy_gap(5), how)
    assert audit_shipped(lost, SAMPLES).caught


@pytest.mark.long
@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_of_a_release_tells_more_than_its_epsilon(name):
    """At a level of 10⁻⁶, on neighbours that nobody named."""
    found = audit_shipped(DOCUMENTS[name], 20_000)
    assert not found.caught
    assert found.lower_bound <= 1


@pytest.mark.long
def test_the_coin_of_a_table_is_found_in_its_document_on_the_counts_of_the_advisory():
    pair = [((1_536, 512), (1_537, 512))]
    with coin_as_a_float():
        found = audit(DOCUMENTS["top_k, rows"].function, epsilon=1, samples=4_000, neighbours=pair)
    assert found.rejected
    assert found.in_floats
    assert found.hits_neighbour == 0


@pytest.mark.long
def test_of_many_audits_of_what_is_mended_hardly_any_rejects():
    """300 audits at a level of 10⁻²; more rejections than the most have a chance below 10⁻⁶."""
    level, times, names = 0.01, 300, list(LEAKS)
    rejected = sum(
        audit(mended(names[seed % len(names)], seed), 1, samples=SAMPLES, level=level).rejected
        for seed in range(times)
    )
    assert rejected <= binom.isf(1e-6, times, level)
