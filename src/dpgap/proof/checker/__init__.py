"""The checker: does an alignment prove its mechanism private?

An *alignment* says, for neighbouring answers, how far to shift each draw of noise so that the
output stays the same. A *path* is the answers to all questions that a program asks: whether this
number is below that one.

- `numbers`: the numbers that a program computes with while it is checked.
- `programs`: a program runs with a time limit, and its code is read. `paths`: all its paths are
  followed.
- `skeletons`: the outputs of programs. `alignment`: the conditions on one path. `cycles`: which
  draws a shift depends on.
- `points`: one point, judged in exact fractions. `symbolic`: all paths and all numbers, judged by
  z3. `recording`: the same, written down as SMT-LIB.
- `provers`: theorems, which z3 and cvc5 judge. `proving`: proofs and refutations. `unknown_items`:
  the δ of unknown items.

May import `mechanisms` and what is below; nothing else of `dpgap.proof`.
"""
