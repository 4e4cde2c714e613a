"""Measurements: Laplace, the count hull and the cube."""
