"""Simulation and the paper's experiments, on floats that are quick and not secure.

- `simulation`: many runs of a mechanism or a pipeline at once. Others may import `simulate`,
  `batches`, `Ranked`, `FloatNoise` and the kinds of runs, all from `dpgap.simulation`.
- `paper`: data sets, experiments, figures and claims; `dpgap reproduce` calls it.

`paper` may import `simulation`; both may import `pipelines` and what is below. Nothing that
releases may import this room.
"""
