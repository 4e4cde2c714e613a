"""Audits: a lower bound on ε, from samples of the real mechanism.

An event is counted on some answers and on a neighbour. Bounds on both probabilities give a lower
bound on ε. This finds mechanisms that are not private, for any reason, without reading their code.
`dpgap.proof.audit` audits dpgap's mechanisms and those of others in the same way.

- `calling` has the answers to try, and calls the function. `outputs` splits outputs, exceptions and
  warnings into numbers and words. `searching` builds events, chooses a pair of answers and an
  event, and tests them.

May import `checker`, `mechanisms` and what is below.
"""
