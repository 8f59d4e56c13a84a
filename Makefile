# Every target sets up what it needs first. `make run` and `make test` are the two that a newcomer wants.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=

.PHONY: setup run test check fmt lint types arch golden e2e setup-ci test-ci test-nightly constraints clean

setup: $(STAMP)
	$(BIN)/python -m stages.sources

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

run: setup  ## the whole lifecycle on real text; ARGS="--input FOLDER --set stage.field=value"
	$(BIN)/glmflow run demo $(ARGS)

test: $(STAMP)  ## everything but the slow and the nightly tests
	$(BIN)/python -m pytest -m "not slow and not nightly" $(ARGS)

check: lint types arch

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell flows stages models kernels infra *.md

types: $(STAMP)
	$(BIN)/mypy

arch: $(STAMP)
	$(BIN)/lint-imports
	$(BIN)/python -m pytest tests/architecture

fmt: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: $(STAMP)  ## record changed outputs again and print what changed; say why in the commit message
	$(BIN)/python -m tests.golden.record
	git --no-pager diff --stat -- tests/golden

e2e: setup  ## the tiny lifecycle and the platform with real servers: cached rerun, kill -9, cancel, no network
	$(BIN)/python -m pytest -m "slow and not nightly" tests/e2e $(ARGS)

setup-ci: setup  ## the browser that test-ci opens the platform's pages in: Debian's, installed by root only
	$(BIN)/python -m tests.support.debian chromium fonts-dejavu-core

test-ci: setup-ci  ## what needs servers, processes to kill and minutes: e2e, and the store on a real S3 server
	$(BIN)/python -m pytest -m "slow and not nightly" $(ARGS)

test-nightly: setup-ci  ## many kill points and seeds
	$(BIN)/python -m pytest -m nightly $(ARGS)

constraints:  ## pin every distribution of a fresh environment again
	$(PYTHON) -m venv build/constraints
	build/constraints/bin/pip install --quiet -c constraints.txt -e ".[dev]"
	build/constraints/bin/pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
