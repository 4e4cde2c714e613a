"""Simulation and the paper's experiments, on floats that are quick and not secure.

May import `pipelines` and what that may import; nothing that releases may import it.
"""
