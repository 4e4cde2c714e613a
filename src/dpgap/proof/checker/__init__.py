"""The checker: does an alignment prove its mechanism private?

An *alignment* says, for neighbouring answers, how far to shift each draw of noise so that the
output stays the same. A *path* is the answers to all questions that a program asks: whether this
number is below that one.

- `numbers`: what a program computes with while it is checked, and how it is run without hanging.
- `alignment`: the conditions, on one path.
- `path_explorer`, `symbolic`, `proving`: all paths, all numbers: a proof.
- `families`: what programs return, and mechanisms with unknown parameters.
- `lone_items`: whether a line keeps out what one unit alone has, but for the stated δ.

May import `mechanisms` and what is below; nothing else of `dpgap.proof`.
"""
