"""The steward's file is checked as a whole, and each fault names its line."""

import re
import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from desks import KEY, token_of, write_file

from dpgap.budget.ledger import Ledger, LedgerError
from dpgap.desk.app import check_desk, open_desk, place_of
from dpgap.desk.auth import hash_of_token
from dpgap.desk.config import FileFaults, key_lines, read_stewards_file

GOOD = """[desk]
ledger = "sqlite:///budget.db"

[people.ann]
role = "analyst"

[datasets.sales]
table = "sales.csv"
unit = "who"
epsilon = 0.3
people = { ann = "1/3" }

[[datasets.sales.topics]]
name = "what"
item = "what"
domain = ["fig", "pea"]
"""


def _faults(tmp_path: Path, text: str) -> list[str]:
    path = tmp_path / "desk.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FileFaults) as caught:
        read_stewards_file(path)
    return [line.removeprefix(f"{path}, ") for line in caught.value.lines]


def test_a_good_file_says_exactly_what_it_says(tmp_path: Path) -> None:
    (tmp_path / "desk.toml").write_text(GOOD)
    file = read_stewards_file(tmp_path / "desk.toml")
    sales = file.datasets["sales"]
    assert sales.epsilon == Fraction(3, 10)
    assert sales.people == {"ann": (Fraction(1, 3), None)}
    assert sales.table == str(tmp_path / "sales.csv")
    assert file.ledger == f"sqlite:///{tmp_path}/budget.db"
    assert not file.has_tokens


FAULTS = {
    'ledger = "sqlite:///budget.db"': ("", "line 1: desk.ledger is missing"),
    'unit = "who"': ("unit = 3", "line 9: datasets.sales.unit must be 1 to 200 printable"),
    "epsilon = 0.3": ("epsilon = -1", "line 10: datasets.sales.epsilon must be"),
    'role = "analyst"': (
        'role = "king"',
        "line 5: people.ann.role must be one of analyst, steward",
    ),
    'people = { ann = "1/3" }': (
        "people = { bob = 1 }",
        "line 11: datasets.sales.people names 'bob'",
    ),
    'name = "what"': ('name = "../what"', "line 14: datasets.sales.topics.1.name must be a short"),
    'item = "what"\n': ("", "line 13: datasets.sales.topics.1 must name its item"),
    'domain = ["fig", "pea"]': (
        'domain = ["fig"]\nsum = "x"',
        "line 13: datasets.sales.topics.1 cannot be counted: sum needs at_most",
    ),
    'domain = ["fig", "pea"]\n': (
        'domain = ["fig", "pea"]\nby = "city"\ngroups = ["Bern"]\n',
        (
            "line 13: datasets.sales.topics.1 cannot be counted: by needs max_groups: the most "
            "groups that a unit counts in. With 1, each unit counts in one group"
        ),
    ),
    "[datasets.sales]": (
        "[datasets.sales]\ncolour = 1",
        "line 8: datasets.sales.colour is not known",
    ),
    "[people.ann]": ('[people."a\\nb"]', "must be 1 to 200 printable characters"),
    'table = "sales.csv"': ("table = = 1", "line 8: this line is not TOML"),
}


@pytest.mark.parametrize("what", FAULTS)
def test_a_fault_names_its_line(tmp_path: Path, what: str) -> None:
    wrong, words = FAULTS[what]
    assert what in GOOD
    found = _faults(tmp_path, GOOD.replace(what, wrong))
    assert any(words in line for line in found), found


VALUES = ("-5", "true", "[]", "[1]", "{a = 1}", "1979-05-27", '""')


@pytest.mark.parametrize("key", ["tokens", "role", "least_epsilon", "people", "topics", "unit"])
def test_a_value_of_another_kind_is_a_fault_of_its_key(tmp_path: Path, key: str) -> None:
    place = "[datasets.sales]" if key in ("people", "topics", "unit") else "[people.ann]"
    kept = GOOD[: GOOD.index("[[")] if key == "topics" else GOOD
    text = re.sub(rf"^{key} = .*\n", "", kept, flags=re.MULTILINE)
    for value in VALUES:
        found = _faults(tmp_path, text.replace(place, f"{place}\n{key} = {value}"))
        assert any(f".{key} " in line for line in found), found


@pytest.mark.parametrize("tick", ['"1e-400"', "0", "-1", "10.1", "true", '"1/200"'])
def test_a_tick_is_one_that_can_be_waited_for(tmp_path: Path, tick: str) -> None:
    (found,) = _faults(tmp_path, GOOD.replace("[desk]", f"[desk]\ntick = {tick}"))
    assert found.startswith("line 2: desk.tick must be a number")


def test_the_files_of_the_documentation_and_of_the_demo_are_sound(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    (shown,) = re.findall(
        r"```toml\n(.*?)```", (root / "docs" / "desk.md").read_text("utf-8"), re.S
    )
    hashes = (hash_of_token(str(number)) for number in range(9))
    text = re.sub("sha256:…", lambda _: next(hashes), shown.replace("…64 hexadecimal digits…", KEY))
    (tmp_path / "desk.toml").write_text(text, encoding="utf-8")
    sales = read_stewards_file(tmp_path / "desk.toml").datasets["sales"]
    assert sales.people == {
        "ann": (Fraction(2), None),
        "bob": (Fraction(1), Fraction(1, 10**7)),
        "sue": None,
    }
    demo = read_stewards_file(root / "examples" / "desk.toml")
    assert list(demo.datasets["sales"].topics) == ["products", "any", "customers"]


def test_all_faults_are_found_at_once_in_the_order_of_lines(tmp_path: Path) -> None:
    text = GOOD
    for what in ('unit = "who"', "epsilon = 0.3", 'role = "analyst"'):
        text = text.replace(what, FAULTS[what][0])
    lines = [int(line.split(":")[0].removeprefix("line ")) for line in _faults(tmp_path, text)]
    assert lines == [5, 9, 10]


def test_a_column_that_is_not_there_is_a_fault_of_its_topic(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    path.write_text(path.read_text().replace('item = "what"', 'item = "nothing"'))
    line = key_lines(path.read_text())["datasets", "sales", "topics", "1"]
    with pytest.raises(FileFaults, match=f"line {line}: sales.what: "):
        open_desk(read_stewards_file(path))


def test_a_budget_that_nobody_opened_is_a_fault(tmp_path: Path) -> None:
    path = write_file(tmp_path, data="")
    with pytest.raises(FileFaults, match="has no budget in the ledger"):
        open_desk(read_stewards_file(path))


def test_the_ledger_holds_against_the_file(tmp_path: Path) -> None:
    path = write_file(tmp_path)
    ledger = open_desk(read_stewards_file(path)).ledger
    ledger.steward("sales").raise_to(20, reason="more")
    ledger.steward("sales").allow("ann", 7, reason="more")
    again = open_desk(read_stewards_file(path)).ledger
    assert again.account("sales").total == 20
    mine = again.steward("sales").balance_of("ann").mine
    assert mine is not None
    assert mine.allowance is not None
    assert mine.allowance.epsilon == 7


SECOND = GOOD[GOOD.index("[datasets.sales]") :].replace("datasets.sales", "datasets.survey")


def test_a_second_budget_for_a_table_must_be_meant(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("who,what\nann,fig\n")
    both = GOOD + SECOND
    line = both.splitlines().index("[datasets.survey]") + 1
    (tmp_path / "desk.toml").write_text(both, encoding="utf-8")
    words = "data set 'sales' has a budget for the same table and unit, and what two budgets"
    mend = "pay for adds up: use that one, or state beside='sales' if you want two"
    with pytest.raises(FileFaults) as caught:
        check_desk(read_stewards_file(tmp_path / "desk.toml"))
    assert caught.value.lines[0].endswith(f"line {line}: datasets.survey: {words} {mend}")
    assert len(caught.value.lines) == 1
    for good in (
        both.replace("[datasets.survey]", '[datasets.survey]\nbeside = "sales"'),
        both.replace("[datasets.sales]", '[datasets.sales]\nbeside = "survey"'),
    ):
        (tmp_path / "desk.toml").write_text(good, encoding="utf-8")
        (tmp_path / "budget.db").unlink(missing_ok=True)
        shutil.rmtree(tmp_path / "desk.spool", ignore_errors=True)  # it remembers that ledger
        ledger = open_desk(read_stewards_file(tmp_path / "desk.toml")).ledger
        assert ledger.beside("sales") == ["survey"]
    other = both.replace('unit = "who"', 'unit = "row"', 1)
    (tmp_path / "desk.toml").write_text(other, encoding="utf-8")
    assert read_stewards_file(tmp_path / "desk.toml").datasets["survey"].beside is None


def test_a_budget_that_the_ledger_has_for_the_table_already_is_seen(tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text("who,what\nann,fig\n")
    (tmp_path / "desk.toml").write_text(GOOD, encoding="utf-8")
    file = read_stewards_file(tmp_path / "desk.toml")
    Ledger(file.ledger).create("old", 1, table=str(tmp_path / "sales.csv"), unit="who")
    with pytest.raises(ValueError, match="'old' has a budget for the same table and unit"):
        open_desk(file)
    (tmp_path / "desk.toml").write_text(GOOD.replace("epsilon", 'beside = "old"\nepsilon'))
    assert open_desk(read_stewards_file(tmp_path / "desk.toml")).ledger.beside("old") == ["sales"]


def test_a_desk_that_others_can_reach_needs_names_tokens_and_a_key(tmp_path: Path) -> None:
    opened = open_desk(read_stewards_file(write_file(tmp_path)))
    with pytest.raises(ValueError, match="file must state hosts"):
        place_of(opened, "0.0.0.0", 80)
    hosts = GOOD.replace("[desk]", '[desk]\nhosts = ["desk.test"]')
    token = f'tokens = ["{hash_of_token("one")}"]'
    key = f'key = "{KEY}"'
    for text in (
        hosts,
        hosts.replace("[people.ann]", f"[people.ann]\n{token}"),
        hosts.replace("[desk]", f"[desk]\n{key}"),
    ):
        (found,) = _faults(tmp_path, text)
        assert "desk.hosts needs a key (`dpgap desk --key`) and people with tokens" in found


def test_data_sets_with_one_budget_must_list_the_same_people(tmp_path: Path) -> None:
    more = (
        '[datasets.other]\ntable = "sales.csv"\nunit = "who"\nbudget = "sales"\n'
        'people = {}\n[[datasets.other.topics]]\nname = "n"\n'
    )
    path = write_file(tmp_path, more=more.format("{ eve = 1 }"))
    with pytest.raises(FileFaults, match="people must list the same people"):
        read_stewards_file(path)
    path = write_file(tmp_path, more=more.format('{ bob = "all", ann = 5 }'))
    assert set(read_stewards_file(path).datasets) == {"sales", "other"}


def test_a_token_of_two_people_is_a_fault_that_names_both_lines(tmp_path: Path) -> None:
    token = f'tokens = ["{hash_of_token("shared")}"]'
    people = f"[people.eve]\n{token}\n\n[people.ann]\n{token}"
    (fault,) = _faults(tmp_path, GOOD.replace("[people.ann]", people))
    assert fault.startswith("line 8: people.ann.tokens has a token of people.eve.tokens")
    assert "(line 5)" in fault
    assert hash_of_token("shared") not in fault


WEAK = {"zeros": "0" * 64, "repeated": "0123456789abcdef" * 4, "counted": bytes(range(32)).hex()}


@pytest.mark.parametrize("weak", WEAK)
def test_a_key_that_can_be_guessed_is_a_fault(tmp_path: Path, weak: str) -> None:
    (found,) = _faults(tmp_path, GOOD.replace("[desk]", f'[desk]\nkey = "{WEAK[weak]}"'))
    assert found.startswith("line 2: desk.key must be random")
    assert WEAK[weak] not in found


TOO_MUCH = {
    "lists": ("a = " + "[" * 10_000 + "]" * 10_000, "lists or tables within each other"),
    "tables": ("a = " + "{a = " * 5_000 + "1" + "}" * 5_000, "lists or tables within each other"),
    "parts": (".".join("a" * 100_000) + " = 1", "lists or tables within each other"),
    "digits": ("a = " + "1" * 5_000, "a number with too many digits"),
    "bytes": ("a = 1\n#" + "x" * (4 << 20), "the file has more than 4 MiB"),
}


@pytest.mark.parametrize("what", TOO_MUCH)
def test_a_file_that_is_deep_or_huge_is_refused_with_a_reason(tmp_path: Path, what: str) -> None:
    text, words = TOO_MUCH[what]
    (found,) = _faults(tmp_path, text)
    assert words in found


def test_of_very_many_faults_some_are_shown(tmp_path: Path) -> None:
    found = _faults(tmp_path, GOOD + "".join(f"[x{number}]\n" for number in range(60)))
    assert len(found) == 51
    assert found[-1].endswith("and 10 more faults")


def test_names_have_one_spelling_before_anything_is_opened(tmp_path: Path) -> None:
    loose, one = "Zoe\u0308", "Zo\u00eb"
    data = f'epsilon = 10\nbudget = "{loose}"'
    path = write_file(tmp_path, people={loose: ""}, shares=f'{{ "{one}" = 5 }}', data=data)
    opened = open_desk(read_stewards_file(path))
    assert opened.ledger.datasets() == [one]
    visitor = opened.auth.with_token(token_of(loose))
    assert visitor is not None
    (data_set,) = opened.datasets(visitor)
    assert opened.balance(visitor, data_set).left.epsilon == 5
    twice = GOOD.replace("[people.ann]", f'[people.ann]\n[people."{one}"]\n[people."{loose}"]')
    assert "is listed already" in " ".join(_faults(tmp_path, twice))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ('unit = "whom"', "line 32: sales.what: "),
        ('unit = "row"\ndelta = 1', "datasets.sales: delta must be at least 0 and less than 1"),
        ('unit = "row"\nbudget = "Clinic "', "'Clinic ' looks like 'clinic'"),
    ],
)
def test_nothing_is_bound_before_everything_is_right(
    tmp_path: Path, wrong: str, words: str
) -> None:
    """Nor is anything opened that is right itself, and listed before what is wrong."""
    path = write_file(tmp_path)
    ledger = Ledger(f"sqlite:///{tmp_path}/budget.db")
    ledger.create("clinic", epsilon=1)
    first = path.read_text().replace("[datasets.sales", "[datasets.before")
    sales = (
        ("[datasets.sales]" + first.partition("[datasets.before]")[2])
        .replace("before", "sales")
        .replace('unit = "who"', wrong)
    )
    path.write_text(f"{first}\n{sales}")
    words = words.replace(
        "32", str(key_lines(path.read_text())["datasets", "sales", "topics", "1"])
    )
    for start in (open_desk, check_desk):
        with pytest.raises(FileFaults, match=re.escape(words)):
            start(read_stewards_file(path))
    assert ledger.datasets() == ["clinic"]


@pytest.mark.parametrize("other", ['unit = "city"', 'unit = "who"\nneighbours = "replace"'])
def test_a_file_that_contradicts_the_ledger_is_refused_when_the_desk_starts(
    tmp_path: Path, other: str
) -> None:
    path = write_file(tmp_path)
    assert check_desk(read_stewards_file(path)) == (["sales"], [])
    open_desk(read_stewards_file(path))
    assert check_desk(read_stewards_file(path)) == ([], [])
    path.write_text(path.read_text().replace('unit = "who"', other))
    with pytest.raises(FileFaults, match="the budget of data set 'sales' is for"):
        check_desk(read_stewards_file(path))


def test_two_data_sets_of_the_file_with_one_budget_are_for_one_unit(tmp_path: Path) -> None:
    more = (
        '[datasets.other]\ntable = "sales.csv"\nunit = "row"\nbudget = "sales"\n'
        'people = { ann = 5, bob = "all" }\n[[datasets.other.topics]]\nname = "n"\n'
    )
    path = write_file(tmp_path, more=more)
    with pytest.raises(FileFaults, match="other: the budget of data set 'sales' is"):
        open_desk(read_stewards_file(path))
    assert not (tmp_path / "budget.db").exists()


def test_a_check_says_that_the_ledger_cannot_be_reached(tmp_path: Path) -> None:
    for place in ("sqlite:///nowhere/budget.db", "postgresql://nobody@127.0.0.1:1/none"):
        path = write_file(tmp_path, place)
        with pytest.raises(LedgerError):
            check_desk(read_stewards_file(path))
