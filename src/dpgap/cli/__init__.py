"""The command line: one file for each group of commands, and one function for all errors.

May import every other room.
"""
