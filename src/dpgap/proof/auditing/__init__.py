"""Audits: a lower bound on ε, from samples of the real mechanism.

An event is counted on some answers and on a neighbour. Bounds on both probabilities then bound ε
from below. This finds mechanisms that are not private, whatever the reason, without reading their
code. `dpgap.proof.audit` audits what dpgap ships and what others made in the same manner.

- `calling` says which answers to try, and calls the function. `outputs` splits outputs, exceptions
  and warnings into numbers and words. `searching` makes up events, chooses a pair of answers and an
  event, and tests them.

May import `checker`, `mechanisms` and what is below.
"""
