"""The mechanisms: each is a frozen value with a program, a proof, and a fast kernel.

May import `data` and what that may import; never `simulation`, whose floats are not secure.
"""
