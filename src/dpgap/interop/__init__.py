"""Adapters to other libraries: OpenDP.

May import `pipelines` and what that may import. No other room imports it.
"""
