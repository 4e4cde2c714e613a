"""The tool that shows that code only moved finds whatever else happened to it."""

import pytest

from moved import differences

BEFORE = {
    "exact/law.py": '"""A law."""\n\nimport math\n\nHALF = math.log(2)\n',
    "exact/draws.py": (
        'from dpgap.exact.law import HALF\n\n\ndef draw():\n    """Draw."""\n    return HALF\n'
    ),
}
AFTER = {
    "exact/laws.py": (
        '"""Laws and draws."""\n\nimport math\n\nLN_2 = math.log(2)\n\n\n'
        "def draw():\n    return LN_2\n"
    ),
}
TABLE = {
    "files": {"exact/law.py": "exact/laws.py", "exact/draws.py": "exact/laws.py"},
    "names": {"exact/law.py": {"HALF": "LN_2"}},
}


def test_code_that_moved_under_new_names_is_the_same() -> None:
    assert differences(BEFORE, AFTER, TABLE) == []


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("math.log(2)", "math.log(3)", 2),
        ("return LN_2", "return -LN_2", 2),
        ("\n\ndef draw():\n    return LN_2\n", "", 1),
        ("LN_2 = ", "HALF = LN_2 = ", 2),
        ("def draw():", "def draw(scale):", 2),
    ],
)
def test_code_that_changed_on_the_way_is_found(old: str, new: str, found: int) -> None:
    changed = {file: text.replace(old, new) for file, text in AFTER.items()}
    assert changed != AFTER
    assert len(differences(BEFORE, changed, TABLE)) == found


def test_a_part_may_go_to_another_file_and_only_there() -> None:
    parted = {
        "exact/laws.py": "def draw():\n    return LN_2\n",
        "exact/numbers.py": "LN_2 = math.log(2)\n",
    }
    assert len(differences(BEFORE, parted, TABLE)) == 2
    parts = {"parts": {"exact/law.py": {"HALF": "exact/numbers.py"}}}
    assert differences(BEFORE, parted, TABLE | parts) == []


@pytest.mark.parametrize(
    "entry",
    [
        {"files": {"exact/gone.py": "exact/laws.py"}},
        {"names": {"exact/law.py": {"THIRD": "LN_3"}}},
        {"parts": {"exact/draws.py": {"drawn": "exact/laws.py"}}},
    ],
)
def test_an_entry_of_the_table_that_nothing_uses_is_refused(
    entry: dict[str, dict[str, object]],
) -> None:
    table = {name: {**TABLE.get(name, {}), **entry.get(name, {})} for name in ("files", "parts")}
    names = TABLE["names"] | entry.get("names", {})
    (refused,) = [
        each
        for each in differences(BEFORE, AFTER, {**table, "names": names})
        if "nothing uses" in each
    ]
    assert refused
