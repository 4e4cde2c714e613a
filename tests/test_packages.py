"""What is handed to others: the source distribution, the wheel, its extras, and what they say.

Environments are made of the wheel and of links to what its metadata ask for (`environments`). At
night every extra is installed by the command that its message gives.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from zipfile import ZipFile

import pytest

import dpgap
from environments import ROOT, Environment, build
from oldest import EXTRAS

pytestmark = pytest.mark.xdist_group("packages")

OPENDP = (
    "import dpgap, opendp.prelude as dp; from dpgap.interop.opendp import measurement; "
    "dp.enable_features('contrib', 'honest-but-curious'); "
    "print(measurement(dpgap.NoisyMax(1)).map(2))"
)
PROOF = (
    "import cvc5, hypothesis, dpgap; from dpgap.proof import prove; "
    "print(prove(dpgap.Laplace(1), n=1).verdict)"
)
PAPER = (
    "from dpgap.research.figures import require_matplotlib; require_matplotlib(); "
    "import matplotlib.figure as drawing; print(drawing.Figure())"
)
SPARK = (
    "import pandas, pyarrow, pyspark.sql; "
    "import dpgap.data.engines.spark as engine; print(engine.__name__)"
)
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"
TABLE = ["--unit", "unit", "--item", "item", "--domain", "fig,pea", "-k", "1", "--epsilon", "1"]

ASK_OPENDP = "import dpgap.interop.opendp as o; o.measurement(None)"
MISSING = [
    ("desk", ["dpgap", "desk", "file.toml"], "the desk needs FastAPI and Uvicorn"),
    ("opendp", ["python", "-c", ASK_OPENDP], "this needs OpenDP"),
    ("paper", ["dpgap", "reproduce"], "figures need matplotlib"),
    (
        "postgres",
        ["dpgap", "ledger", "show", "--ledger", NOWHERE],
        "a PostgreSQL ledger needs psycopg",
    ),
    (
        "postgres",
        ["dpgap", "top-k", f"{NOWHERE}?table=sales", *TABLE],
        "tables in databases need Ibis",
    ),
    ("proof", ["dpgap", "prove", "Laplace"], "proofs need z3"),
    ("proof", ["dpgap", "audit", "Laplace"], "audits need SciPy"),
]
"""What is missing without an extra, and how a user comes to know."""

WORKING = {
    "desk": (["dpgap", "desk", "--token"], "for the person: "),
    "opendp": (["python", "-c", OPENDP], "2.0"),
    "paper": (
        ["python", "-c", PAPER],
        "Figure(",
    ),
    "postgres": (["dpgap", "top-k", f"{NOWHERE}?table=sales", *TABLE], "could not be reached"),
    "proof": (["python", "-c", PROOF], "PROVED"),
    "spark": (
        ["python", "-c", SPARK],
        "dpgap.data.engines.spark",
    ),
}
"""What an extra alone is good for."""


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="session")
def environment(
    packages: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Environment:
    return Environment.of(packages[1], tmp_path_factory.mktemp("environment") / "home")


def _held(folder: Path) -> set[str]:
    """The files that belong to the package, whatever Python left beside them."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(ROOT / "src").as_posix() for path in files if path.suffix != ".pyc"}


def test_the_wheel_has_every_file_of_the_package_and_no_other(
    packages: tuple[Path, Path],
) -> None:
    with ZipFile(packages[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert names == _held(ROOT / "src" / "dpgap")
    assert {
        "dpgap/py.typed",
        "dpgap/releases/page.css",
        "dpgap/releases/templates/page.html",
        "dpgap/desk/templates/base.html",
        "dpgap/desk/static/desk.css",
    } <= names


def test_nothing_foreign_is_in_the_source_distribution(packages: tuple[Path, Path]) -> None:
    with tarfile.open(packages[0]) as sdist:
        names = [member.name.partition("/")[2] for member in sdist.getmembers() if member.isfile()]
    known = set(
        ".py .md .toml .json .svg .png .css .js .html .jinja .sql .mplstyle .txt .typed".split()
    )
    plain = {"LICENSE", "Makefile", "PKG-INFO", "CITATION.cff", ".gitignore", "py.typed"}
    strange = {name for name in names if Path(name).suffix not in known}
    assert {Path(name).name for name in strange} <= plain
    assert not [name for name in names if re.search(r"cache|\.venv|\.pyc|egg-info", name)]
    folders = {name.partition("/")[0] for name in names if "/" in name}
    assert folders == {"benchmarks", "docs", "examples", "src", "tests"}


def test_the_metadata_say_what_the_project_does(environment: Environment) -> None:
    said = environment.installed.metadata
    assert (said["Name"], said["Version"]) == ("dpgap", dpgap.__version__)
    assert (said["Requires-Python"], said["License-Expression"]) == (">=3.11", "Apache-2.0")
    assert set(said.get_all("Provides-Extra") or ()) == {*EXTRAS, "docs", "test"}
    assert "Typing :: Typed" in (said.get_all("Classifier") or ())
    assert said["Description-Content-Type"] == "text/markdown"


def test_a_wheel_alone_answers_a_question(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "sales.csv").write_text(
        "customer,product\n"
        + "".join(f"{who},{'fig' if who % 3 else 'pea'}\n" for who in range(900))
    )
    (tmp_path / "products.txt").write_text("fig\npea\noat\n")
    ask = ["--unit", "customer", "--item", "product", "--domain", "products.txt"]
    command = ["dpgap", "top-k", "sales.csv", *ask, "-k", "2", "--epsilon", "20", "--json"]
    done = environment.run(*command, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert dpgap.read_release(done.stdout).labels == ("fig", "pea")
    version = environment.run("dpgap", "--version")
    assert version.stdout == f"dpgap {dpgap.__version__}\n"
    assert "top-k" in environment.run("dpgap", "--help").stdout
    called = "import dpgap; print(dpgap.measured_top_k([9000, 20, 5], 1, 50).indices.tolist())"
    assert environment.run("python", "-c", called).stdout == "[0]\n"


WITHOUT_SCIPY = """
import numpy, dpgap
answers = numpy.arange(40) ** 2
for method in ("ranked", "joint"):
    pipeline = dpgap.MeasuredTopK(3, 50, monotonic=True, method=method)
    runs = dpgap.simulate(pipeline, answers, runs=3_000, seed=1)
    print(round(float(numpy.mean(runs.estimates[:, 0]))))
for _ in range(300):
    release = pipeline.release(answers)
print(dpgap.Cube("1e-6").release([0]).interval(0.95).shape)
"""


def test_simulations_and_intervals_do_without_scipy(environment: Environment) -> None:
    done = environment.run("python", "-c", WITHOUT_SCIPY)
    assert (done.stderr, done.stdout) == ("", "1521\n1521\n(1, 2)\n")
    assert environment.run("python", "-c", "import scipy").returncode == 1


EVERY_PUBLIC_CALL = {
    "AdaptiveSparseVector": "dpgap.AdaptiveSparseVector(50, 2, 50).release(answers).branch_of",
    "AlreadyCharged": "issubclass(dpgap.AlreadyCharged, Exception)",
    "BudgetExhausted": "issubclass(dpgap.BudgetExhausted, Exception)",
    "CountHull": "dpgap.CountHull(1, monotonic=True).release(answers).interval(0.95).shape",
    "Cube": "dpgap.Cube(1).release(answers).variance",
    "DomainWarning": "issubclass(dpgap.DomainWarning, Warning)",
    "HybridTopK": "dpgap.HybridTopK(50, 2, 50).release(answers).indices",
    "JointTopK": "dpgap.JointTopK(2, 50).release(answers).p_value",
    "Laplace": "dpgap.Laplace(1).release(answers).values",
    "Ledger": "dpgap.Ledger('sqlite:///budget.db').create('sales', 100).remaining",
    "LedgerError": "issubclass(dpgap.LedgerError, Exception)",
    "MeasuredAbove": "dpgap.MeasuredAbove(50, 2, 50).release(answers).interval().shape",
    "MeasuredTopK": "dpgap.MeasuredTopK(2, 50).release(answers).groups()",
    "NoisyHistogram": "dpgap.NoisyHistogram(1).release(answers)",
    "PromiseWarning": "issubclass(dpgap.PromiseWarning, Warning)",
    "NoisyMax": "dpgap.NoisyMax(50, noise='exponential').release(answers).p_values",
    "NoisyTopK": "dpgap.NoisyTopK(2, 50).release(answers).gap_between(1, 2)",
    "Plan": "isinstance(dpgap.plan(k=2, epsilon=1), dpgap.Plan)",
    "Session": "dpgap.Session('sales.csv', unit='who', epsilon=9).count(epsilon=1).interval()",
    "SparseVector": "dpgap.SparseVector(50, 1, 50).start().ask(1_000).above",
    "UnsettledWarning": "issubclass(dpgap.UnsettledWarning, Warning)",
    "above": "dpgap.above(**table, threshold=50, k=1, epsilon=20).labels",
    "count": "dpgap.count('sales.csv', unit='who', epsilon=1).estimate",
    "counts": "dpgap.counts(**table)",
    "estimates": "dpgap.estimates.blue([9.0, 5.0], [3.0], 1.0)",
    "measured_above": "dpgap.measured_above(answers, 50, 2, 50, adaptive=True).to_json()",
    "measured_top_k": "dpgap.measured_top_k(answers, 2, 50)._repr_html_()",
    "plan": "str(dpgap.plan(k=2, epsilon=1))",
    "read_release": "dpgap.read_release(dpgap.Cube(1).release(answers).to_json()).values",
    "simulate": "dpgap.simulate(dpgap.NoisyTopK(2, 50), answers, runs=10, seed=1)",
    "top_k": "dpgap.top_k(**table, k=1, epsilon=20, by='shop', groups=shops, max_groups=1)",
    "total": "dpgap.total('sales.csv', unit='who', sum='paid', at_most=9, epsilon=1).to_html()",
}
"""An expression for every public name, which uses it."""

BARE = """
import sys, dpgap
sys.modules.update(dict.fromkeys(("z3", "cvc5", "fastapi", "matplotlib", "scipy", "pandas")))
answers, shops = [900, 20, 400, 5], ["a", "b"]
table = {{"table": "sales.csv", "unit": "who", "item": "what", "domain": ["fig", "pea"]}}
for name, call in {!r}.items():
    eval(call)
    print(name)
"""


def test_every_public_name_works_in_a_bare_wheel(environment: Environment, tmp_path: Path) -> None:
    assert set(EVERY_PUBLIC_CALL) == set(dpgap.__all__)
    rows = "".join(f"{who},{'fig' if who % 3 else 'pea'},{'ab'[who % 2]},3\n" for who in range(99))
    (tmp_path / "sales.csv").write_text("who,what,shop,paid\n" + rows)
    done = environment.run(
        "python", "-W", "error", "-c", BARE.format(EVERY_PUBLIC_CALL), cwd=tmp_path
    )
    assert done.stderr == ""
    assert done.stdout.split() == list(EVERY_PUBLIC_CALL)


LOADED = """
import sys
before = set(sys.modules)
try:
    {}
except SystemExit:
    pass
print(sorted({{name.partition(".")[0] for name in set(sys.modules) - before}} & {{
    "numpy", "scipy", "duckdb", "narwhals", "sqlalchemy", "cryptography", "pandas", "polars",
    "pyarrow", "pydantic", "matplotlib", "jinja2", "asyncio", "multiprocessing", "ssl",
    "rich"}}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import dpgap", []),
        ("import dpgap; dir(dpgap); dpgap.__version__", []),
        ("from dpgap.cli.main import app; app(['--version'])", []),
        ("from dpgap.cli.main import app; app(['--help'])", ["rich"]),
    ],
)
def test_what_is_asked_at_every_start_loads_nothing_heavy(
    environment: Environment, statement: str, heavy: list[str]
) -> None:
    """It stands for the time that a start takes, which no test can measure on a busy machine."""
    done = environment.run("python", "-c", LOADED.format(statement))
    assert done.stderr == f"{heavy}\n"


def _command_told(said: str) -> str:
    """The command at the end of a message."""
    return said.strip().splitlines()[-1].rpartition(": pip ")[2]


@pytest.mark.parametrize(("extra", "command", "words"), MISSING)
def test_what_is_missing_is_said_with_a_command_that_brings_it(
    environment: Environment, extra: str, command: list[str], words: str
) -> None:
    done = environment.run(*command)
    assert done.returncode == 1
    assert f"{words}: pip install " in done.stderr
    told = shlex.split(_command_told(done.stderr))
    assert told == ["install", f"dpgap[{extra}] @ {environment.wheel.as_uri()}"]


@pytest.mark.parametrize(
    ("note", "command"),
    [
        (
            {"url": "file:///home/ann/gap%20s", "dir_info": {"editable": True}},
            "pip install -e '/home/ann/gap s[desk]'",
        ),
        (
            {"url": "file:///home/ann/dpgap", "dir_info": {}},
            "pip install 'dpgap[desk] @ file:///home/ann/dpgap'",
        ),
        (None, "in a copy of dpgap's source, pip install '.[desk]'"),
    ],
)
def test_an_extra_comes_from_where_dpgap_came_from(
    monkeypatch: pytest.MonkeyPatch, note: dict[str, object] | None, command: str
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if note is None else json.dumps(note)

    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed())
    assert dpgap.how_to_get("desk") == command


def test_an_extra_of_what_was_never_installed_comes_from_its_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.distribution", missing)
    assert dpgap.how_to_get("desk") == "in a copy of dpgap's source, pip install '.[desk]'"


@pytest.mark.parametrize("extra", EXTRAS)
def test_each_extra_alone_brings_what_it_is_for(environment: Environment, extra: str) -> None:
    command, words = WORKING[extra]
    done = environment.run(*command, extra=extra)
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.parametrize("extra", ["", *EXTRAS])
def test_the_command_that_is_told_installs_the_extra(
    packages: tuple[Path, Path], tmp_path: Path, extra: str
) -> None:
    """With all that an index has to offer today."""
    home = tmp_path / "home"
    subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
    url = packages[1].as_uri()
    for what in (f"dpgap @ {url}", *([f"dpgap[{extra}] @ {url}"] if extra else ())):
        pip = [home / "bin" / "python", "-m", "pip", "install", "--quiet", what]
        subprocess.run(pip, check=True, capture_output=True)
    command, words = WORKING.get(extra, (["dpgap", "--version"], dpgap.__version__))
    done = subprocess.run(
        [home / "bin" / command[0], *command[1:]],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_gives_every_python_a_folder_of_its_own():
    def commands(*words: str) -> str:
        clean = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        asked = ["make", "--dry-run", "--always-make", "-C", str(ROOT), "test", *words]
        return subprocess.run(asked, env=clean, capture_output=True, text=True, check=True).stdout

    assert "python3 -m venv .venv\n" in commands()
    folder = f".venv-{sys.version_info.major}.{sys.version_info.minor}"
    other = commands(f"PYTHON={sys.executable}")
    assert f"{sys.executable} -m venv {folder}\n" in other
    assert f"{folder}/bin/pytest" in other
    assert ".venv/" not in other.replace(sys.executable, "")
