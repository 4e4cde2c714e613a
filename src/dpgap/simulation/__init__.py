"""Many runs at once, for research: the law of a release, on fast seeded floats.

`simulate` runs a mechanism or a pipeline many times on the same answers. What it returns is what
releases would have shown, floors and offsets included. Answers far too small to matter are not
drawn one by one; the law stays exactly the same, and time hardly grows with their number. Floats
here are not secure and not exact in the last bits. No `release` can reach this package.

>>> import dpgap
>>> runs = dpgap.simulate(dpgap.NoisyTopK(2, epsilon=1, monotonic=True), [90, 50, 10], runs=5)
>>> runs.indices.shape, runs.gaps.shape
((5, 2), (5, 2))

Any other mechanism written for dpgap works too. One with a method `simulate(answers, runs, rng)`
is asked for a sequence of outputs, one a run; for others `run(answers, noise)` is called again and
again with float noise, which is the continuous algorithm. A subclass that changes `run` or has a
`simulate` of its own counts as such a mechanism.

- `batch`: batches of runs and what comes out; pipelines, and programs of one's own.
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
