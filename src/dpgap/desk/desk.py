"""The desk itself: what pages and programs can do, once somebody is known.

A question is charged and archived by the ledger before anything of it is handed out, and only what
is in the archive is. So every answer that anybody saw is charged, and a desk that dies in between
leaves a charge that everybody can see.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from dpgap.budget.account import AlreadyCharged
from dpgap.budget.entries import RESERVE, Entry, hash_of
from dpgap.budget.ledger import Ledger, LedgerAccount
from dpgap.desk.asking import DeskQuestion, answer
from dpgap.desk.door import Door, Visitor
from dpgap.desk.refusals import NOT_THERE, NOT_YOURS, Refused
from dpgap.desk.shelf import Shelf
from dpgap.desk.stewards_file import ListedData, StewardsFile, Topic
from dpgap.desk.ticks import Ticks
from dpgap.releases.document import read_archived
from dpgap.releases.release import Release

_RECENT = 400


class Receipt(NamedTuple):
    """What became of a question."""

    entry: int
    """The number of its reservation in the book."""
    state: str
    """"settled", "under way" (or broken off) or "written off"."""
    again: bool = False
    """Whether it was paid for before, so that nothing was charged now."""


class Left(NamedTuple):
    """What somebody can still spend of a budget, and what they can see of it."""

    left: Fraction
    """The most that this person can spend now."""
    own: Fraction
    """What they spent or reserved."""
    allowance: Fraction | None
    last: Entry
    """The last entry of the book."""


class Archived(NamedTuple):
    """A request that was charged, with or without an answer yet."""

    reservation: Entry
    settlement: Entry | None


class Desk:
    """What can be done at the desk."""

    def __init__(self, file: StewardsFile, ledger: Ledger, shelf: Shelf, door: Door) -> None:
        self.file, self.ledger, self.shelf, self.door = file, ledger, shelf, door
        self.ticks = Ticks(file.tick)

    def datasets(self, visitor: Visitor) -> list[ListedData]:
        """The data sets that somebody may ask about, or looks after."""
        every = self.file.datasets.values()
        return [each for each in every if visitor.person.is_steward or self.may_ask(visitor, each)]

    def may_ask(self, visitor: Visitor, data: ListedData) -> bool:
        """Whether the steward's file lists this person for this data set."""
        return self.door.may_ask(visitor, data)

    def dataset(self, visitor: Visitor, name: str) -> ListedData:
        """A data set by name. One that is not for this person is not there for them."""
        data = self.file.datasets.get(name)
        if data is None or data not in self.datasets(visitor):
            raise Refused(*NOT_THERE)
        return data

    def looked_after(self, visitor: Visitor, name: str) -> ListedData:
        """A data set by name, for a steward."""
        if not visitor.person.is_steward:
            raise Refused(*NOT_YOURS)
        return self.dataset(visitor, name)

    def left(self, visitor: Visitor, data: ListedData) -> Left:
        """What this person can still spend."""
        own = self.ledger.steward(data.budget).standing_of(visitor.name)
        last = self._account(data).balance
        used = Fraction(0) if own is None else own.own.epsilon
        limit = None if own is None or own.allowance is None else own.allowance.epsilon
        left = Fraction(0) if last.closed else last.remaining
        return Left(left if limit is None else min(left, limit - used), used, limit, last)

    def ask(self, visitor: Visitor, data: ListedData, question: DeskQuestion, key: str) -> Receipt:
        """Ask, once for each key: what is sent again is not charged again."""
        if not self.may_ask(visitor, data):
            raise Refused(403, "You are not listed for questions about this data set.")
        topic = self.topic(data, question)
        account = self._account(data).of(visitor.name, key=own_key(visitor, key))
        try:
            with self.shelf.slot(data, topic).using() as answers:
                release = answer(question, topic, answers, account)
        except AlreadyCharged as before:
            return Receipt(before.answered.entry, before.answered.state)
        entry = release.made.ledger.entry
        return Receipt(entry, self._state(data, entry), release.made.again)

    def topic(self, data: ListedData, question: DeskQuestion) -> Topic:
        """The topic that a question is about, if it can be asked so. All of this is public."""
        topic = data.topics.get(question.topic)
        if topic is None:
            raise Refused(422, "topic must be one that the data set lists")
        if topic.is_of_units != (question.kind == "count"):
            raise Refused(422, "kind must be 'count' for how many units there are, and only there")
        if topic.has_unknown_items != bool(question.delta):
            raise Refused(422, "delta must be more than 0 where items are not stated, else 0")
        items = self.shelf.slot(data, topic).facts.items
        if items is not None and question.k > items and not topic.is_of_units:
            raise Refused(422, f"k must be at most {items}: there are no more items")
        return topic

    def receipt(self, visitor: Visitor, data: ListedData, key: str) -> Receipt:
        """What became of the question that this person sent with a key."""
        found = self._account(data).answered(own_key(visitor, key))
        if found is None:
            raise Refused(404, "Nothing was charged for a question with this key.")
        return Receipt(found.entry, found.state)

    def document(self, data: ListedData, number: int) -> str:
        """An archived release, by the number of its reservation."""
        try:
            return self._account(data).document(number)
        except ValueError:
            raise Refused(*NOT_THERE) from None

    def release(self, data: ListedData, number: int) -> Release:
        """The same, read."""
        return read_archived(self.document(data, number))

    def archive(self, data: ListedData, *, everything: bool = False) -> list[Archived]:
        """What was charged, the newest first: of the last few hundred entries, or of all."""
        book = self.ledger.entries(data.budget, last=None if everything else _RECENT)
        ended = {entry.about: entry for entry in book if entry.about is not None}
        return [
            Archived(entry, ended.get(entry.number))
            for entry in reversed(book)
            if entry.kind == RESERVE
        ]

    def _account(self, data: ListedData) -> LedgerAccount:
        return LedgerAccount(self.ledger, data.budget)

    def _state(self, data: ListedData, entry: int) -> str:
        """Whether a release is in the archive: if the ledger was lost meanwhile, it is not."""
        try:
            self._account(data).document(entry)
        except ValueError:
            return "under way"
        return "settled"


def own_key(visitor: Visitor, key: str) -> str:
    """Keys of different people never meet."""
    if not (8 <= len(key) <= 64 and key.isascii() and key.replace("-", "").isalnum()):
        raise Refused(422, "key must be 8 to 64 letters, digits and -")
    return f"desk {hash_of(visitor.name)[:16]} {key}"


def shares(left: Left) -> Mapping[str, Fraction]:
    """What a bar shows of a budget: spent, held and left, of the whole."""
    whole = left.last.total or Fraction(1)
    parts = {"spent": left.last.spent, "held": left.last.reserved, "left": left.last.remaining}
    return {name: each / whole for name, each in parts.items()}
