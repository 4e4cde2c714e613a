"""Sparse Vector, plain and adaptive: the program, runs in progress, the kernel, streams."""
