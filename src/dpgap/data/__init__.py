"""From tables to private counts: files, addresses, domains, engines, and the counts themselves.

May import `releases` and what that may import.
"""
