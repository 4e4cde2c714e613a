# `make demo` shows the point; `make test` runs every check. Both set up `.venv` by themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint benchmark clean

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

demo: .venv/.ready
	$(BIN)/python examples/demo.py

lint: .venv/.ready
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --numprocesses 2

.venv/.benchmark: .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[benchmark]'
	touch $@

benchmark: .venv/.benchmark
	$(BIN)/python benchmarks/release.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
