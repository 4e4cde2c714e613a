"""Audits tell sound mechanisms from unsound ones."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from faults import with_scales
from scipy.stats import binom

from dpgap.mechanisms.hybrid import HybridTopK
from dpgap.proof.auditing.above_line import audit_delta
from dpgap.proof.auditing.designs import designs
from dpgap.proof.auditing.finding import LEVEL, audit_design, fit, lower_bound
from dpgap.proof.cases import RELEASED

DESIGNS = {f"{design.name}, {design.variant}": design for design in designs()}
SAMPLES = 400_000


@pytest.mark.parametrize("name", DESIGNS)
def test_a_shipped_mechanism_stays_within_its_epsilon_and_fits_its_law(name):
    """4·10⁵ samples of the kernel here; `dpgap audit` takes 10⁷."""
    audit = audit_design(DESIGNS[name], "kernel", SAMPLES)
    assert audit.lower_bound <= audit.claimed
    assert not audit.caught


@pytest.mark.parametrize("name", DESIGNS)
def test_a_tenth_less_noise_is_caught(name):
    design = DESIGNS[name]
    sabotaged = with_scales(design.mechanism, Fraction(9, 10))
    assert audit_design(design, "kernel", SAMPLES, real=sabotaged).caught


@pytest.mark.parametrize(
    "name", [name for name, design in DESIGNS.items() if design.variant in RELEASED]
)
def test_releases_themselves_are_audited(name):
    """2,000 releases here, or as many as half the noise takes; `dpgap audit` takes 10⁵."""
    design = DESIGNS[name]
    releases = 4_000 if design.name == "NoisyTopK" else 2_000
    assert not audit_design(design, "release", releases).caught
    half = with_scales(design.mechanism, Fraction(1, 2))
    assert audit_design(design, "release", releases, real=half).caught


@pytest.mark.parametrize("name", DESIGNS)
def test_output_laws_sum_to_one(name):
    design = DESIGNS[name]
    for side in (design.answers, design.neighbour):
        chances = design.chances(side)
        assert chances.sum() == pytest.approx(1, abs=1e-12)
        assert (chances >= 0).all()


@pytest.mark.parametrize("name", DESIGNS)
def test_the_events_loss_under_the_exact_law_is_within_epsilon(name):
    design = DESIGNS[name]
    scaled = [
        np.rint(design.chances(side) * 1e15).astype(np.int64)
        for side in (design.answers, design.neighbour)
    ]
    hits, others = (design.event(counts) for counts in scaled)
    assert 0.3 < np.log(hits / others) <= 1 + 1e-9


@pytest.mark.parametrize("reach", [1, 10])
def test_the_delta_of_unknown_items_is_bounded_and_a_lower_line_is_caught(reach):
    sound = audit_delta(reach, SAMPLES)
    assert not sound.caught
    assert 0.5 * sound.claimed < sound.lower_bound <= sound.claimed <= 0.01
    line = HybridTopK.line_for(1, 1, "0.01", reach=reach)
    lower = HybridTopK(line - 1, 1, 1, monotonic=True)
    caught = audit_delta(reach, SAMPLES, real=lower)
    assert caught.caught
    assert caught.lower_bound > caught.claimed


def test_a_lower_bound_is_exceeded_once_in_a_million():
    """Clopper–Pearson: seeing this many or more has chance level/2 at the bound itself."""
    runs, hits, others = 1_000, 300, 100
    bound = lower_bound(hits, others, runs)
    assert 0 < bound < np.log(3)
    low = 0.3
    while binom.sf(hits - 1, runs, low) > LEVEL / 2:
        low -= 1e-5
    high = 0.1
    while binom.cdf(others, runs, high) > LEVEL / 2:
        high += 1e-5
    assert bound == pytest.approx(np.log(low / high), abs=1e-3)


def test_nothing_seen_bounds_nothing():
    assert lower_bound(0, 0, 1_000) == 0
    assert lower_bound(1_000, 1_000, 1_000) == 0


def test_a_fit_rejects_other_chances_and_accepts_the_right_ones():
    counts = np.array([5_000, 3_000, 1_990, 10])
    assert fit(counts, np.array([0.5, 0.3, 0.199, 0.001])) > 0.9
    assert fit(counts, np.array([0.53, 0.27, 0.199, 0.001])) < LEVEL


def test_an_audit_catches_by_its_bound_or_by_its_fit():
    audit = audit_design(DESIGNS["NoisyTopK, laplace, general"], "kernel", 2_000)
    assert not audit.caught
    assert replace(audit, lower_bound=1.01).caught
    assert replace(audit, p_value=1e-7).caught
    assert not replace(audit, p_value=None).caught
