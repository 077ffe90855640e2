# Everything is set up in .venv: Python 3.11+, pip and make are all that is needed.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
FUZZ := "tables.py csv" "tables.py parquet" "tables.py pyg" graphs.py settings.py releases.py ledgers.py \
	kill_ledgers.py kill_saves.py kill_streams.py

.PHONY: demo quick test test-all coverage fuzz mutants lint docs contribute records clean

$(STAMP): pyproject.toml lab/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]' -e lab
	touch $(STAMP)

demo: $(STAMP) ## Train a private GNN on the embedded graph and write demo/
	$(BIN)/graphveil demo --out demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

quick: $(STAMP) ## Format, lint, types and the tests near to what changed (tests/quick.py): within a minute
	$(BIN)/python tests/quick.py

test: lint ## Lint, type check and the tests, but for the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow"

test-all: lint ## The slow tests too: before a release
	$(BIN)/python -m pytest -n 2 --dist loadfile

coverage: $(STAMP) ## The share of lines and branches that the tests run, by room
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" --cov --cov-report=
	$(BIN)/python tests/coverage_by_room.py

fuzz: $(STAMP) ## Damaged tables, graphs, settings, releases and ledgers, and processes killed at random moments: before a release
	for script in $(FUZZ); do $(BIN)/python tests/fuzz/$$script || exit 1; done

mutants: $(STAMP) ## Plant the mistakes of tests/mutants/mutants.toml one by one and see that tests find them: before a release
	$(BIN)/python tests/mutants/mutants.py --jobs 2

docs: $(STAMP) ## The site, in site/: open site/index.html. Warnings and dead links are errors
	$(BIN)/python -m zensical build --clean --strict

contribute: $(STAMP) ## Rewrite what a new part changes: index, navigation, tables and pictures
	$(BIN)/python lab/benchmarks/contribute.py

records: $(STAMP) ## Train a sample of kept lines again and print what moved
	$(BIN)/python -m graphveil_lab.records

clean: ## All but .bench: its records took hours
	rm -rf $(VENV) demo .cache site
