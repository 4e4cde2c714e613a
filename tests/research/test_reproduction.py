"""The reproduction: experiments against theory, figures, pages and the command."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner
from typer.testing import Result as Said

from dpgap import how_to_get
from dpgap.cli import reproduce as commands
from dpgap.cli.reproduce import reproduce_into
from dpgap.research import experiments, figures, page
from dpgap.research.claims import judge
from dpgap.research.datasets import MADE_UP, OWN, Dataset, load, load_all
from dpgap.research.experiments import Result, Task, require_items, run, tasks, thresholds_of
from dpgap.research.figures import draw
from dpgap.research.page import as_markdown
from dpgap.research.reproduction import ReproductionPlan, as_json, finished_figures, write
from dpgap.simulation import simulate

DOCS = Path(__file__).parents[2] / "docs"
MECHANISMS = ("top-k", "sparse-vector", "adaptive-sparse-vector")


@pytest.fixture(scope="module")
def kosarak() -> Dataset:
    return load("Kosarak", None)


def _point(task: Task) -> list[Result]:
    return run(task, 10_000, np.random.SeedSequence(20))


@pytest.mark.parametrize("k", [2, 10, 25])
@pytest.mark.parametrize("kind", ["monotonic", "general"])
@pytest.mark.parametrize("mechanism", ["top-k", "sparse-vector"])
def test_measured_reductions_are_those_of_theory(kosarak, mechanism: str, kind: str, k: int):
    (result,) = _point(Task((1,), kosarak, f"{mechanism} {kind}", k, "0.7"))
    assert abs(result.value - result.theory) < max(1.5, 4 * result.error)
    if (kind, k) == ("monotonic", 10):
        assert result.theory == pytest.approx({"top-k": 45, "sparse-vector": 35.8}[mechanism], 0.01)


def test_the_best_method_does_far_better(kosarak):
    for series, at_least in (("top-k best", 86), ("sparse-vector best", 86)):
        (result,) = _point(Task((1,), kosarak, series, 10, "0.7"))
        assert result.value - 4 * result.error > at_least
        assert result.error < 0.2
        assert result.runs == 10_000


def test_adaptivity_is_measured_as_the_paper_does(kosarak):
    plain = _point(Task((3, 4), kosarak, "sparse-vector monotonic", 10, "0.7"))
    adaptive = _point(Task((3, 4), kosarak, "adaptive-sparse-vector monotonic", 10, "0.7"))
    by_name = {each.series.split(": ")[1]: each for each in adaptive}
    plain_by_name = {each.series.split(": ")[1]: each for each in plain}
    assert plain_by_name["answers"].value == pytest.approx(10, abs=0.01)
    assert "budget left" not in plain_by_name
    branches = (by_name[f"answers in branch {i}"].value for i in (1, 2))
    assert sum(branches) == pytest.approx(by_name["answers"].value)
    assert by_name["F-measure"].value / plain_by_name["F-measure"].value > 1.3
    left = by_name["budget left"]
    assert 35 < left.value <= left.theory < 50


def test_stopping_after_k_answers_is_looking_at_the_first_k(kosarak):
    mechanism = experiments._MECHANISMS["adaptive-sparse-vector monotonic"](5, "0.7")
    thresholds = thresholds_of(kosarak, 5, 20_000, np.random.default_rng(2))
    whole = simulate(mechanism, kosarak.counts, runs=20_000, seed=5, thresholds=thresholds)
    stopped = simulate(
        mechanism, kosarak.counts, runs=20_000, seed=6, thresholds=thresholds, max_answers=5
    )
    left = experiments._left_after(mechanism, whole, 5)
    directly = 1 - stopped.spent / 0.7
    spread = np.hypot(left.std(), directly.std()) / np.sqrt(20_000)
    assert abs(left.mean() - directly.mean()) < 5 * spread + 1e-9


def test_thresholds_lie_at_the_stated_ranks(kosarak):
    thresholds = thresholds_of(kosarak, 3, 5_000, np.random.default_rng(1))
    descending = np.sort(kosarak.counts)[::-1]
    assert thresholds.max() == (descending[5] + descending[6]) / 2
    assert thresholds.min() == (descending[22] + descending[23]) / 2


def test_too_few_items_are_refused():
    with pytest.raises(ValueError, match="must have at least 201 items for k up to 25, not 3"):
        require_items(Dataset("tiny", np.array([1, 2, 3]), None, "here"))


@pytest.fixture
def quick(monkeypatch):
    """Two values of k and of ε only."""
    monkeypatch.setattr(experiments, "KS", (2, 25))
    monkeypatch.setattr(experiments, "EPSILONS", ("0.7",))


def test_everything_is_written_and_says_what_it_is(tmp_path, quick, kosarak):
    plan = ReproductionPlan([kosarak], runs=200, workers=1)
    seen = []
    results, claims = reproduce_into(tmp_path, plan, lambda *told: seen.append(told))
    assert seen[-1] == (len(seen), len(list(tasks(plan.figures, plan.datasets))))
    for name in page.TITLES:
        assert (tmp_path / "figures" / f"{name}.svg").read_bytes().startswith(b"<?xml")
    listed = json.loads((tmp_path / "results.json").read_text())
    assert {"figure", "dataset", "series", "x", "value", "error", "theory", "runs"} == set(
        listed[0]
    )
    assert len(listed) == len(results)
    assert {each["figure"] for each in listed} == {1, 2, 3, 4}
    shown = (tmp_path / "reproduction.html").read_text()
    summary = (tmp_path / "reproduction.md").read_text()
    for claim in claims:
        assert claim.verdict in shown
        assert claim.measured in summary
    assert shown.count("<svg") == len(page.TITLES)
    assert "stand-in" in summary
    assert "figures/figure-4.svg" in summary
    assert not list(tmp_path.rglob(".*"))


def test_the_same_seed_gives_the_same_figures_on_any_number_of_cores(quick, kosarak):
    plans = [
        ReproductionPlan([kosarak], (4,), runs=100, seed=3, workers=workers) for workers in (1, 2)
    ]
    one, two = (dict(finished_figures(plan)) for plan in plans)
    assert as_json(one[4]) == as_json(two[4])


def test_figures_are_finished_in_another_thread_as_well(quick, kosarak):
    plan = ReproductionPlan([kosarak], (4,), runs=100, seed=3, workers=1)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(lambda: dict(finished_figures(plan))).result()
    assert as_json(found[4]) == as_json(dict(finished_figures(plan))[4])


def test_claims_are_judged_by_the_numbers():
    def results(value: float) -> list[Result]:
        return [
            Result(4, "d", "adaptive-sparse-vector monotonic: budget left", k, value, 0.1, 45, 10)
            for k in (2, 25)
        ]

    verdicts = [judge(results(value))[0].verdict for value in (40, 10)]
    assert verdicts == ["confirmed", "not confirmed"]
    assert judge([]) == []


def test_ticks_of_a_drawing_are_different_numbers(kosarak):
    series = "sparse-vector monotonic"
    results = [
        Result(3, "Kosarak", f"{series}: {measure}", k, 0.986 + 0.0005 * k, 1e-4, None, 9)
        for k in range(2, 26)
        for measure in ("answers", "precision", "F-measure")
    ]
    drawings = [draw(3, results, [kosarak]).decode()]
    drawings += [path.read_text("utf-8") for path in (DOCS / "figures").glob("figure-*.svg")]
    for drawing in drawings:
        ticks = re.findall(r'x="([\d.]+)" y="([\d.]+)"[^>]*>([\d.]+)</text>', drawing)
        of_axis: dict[str, list[tuple[float, float]]] = {}
        for x, y, text in ticks:
            of_axis.setdefault(x, []).append((float(y), float(text)))
        ys_and_values = max(of_axis.values(), key=len)
        values = [value for _, value in sorted(ys_and_values)]
        for panel in np.split(values, np.flatnonzero(np.diff(values) > 0) + 1):
            assert len(set(panel)) == len(panel) > 3


def test_more_than_the_paper_states_is_no_confirmation():
    def verdict(more: float) -> str:
        series = {"adaptive-sparse-vector": 25 + more, "sparse-vector": 25.0}
        series["sparse-vector with 2k"] = 50.0
        points = [
            Result(3, "d", f"{name} monotonic: {measure}", 25, value, 0.1, None, 10)
            for name, value in series.items()
            for measure in ("answers", "answers in branch 1", "precision", "F-measure")
        ]
        return judge(points)[0].verdict

    verdicts = [verdict(more) for more in (9, 15.2, 21)]
    assert verdicts == ["not confirmed", "confirmed", "more than stated"]


@pytest.mark.parametrize("figure", [1, 2])
def test_a_reduction_below_zero_is_explained(figure):
    """On one's own data."""
    names = [f"{name} {kind}" for name in MECHANISMS for kind in ("monotonic", "general")]
    points = [Result(figure, "d", name, 25, -122.0, 0.1, 45.0, 10) for name in names]
    for claim in judge(points):
        assert claim.measured.count("-122.0 %")
        assert "counts at these ranks are closer than the noise" in claim.remark
    better = [point._replace(value=45.0) for point in points]
    assert not any("closer than the noise" in claim.remark for claim in judge(better))


@pytest.mark.parametrize("figure", [1, 2, 3, 4])
def test_no_claim_survives_numbers_that_contradict_it(figure, quick, kosarak):
    plan = ReproductionPlan([kosarak], (figure,), runs=40, seed=1, workers=1)
    results = dict(finished_figures(plan))[figure]
    answers = {"adaptive-sparse-vector monotonic: answers": 1.0}
    wrong = [
        each._replace(
            value=-200.0 if figure in (1, 2, 4) else answers.get(each.series, 0.001 * each.x),
            error=0.1,
        )
        for each in results
    ]
    verdicts = {claim.statement: claim.verdict for claim in judge(wrong)}
    assert verdicts
    if figure == 3:  # where all is equally bad there is no difference in precision
        assert verdicts.pop("There is very little difference in precision.") == "confirmed"
    assert set(verdicts.values()) == {"not confirmed"}, verdicts


def test_a_few_runs_confirm_nothing_about_reductions(quick, kosarak):
    plan = ReproductionPlan([kosarak], (1,), runs=5, seed=1, workers=1)
    claims = judge(dict(finished_figures(plan))[1])
    assert {claim.verdict for claim in claims} == {"too few runs to tell"}


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    write(tmp_path / "a" / "file", "first")
    with pytest.raises(TypeError):
        write(tmp_path / "a" / "file", None)
    assert (tmp_path / "a" / "file").read_text() == "first"
    assert [each.name for each in (tmp_path / "a").iterdir()] == ["file"]


def test_drawings_repeat_themselves(kosarak):
    results = [Result(4, "Kosarak", "best monotonic: budget left", k, k, 1, 50, 9) for k in (2, 3)]
    first, second = (draw(4, results, [kosarak]) for _ in range(2))
    assert first == second
    assert len(first) < 40_000


def test_every_point_lies_within_its_panel(quick, kosarak):
    from matplotlib.figure import Figure

    drawings = {1: figures._reductions, 4: figures._budgets}
    for number, points in finished_figures(ReproductionPlan([kosarak], (1, 4), runs=50, workers=1)):
        sheet = Figure()
        drawings[number](sheet, *((number,) if number == 1 else ()), points, ["Kosarak"])
        for axes in sheet.axes:
            low, high = axes.get_ylim()
            shown = np.concatenate([np.asarray(line.get_ydata(), float) for line in axes.lines])
            shown = shown[np.isfinite(shown)]
            assert low <= 0 <= shown.max() <= high


def test_tables_in_markdown_are_tables(kosarak):
    text = as_markdown([], [kosarak], {"figure-1": "figures/figure-1.svg"}, 10)
    row = next(line for line in text.splitlines() if line.startswith("| Kosarak"))
    assert row.count("|") == 6


def _command(*given: str, **extra) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "dpgap", "reproduce", *given],
        capture_output=True,
        text=True,
        **extra,
    )


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--runs", "0"], "--runs must be at least 1"),
        (["--figure", "7"], "--figure must be one of 1, 2, 3, 4"),
        (["--data", "/nowhere/at/all"], "--data must be a folder or a file"),
    ],
)
def test_bad_arguments_end_without_a_traceback(given, says):
    done = _command(*given)
    assert done.returncode == 1
    assert done.stderr.startswith(f"dpgap: {says}")
    assert "Traceback" not in done.stderr


def test_a_missing_matplotlib_is_said_before_any_work(tmp_path):
    hide = "import sys; sys.modules['matplotlib'] = None; from dpgap.cli.main import app; app()"
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", hide, "reproduce", "--data", "/nowhere/at/all", "--out", str(out)],
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert f"figures need matplotlib: {how_to_get('paper')}" in done.stderr
    assert "--data must be" not in done.stderr  # nobody had looked for data yet
    assert "Traceback" not in done.stderr
    assert not out.exists()


def test_an_interrupted_run_leaves_only_whole_files(tmp_path):
    running = subprocess.Popen(
        [sys.executable, "-m", "dpgap", "reproduce", "--runs", "3000", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "figures" / "datasets.svg").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.2)
    os.killpg(running.pid, signal.SIGINT)
    _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "dpgap: interrupted: the figures that were finished are kept" in errors
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob(".*"))
    for path in tmp_path.rglob("*.json"):
        json.loads(path.read_text())


def _invoke(*given: str) -> Said:
    app = typer.Typer()
    app.command()(commands.reproduce)
    return CliRunner().invoke(app, given)


def test_the_command_is_ready_for_the_command_line():
    shown = _invoke("--help")
    assert shown.exit_code == 0
    assert "--figure" in shown.output


WARNINGS = {
    MADE_UP: "These data are made up. The real ones are public: Kosarak and T40I10D100K at http",
    OWN: "All figures and numbers here show your own data as they are, WITHOUT privacy",
    "": "Kosarak: synthetic stand-in",
}


@pytest.mark.parametrize("warning", WARNINGS)
def test_what_must_be_said_of_the_data_is_said_before_all_else(monkeypatch, kosarak, warning: str):
    data = [replace(kosarak, warning=warning)]
    monkeypatch.setattr("dpgap.research.datasets.load_all", lambda given: data)
    monkeypatch.setattr(commands, "reproduce_into", lambda *given: ([], []))
    said, as_json_text = _invoke(), _invoke("--json")
    first = WARNINGS[warning]
    assert said.stdout.startswith(first)
    assert json.loads(as_json_text.stdout) == []
    assert as_json_text.stderr.startswith(first if warning else "")
    pages = as_markdown([], data, {}, 1), page.as_html([], data, {}, 1)
    assert warning in pages[0].split("\n\n")[2]
    assert warning in pages[1]
    if not warning:
        assert as_json_text.stderr == f"Kosarak: {kosarak.source}\n"
        assert all(each not in shown for each in WARNINGS if each for shown in pages)


def test_a_file_of_ones_own_is_said_to_be_shown_without_privacy(tmp_path, kosarak):
    (tmp_path / "mine.csv").write_text("item,count\n1,2\n")
    (mine,) = load_all(tmp_path / "mine.csv")
    assert (mine.warning, kosarak.warning) == (OWN, MADE_UP)


def test_the_papers_claims_are_no_verdict_on_ones_own_data(tmp_path, kosarak):
    own = replace(kosarak, name="mine", warning=OWN)
    for data, is_own in ((own, True), (kosarak, False)):
        _, claims = reproduce_into(tmp_path, ReproductionPlan([data], (4,), 20, workers=1))
        assert ({claim.verdict for claim in claims} == {"your data"}) is is_own
