"""A stream that is private, written as one step: to be proved, or spoilt."""

from fractions import Fraction

from dpgap.proof import LaplaceNoise, Stepwise


class Above(Stepwise):
    """Says which answers are above a noisy zero, and stops after two: sound, to be spoilt."""

    epsilon = 1
    shared_law = LaplaceNoise(Fraction(2))
    law = LaplaceNoise(Fraction(8))
    capacity = 2
    unit = Fraction(1, 4)

    def step(self, used, answer, shared, noise):
        above = bool(answer + noise.draw(self.law) >= shared)
        return above, used + above

    def align_step(self, used, move, outcome):
        return [move if outcome else 0], used + outcome


def is_float(value):
    """Whether it is a float: a program must not know it of an unknown."""
    return isinstance(value, float)


CALLS = []


def how_often():
    """How often this was called: a step must not know it."""
    CALLS.append(1)
    return len(CALLS)
