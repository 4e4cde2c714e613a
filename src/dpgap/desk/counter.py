"""Where questions wait their turn, and answers wait for the tick.

A question is charged as soon as it comes in, drawn when its topic is free, and settled at the next
whole tick. The two kinds of work have threads of their own: no charge ever waits for a drawing, so
that nobody can tell by a charge how long the drawing of another answer takes.
"""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from dpgap.budget.account import UNDER_WAY
from dpgap.desk.asking import DeskQuestion
from dpgap.desk.desk import Desk, Receipt
from dpgap.desk.door import Visitor
from dpgap.desk.guard import log
from dpgap.desk.pending import Pending
from dpgap.desk.refusals import Refused, in_our_words
from dpgap.desk.stewards_file import ListedData

AT_ONCE = 8
"""How many questions are worked on at a time."""
_WAITING = 200
_OF_ONE = 8
_SECONDS = 60
_PATIENCE = 5
"""For how many seconds, or ticks if they are longer, an answer of another request is awaited."""

_TRIES = 5
"""At how many ticks an answer is brought to a ledger that is out of reach."""

_MANY = 503, "Too many questions are under way. Try again in a moment."


class Asking:
    """The questions under way at one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ledger")
        self._drawing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="drawing")
        self._under_way: set[asyncio.Task[Receipt]] = set()

    async def ask(
        self, visitor: Visitor, data: ListedData, said: Mapping[str, str], key: str
    ) -> Receipt:
        """Ask, and hand out what became of it at a whole tick since it came in.

        A question that takes too long goes on, and its receipt says so.
        """
        ticks = self._desk.ticks
        begun = ticks.clock()
        with in_our_words():
            question = DeskQuestion.read(said)
        of_one = sum(task.get_name() == visitor.name for task in self._under_way)
        if len(self._under_way) >= _WAITING or of_one >= _OF_ONE:
            raise Refused(*_MANY)
        answering = self._answer(begun, visitor, data, question, key)
        work = asyncio.create_task(answering, name=visitor.name)
        self._under_way.add(work)
        work.add_done_callback(self._end)
        try:
            with in_our_words():
                return await asyncio.wait_for(asyncio.shield(work), _SECONDS)
        except TimeoutError:
            await ticks.hold(begun)
            return Receipt(0, UNDER_WAY)

    def _end(self, work: asyncio.Task[Receipt]) -> None:
        self._under_way.discard(work)
        if not work.cancelled():
            work.exception()  # who asked was told, or has gone: nobody else is to log it

    async def _answer(
        self, begun: float, visitor: Visitor, data: ListedData, question: DeskQuestion, key: str
    ) -> Receipt:
        desk, run = self._desk, asyncio.get_running_loop().run_in_executor
        try:
            charged = await run(self._ledger, desk.charge, visitor, data, question, key)
            if isinstance(charged, Pending):
                await run(self._drawing, charged.draw)
        finally:
            log.info("answered at tick %d", await desk.ticks.hold(begun))
        if isinstance(charged, Pending):
            return await self._settled(begun, data, charged)
        end = begun + _PATIENCE * max(1, desk.ticks.tick)
        while charged.state == UNDER_WAY and desk.ticks.clock() < end:
            await desk.ticks.hold(begun)
            charged = await run(self._ledger, desk.look, data, charged)
        return charged

    async def _settled(self, begun: float, data: ListedData, drawn: Pending) -> Receipt:
        """What was paid for is not given up at the first failure of the ledger."""
        desk, run = self._desk, asyncio.get_running_loop().run_in_executor
        for _ in range(_TRIES if drawn.is_drawn else 1):
            receipt = await run(self._ledger, desk.settle, data, drawn)
            if receipt.state != UNDER_WAY:
                break
            await desk.ticks.hold(begun)
        return receipt
