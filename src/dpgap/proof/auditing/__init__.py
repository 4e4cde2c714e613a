"""Audits: what ε is at least, from samples of the real thing, and whether its law is right.

The frequency of an event is counted on some answers and on a neighbour. Bounds on both chances then
bound ε from below. That catches what is not private, whatever the reason, without looking at the
program. Where the exact law is known, comparing all outcomes with it is far sharper for wrong
scales (χ²).

- `finding`: what an audit finds, the tests behind it, and how shipped mechanisms are sampled.

For what is not known beforehand, the search of `dpgap.proof.audit`:

- `calling` says which answers to try, and calls the function. `outputs` takes apart what it
  returns, raises and warns of. `searching` makes up events, and chooses a pair and an event.

For what dpgap ships, where the event and the law are known:

- `designs`: how each shipped mechanism is audited. `winners`, `top_sets`, `above_line`,
  `first_above` and `measured` know the exact laws of what is released; `winners` also has the
  integrals over noise.

May import `checker`, `mechanisms` and what is below.
"""
