# Two commands on a fresh machine: `make run` and `make test`. They need python3 (3.11 or later) and a package index.
# `make test-browser` needs Debian's package chromium, too.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
HOME_DIR ?= data
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run test test-browser test-sample test-soak browser-there lint ui bench clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort

run: $(VENV)/.installed  ## bring the archive in data/ (or HOME_DIR=...) up to date and print the score table
	@$(BIN)/librarian run --home $(HOME_DIR)

# The tests start hundreds of processes, and an environment may forbid them to keep what they compile.
test: $(VENV)/.installed-test  ## run the tests
	@$(BIN)/python -m compileall -q librarian_pipeline librarian_pipeline_tests
	@$(BIN)/python -m pytest

test-browser: browser-there $(VENV)/.installed-browser  ## try the UI's pages in headless Chromium, Debian's package
	@$(BIN)/python -m pytest --numprocesses=0 librarian_pipeline_tests/browser

test-sample: $(VENV)/.installed-test  ## derive the whole sample archive anew, and hold the README against it: some minutes
	@$(BIN)/python -m pytest --numprocesses=0 librarian_pipeline_tests/whole_sample

test-soak: export TEST_SEQUENCES = 200
test-soak: export TEST_KILLS = 50
test-soak: export TEST_EPISODES = 6
test-soak: export TEST_PUBLICATIONS = 100
test-soak: $(VENV)/.installed-test  ## the tests of edits, kills and publications at random, with more rounds than in `make test`
	@$(BIN)/python -m pytest librarian_pipeline_tests/defs/test_many_processes.py librarian_pipeline_tests/pipeline/test_incremental_equals_clean.py librarian_pipeline_tests/pipeline/test_kills.py librarian_pipeline_tests/serving/test_under_load.py librarian_pipeline_tests/storage/test_snapshot_readers.py

browser-there:
	@command -v chromium >/dev/null || { echo "chromium is missing: apt-get install --no-install-recommends chromium" >&2; exit 1; }

lint: $(VENV)/.installed-test  ## ruff and mypy --strict
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

ui: $(VENV)/.installed  ## Dagster's web UI on the archive
	@$(BIN)/librarian ui --home $(HOME_DIR)

bench: $(VENV)/.installed-test  ## the benchmarks, each as a ratio measured in the same run
	@$(BIN)/python -m librarian_pipeline_tests.benchmarks

clean:  ## remove what was derived from the archive
	rm -rf $(HOME_DIR)/warehouse $(HOME_DIR)/dagster_home $(HOME_DIR)/published $(HOME_DIR)/reports

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; try: make PYTHON=python3.12 ..." if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing into $(VENV): a few minutes, once"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing into $(VENV), with what the tests need: a few minutes, once"
	@$(INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-browser: pyproject.toml constraints.txt | $(VENV)/bin/python
	@echo "installing into $(VENV), with what the tests in a browser need: a few minutes, once"
	@$(INSTALL) --editable '.[test,browser]'
	@touch $@ $(VENV)/.installed-test $(VENV)/.installed
