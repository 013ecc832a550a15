# Needs Python 3.11, 3.12 or 3.13 and make; everything else is installed into $(VENV).
# Another Python beside the first: make test PYTHON=python3.12 VENV=.venv312

PYTHON ?= python3
VENV ?= .venv
METHODS ?= slackswap-timeline,slackswap,exact
TIME_LIMIT ?= 10
INSTANCES ?= $(foreach kind,paper eager flash,instances/slackswap/*-$(kind).json)
PYTEST_ARGS ?=
NOTEBOOKS ?=
UPGRADE ?=

BIN := $(VENV)/bin
LOCK := requirements/dev.lock
STAMP := $(VENV)/.made

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv torch compare test lint types check docs commands notebooks paper reproduction instances bench lock clean

help: ## list the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## \(.*\)/\1	\2/p' Makefile | while IFS='	' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

venv: $(STAMP) ## set up $(VENV) from the locked dependencies

$(STAMP): pyproject.toml $(LOCK)
	@command -v $(PYTHON) >/dev/null || { \
	  echo "slackopt needs Python 3.11, 3.12 or 3.13; '$(PYTHON)' was not found: name one with make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || { \
	  echo "slackopt needs Python 3.11, 3.12 or 3.13, and $(PYTHON) is $$($(PYTHON) --version 2>&1): name another with make PYTHON=/path/to/python3" >&2; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --requirement $(LOCK)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-build-isolation --no-deps --editable .
	@touch $@

torch: $(STAMP) ## add PyTorch (CPU) and transformers to $(VENV): without them their tests are skipped
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --requirement requirements/torch.txt --constraint $(LOCK)

compare: $(STAMP) ## the main job: METHODS on the seed instances, as a table
	$(BIN)/slackopt compare $(INSTANCES) --methods $(METHODS) --time-limit $(TIME_LIMIT)

test: $(STAMP) ## run the whole test suite (PYTEST_ARGS="-k name" for a part)
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: $(STAMP) ## check style and format with ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP) ## check types with mypy --strict
	$(BIN)/mypy slackopt

check: lint types test ## lint, types and test

docs: $(STAMP) ## build the documentation into build/docs and run its examples
	$(BIN)/sphinx-build -W --keep-going -c docs -d build/doctrees -b html . build/docs
	$(BIN)/sphinx-build -W --keep-going -c docs -d build/doctrees -b doctest . build/doctest

commands: $(STAMP) ## write docs/commands.md again from the commands' help
	$(BIN)/python docs/commands.py

notebooks: $(STAMP) ## run all notebooks in full, copies and figures under build/notebooks (NOTEBOOKS="4 6" for some)
	$(BIN)/python notebooks/run.py $(NOTEBOOKS)

paper: $(STAMP) ## tables and figures of the optimality-gap study from its stored results, under build/paper
	$(BIN)/python studies/optimality-gap/paper.py

reproduction: $(STAMP) ## tables, figures and page of the reproduction study from its stored results
	$(BIN)/python studies/reproduction/page.py

instances: $(STAMP) ## make all instances and the index again, byte for byte
	@for make in instances/*/make.py; do $(BIN)/python $$make || exit 1; done
	$(BIN)/python instances/index.py

bench: $(STAMP) ## measure the simulator, and exact methods for 20 s each (see benchmarks/ for more)
	$(BIN)/python benchmarks/simulator.py
	$(BIN)/python benchmarks/exact.py --time-limit 20

# One lock for every supported Python and platform; pins are kept unless UPGRADE=--upgrade is given.
# The venv must exist, but need not be up to date: it is the lock that makes it so.
lock: | $(BIN)/uv ## lock the dependencies again (UPGRADE=--upgrade for newer ones)
	$(BIN)/uv pip compile pyproject.toml --extra dev --extra docs --extra notebooks --extra parquet --extra slurm --extra cbc --universal --python-version 3.11 --quiet \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" \
	  $(UPGRADE) --output-file $(LOCK)

$(BIN)/uv:
	$(MAKE) venv

clean: ## remove $(VENV), caches and what was built
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find slackopt tests benchmarks instances notebooks docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
