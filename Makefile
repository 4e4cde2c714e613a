# `make demo` shows the point; `make test` runs every check. Both set up `.venv` by themselves.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint benchmark clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.venv/.ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/.test: .venv/.ready
	$(PIP) --editable '.[test]'
	touch $@

.venv/.benchmark: .venv/.ready
	$(PIP) --editable '.[benchmark]'
	touch $@

demo: .venv/.ready
	$(BIN)/python examples/demo.py

lint: .venv/.test
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

test: lint
	$(BIN)/pytest --numprocesses 2

benchmark: .venv/.benchmark
	$(BIN)/python benchmarks/release.py

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
