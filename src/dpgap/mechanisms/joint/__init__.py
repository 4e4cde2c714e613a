"""Joint Top-K: the top set chosen as one candidate; the program, its kernel, and its classes."""
