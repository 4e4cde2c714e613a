"""The accuracy benchmark itself: its settings, its output, and what it says without data."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from accuracy_benchmark import benchmark, falling_counts


def test_without_data_it_says_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPGAP_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["accuracy.py", "--json"])
    assert benchmark().main() == 1
    assert "DPGAP_DATA" in capsys.readouterr().err


def test_it_prints_figures_as_json(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bms-pos-partial-275k.dat.gz").write_bytes(b"")
    monkeypatch.setenv("DPGAP_DATA", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["accuracy.py", "--json", "--runs", "100"])
    monkeypatch.setattr(benchmark(), "item_counts", lambda path: falling_counts())
    monkeypatch.setattr(benchmark(), "ProcessPoolExecutor", ThreadPoolExecutor)
    job = (benchmark().top_k, falling_counts(), 3, "best", 100, 1)
    monkeypatch.setattr(benchmark(), "settings", lambda counts, runs: {("top-k", "a", "b"): job})
    assert benchmark().main() == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["runs"] == 100
    assert 0 < figures["top-k"]["a"]["b"]["error"] < 1


def test_every_setting_that_is_promised_is_there() -> None:
    places = benchmark().settings(falling_counts(), 100)
    for k in (3, 10, 25):
        for thinning in (1, 30, 100, 300):
            for method in ("best", "paper"):
                assert ("top-k", f"k={k}, thinned {thinning}-fold", method) in places
    assert ("adaptive", "exponential", "3 branches, drained") in places
    assert ("adaptive", "exponential", "plain, told k=40") in places


def test_thresholds_lie_halfway_below_their_rank() -> None:
    generator = benchmark().np.random.default_rng(1)
    counts = falling_counts()
    for _ in range(20):
        stream, line = benchmark().stream_and_threshold(counts, 10, generator)
        assert sorted(stream.tolist()) == sorted(counts.tolist())
        assert 20 <= int((stream > line).sum()) < 80
