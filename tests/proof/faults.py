"""Shipped mechanisms with a fault in them, which proofs and audits must find."""

from dataclasses import replace

from dpgap.exact.parameters import altered
from dpgap.mechanisms.measuring import CountHull, Cube, Laplace
from dpgap.mechanisms.sparse_vector import SparseVector


def with_scales(mechanism, factor):
    """The mechanism with all its noise this many times as large, and nothing else changed."""
    if isinstance(mechanism, SparseVector):
        branches = (
            branch._replace(law=scaled(branch.law, factor)) for branch in mechanism.every_branch
        )
        threshold_law = scaled(mechanism.threshold_law, factor)
        return altered(mechanism, threshold_law=threshold_law, every_branch=tuple(branches))
    if isinstance(mechanism, Laplace | CountHull | Cube):  # it makes its law as it runs
        return altered(mechanism, epsilon=mechanism.epsilon / factor)
    return altered(mechanism, law=scaled(mechanism.law, factor))


def scaled(law, factor):
    """The law at another scale; a staircase keeps its steps."""
    return replace(law, scale=law.scale * factor)
