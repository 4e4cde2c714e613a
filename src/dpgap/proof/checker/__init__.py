"""The checker: does an alignment prove its mechanism private?

An *alignment* says, for neighbouring answers, how far to shift each draw of noise so that the
output stays the same. A *path* is the answers to all questions that a program asks: whether this
number is below that one.

- `numbers`: what a program computes with while it is checked, how it is run without hanging, and
  how all its paths are followed.
- `alignment`: what programs return, and the conditions, on one path.
- `symbolic`: all paths, all numbers, judged by z3, and written down as SMT-LIB.
- `proving`: proofs and refutations; theorems, which z3 and cvc5 judge; and whether a line keeps out
  what one unit alone has, but for the stated δ.

May import `mechanisms` and what is below; nothing else of `dpgap.proof`.
"""
