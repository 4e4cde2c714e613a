"""What an audit of dpgap's own rests on: bounds, what counts as caught, and all that there is."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom
from untold import unknown_items

from dpgap.exact.bits import InsecureSeededBits
from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.mechanisms.top_k import NoisyMax
from dpgap.proof import audit
from dpgap.proof.auditing.chances import LEVEL, lower_bound
from dpgap.proof.cases import DOCUMENT, PROGRAM, AuditCase, audit_shipped, audited, mechanisms
from seams import bits_are


def test_every_mechanism_is_audited_by_its_document_and_by_its_program():
    """Joint noise is not drawn one by one, so those programs are not sampled."""
    named = {
        source: {each.name for each in audited() if each.source == source}
        for source in (DOCUMENT, PROGRAM)
    }
    assert {name for name, _, _ in mechanisms()} <= named[DOCUMENT]
    assert {name for name, _, _ in mechanisms()} - named[PROGRAM] == {"CountHull", "Cube"}


@pytest.mark.parametrize(("factor", "caught"), [(1, False), (8, True)])
def test_a_release_is_audited_as_others_are(factor, caught):
    """With an eighth of the noise that ε = 1 takes, it is caught."""
    how = {"epsilon": 1, "neighbours": [((0, 0), (1, 0))]}
    own = NoisyMax(factor, monotonic=True, noise="exponential")
    each = AuditCase("NoisyMax", "made up", DOCUMENT, own.release, how)
    with bits_are(InsecureSeededBits(1)):
        found = audit_shipped(each, 2_000)
    assert (found.claimed, found.caught) == (1, caught)


@pytest.mark.parametrize(("lower", "rejected"), [(0, False), (2, True)])
def test_a_line_that_is_too_low_for_its_delta_is_found_untold(lower, rejected):
    line = HybridTopK(0, 1, 1, monotonic=True).line_for("0.01", 1)
    program = unknown_items(HybridTopK(line - lower, 1, 1, monotonic=True).run)
    claim = {"epsilon": 1, "delta": "0.01", "monotonic": True, "reach": 1}
    with bits_are(InsecureSeededBits(2)):
        assert audit(program, samples=40_000, **claim).rejected is rejected


def test_a_lower_bound_is_exceeded_once_in_a_million():
    """It is sharper than a bound on each side, of half the level each (Clopper–Pearson)."""
    runs, hits, others = 1_000, 300, 100
    bound = lower_bound(hits, others, runs)
    low = 0.3
    while binom.sf(hits - 1, runs, low) > LEVEL / 2:
        low -= 1e-5
    high = 0.1
    while binom.cdf(others, runs, high) > LEVEL / 2:
        high += 1e-5
    assert np.log(low / high) < bound < np.log(3)


def test_nothing_seen_bounds_nothing():
    assert lower_bound(0, 0, 1_000) == 0
    assert lower_bound(1_000, 1_000, 1_000) == 0


def test_an_audit_catches_by_its_bound_or_by_its_chance():
    found = audit_shipped(AuditCase("NoisyMax", "", PROGRAM, NoisyMax(1)), 2_000)
    assert not found.caught
    assert replace(found, lower_bound=1.01).caught
    assert replace(found, p_value=1e-7).caught
    assert not replace(found, p_value=None).caught
