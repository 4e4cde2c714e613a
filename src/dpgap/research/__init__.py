"""The paper's experiments: data sets, figures and claims; `dpgap reproduce` calls them.

May import `simulation` and what is below. Nothing that releases may import this room.
"""
