"""The normal distribution and its logarithm: SciPy's values without SciPy's import."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.special import log_ndtr as reference
from scipy.special import ndtr as reference_ndtr

from dpgap.estimates.normal import log_ndtr, ndtr, rough_log_ndtr, tabled_log_ndtr


def test_it_agrees_with_scipy_from_tail_to_tail() -> None:
    x = np.concatenate([np.linspace(-60, 60, 20_001), [-1e8, -1e3, -30.0, 1e8, np.inf, -0.0]])
    ours, theirs = log_ndtr(x), reference(x)
    assert np.allclose(ours, theirs, rtol=1e-12, atol=1e-300)
    assert not np.allclose(ours, reference(x * (1 + 1e-9)), rtol=1e-12, atol=1e-300)


def test_chances_agree_with_scipy_too() -> None:
    x = np.linspace(-30, 10, 4_001)
    assert np.allclose(ndtr(x), reference_ndtr(x), rtol=1e-12, atol=0)
    assert not np.allclose(ndtr(x), reference_ndtr(x * (1 + 1e-9)), rtol=1e-12, atol=0)
    few = x[:90]  # without the table
    assert np.allclose(ndtr(few), reference_ndtr(few), rtol=1e-12, atol=0)
    assert ndtr(np.append(x, -50.0))[-1] == pytest.approx(reference_ndtr(-50.0), rel=1e-12)


def test_the_table_is_good_to_nine_digits() -> None:
    x = np.linspace(-37, 45, 90_001)
    exact = reference(x)
    assert (np.abs(tabled_log_ndtr(x) - exact) < 1e-9 * np.maximum(1, -exact)).all()
    assert (np.abs(rough_log_ndtr(x) - exact) < 0.01 * (1 - exact)).all()
    assert tabled_log_ndtr(np.append(x, -50.0))[-1] == pytest.approx(reference(-50.0), rel=1e-12)
    assert tabled_log_ndtr(x[:10]) == pytest.approx(exact[:10], rel=1e-12)


def test_shapes_and_special_values_are_kept() -> None:
    assert log_ndtr(np.zeros((2, 3, 4))).shape == (2, 3, 4)
    assert log_ndtr(-np.inf) == -np.inf
    assert np.isnan(log_ndtr(np.nan))


def test_values_do_not_depend_on_what_a_process_has_loaded() -> None:
    code = (
        "import sys\n"
        "if len(sys.argv) > 1: import scipy.special\n"
        "import numpy as np\n"
        "from dpgap.estimates.normal import log_ndtr, ndtr\n"
        "for size in (50, 30_000):\n"
        "    x = np.linspace(-9, 9, size)\n"
        "    print(ndtr(x).tobytes().hex(), log_ndtr(x).tobytes().hex())"
    )
    with_scipy, without = (
        subprocess.run([sys.executable, "-c", code, *more], capture_output=True, check=True).stdout
        for more in (["scipy"], [])
    )
    assert with_scipy == without


def test_a_release_does_not_load_scipy() -> None:
    code = (
        "import sys, dpgap\n"
        "dpgap.measured_top_k([50, 40, 30], 2, 1, monotonic=True).interval(0.95)\n"
        "print(*(name for name in sys.modules if name.startswith('scipy')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_scipy_that_cannot_be_loaded_stops_no_release(tmp_path: Path) -> None:
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("raise AttributeError('made for NumPy 1')")
    code = (
        "import dpgap\n"
        "from dpgap.estimates import normal\n"
        "release = dpgap.measured_top_k([50, 40, 30], 2, 1, monotonic=True, method='ranked')\n"
        "print(release.interval(0.95).shape, normal.ndtr([0.0] * 50_000).sum())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )
    assert done.stdout == "(2, 2) 25000.0\n"
