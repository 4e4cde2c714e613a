"""The oldest versions that `pyproject.toml` allows, as constraints for pip: `make oldest`.

Every lower bound that users meet becomes the version itself. What only tests need is the newest.

    python tests/oldest.py > oldest.txt
"""

import re
import tomllib
from pathlib import Path

EXTRAS = ("desk", "opendp", "paper", "postgres", "proof", "spark")
"""Those for users."""


def oldest(project: dict[str, object]) -> list[str]:
    """A constraint `name==version` for every lower bound that users meet.

    >>> oldest({"dependencies": ["numpy>=2.0", "typer>=0.12,<1"], "optional-dependencies": {}})
    ['numpy==2.0', 'typer==0.12']
    """
    extras = project["optional-dependencies"]
    assert isinstance(extras, dict)
    stated = [project["dependencies"], *(extras[name] for name in EXTRAS if name in extras)]
    bounds = (
        re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", each) for group in stated for each in group
    )
    return sorted({f"{bound[1]}=={bound[2]}" for bound in bounds if bound})


if __name__ == "__main__":
    read = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))
    print("\n".join(oldest(read["project"])))
