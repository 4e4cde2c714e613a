"""Where questions wait their turn, and answers wait for the tick."""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from dpgap.desk.asking import DeskQuestion
from dpgap.desk.desk import Desk, Receipt
from dpgap.desk.door import Visitor
from dpgap.desk.refusals import Refused, in_our_words
from dpgap.desk.stewards_file import ListedData

log = logging.getLogger("dpgap.desk")

AT_ONCE = 8
"""How many questions are worked on at a time."""
_WAITING = 200
_OF_ONE = 8
_SECONDS = 60

_MANY = 503, "Too many questions are under way. Try again in a moment."


class Asking:
    """The questions under way at one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="asking")
        self._of_person: Counter[str] = Counter()

    async def ask(
        self, visitor: Visitor, data: ListedData, said: Mapping[str, str], key: str
    ) -> Receipt:
        """Ask, and hand out what became of it at the next tick.

        A question that takes too long goes on, and its receipt says so.
        """
        begun = self._desk.ticks.clock()
        with in_our_words():
            question = DeskQuestion.read(said)
        if self._of_person.total() >= _WAITING or self._of_person[visitor.name] >= _OF_ONE:
            raise Refused(*_MANY)
        self._of_person[visitor.name] += 1
        work = asyncio.get_running_loop().run_in_executor(
            self._threads, self._desk.ask, visitor, data, question, key
        )
        work.add_done_callback(lambda _: self._of_person.subtract({visitor.name: 1}))
        try:
            with in_our_words():
                return await asyncio.wait_for(asyncio.shield(work), _SECONDS)
        except TimeoutError:
            return Receipt(0, "under way")
        finally:
            log.info("answered at tick %d", await self._desk.ticks.hold(begun))
