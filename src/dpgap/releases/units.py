"""A release in the units of a column: what was released in whole steps, times the step.

Sums are added up in whole steps, such as cents. Mechanisms know nothing of it. At the end every
number that was released is multiplied by the step, and so is what it may be off by.
"""

from dataclasses import replace
from fractions import Fraction

from dpgap.estimates.certificates import Evidence
from dpgap.releases.results import Measured


def in_units(release: Measured, step: Fraction) -> Measured:
    """The same release, where a step of 1 becomes `step`."""
    if step == 1:
        return release
    width = float(step)
    evidence, measured_by, promise = release.evidence, release.measured_by, release.promise
    if evidence is not None:
        leads = tuple(lead * width for lead in evidence.leads)
        evidence = Evidence(leads, tuple(scale * step for scale in evidence.scales))
    if measured_by is not None:
        measured_by = replace(measured_by, grid=measured_by.grid * step)
    return replace(
        release,
        gaps=release.gaps * width,
        measurements=release.measurements * width,
        estimates=release.estimates * width,
        variances=release.variances * width**2,
        errors=tuple(replace(error, grid=error.grid * step) for error in release.errors),
        measured_by=measured_by,
        looked=tuple((rank, value * width) for rank, value in release.looked),
        lead=None if release.lead is None else release.lead * width,
        rounding=release.rounding * width,
        evidence=evidence,
        promise=promise._replace(sensitivity=promise.sensitivity * step),
    )
