"""Who pays: accounts, the entries of a book, the durable ledger.

May import `exact`.
"""
