"""Estimates from released numbers: linear ones, intervals, and what holds after selection.

Everything here is post-processing and costs no privacy. May import `exact`. Public are `blue` and
`combine`.
"""

from dpgap.estimates.linear import blue, combine

__all__ = ["blue", "combine"]
