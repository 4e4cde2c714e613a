"""Names of data sets: whatever a person could take for a name in use opens no second budget."""

from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from threading import Barrier

import pytest

from dpgap.budget.cost import Cost, Limit
from dpgap.budget.entries import Author, opening
from dpgap.budget.ledger import Ledger, LedgerError

LOOK_ALIKES = [
    "sales ",
    " sales",
    "Sales",
    "SALES",
    "ｓａｌｅｓ",
    "sa\ufe0fles",
    "sa\u034fles",
    "sales\u3164",
    "ſales",
]


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_a_name_that_looks_like_one_in_use_opens_no_budget(name: str, url: str) -> None:
    ledger = Ledger(url)
    ledger.create("clinic", 1)
    ledger.create("sales", 1)
    with pytest.raises(ValueError, match="looks like 'sales', which has a budget already"):
        ledger.create(name, 1)
    assert ledger.datasets() == ["clinic", "sales"]


def test_spaces_within_a_name_are_as_good_as_one(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales of  May", 1)
    with pytest.raises(ValueError, match="looks like 'sales of  May'"):
        ledger.create("Sales of May", 1)
    ledger.create("salesofMay", 1)
    assert len(ledger.datasets()) == 2


@pytest.mark.parametrize(
    "name", ["s\u0430les", "\u0421OPY", "c\u03bfpy", "\u0421\u041e\u0420\u0423"]
)
def test_letters_of_other_scripts_that_look_latin_are_taken_for_latin(url: str, name: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    ledger.create("copy", 1)
    with pytest.raises(ValueError, match=r"looks like '(sales|copy)', which has a budget already"):
        ledger.create(name, 1)
    ledger.create("\u043f\u0440\u043e\u0434\u0430\u0436\u0438", 1)


def test_look_alikes_that_exist_already_go_on(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("sales", 1)
    with ledger._store.creating() as rows:
        for name in ("sales ", "ｓａｌｅｓ"):
            rows.append(opening(name, Limit("epsilon", Fraction(2)), Author("ann@lab", "2025")))
    for name in ("sales ", "ｓａｌｅｓ"):
        ledger.account(name).reserve(Cost.pure(Fraction(1, 2)), "a release").settle(
            Cost.pure(Fraction(1, 2))
        )
        assert ledger.account(name).remaining == Fraction(3, 2)
    assert ledger.account("sales").remaining == 1
    assert ledger.verify() == []


def test_entries_are_found_by_any_spelling_of_the_name(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("caf\u00e9", 1)
    assert len(ledger.entries("cafe\u0301")) == 1


def test_a_name_that_looks_like_that_of_a_data_set_is_corrected(url: str) -> None:
    ledger = Ledger(url)
    ledger.create("Verkauf", 1)
    for ask in (ledger.account, ledger.steward):
        with pytest.raises(LedgerError, match=r"no data set 'verkauf ': did you mean 'Verkauf'\?$"):
            ask("verkauf ")
    with pytest.raises(LedgerError, match="no data set 'clinic': make it with"):
        ledger.account("clinic")


def test_of_many_look_alikes_made_at_once_one_wins(url: str) -> None:
    """All of them before the ledger has a table: its making is part of the race."""
    names = ["sales", *LOOK_ALIKES]
    start = Barrier(len(names))

    def create(name: str) -> str:
        ledger = Ledger(url)
        start.wait()
        try:
            ledger.create(name, 1)
        except (ValueError, LedgerError) as error:
            return str(error)
        return "made"

    with ThreadPoolExecutor(len(names)) as pool:
        said = list(pool.map(create, names))
    (winner,) = Ledger(url).datasets()
    assert said.pop(names.index(winner)) == "made"
    assert all("has a budget already" in each for each in said)
