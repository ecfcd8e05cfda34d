# Needs Python 3.11 or newer, make and git; everything else is installed into .venv from requirements.lock.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup run demo test lint types layers unit storm chaos bench test-real lock clean

help: ## show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

setup: $(VENV)/.installed ## build the environment in .venv

$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/python -m compileall -q app
	@touch $@

run: setup ## play the demo (three crashes, three corrected launches), then serve its incident until Ctrl-C
	@$(BIN)/crashcart demo --serve

demo: setup ## play the demo alone
	@$(BIN)/crashcart demo

test: setup lint types layers unit ## everything that CI runs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

unit: setup
	$(BIN)/pytest -n auto -m "not real and not slow"

storm: setup ## the long form of the storm test: rotations, and 50 times SIGKILL
	$(BIN)/pytest -m slow tests/flow --timeout 600

test-real: setup ## run on the real SGLang and vLLM (installs them outside the checkout on first use, about 10 minutes)
	tests/real/install-all.sh
	$(BIN)/pytest -m real tests/real --timeout 1200

chaos: setup ## kill, stop and starve real servers and Crashcart itself in many ways, and print what came of each (7 min)
	$(BIN)/python -m tests.chaos.play

bench: setup ## measure starts, reading, and how soon a failure in a followed log is an incident (docs/benchmarks.md)
	$(BIN)/python bench/start.py
	$(BIN)/python bench/reading.py
	PYTHONPATH=. $(BIN)/python bench/watch_latency.py

lock: ## pin all dependencies anew: for those who build Crashcart, and for the image that runs it
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	    --python-version 3.11 --group dev -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-header \
	    --python-version 3.11 --constraint requirements.lock -o requirements.runtime.lock pyproject.toml

clean: ## remove the environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
