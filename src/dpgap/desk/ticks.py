"""Answers leave at whole multiples of a tick that was fixed beforehand.

How long an answer takes depends on private data, and on the clock everybody can see it. So every
outcome of a question waits for the next tick since the question came in. Where computing takes less
than a tick, all answers take exactly one.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ticks:
    """A clock that lets things out at whole multiples of `tick` seconds."""

    tick: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def hold(self, begun: float) -> int:
        """Wait for the next tick since `begun`; how many ticks have passed then."""
        whole = max(1, math.ceil((self.clock() - begun) / self.tick))
        await self.sleep(max(0.0, begun + whole * self.tick - self.clock()))
        return whole
