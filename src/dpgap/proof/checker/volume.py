"""How much an affine alignment stretches or squeezes the space of noise, in exact fractions."""

from collections.abc import Sequence
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction

from dpgap.exact.laws import Scalar
from dpgap.proof.checker.numbers import Affine, Exact, Violation


def squeeze(shifts: Sequence[Scalar]) -> Exact:
    """ln(1/|det J|), rounded up: what an affine alignment that shrinks volumes costs on top."""
    stretch = jacobian(shifts)
    if stretch == 0:
        raise Violation("one-to-one", "the alignment maps different noise to the same: |det J| = 0")
    return log_above(1 / stretch)


def log_above(number: Fraction) -> Fraction:
    """A rational just above ln of the number; 0 for 1.

    >>> float(log_above(Fraction(2)))
    0.6931471805599453
    """
    if number == 1:
        return Fraction(0)
    up = Context(prec=40, rounding=ROUND_CEILING)
    quotient = up.divide(Decimal(number.numerator), Decimal(number.denominator))
    return Fraction(up.next_plus(up.ln(quotient)))


def determinant(rows: Sequence[Sequence[Exact]]) -> Fraction:
    """The determinant, exactly.

    >>> determinant([[0, 1], [1, 0]])
    Fraction(-1, 1)
    """
    matrix = [[Fraction(entry) for entry in row] for row in rows]
    result = Fraction(1)
    for column in range(len(matrix)):
        pivot = next((r for r in range(column, len(matrix)) if matrix[r][column]), None)
        if pivot is None:
            return Fraction(0)
        if pivot != column:
            matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
            result = -result
        result *= matrix[column][column]
        for row in matrix[column + 1 :]:
            factor = row[column] / matrix[column][column]
            for at in range(column, len(matrix)):
                row[at] -= factor * matrix[column][at]
    return result


def jacobian(shifts: Sequence[Scalar]) -> Fraction:
    """|det J| of an affine alignment: how much it stretches volumes."""
    terms = [shift.terms if isinstance(shift, Affine) else {} for shift in shifts]
    size = range(len(shifts))
    return abs(determinant([[int(i == j) + terms[i].get(j, 0) for j in size] for i in size]))
