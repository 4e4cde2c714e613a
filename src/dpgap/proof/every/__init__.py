"""Proofs for every number of answers and every k, of the programs that ship.

`checker` follows a whole program, which is possible only for few answers. Here a small part of a
program is followed, in which every violation would show; the code that connects this part with the
whole is checked too. docs/every-n.md says which part, and why it is enough.

- `theorems`: the kind of proof for each mechanism. A new mechanism is entered there.
- `steps`: one step from any state. `folds`: `run` and `align` do nothing but steps. `streams`: both
  for Sparse Vectors. `stepwise`: streams that a user writes as one step.
- `memory`: steps remember nothing, and a program treats all positions alike.
- `few_answers`: rankings, measurements and histograms, in which a few answers show each violation;
  a program treats a few answers among many as it treats them alone.
- `exponential`: the lemmas of docs/exponential-top-k.md, on the functions that ship.

May import `checker`, `mechanisms` and what is below.
"""
