"""Simulated noisy histograms have the law of released ones."""

import numpy as np
import pytest

import dpgap
from dpgap.simulation import HistogramRuns, ProgramRuns
from law_tests import LEVEL, homogeneous_p


def test_simulated_values_are_those_of_releases_in_law():
    mechanism = dpgap.NoisyHistogram(1, reach=2)
    runs = dpgap.simulate(mechanism, [7, 0], runs=20_000, seed=1)
    assert isinstance(runs, HistogramRuns)
    assert runs.values.shape == (20_000, 2)
    released = mechanism.release(np.repeat([7, 0], 20_000)).values.reshape(2, -1)
    other = dpgap.NoisyHistogram(1, reach=3).release(np.full(20_000, 7)).values
    for column in (0, 1):
        assert homogeneous_p(runs.values[:, column], released[column]) > LEVEL
    assert homogeneous_p(runs.values[:, 0], other) < LEVEL


def test_a_grid_is_kept_and_a_seed_repeats():
    mechanism = dpgap.NoisyHistogram(1, grid="1/4")
    one, same = (dpgap.simulate(mechanism, [7.3, 0.1], runs=50, seed=2) for _ in range(2))
    assert (one.values == same.values).all()
    assert (one.values * 4 % 1 == 0).all()
    assert one.values.mean(axis=0) == pytest.approx([7.25, 0], abs=1.5)


def test_a_program_that_differs_is_run_as_it_is():
    class Doubled(dpgap.NoisyHistogram):
        def run(self, answers, noise):
            return tuple(2 * value for value in super().run(answers, noise))

    runs = dpgap.simulate(Doubled(1000), [7, 0], runs=5, seed=3)
    assert isinstance(runs, ProgramRuns)
    assert runs.outputs == [(14, 0)] * 5
