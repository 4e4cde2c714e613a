"""The normal distribution's logarithm: SciPy's values without SciPy's import."""

import subprocess
import sys

import numpy as np
from scipy.special import log_ndtr as reference

from dpgap.normal import log_ndtr


def test_it_agrees_with_scipy_from_tail_to_tail() -> None:
    x = np.concatenate([np.linspace(-60, 60, 20_001), [-1e8, -1e3, -30.0, 1e8, np.inf, -0.0]])
    ours, theirs = log_ndtr(x), reference(x)
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-300)
    assert not np.allclose(ours, reference(x * (1 + 1e-9)), rtol=1e-12, atol=1e-300)


def test_shapes_and_special_values_are_kept() -> None:
    assert log_ndtr(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert log_ndtr(-np.inf) == -np.inf
    assert np.isnan(log_ndtr(np.nan))


def test_many_values_are_left_to_scipy() -> None:
    x = np.linspace(-40, 40, 300_000)
    assert np.array_equal(log_ndtr(x), reference(x))


def test_a_release_does_not_load_scipy() -> None:
    code = (
        "import sys, dpgap\n"
        "dpgap.measured_top_k([50, 40, 30], 2, 1, monotonic=True).interval(0.95)\n"
        "print(*(name for name in sys.modules if name.startswith('scipy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
