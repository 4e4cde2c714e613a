"""The accuracy benchmark as a module, and the real counts where they are at hand."""

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from numpy.typing import NDArray


@cache
def benchmark() -> ModuleType:
    """The benchmark's functions."""
    path = Path(__file__).parents[1] / "benchmarks" / "accuracy.py"
    spec = importlib.util.spec_from_file_location("accuracy", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["accuracy"] = module
    spec.loader.exec_module(module)
    return module


@cache
def real_counts() -> NDArray[np.int64]:
    """BMS-POS item counts, or a skip that says what is missing."""
    path = benchmark().data_folder() / "bms-pos-partial-275k.dat.gz"
    if not path.exists():
        pytest.skip("BMS-POS is not here: DPGAP_DATA must name a folder with bms-pos-partial-275k")
    counts: NDArray[np.int64] = benchmark().item_counts(path)
    return counts


def falling_counts(size: int = 200) -> NDArray[np.int64]:
    """Counts like those of shops: a few large ones, and a long tail."""
    return (160_000 / np.arange(1, size + 1) ** 1.1).astype(np.int64)
