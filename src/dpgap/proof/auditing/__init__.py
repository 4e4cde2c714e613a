"""Audits: what ε is at least, from samples of the real thing.

The frequency of an event is counted on some answers and on a neighbour. Bounds on both chances then
bound ε from below. That catches what is not private, whatever the reason, without looking at the
program. There is one way, for what dpgap ships and for what others made: `dpgap.proof.audit`.

- `calling` says which answers to try, and calls the function. `outputs` takes apart what it
  returns, raises and warns of. `searching` makes up events, chooses a pair and an event, and has
  the tests of what is found.

May import `checker`, `mechanisms` and what is below.
"""
