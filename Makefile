# Everything a fresh machine with Python 3.11 and make needs: `make demo`, then `make test`.
VENV ?= .venv
JOBS ?= 2
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || echo python3)
BIN := $(VENV)/bin
CONSTRAINTS := scripts/constraints.txt
UV := $(shell command -v uv 2>/dev/null)
# Tests start hundreds of processes, which compile every module anew where __pycache__ may not be written.
PYTEST = PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

ifdef UV
INSTALL = VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --constraint $(CONSTRAINTS)
CREATE = $(UV) venv --quiet --python ">=3.11" $(VENV)
else
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint $(CONSTRAINTS)
CREATE = $(PYTHON) -m venv $(VENV)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test soak lint docs wheel tables reference bench clean

help: ## Show the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "kbench needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(CREATE)

$(VENV)/.run: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) --editable .
	@touch $@

$(VENV)/.test: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) --editable '.[test]'
	@touch $@ $(VENV)/.run

$(VENV)/.lint: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) --editable '.[test,lint]'
	@touch $@ $(VENV)/.test $(VENV)/.run

$(VENV)/.docs: pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/.run

demo: $(VENV)/.run ## Real methods on real data (scikit-learn's digits), a table at the end
	$(BIN)/kbench experiment=demo
	@$(BIN)/kbench report dataset=digits

test: $(VENV)/.test ## The first tier of tests, in minutes, on JOBS=2 processes
	$(PYTEST)

soak: $(VENV)/.test ## The second tier: kills, write faults, clusters, fuzzers, pages, wheels
	$(PYTEST) -m soak

lint: $(VENV)/.lint ## Style, format, types and the contracts between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo --no-cache

docs: $(VENV)/.docs ## The documentation as a site with its gallery, in docs/_build/html; needs no network
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m sphinx -q -W --keep-going docs docs/_build/html
	@echo docs/_build/html/index.html

wheel: $(VENV)/.test ## The wheel and the sdist of a release, in dist
	$(BIN)/python -m hatchling build -d dist

tables: $(VENV)/.run ## Write results/_report from the rows at hand and the committed reference rows
	$(BIN)/kbench report pages

reference: $(VENV)/.run ## Run the papers' experiments for results/_reference: 22 hours, resumable
	$(BIN)/python scripts/reference.py run results/_fresh
	$(BIN)/python scripts/reference.py collect results/_fresh

bench: $(VENV)/.test ## Measure the speed claims, each as a ratio against its peer (minutes)
	@for script in scripts/bench_*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean: ## Remove the environment and caches; data and results stay
	rm -rf $(VENV) build dist docs/_build docs/auto_examples docs/reference docs/gallery/datasets docs/gallery/results .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
