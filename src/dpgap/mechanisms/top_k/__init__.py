"""Noisy Top-K and Noisy Max: the program, its kernels, and what they choose from."""
