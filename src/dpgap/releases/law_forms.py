"""How laws of noise, and what numbers may be off by, are written and read.

A law from a document must be one that dpgap would draw from. Otherwise an interval could take for
ever, or be no number.
"""

from fractions import Fraction
from typing import Any

from dpgap.estimates.certificates import Evidence
from dpgap.estimates.errors import COINS, GapErrors, HistogramError, LaplaceSum, MeasurementError
from dpgap.exact.geometric import GeometricNoise
from dpgap.exact.laws import Decay, ExponentialNoise, LaplaceNoise, StaircaseNoise
from dpgap.exact.parameters import power_of_two
from dpgap.exact.shells import CubeNoise, HullNoise
from dpgap.releases.faults import DocumentError
from dpgap.releases.forms import (
    Form,
    each,
    exact,
    kinds,
    maybe,
    pairs,
    positive,
    real,
    record,
    whole,
)

_MOST_TERMS = 8
_SHORTEST = Fraction(1, 1 << 64)
_LEAST = Fraction(1, 1 << 200)
_FINEST = Fraction(1, 1 << 100)


def _is_power(value: Fraction) -> bool:
    try:
        return power_of_two("grid", value) == value
    except ValueError:
        return False


def _checked(form: Form, check: Any) -> Form:
    """The same form; what was read must also pass a check."""

    def read(found: Any, where: str) -> Any:
        value = form.read(found, where)
        check(value, where)
        return value

    return Form(form.write, read)


def _require_drawable(law: Decay, where: str) -> None:
    """Lengths in steps are bounded by `dpgap.exact.reals.require_scale`; a little more is read."""
    lengths = (law.scale, getattr(law, "step", law.scale))
    if not all(_SHORTEST <= length <= 1 / _SHORTEST for length in lengths):
        raise DocumentError(f"{where} must have a scale that dpgap draws from")
    if not _SHORTEST <= getattr(law, "share", 1) <= 1:
        raise DocumentError(f"{where} must have a share of at most 1 that dpgap draws from")


def _require_sound_error(error: Any, where: str) -> None:
    if isinstance(error, LaplaceSum) and len(error.terms) > _MOST_TERMS:
        raise DocumentError(f"{where} must have at most {_MOST_TERMS} terms")
    if isinstance(error, HistogramError):
        _require_drawable(error.law, where)
        if (error.whole_coin or 0) >= COINS:
            raise DocumentError(f"{where} must have a whole_coin below 2^24")


def _without_float_coin(form: Form) -> Form:
    """Read what versions before 0.2.1 wrote: a coin as a float, whose low bits told too much.

    It is dropped. A coin of 0 is that of a stated line, which is public.
    """

    def read(found: Any, where: str) -> Any:
        if isinstance(found, dict) and "coin" in found and "whole_coin" not in found:
            coin = real(least=0).read(found["coin"], "coin")
            if coin > 1:
                raise DocumentError(f"{where} must have a coin from 0 to 1")
            found = {name: value for name, value in found.items() if name != "coin"}
            found |= {} if coin else {"whole_coin": 0}
        return form.read(found, where)

    return Form(form.write, read)


def _require_sound_gaps(errors: GapErrors, where: str) -> None:
    """The laws of gaps are in the answers' own unit."""
    for law in (errors.threshold_law, *errors.branch_laws):
        _require_drawable(law.scaled(1 / (errors.grid or Fraction(1))), where)


_GRID = exact(_is_power, "a power of two from 2^-100 to 2^100")
_STEP = exact(lambda value: _FINEST <= value <= 1 / _FINEST, "a step from 2^-100 to 2^100")
_SCALE = {"scale": positive()}
_SHELL = {"scale": positive(), "dimension": whole(1)}
_LAW = kinds(
    {
        "laplace": (LaplaceNoise, _SCALE),
        "exponential": (ExponentialNoise, _SCALE),
        "staircase": (
            StaircaseNoise,
            {"scale": positive(), "step": positive(), "share": positive()},
        ),
    }
)
_VALUE_LAW = _checked(
    kinds(
        {
            "laplace": (LaplaceNoise, _SCALE),
            "geometric": (GeometricNoise, _SCALE),
            "hull": (HullNoise, _SHELL),
            "cube": (CubeNoise, _SHELL),
        }
    ),
    _require_drawable,
)
_MEASUREMENT = {"law": _VALUE_LAW, "grid": _STEP}
_SUM = {"terms": each(pairs((real(least=0), whole(0)))), "floored": real(least=0), "grid": _STEP}
_HISTOGRAM = {
    "law": record(GeometricNoise, _SCALE),
    "grid": _STEP,
    "line": whole(-(1 << 62)),
    "whole_coin": maybe(whole(0)),
}

EVIDENCE = record(
    Evidence,
    {
        "leads": each(real()),
        "scales": each(exact(lambda value: _LEAST < value < 1 / _LEAST, "a scale of noise")),
    },
)
MEASUREMENT_ERROR = record(MeasurementError, _MEASUREMENT)
ERROR = _checked(
    _without_float_coin(
        kinds(
            {
                "measurement": (MeasurementError, _MEASUREMENT),
                "laplace sum": (LaplaceSum, _SUM),
                "histogram": (HistogramError, _HISTOGRAM),
            }
        )
    ),
    _require_sound_error,
)
GAP_ERRORS = _checked(
    record(
        GapErrors,
        {
            "threshold": exact(lambda value: abs(value) < 1 << 200, "a number below 2^200"),
            "threshold_law": _LAW,
            "branch_laws": each(_LAW),
            "grid": maybe(_GRID),
        },
    ),
    _require_sound_gaps,
)
