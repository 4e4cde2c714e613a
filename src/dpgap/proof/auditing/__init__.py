"""Audits: a lower bound on ε, from samples of the real mechanism.

An event is counted on some answers and on a neighbour. Bounds on both probabilities give a lower
bound on ε. This finds mechanisms that are not private, for any reason, without reading their code.
`dpgap.proof.audit` audits dpgap's mechanisms and those of others in the same way.

- `neighbours` has the answers to try. `calling` calls the function, and `sampling` runs a program
  many times at once.
- `outputs` splits outputs, exceptions and warnings into numbers and words. `parts` are the columns
  that events are built on.
- `events` builds events. `searching` chooses a pair of answers and an event. `chances` tests them.

May import `checker`, `mechanisms` and what is below.
"""
