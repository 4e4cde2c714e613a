"""Packages of dpgap, and environments that have nothing but one of them and what it asks for.

An environment is empty but for the wheel. Of what is installed here, each command sees only what
the wheel's own metadata ask for, with one extra or none: links in a folder on its path.
"""

import os
import re
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
COMMANDS = "Scripts" if os.name == "nt" else "bin"


def build(folder: Path) -> tuple[Path, Path]:
    """The source distribution, and the wheel that is built from it and nothing else."""
    _build(ROOT, "sdist", folder)
    (sdist,) = folder.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    _build(source, "wheel", folder)
    (wheel,) = folder.glob("*.whl")
    return sdist, wheel


def _build(source: Path, kind: str, folder: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(folder)]
    subprocess.run(command, cwd=source, check=True, capture_output=True)


def required(of: Distribution, extra: str) -> set[str]:
    """The names of all packages that a distribution with an extra asks for, and they in turn."""
    found: set[str] = set()
    waiting = [(of, {"", extra})]
    seen = set()
    while waiting:
        owner, extras = waiting.pop()
        for line in owner.requires or ():
            need = Requirement(line)
            if need.marker and not any(need.marker.evaluate({"extra": each}) for each in extras):
                continue
            if (key := (need.name, *sorted(need.extras))) in seen:
                continue
            seen.add(key)
            found.add(need.name)
            waiting.append((distribution(need.name), {"", *need.extras}))
    return found


def link(names: Iterable[str], folder: Path) -> Path:
    """A folder with links to what these packages have installed here."""
    folder.mkdir()
    for name in names:
        owner = distribution(name)
        tops = {file.parts[0] for file in owner.files or () if ".." not in file.parts}
        for top in tops - {"__pycache__"}:
            place = folder / top
            if not place.exists():
                place.symlink_to(Path(str(owner.locate_file(top))))
    return folder


@dataclass(frozen=True)
class Environment:
    """A virtual environment with a wheel of dpgap, and without pip."""

    home: Path
    wheel: Path

    @classmethod
    def of(cls, wheel: Path, home: Path) -> "Environment":
        venv.create(home, symlinks=os.name != "nt")
        into = ["--python", str(home / COMMANDS / "python")]
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
        pip = [sys.executable, "-m", "pip", *into, "install", *options, str(wheel)]
        subprocess.run(pip, check=True, capture_output=True)
        return cls(home, wheel)

    @property
    def installed(self) -> Distribution:
        """What the installed wheel says of itself."""
        (place,) = self.home.glob("**/site-packages/dpgap-*.dist-info")
        return Distribution.at(place)

    def with_extra(self, extra: str = "") -> Path:
        """The packages that the wheel asks for with this extra, made visible in a folder."""
        folder = self.home / f"links-{extra or 'none'}"
        return folder if folder.exists() else link(required(self.installed, extra), folder)

    def run(
        self, *command: str, extra: str = "", cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command of the environment, such as `dpgap`, with the packages of one extra."""
        own = {name: value for name, value in os.environ.items() if not _is_of_python(name)}
        return subprocess.run(
            [str(self.home / COMMANDS / command[0]), *command[1:]],
            env=own | {"PYTHONPATH": str(self.with_extra(extra))},
            cwd=cwd or self.home,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )


def _is_of_python(name: str) -> bool:
    """Whether an environment variable changes what Python does, or is of these tests."""
    return re.match("PYTHON|PYTEST|COVERAGE", name) is not None
