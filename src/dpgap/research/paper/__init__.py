"""The paper's evaluation: data sets, experiments, figures and claims.

`dpgap reproduce` redraws every figure and sets every claim beside what was measured.
Matplotlib comes with the extra `paper`.

- `files`, `quest`, `datasets`: where the counts come from.
- `experiments`: one point of a figure at a time; `reproduction`: all of them, on all cores.
- `figures`, `claims`, `page`: what is drawn, judged and written down.

May import `simulation`, `pipelines` and what is below.
"""
