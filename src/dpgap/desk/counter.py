"""Where questions wait their turn, and answers wait for the tick.

A question is charged as soon as it comes in, drawn when its topic is free, and settled at the next
whole tick. The two kinds of work have threads of their own: no charge ever waits for a drawing, so
that nobody can tell by a charge how long the drawing of another answer takes.

What the ledger does not take at its tick waits in a queue, and is brought to it at every tick until
it does.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from dpgap.budget.account import UNDER_WAY
from dpgap.desk.asking import DeskQuestion
from dpgap.desk.desk import Desk, Receipt, own_key
from dpgap.desk.door import Visitor
from dpgap.desk.guard import log, note_error
from dpgap.desk.pending import Pending
from dpgap.desk.refusals import Refused, in_our_words
from dpgap.desk.stewards_file import ListedData

AT_ONCE = 8
"""How many questions are worked on at a time."""
_WAITING = 200
_OF_ONE = 8
_SECONDS = 60
_PATIENCE = 5
"""For how many seconds, or ticks if they are longer, somebody waits for an answer that is late."""

_LOOK_AROUND = 10
"""After how many seconds the desk looks again whether another one has ended."""

_MANY = 503, "Too many questions are under way. Try again in a moment."


class Asking:
    """The questions under way at one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ledger")
        self._drawing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="drawing")
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="settling")
        self._under_way: set[asyncio.Task[Receipt]] = set()
        self._waits = asyncio.Event()

    async def ask(
        self, visitor: Visitor, data: ListedData, said: Mapping[str, str], key: str
    ) -> Receipt:
        """Ask, and hand out what became of it at a whole tick since it came in.

        A question that takes too long goes on, and its receipt says so.
        """
        begun = self._desk.ticks.clock()
        with in_our_words():
            question = DeskQuestion.read(said)
        of_one = sum(task.get_name() == visitor.name for task in self._under_way)
        if len(self._under_way) >= _WAITING or of_one >= _OF_ONE:
            raise Refused(*_MANY)
        claim = data.budget, own_key(visitor, key)
        return await self._work(
            begun, visitor, data, claim, lambda: self._desk.charge(visitor, data, question, key)
        )

    async def draw(self, visitor: Visitor, data: ListedData, number: int, reason: str) -> Receipt:
        """Draw what was charged and never began to be drawn; nothing is charged for it again."""
        desk = self._desk
        begun = desk.ticks.clock()
        entry = await asyncio.to_thread(desk.undrawn, data, number)
        claim = data.budget, entry.key or ""
        if desk.under_way[claim]:
            raise Refused(409, "This question is under way.")
        return await self._work(
            begun, visitor, data, claim, lambda: desk.pending(data, entry, visitor.name, reason)
        )

    async def _work(
        self,
        begun: float,
        visitor: Visitor,
        data: ListedData,
        claim: tuple[str, str],
        charge: Callable[[], Pending | Receipt],
    ) -> Receipt:
        desk = self._desk
        work = asyncio.create_task(self._answer(begun, data, charge), name=visitor.name)
        self._under_way.add(work)
        desk.under_way[claim] += 1

        def end(work: asyncio.Task[Receipt]) -> None:
            self._under_way.discard(work)
            desk.under_way -= Counter([claim])
            if not work.cancelled():
                work.exception()  # who asked was told, or has gone: nobody else is to log it

        work.add_done_callback(end)
        try:
            with in_our_words():
                return await asyncio.wait_for(asyncio.shield(work), _SECONDS)
        except TimeoutError:
            await desk.ticks.hold(begun)
            return Receipt(0, UNDER_WAY)

    async def _answer(
        self, begun: float, data: ListedData, charge: Callable[[], Pending | Receipt]
    ) -> Receipt:
        desk, run = self._desk, asyncio.get_running_loop().run_in_executor
        try:
            charged = await run(self._ledger, charge)
            if isinstance(charged, Pending):
                await run(self._drawing, charged.draw)
        finally:
            log.info("answered at tick %d", await desk.ticks.hold(begun))
        if isinstance(charged, Pending):
            return await self._settled(begun, data, charged)
        end = self._end()
        while charged.state == UNDER_WAY and desk.ticks.clock() < end:
            await desk.ticks.hold(begun)
            charged = await run(self._ledger, desk.look, data, charged)
        return charged

    def _end(self) -> float:
        """Until when somebody is kept waiting for an answer that is not settled at their tick."""
        ticks = self._desk.ticks
        return ticks.clock() + _PATIENCE * max(1, ticks.tick)

    async def _settled(self, begun: float, data: ListedData, pending: Pending) -> Receipt:
        """What became of it. What the ledger does not take at its tick is left to the queue."""
        desk, run = self._desk, asyncio.get_running_loop().run_in_executor
        if not pending.began:
            pending.log_failures()
            return Receipt(pending.entry.number, UNDER_WAY)
        receipt = await run(self._ledger, desk.settle, pending)
        if receipt.state != UNDER_WAY:
            return receipt
        self._waits.set()
        end = self._end()
        while pending.place in desk.waiting:
            if desk.ticks.clock() >= end:
                return receipt
            await desk.ticks.hold(begun)
        return await run(self._ledger, desk.look, data, receipt)

    async def keep_settling(self) -> None:
        """Settle at every tick what waits, and what desks that have ended left in the spool."""
        desk = self._desk
        begun = looked = desk.ticks.clock()
        await self._try(desk.recover)
        while True:
            if desk.waiting:
                await desk.ticks.hold(begun)
                await self._try(desk.settle_waiting)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._waits.wait(), _LOOK_AROUND)
                self._waits.clear()
            if desk.ticks.clock() >= looked + _LOOK_AROUND:
                looked = desk.ticks.clock()
                await self._try(desk.recover)

    async def _try(self, work: Callable[[], None]) -> None:
        """Whatever fails is tried again later."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._settling, work)
        except Exception as error:
            note_error(error)
