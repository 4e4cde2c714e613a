"""Files are read in a notebook too: in a Jupyter kernel, without ipywidgets."""

from pathlib import Path

import nbclient
import nbformat
import pytest

CELL = """
import sys
sys.modules["ipywidgets"] = None  # where it is missing, DuckDB refuses all settings of its bar
import dpgap
asked = {"unit": "who", "item": "what", "k": 1, "epsilon": 1000}
print(dpgap.top_k("sold.csv", domain=["fig", "pea"], **asked).labels)
"""


def test_a_cell_asks_about_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(folder, str(tmp_path / folder))
    rows = [f"{who},{'pea' if who % 3 else 'fig'}\n" for who in range(90)]
    (tmp_path / "sold.csv").write_text("".join(["who,what\n", *rows]))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(CELL)])
    client = nbclient.NotebookClient(notebook, timeout=60, kernel_name="python3")
    client.execute(cwd=str(tmp_path))
    (output,) = notebook.cells[0].outputs
    assert output["text"] == "('pea',)\n"
