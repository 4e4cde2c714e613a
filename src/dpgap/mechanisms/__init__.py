"""The mechanisms: each a value and a program, its proof, and the kernel that stands in for it.

May import `data` and what that may import; never `simulation`, whose floats are not secure.
"""
