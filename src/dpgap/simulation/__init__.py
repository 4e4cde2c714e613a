"""Many runs at once, for research: the law of a release, on fast seeded floats.

`simulate` runs a mechanism or a pipeline many times on the same answers. It returns what releases
would have shown, including floors and offsets. Answers that are far too small to matter are not
drawn one by one. This does not change the law, and the time hardly grows with their number. Floats
here are not secure, and not exact in the last bits. No `release` can reach this package.

>>> import dpgap
>>> runs = dpgap.simulate(dpgap.NoisyTopK(2, epsilon=1, monotonic=True), [90, 50, 10], runs=5)
>>> runs.indices.shape, runs.gaps.shape
((5, 2), (5, 2))

Users' mechanisms work too. If a mechanism has a method `simulate(answers, runs, rng)`, this must
return a sequence of outputs, one for each run. Otherwise `run(answers, noise)` is called again and
again with float noise; this is the continuous algorithm. A subclass of dpgap's mechanisms with its
own `run` or `simulate` counts as a user's mechanism.

- `batch`: batches of runs and their results; pipelines, and users' mechanisms.
- `selections`: float noise, and the mechanisms that select.

May import `pipelines` and what is below.
"""

from dpgap.simulation.batch import (
    AboveRuns,
    FloatNoise,
    HistogramRuns,
    HybridRuns,
    JointRuns,
    MeasuredRuns,
    ProgramRuns,
    RoutedRuns,
    Runs,
    TopKRuns,
    batches,
    simulate,
)

__all__ = [
    "AboveRuns",
    "FloatNoise",
    "HistogramRuns",
    "HybridRuns",
    "JointRuns",
    "MeasuredRuns",
    "ProgramRuns",
    "RoutedRuns",
    "Runs",
    "TopKRuns",
    "batches",
    "simulate",
]
