"""The desk's operations for known people, and the queue of their questions.

The ledger charges and archives a question before its answer is shown, and only archived answers are
shown. So every answer that somebody saw is charged. If a desk dies in between, it leaves a visible
charge and, if the answer was drawn, a file in its spool (`dpgap.desk.spool`). The next desk that
starts settles this answer, or writes the charge off.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any, NamedTuple

from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from dpgap.budget.account import UNDER_WAY, AlreadyCharged, KeyUsed
from dpgap.budget.cost import Cost
from dpgap.budget.entries import Balance, Entry, LedgerError, hash_of, read_cost
from dpgap.budget.ledger import Ledger, LedgerAccount, LedgerReservation
from dpgap.budget.requests import ChargedRequest, Quota
from dpgap.budget.steward import Steward
from dpgap.budget.store import BUSY_SECONDS, Store
from dpgap.desk.auth import Auth, Visitor
from dpgap.desk.config import ListedData, StewardsFile
from dpgap.desk.counts import Slot, TopicCounts
from dpgap.desk.heads import PutBack
from dpgap.desk.middleware import BUSY, NOT_THERE, Refused, in_our_words, log, note_error
from dpgap.desk.questions import FilledForm, Offers, ask, number_in, offers, text_of
from dpgap.desk.spool import Folder, Pending, Reserved, Reserving, Slip, Spool, SpoolError, name_of
from dpgap.releases.document import handed_out

# --------------------------------------------------------------------------------------------------
# Answers leave at whole multiples of a tick, a fixed time.
#
# The time to compute an answer depends on private data, and everybody can measure it. So every
# outcome of a question is held until the next tick after the question came in. If computing takes
# less than a tick, all answers take exactly one tick.


@dataclass(frozen=True, slots=True)
class ReleaseClock:
    """Releases answers at whole multiples of `tick` seconds."""

    tick: float
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def hold(self, begun: float) -> int:
        """Wait for the next tick since `begun`; return how many ticks have passed."""
        ticks = max(1, math.ceil((self.clock() - begun) / self.tick))
        await self.sleep(max(0.0, begun + ticks * self.tick - self.clock()))
        return ticks


# --------------------------------------------------------------------------------------------------


ANSWER_WAITS = "its answer waits to be settled"
LEFT_NO_ANSWER = "it left no answer, and a second draw would be a second release"
HOW_TO_GO_ON = "nothing is charged to it; `dpgap desk FILE --check` says how to go on"
ELSEWHERE = "under way or interrupted, at another desk or in a program"

ACTS = ("raise", "lower", "allow", "write-off", "close", "refresh", "verify")
"""The actions of a steward at the desk; the first five are functions of the ledger."""


class Receipt(NamedTuple):
    """A question that was sent, and its state as `ChargedRequest` has it."""

    entry: int
    """The number of its reservation in the book."""
    state: str
    again: bool = False
    """Whether it was paid for before; then nothing was charged for this one."""


class Page(BaseModel):
    """A part of a long list: at most `limit` entries with numbers below `before`."""

    limit: Annotated[int, Field(ge=1, le=1000, description="The most entries to return.")] = 100
    before: Annotated[int | None, Field(ge=0, description="Only before this number.")] = None


class Verified(NamedTuple):
    """The result of verifying a whole book."""

    at: str
    """The time at which it began."""
    head: str
    """The hash of the last entry then, to be noted elsewhere; none if it cannot be read."""
    flaws: list[str]


class Desk:
    """The operations of the desk."""

    def __init__(
        self, file: StewardsFile, ledger: Ledger, counts: TopicCounts, auth: Auth, spool: Spool
    ) -> None:
        self.file = file
        self.ledger = ledger
        self.counts = counts
        self.auth = auth
        self.spool = spool
        self.release_clock = ReleaseClock(file.tick)
        self.checks: dict[str, Future[Verified]] = {}
        """The latest check of each whole book; it may be under way."""
        self._checking = ThreadPoolExecutor(1, thread_name_prefix="checking")
        self.under_way: dict[asyncio.Task[Receipt], tuple[str, str]] = {}
        """The questions that wait for their tick, each with a budget and a key."""
        self._store = Store(file.ledger)
        self._put_back: set[str] = set()
        """The budgets whose book lacks entries that this desk has seen."""
        self.waiting: OrderedDict[tuple[str, int], Pending] = OrderedDict()
        """The answers that the ledger did not take at their tick, by budget and reservation."""

    def datasets(self, visitor: Visitor) -> list[ListedData]:
        """The data sets that a person may ask about, or manages."""
        datasets = list(self.file.datasets.values())
        if visitor.person.is_steward:
            return datasets
        return [data for data in datasets if self.auth.may_ask(visitor, data)]

    def dataset(self, visitor: Visitor, name: str) -> ListedData:
        """A data set by name; 404 if this person may not see it."""
        data = self.file.datasets.get(name)
        if data is None or data not in self.datasets(visitor):
            raise Refused(*NOT_THERE)
        return data

    def balance(self, visitor: Visitor, data: ListedData) -> Balance:
        """The balance of a budget, for this person."""
        return Steward(self.ledger, data.budget).balance_of(visitor.name)

    def people(self, data: ListedData) -> set[str]:
        """Everybody who can have an allowance at the desk: those whom the steward's file lists."""
        return set(self.auth.people()) | set(data.people)

    def change(
        self, visitor: Visitor, data: ListedData, act: str, fields: Mapping[str, str], reason: str
    ) -> None:
        """Change a budget. The entry says who did it at the desk, and why."""
        steward = self.ledger.steward(data.budget).of(visitor.name)
        if act == "raise":
            steward.raise_to(number_in(fields, "epsilon"), reason=reason)
        elif act == "lower":
            steward.lower_to(number_in(fields, "epsilon"), reason=reason)
        elif act == "write-off":
            number = fields.get("entry", "")
            if not (number.isascii() and number.isdigit() and len(number) <= 12):
                raise Refused(422, "entry must be the number of a reservation")
            steward.write_off(int(number), reason=reason)
        elif act == "close":
            steward.close(reason=reason)
        else:
            if fields.get("person") not in self.people(data):
                raise Refused(422, "person must be somebody whom the steward's file lists")
            epsilon = number_in(fields, "epsilon")
            delta = None
            if fields.get("delta"):
                delta = number_in(fields, "delta")
            steward.allow(fields["person"], epsilon, delta=delta, reason=reason)

    def verify(self, budget: str) -> "Future[Verified]":
        """Check a whole book in its own thread, so that no page waits; one book at a time.

        Only the event loop starts checks. A check that is under way is not started again.
        """
        check = self.checks.get(budget)
        if check is None or check.done():
            check = self.checks[budget] = self._checking.submit(self._verified, budget)
        return check

    def _verified(self, budget: str) -> Verified:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        head = ""
        with suppress(LedgerError):  # this is a flaw that is found below
            head = self.ledger.account(budget).head
        return Verified(at, head, self.ledger.verify(budget))

    def charge(
        self, visitor: Visitor, data: ListedData, form: FilledForm, key: str
    ) -> Pending | Receipt:
        """Charge a question, once for each key. If it was charged before, return its receipt.

        The key comes first, whatever else was asked or changed since. If another person asks the
        same question just now, it is charged once, unless fresh noise is wanted.
        """
        if not self.auth.may_ask(visitor, data):
            raise Refused(403, "You are not listed for questions about this data set.")
        ledger_key = own_key(visitor, key)
        entry = self._account(data).keyed(ledger_key)
        if entry is not None:
            require_same(entry, data, form)
            return self.receipt(visitor, data, key)._replace(again=True)
        self.require_enough(visitor, data, form)
        questions = self.limit(visitor, data, "questions_a_day")
        megabytes = self.limit(visitor, data, "megabytes_a_day")
        quota = Quota(questions, megabytes * 10**6, data.megabytes * 10**6)
        slot = self.slot(data, form)
        extra = {"desk": self.spool.id, "question": {"dataset": data.name} | dict(form.fields)}
        account = Reserving(
            self.ledger, data.budget, slip=self._slip, extra=extra, heads=self.spool.heads
        ).of(visitor.name, key=ledger_key, joins=not form.fresh, quota=quota)
        try:
            release = ask(form, slot.empty, account)
        except Reserved as reserved:
            return Pending(reserved.reservation, reserved.slip, form, slot)
        except AlreadyCharged as before:
            return Receipt(before.answered.entry, before.answered.state, again=True)
        return Receipt(release.made.ledger.entry, "settled", again=True)

    def _slip(self, account: LedgerAccount) -> Slip:
        """A new file in the spool for an answer; refused if other answers wait for the ledger."""
        waiting = list(self.waiting.values())
        if any(pending.blocks(account.dataset) for pending in waiting):
            raise Refused(
                503,
                "An answer about this data set waits for the ledger. Nothing more is charged until "
                "it is settled, for ten minutes at the most. Try again in a moment.",
            )
        try:
            return Slip(self.spool.folders[self.spool.id])
        except OSError as error:
            log.error("the spool cannot be written: %s", error.strerror)
            raise Refused(503, "The spool cannot be written now: nothing is charged.") from None

    def settle(self, pending: Pending) -> Receipt:
        """Archive a drawn answer, at a tick. An answer that cannot be archived is not shown.

        If there is no answer, the charge is written off. If the ledger cannot be written now, the
        answer waits for the next tick.
        """
        budget, number = pending.charge_id
        document = pending.document
        try:
            if document is not None:
                pending.reservation.settle(pending.cost, document)
                state = "settled"
            else:
                Steward(self.ledger, budget).write_off(number, reason=LEFT_NO_ANSWER)
                state = "written off"
        except Exception as error:
            state = self._state(pending)
            if state == UNDER_WAY:
                pending.keep()
                failure = "the ledger cannot be written, the desk tries again at every tick"
                pending.note(failure, error)
                if document is not None and not pending.blocks(budget):
                    pending.note("its answer has waited for ten minutes, so questions go on")
                pending.log_failures()
                pending.has_waited = True
                self.waiting[pending.charge_id] = pending
                self.waiting.move_to_end(pending.charge_id)  # behind all others that wait
                return Receipt(number, UNDER_WAY)
        pending.log_failures()
        if pending.has_waited or state != "settled":
            log.warning("entry %d of %s is %s", number, budget, state)
        pending.slip.drop()
        self.waiting.pop(pending.charge_id, None)
        return Receipt(number, state)

    def _state(self, pending: Pending) -> str:
        """The state in the ledger: it may have settled an answer although its reply was lost."""
        with suppress(LedgerError):
            charged = self._charged(pending.entry.dataset, name_of(pending.entry))
            if charged is not None and charged.ending is not None:
                digest = charged.ending.extra.get("document")
                if pending.document is not None and digest != hash_of(pending.document):
                    pending.note("the ledger has ended it without this answer")
                return charged.state
        return UNDER_WAY

    def _charged(self, budget: str, name: str) -> ChargedRequest | None:
        """A reservation, by the name of its file in the spool, and the entry that ended it."""
        number, _, _ = name.partition(".")
        requests = LedgerAccount(self.ledger, budget).requests(1, int(number) + 1)
        for request in requests:
            if name_of(request.reservation) == name:
                return request
        return None

    def settle_waiting(self) -> None:
        """Settle waiting answers. If one fails, others of its budget wait for the next tick."""
        failed: set[str] = set()
        for pending in list(self.waiting.values()):
            budget, _ = pending.charge_id
            if budget not in failed and self.settle(pending).state == UNDER_WAY:
                failed.add(budget)

    def recover(self) -> None:
        """Finish the questions that ended desks left in the ledger and in the spool."""
        self.spool.take_over()
        for folder in list(self.spool.folders.values()):
            if folder.id != self.spool.id:
                self._recover(folder)

    def remember(self) -> None:
        """Note the heads of all budgets; log each book that was put back, once."""
        heads = self.spool.heads
        for budget in sorted({data.budget for data in self.file.datasets.values()}):
            newest = heads.newest(budget)
            try:
                with self._store.reading() as rows:
                    heads.require_later(rows, budget, newest)
                    heads.note(rows.require(budget)[-1])
                self._put_back.discard(budget)
            except PutBack:
                if budget not in self._put_back:
                    log.error("the book of %s was put back: %s", budget, HOW_TO_GO_ON)
                self._put_back.add(budget)

    def _recover(self, folder: Folder) -> None:
        budgets = self.ledger.datasets()
        reservations = {}
        for budget in budgets:
            for entry in self.ledger.steward(budget).stale():
                if entry.extra.get("desk") == folder.id:
                    reservations[name_of(entry)] = entry
        if folder.charged is None:  # later ones are of a desk that runs, whose spool was copied
            folder.charged = set(reservations)
        ours = {name: reservations[name] for name in folder.charged & reservations.keys()}
        for entry in ours.values():
            if (entry.dataset, entry.number) not in self.waiting:
                self._take_up(folder, entry)
        for name in folder.left:
            if self._is_ended(budgets, name):
                folder.drop(name)
            elif name not in ours:
                log.error("the spool has a file of no reservation in this ledger: %s", name)
        folder.left.clear()
        if not (ours or folder.names()):
            self.spool.leave(folder)

    def _is_ended(self, budgets: list[str], name: str) -> bool:
        """Whether the reservation of a file is settled or written off, in any of these books."""
        for budget in budgets:
            charged = self._charged(budget, name)
            if charged is not None and charged.ending is not None:
                return True
        return False

    def _take_up(self, folder: Folder, entry: Entry) -> None:
        """Queue an entry: its answer in the spool is settled; without one, it is written off."""
        try:
            answer = folder.read(name_of(entry)) or {}
        except (SpoolError, OSError) as error:
            cause = f"({type(error).__name__})"
            if isinstance(error, SpoolError):
                cause = str(error)
            if name_of(entry) in folder.left:  # it is tried again and again, and logged once
                message = "entry %d of %s: its file in the spool cannot be read: %s"
                log.error(message, entry.number, entry.dataset, cause)
            return
        reservation = LedgerReservation(self.ledger, entry)
        pending = Pending(reservation, Slip(folder, name_of(entry)), has_waited=True)
        if answer:
            epsilon, rho, delta = answer["cost"]
            pending.settle(read_cost(epsilon, rho, delta), answer["document"])
        self.waiting[pending.charge_id] = pending
        log.warning("entry %d of %s was left by a desk that ended", entry.number, entry.dataset)

    def unsettled(self, data: ListedData) -> list[tuple[Entry, str]]:
        """Reservations that are not settled, each with the reason that this desk knows."""
        stale = self.ledger.steward(data.budget).stale()
        return [(entry, self._why_unsettled(entry)) for entry in stale]

    def _why_unsettled(self, entry: Entry) -> str:
        """Why a reservation is not settled. Before its tick nothing shows whether it is drawn."""
        folder = self.spool.folders.get(entry.extra.get("desk", ""))
        if folder is None:
            return ELSEWHERE
        pending = self.waiting.get((entry.dataset, entry.number))
        if pending is not None and pending.document is None:
            return LEFT_NO_ANSWER
        if pending is not None:
            return ANSWER_WAITS
        if (entry.dataset, entry.key or "") in list(self.under_way.values()):
            return UNDER_WAY
        if name_of(entry) in folder.names():
            return ANSWER_WAITS
        return LEFT_NO_ANSWER

    def look(self, budget: str, receipt: Receipt) -> Receipt:
        """The receipt with the current state."""
        with suppress(LedgerError):
            (request,) = LedgerAccount(self.ledger, budget).requests(1, receipt.entry + 1)
            return receipt._replace(state=request.state)
        return receipt

    def limit(self, visitor: Visitor, data: ListedData, name: str) -> Any:
        """A limit on the questions of this person: their own limit, or that of the data set."""
        personal_limit = getattr(visitor.person, name)
        if personal_limit is not None:
            return personal_limit
        return getattr(data, name)

    def require_enough(self, visitor: Visitor, data: ListedData, form: FilledForm) -> Fraction:
        """The least ε of a question; refuse a question with less."""
        minimum: Fraction = self.limit(visitor, data, "least_epsilon")
        if not Cost.pure(minimum).fits(Cost.pure(form.question.epsilon)):
            raise Refused(422, f"epsilon must be at least {text_of(minimum)} for each question")
        return minimum

    def expect(self, visitor: Visitor, data: ListedData, form: FilledForm) -> Offers:
        """The expected errors of a question, if it can be asked."""
        minimum = self.require_enough(visitor, data, form)
        facts = self.slot(data, form).facts
        return offers(form, facts, self.balance(visitor, data).left, minimum)

    def slot(self, data: ListedData, form: FilledForm) -> Slot:
        """The counts for a question, if it can be asked about this topic. All checks are public."""
        topic = data.topics.get(form.fields["topic"])
        if topic is None:
            raise Refused(422, "topic must be one that the data set lists")
        kind_of_all = None
        if form.question.is_of_all:
            kind_of_all = form.question.kind
        if topic.of_all != kind_of_all:
            accepted = topic.of_all or "top-k' or 'above"
            raise Refused(422, f"kind must be '{accepted}' for this topic")
        if topic.has_unknown_items != bool(form.question.delta):
            raise Refused(422, "delta must be more than 0 where items are not stated, else 0")
        facts = (slot := self.counts.slot(data, topic)).facts
        if not (facts.unknown or topic.of_all or (form.question.k or 1) <= len(facts)):
            raise Refused(422, f"k must be at most {len(facts)}: there are no more items")
        return slot

    def receipt(self, visitor: Visitor, data: ListedData, key: str) -> Receipt:
        """The receipt of the question that this person sent with a key."""
        answered = self._account(data).answered(own_key(visitor, key))
        if answered is None:
            raise Refused(404, "Nothing was charged for a question with this key.")
        return Receipt(answered.entry, answered.state, answered.again)

    def document(self, data: ListedData, number: int) -> str:
        """An archived release as its document, by the number of its reservation."""
        try:
            return handed_out(self._account(data).document(number))
        except ValueError:
            raise Refused(*NOT_THERE) from None

    def archive(self, data: ListedData, page: Page) -> list[ChargedRequest]:
        """The charged questions, the newest first."""
        return self._account(data).requests(page.limit, page.before)[::-1]

    def entries(self, data: ListedData, page: Page) -> list[Entry]:
        """The book, the newest entry first."""
        return self.ledger.entries(data.budget, last=page.limit, before=page.before)[::-1]

    def _account(self, data: ListedData) -> LedgerAccount:
        return LedgerAccount(self.ledger, data.budget)


def own_key(visitor: Visitor, key: str) -> str:
    """The key in the ledger: keys of different people never collide."""
    if not (8 <= len(key) <= 64 and key.isascii() and key.replace("-", "").isalnum()):
        raise Refused(422, "key must be 8 to 64 letters, digits and -")
    return f"desk {hash_of(visitor.name)[:16]} {key}"


def require_same(entry: Entry, data: ListedData, form: FilledForm) -> None:
    """Refuse a form if the entry with its key is of another question."""
    before = entry.extra.get("question", {})
    is_same = before.get("dataset") == data.name and before.get("topic") == form.fields["topic"]
    if not is_same or FilledForm.read(before).question != form.question:
        raise KeyUsed(f"entry {entry.number} has the key of this request, and another question")


# --------------------------------------------------------------------------------------------------
# The queue: questions wait for their turn, and answers wait for the tick.
#
# A question is charged as soon as it comes in, drawn when its topic is free, and settled at the
# next whole tick. Charges and draws have separate threads: no charge waits for a draw. So nobody
# can learn from a charge how long the draw of another answer takes.
#
# If the ledger cannot be written at an answer's tick, the answer waits in a queue; the desk retries
# at every tick.


AT_ONCE = 8
"""How many questions are worked on at a time."""
_WAITING = 200
_OF_ONE = 8
_SECONDS = 2 * BUSY_SECONDS + 5
"""The most seconds that a client waits: for its turn, for the ledger, and for the drawing."""
_PATIENCE = 5
"""The most seconds that a request waits for a late answer, but at least some ticks."""

_LOOK_AROUND = 10
"""The desk checks after so many seconds whether another desk has ended."""


class Asking:
    """The questions under way at one desk."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="ledger")
        self._drawing = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="drawing")
        self._settling = ThreadPoolExecutor(1, thread_name_prefix="settling")
        self._waits = asyncio.Event()

    async def ask(
        self, visitor: Visitor, data: ListedData, fields: Mapping[str, str], key: str
    ) -> Receipt:
        """Ask, and return the receipt at a whole tick after the question came in.

        If a question takes too long, it goes on, and its receipt says so.
        """
        desk = self._desk
        begun = desk.release_clock.clock()
        with in_our_words():
            form = FilledForm.read(fields, data.decimal)
        of_one = sum(task.get_name() == visitor.name for task in desk.under_way)
        if len(desk.under_way) >= _WAITING or of_one >= _OF_ONE:
            raise Refused(503, "Too many questions are under way. Try again in a moment.")
        claim = data.budget, own_key(visitor, key)
        answer = self._answer(begun, visitor, data, form, key)
        work = asyncio.create_task(answer, name=visitor.name)
        desk.under_way[work] = claim

        def end(work: asyncio.Task[Receipt]) -> None:
            del desk.under_way[work]
            if not work.cancelled():
                work.exception()  # the client got the error; it must not be logged again

        work.add_done_callback(end)
        try:
            with in_our_words():
                return await asyncio.wait_for(asyncio.shield(work), _SECONDS)
        except TimeoutError:
            await desk.release_clock.hold(begun)
            return Receipt(0, UNDER_WAY)

    async def act(
        self, visitor: Visitor, data: ListedData, act: str, fields: Mapping[str, str]
    ) -> None:
        """Do a steward's action."""
        desk = self._desk
        if act not in ACTS:
            raise Refused(*NOT_THERE)
        if act == "refresh":
            await run_in_threadpool(desk.counts.refresh, data)
            return
        if act == "verify":
            desk.verify(data.budget)
            return
        reason = fields.get("reason", "").strip()
        if not reason or not reason.isprintable() or len(reason) > 200:
            raise Refused(422, "reason must say why, in at most 200 printable characters")
        reason_at_the_desk = f"{reason} ({visitor.name}, at the desk)"
        with in_our_words():
            await run_in_threadpool(desk.change, visitor, data, act, fields, reason_at_the_desk)

    async def _answer(
        self, begun: float, visitor: Visitor, data: ListedData, form: FilledForm, key: str
    ) -> Receipt:
        """The receipt of a question. If the ledger cannot be written, the answer is queued."""
        desk = self._desk
        clock = desk.release_clock
        run = asyncio.get_running_loop().run_in_executor

        def charge() -> Pending | Receipt:
            if clock.clock() > begun + BUSY_SECONDS:  # a client that is gone must not be charged
                raise Refused(503, BUSY)
            return desk.charge(visitor, data, form, key)

        try:
            charged = await run(self._ledger, charge)
            if isinstance(charged, Pending):
                await run(self._drawing, charged.draw)
        finally:
            log.info("answered at tick %d", await clock.hold(begun))
        if isinstance(charged, Receipt):
            receipt = charged
        else:
            receipt = await run(self._ledger, desk.settle, charged)
            self._waits.set()
        end = clock.clock() + _PATIENCE * max(1, clock.tick)
        while receipt.state == UNDER_WAY and clock.clock() < end:
            await clock.hold(begun)
            if (data.budget, receipt.entry) not in desk.waiting:
                receipt = await run(self._ledger, desk.look, data.budget, receipt)
        return receipt

    async def keep_settling(self) -> None:
        """Settle waiting answers at every tick, and those that ended desks left in the spool."""
        desk = self._desk
        begun = looked = desk.release_clock.clock()
        await self._try(desk.recover)
        while True:
            if desk.waiting:
                await desk.release_clock.hold(begun)
                await self._try(desk.settle_waiting)
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._waits.wait(), _LOOK_AROUND)
                self._waits.clear()
            if desk.release_clock.clock() >= looked + _LOOK_AROUND:
                looked = desk.release_clock.clock()
                await self._try(desk.recover)
                await self._try(desk.remember)

    async def _try(self, work: Callable[[], None]) -> None:
        """Do some work; if it fails, the desk retries later."""
        try:
            await asyncio.get_running_loop().run_in_executor(self._settling, work)
        except Exception as error:
            note_error(error)
