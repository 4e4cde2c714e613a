"""Doors to other libraries: OpenDP.

May import `pipelines` and what that may import. Nothing but the user imports it.
"""
