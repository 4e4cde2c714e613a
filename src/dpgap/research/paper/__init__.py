"""The paper's evaluation: data sets, experiments, figures and claims.

`dpgap reproduce` redraws every figure and sets every claim beside what was measured.
Matplotlib comes with `pip install 'dpgap[paper]'`.
"""
