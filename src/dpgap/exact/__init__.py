"""Numbers, bits and noise, exactly: parameters, the grid, random bits, laws and draws.

Imports no other room.
"""
