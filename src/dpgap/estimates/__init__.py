"""Estimates from released numbers: linear estimates, intervals, and claims after selection.

Everything here is post-processing and costs no privacy. May import `exact`. `blue` and `combine`
are public.
"""

from dpgap.estimates.linear import blue, combine

__all__ = ["blue", "combine"]
