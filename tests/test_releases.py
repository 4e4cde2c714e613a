"""Results: they print well, tabulate, and explain their guarantee."""

import builtins
import time

import numpy as np
import pytest

import dpgap

ANSWERS = [900, 50, 800, 3]
HOSTILE = ["<script>alert(1)</script>", "\x1b[31mred", "a\u202eb", "=cmd()"]

RELEASES = {
    "top": lambda labels: dpgap.NoisyTopK(2, 10, monotonic=True).release(ANSWERS, labels=labels),
    "max": lambda labels: dpgap.NoisyMax(10, monotonic=True).release(ANSWERS, labels=labels),
    "above": lambda labels: dpgap.SparseVector(100, 2, 10, monotonic=True).release(
        ANSWERS, labels=labels
    ),
    "measured": lambda labels: dpgap.measured_top_k(ANSWERS, 2, 10, monotonic=True, labels=labels),
    "classical": lambda labels: dpgap.classical(dpgap.NoisyTopK(2, 10)).release(
        ANSWERS, labels=labels
    ),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_prints_its_guarantee_in_plain_words(kind: str):
    release = RELEASES[kind](None)
    text = str(release)
    assert "ε = 10 and no δ" in text
    assert "one person" in text
    assert release.guarantee in text
    assert "index" in text.splitlines()[0]


@pytest.mark.parametrize("kind", RELEASES)
def test_hostile_labels_are_harmless_in_text_and_html(kind: str):
    release = RELEASES[kind](HOSTILE)
    assert "\x1b" not in str(release)
    assert "\u202e" not in str(release)
    assert "<script>" not in release._repr_html_()
    assert "<table>" in release._repr_html_()


@pytest.mark.parametrize("kind", RELEASES)
def test_every_release_becomes_a_data_frame(kind: str):
    frame = RELEASES[kind](["a", "b", "c", "d"]).to_frame()
    assert len(frame) >= 1
    assert "label" in frame.columns


def test_without_a_data_frame_library_the_error_says_what_to_install(monkeypatch):
    release = RELEASES["top"](None)

    def missing(name: str):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(ModuleNotFoundError, match="pip install pandas"):
        release.to_frame()


def test_measured_values_print_too():
    release = dpgap.Laplace(1000).release([5, 7])
    assert "value" in str(release)
    assert release.interval(0.95).shape == (2, 2)


def test_importing_is_light():
    import subprocess
    import sys

    script = (
        "import sys, time; s = time.perf_counter(); import numpy; m = time.perf_counter();"
        "import dpgap; e = time.perf_counter();"
        "heavy = [n for n in ('scipy', 'pandas', 'duckdb', 'sqlalchemy', 'z3', 'matplotlib',"
        " 'narwhals', 'rich', 'typer') if n in sys.modules];"
        "print(e - s, heavy)"
    )
    times = []
    for _ in range(3):
        out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
        seconds, _, heavy = out.stdout.decode().partition(" ")
        assert heavy.strip() == "[]"
        times.append(float(seconds))
    assert min(times) < 1.0  # a quarter of a second on an idle machine


def test_releases_show_nothing_private(monkeypatch):
    secret = 987654
    printed = []
    monkeypatch.setattr(builtins, "print", lambda *words, **_: printed.append(words))
    mechanisms = [dpgap.NoisyTopK(1, 1), dpgap.SparseVector(0, 1, 1), dpgap.Laplace(1)]
    for mechanism in mechanisms:
        release = mechanism.release(np.array([secret * 10**6, 3]))
        assert str(secret * 10**6) not in f"{mechanism!r}"
        assert release.promise is not None
    run = dpgap.SparseVector(0, 1, 1).start()
    run.ask(-secret)
    assert str(secret) not in repr(run)
    assert printed == []


def test_a_release_is_quick():
    mechanism = dpgap.NoisyTopK(10, "0.7", monotonic=True)
    answers = np.random.default_rng(0).permutation(10**6 // np.arange(1, 10**5))
    started = time.perf_counter()
    mechanism.release(answers)
    assert time.perf_counter() - started < 1
