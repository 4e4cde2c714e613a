"""The command line: one file for each group of commands, and one way to fail.

May import every other room.
"""
