"""A notebook, in a Jupyter kernel: files are read and releases shown; also with ipywidgets."""

from pathlib import Path
from typing import Any

import nbclient
import nbformat
import pytest

from seams import long_case

CELLS = [
    """
import dpgap
asked = {"unit": "who", "item": "what", "k": 1, "epsilon": 20}
best = dpgap.top_k("sold.csv", domain=["fig", "pea"], **asked)
print(best.labels)
""",
    "best",
    "dpgap.Session('sold.csv', unit='who', epsilon=2)",
    "best.plot();",
]
WITHOUT = "import sys; sys.modules['ipywidgets'] = None"
"""Where it is missing, DuckDB refuses all settings of its progress bar."""


@pytest.mark.parametrize("has_widgets", [False, long_case(True)])
def test_a_notebook_asks_shows_and_draws(
    has_widgets: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    rows = [f"{who},{'pea' if who % 3 else 'fig'}\n" for who in range(90)]
    (tmp_path / "sold.csv").write_text("".join(["who,what\n", *rows]))
    first = "import ipywidgets" if has_widgets else WITHOUT
    cells = [nbformat.v4.new_code_cell(cell) for cell in (first, *CELLS)]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3").execute(cwd=str(tmp_path))
    nothing, asked, shown, budget, drawn = (cell.outputs for cell in notebook.cells)
    assert nothing == []
    (said,) = asked
    assert said["text"] == "('pea',)\n"
    assert "Top 1: what, by who count" in _shown(shown, "text/html")
    assert _shown(shown, "text/plain") == "<MeasuredItems: Top 1: what, by who count; ε = 20>"
    assert "ε&nbsp;=&nbsp;2 left." in _shown(budget, "text/html")
    assert _shown(drawn, "image/png")


def _shown(outputs: list[Any], kind: str) -> str:
    (output,) = outputs
    return str(output["data"][kind])
