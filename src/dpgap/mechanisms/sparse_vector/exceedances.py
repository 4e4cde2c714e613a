"""The draws out of very many that reach a line, without drawing the others.

Of m draws from a law only the few largest may reach the line. They are drawn from the largest on,
straight from their own law, as in `dpgap.mechanisms.top_k.grouped`, until one falls below. Floats
enclose them. Where those leave a floor open, decimals and further bits decide. So what comes out
has exactly the law of m draws, of which those below the line are forgotten.
"""

import math

import numpy as np

from dpgap.exact.bits import Bits
from dpgap.exact.laws import Law, require_memoryless
from dpgap.exact.reals import Integers, Uniform, decide
from dpgap.mechanisms.top_k.grouped import TopDraw, sums_of_waits

_AT_ONCE = 64


def exceedances(law: Law, line: int, size: int, bits: Bits) -> Integers:
    """The floors of those of `size` draws that are at least `line`, the largest first."""
    law = require_memoryless(law, "where most answers are 0")
    words = np.empty(0, dtype=np.uint64)
    draws: list[TopDraw] = []  # of those words that decimals have looked at, from the first on
    sums = np.zeros((2, 1))  # enclosing −ln of the uniform that is reached
    found: list[Integers] = [np.empty(0, dtype=np.int64)]
    while words.size < size:
        start = words.size
        words = np.append(words, bits.words(min(_AT_ONCE, size - start)))
        sums = sums_of_waits(sums[:, -1], words[start:], size - np.arange(start, words.size))
        low, high = np.floor(law.quantile_bounds(sums))
        floors = np.where(low == high, low, 0).astype(np.int64)
        for at in np.flatnonzero(low != high).tolist():
            for word in words[len(draws) : start + at + 1].tolist():
                before = draws[-1] if draws else None
                uniform = Uniform.of_word(word, bits)
                draws.append(TopDraw(law, size - len(draws), uniform, before))
            floors[at] = decide(draws[start + at].enclosure, math.floor)
        below = np.flatnonzero(floors < line)
        if below.size:
            found.append(floors[: below[0]])
            break
        found.append(floors)
    return np.concatenate(found)
