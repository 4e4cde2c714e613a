r"""Who may do what in PostgreSQL: statements for a role that spends and can do nothing else.

>>> "GRANT dpgap_spender TO \"ann\"" in spender_statements(["ann"])
True
"""

from collections.abc import Iterable
from importlib.resources import files

from dpgap.budget.amounts import UNIT
from dpgap.budget.store import CHARGING


def spender_statements(people: Iterable[str] = (), home: str = "public") -> str:
    """SQL that makes the role `dpgap_spender`, and gives it to people who can log in already.

    `home` is the schema of the ledger's tables. A person's name in the ledger is that of the role.
    """
    text = files("dpgap.budget").joinpath("spender.sql").read_text(encoding="utf-8")
    made = text.format(unit=UNIT.denominator, lock=CHARGING, home=_quoted(home))
    return made + "".join(
        f"GRANT dpgap_spender TO {_quoted(name)};\n"
        f"ALTER ROLE {_quoted(name)} SET search_path = dpgap_spender;\n"
        for name in people
    )


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
