"""Mutants and shipped mechanisms as an audit that is told nothing is given them."""

import numpy as np

from dpgap.exact.bits import secure_bits
from dpgap.mechanisms.measuring import CountHull, Cube


class Program:
    """A program that is told apart from others by its outputs alone."""

    def __init__(self, run, *, on_grid=False):
        self.run, self.on_grid = run, on_grid


def of_mutant(entry):
    """The mutant as something to audit, and what it claims."""
    mechanism, how = entry.mechanism, entry.how
    claim = {"epsilon": 1, "monotonic": how.get("neighbours", "general") != "general"}
    claim |= {"sensitivity": how.get("sensitivity", 1), "reach": getattr(mechanism, "reach", None)}
    if isinstance(mechanism, CountHull | Cube):
        return joint_noise(mechanism), claim | {"batch": True}
    if entry.event.bounds == "δ":
        claim |= {"delta": mechanism.delta(1), "monotonic": True, "reach": 1}
        return unknown_items(mechanism.run, on_grid=True), claim
    return Program(mechanism.run, on_grid=entry.event.on_grid), claim


def of_shipped(mechanism):
    """A shipped mechanism as something to audit, and what it claims."""
    if isinstance(mechanism, CountHull | Cube):
        monotonic = getattr(mechanism, "monotonic", False)
        return joint_noise(mechanism), {"epsilon": 1, "monotonic": monotonic, "batch": True}
    return mechanism, {}


def joint_noise(mechanism):
    """Noise that is not drawn one by one, added to many copies of the answers."""

    def many(answers, runs):
        return np.array(answers) + mechanism.draws(len(answers), runs, secure_bits())

    return many


def unknown_items(run, *, on_grid=False):
    """A program for unknown items. One that nobody has is not there: it cannot be released."""

    def present(answers, noise):
        return run([answer for answer in answers if answer > 0], noise)

    return Program(present, on_grid=on_grid)
