"""The draws out of very many that reach a line, without drawing the others.

Of m draws from a law only the few largest may reach the line. They are drawn from the largest on,
straight from their own law, as in `dpgap.mechanisms.top_k.grouped`, until one falls below. Floats
enclose them. Where those leave a floor open, decimals and further bits decide. So what comes out
has exactly the law of m draws, of which those below the line are forgotten.
"""

import math

import numpy as np

from dpgap.exact.bits import Bits
from dpgap.exact.draws import Integers, Uniform, decide, exponential_bounds
from dpgap.exact.laws import Law, require_memoryless
from dpgap.mechanisms.top_k.grouped import TopDraw, noise_bounds

_AT_ONCE = 64
# Factors that outweigh the roundings of a cumulative sum, for its lower and its upper end.
_OUTWARDS = np.array([[1 - 2.0**-40], [1 + 2.0**-40]])


def exceedances(law: Law, line: int, size: int, bits: Bits) -> Integers:
    """The floors of those of `size` draws that are at least `line`, the largest first."""
    law = require_memoryless(law, "where most answers are 0")
    words = np.empty(0, dtype=np.uint64)
    uniforms: list[Uniform] = []  # of those words that decimals have looked at, from the first on
    sums = np.zeros((2, 1))
    found: list[Integers] = [np.empty(0, dtype=np.int64)]
    while words.size < size:
        start = words.size
        words = np.concatenate([words, bits.words(min(_AT_ONCE, size - start))])
        left = (size - np.arange(start, words.size)).astype(np.float64)
        grown = np.stack(exponential_bounds(1.0, words[start:])) / left
        sums = (sums[:, -1:] + np.cumsum(grown, axis=1)) * _OUTWARDS
        low, high = np.floor(noise_bounds(law, sums))
        floors = np.where(low == high, low, 0).astype(np.int64)
        for at in np.flatnonzero(low != high).tolist():
            unseen = words[len(uniforms) : start + at + 1].tolist()
            uniforms += [Uniform.of_word(word, bits) for word in unseen]
            draw = TopDraw(law, size, uniforms[: start + at + 1])
            floors[at] = decide(draw.enclosure, math.floor)
        below = np.flatnonzero(floors < line)
        if below.size:
            found.append(floors[: below[0]])
            break
        found.append(floors)
    return np.concatenate(found)
