"""The checker: does an alignment prove its mechanism private?

An *alignment* says, for neighbouring answers, how far to shift each draw of noise so that the
output stays the same. A *path* is the answers to all questions that a program asks: whether this
number is below that one.

- `numbers`: the numbers that a program computes with while it is checked; it runs with a time
  limit, and all its paths are followed.
- `alignment`: the outputs of programs, and the conditions, on one path.
- `symbolic`: all paths and all numbers, judged by z3, and written down as SMT-LIB.
- `proving`: proofs and refutations; theorems, which z3 and cvc5 judge; and the δ of unknown items.

May import `mechanisms` and what is below; nothing else of `dpgap.proof`.
"""
