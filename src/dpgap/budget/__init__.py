"""Budgets: accounts, the entries of a book, the durable ledger.

May import `question` and what that may import.
"""
