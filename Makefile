# setup: the virtual environment.  demo: GRPO on the CPU.  test, lint, docs: what CI runs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.arcslim-setup
PYTEST_ARGS ?=

.PHONY: setup demo test lint format docs clean

setup: $(STAMP)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed: make setup PYTHON=python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)

# The stamp is newer than the two files that decide what is installed: a second `make setup` does nothing.
$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[dev]"
	$(BIN)/python -m pip check
	@touch $@

demo: setup
	$(BIN)/arcslim grpo --preset cpu

test: setup
	$(BIN)/python -m pytest $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/hadolint Dockerfile

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: setup
	$(BIN)/python scripts/check_docs.py

clean:
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
