"""Select, measure and estimate in one call; plans, and questions about a table.

May import `mechanisms` and what that may import.
"""
