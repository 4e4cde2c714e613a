"""Hybrid Top-K: the largest answers, as far as they are above a public line."""
