"""Proofs for every number of answers and every k, of the programs that ship.

`checker` follows a whole program, so it ends at few answers. Here a program is followed only as far
as a violation can reach, and what ties that part to all of it is checked as well. docs/every-n.md
says which part, and why that is enough.

- `theorems`: which mechanism is proved how. A new mechanism is entered there.
- `steps`: one step from any state; and `run` and `align` do nothing but steps.
- `memory`: steps remember nothing, and a program singles out no place.
- `few_answers`: a few answers that show every violation of rankings, measurements and histograms,
  and that a program treats few among many as it treats few alone.
- `exponential`: the lemmas of docs/exponential-top-k.md, on the functions that ship.

May import `checker`, `mechanisms` and what is below.
"""
