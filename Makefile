# `make demo` shows the point; `make test` runs every check. Both set up `.venv` by themselves.
# `make test PYTHON=python3.12` tests another Python, in a folder of its own: .venv-3.12.
PYTHON ?= python3
ifeq ($(PYTHON),python3)
VENV := .venv
else
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin

.PHONY: demo desk docs test check format lint chromium coq long golden twins oldest newest benchmark clean

PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(PIP) --editable .
	touch $@

$(VENV)/.test: $(VENV)/.ready
	$(PIP) --editable '.[test]'
	touch $@

# pandas 2, which a test puts in front of pandas 3.
$(VENV)/pandas2: $(VENV)/.test
	$(PIP) --target $@ --no-deps pytz 'pandas==2.2.*; python_version < "3.14"' \
		'pandas==2.3.*; python_version >= "3.14"'
	touch $@

$(VENV)/.benchmark: $(VENV)/.ready
	$(PIP) --editable '.[opendp]'
	touch $@

$(VENV)/.desk: $(VENV)/.ready
	$(PIP) --editable '.[desk]'
	touch $@

$(VENV)/.docs: $(VENV)/.ready
	$(PIP) --editable '.[docs]'
	touch $@

SHOP := --unit customer --item product --domain examples/products.txt

demo: $(VENV)/.ready
	@$(BIN)/python examples/shop.py
	$(BIN)/dpgap top-k examples/sales.csv.gz $(SHOP) -k 10 --epsilon 1 --html demo.html --force
	$(BIN)/dpgap plan -k 10 --epsilon 1
	@echo "demo.html shows the same as a page."

# The demo's data at a desk: it prints a link for your browser.
desk: $(VENV)/.desk
	@$(BIN)/python examples/shop.py
	$(BIN)/dpgap desk examples/desk.toml

# The site, in build/site: open build/site/index.html. Warnings are errors.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -n -q -W --keep-going -c docs -d build/doctrees -b html . build/site

format: $(VENV)/.test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# In about two minutes, before every commit: format, lint, types, imports, and the quick rooms.
QUICK := exact estimates mechanisms pipelines releases simulation test_architecture.py test_question.py
check: lint
	$(BIN)/pytest --numprocesses 2 --dist loadgroup $(QUICK:%=tests/%)

# Tests look at pages in Debian's Chromium. Where it may not be installed, those are skipped.
chromium:
	@command -v chromium >/dev/null || if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		(apt-get update && apt-get install --yes --no-install-recommends chromium \
		fonts-dejavu-core) >/dev/null 2>&1; \
	fi || echo "Chromium could not be installed."

test: lint chromium $(VENV)/pandas2
	$(BIN)/pytest --numprocesses 2 --dist loadgroup

# The alignment of exponential noise is proved in Coq as well: a test of `make long` compiles it.
coq:
	@command -v coqc >/dev/null || (apt-get update && apt-get install --yes \
		--no-install-recommends coq) >/dev/null

# More repetitions of what `make test` checks: for a night, or before a release.
long: twins golden coq
	$(BIN)/pytest --numprocesses 2 --dist loadgroup -m long

# All that dpgap says and draws from the same bits, beside the record of it that is committed.
golden: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m golden

twins: $(VENV)/.test
	PYTHONPATH=tests $(BIN)/python -m twins --twins 2000 --jobs 2

# The oldest versions that pyproject.toml allows; a fresh `make test` takes the newest.
OLDEST := $(VENV)/oldest/bin/python
ROOMS := budget cli data estimates exact interop mechanisms pipelines releases
# DuckDB 1.5 cannot quote a name that has quotes, in frames of its own; they are refused. And of
# a compressed file that is cut off it reads what is there.
QUOTES := tests/data/test_counts.py::test_names_of_columns_and_files_may_hold_anything
CUT := tests/cli/test_cli_malformed.py::test_malformed_input_is_refused_in_one_clear_message
# Old packages call what newer ones will take away, and leave sockets open.
WARNED := -W ignore::DeprecationWarning -W ignore::ResourceWarning

oldest:
	$(PYTHON) -m venv $(VENV)/oldest
	$(OLDEST) tests/oldest.py > $(VENV)/oldest/versions.txt
	$(OLDEST) -m pip install --quiet --disable-pip-version-check \
		--constraint $(VENV)/oldest/versions.txt --editable '.[test]'
	$(OLDEST) -m pytest --numprocesses 2 --dist loadgroup $(WARNED) $(ROOMS:%=tests/%) \
		--deselect $(QUOTES) --deselect '$(CUT)[file cut.jsonl.gz]'

# The versions that come next: the newest that are allowed, with those before a release.
newest:
	$(PYTHON) -m venv $(VENV)/newest
	$(VENV)/newest/bin/python -m pip install --quiet --disable-pip-version-check --upgrade --pre \
		--editable '.[test]'
	$(VENV)/newest/bin/python -m pytest --numprocesses 2 --dist loadgroup $(ROOMS:%=tests/%)

benchmark: $(VENV)/.benchmark
	$(BIN)/python benchmarks/release.py

clean:
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
