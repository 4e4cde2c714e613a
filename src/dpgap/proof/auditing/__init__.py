"""Audits: what ε is at least, from samples of the real thing, and whether its law is right.

An event is fixed in advance. Its frequency is counted on some answers and on a neighbour. Bounds
on both chances then bound ε from below. That catches what is not private, whatever the reason,
without looking at the program. To compare all outcomes with their exact law is far sharper for
wrong scales (χ²).

- `finding`: what an audit finds, and the two tests behind it.
- `path_sampling`: how often an event happens in runs of any program.
- `design`, `designs`: how each shipped mechanism is audited. `winners`, `top_sets`, `above_line`,
  `first_above` and `measured` know the exact laws of what is released.
- `quadrature`: integrals over noise.

May import `checker`, `mechanisms` and what is below.
"""

from dpgap.proof.auditing.finding import lower_bound
from dpgap.proof.auditing.path_sampling import frequency

__all__ = ["frequency", "lower_bound"]
