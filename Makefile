# All targets use the virtual environment .venv; the first call creates it, with what a run needs.
# `make test` and `make docs` install what they need in addition.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.ready-run
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable

# `make PYTHON=...` creates the environment anew if it has another version of Python;
# `make PYTHON=... VENV=...` keeps one environment per version.
version = $(shell $(1) -c 'import platform; print(platform.python_version())' 2>/dev/null)
ifneq ($(origin PYTHON),file)
ifneq ($(call version,$(PYTHON)),$(call version,$(BIN)/python))
OTHER_PYTHON := other-python
endif
endif

.PHONY: help other-python setup reproduce docs dist kernels-plain kernels-lazy test test-slow test-full check format coverage golden numbers tables references bench publish-bench examples clean

help:
	@echo "make setup      create .venv with Heirloom and what a run and its report need"
	@echo "make reproduce  set up .venv, then run the main experiment of the paper"
	@echo "make test       check format, lint, types and imports, and run the tests"
	@echo "make test-slow  run soundness sweeps, checked indices, and Dask clusters"
	@echo "make test-full  run the longest examples, and the sweeps with more tasks"
	@echo "make docs       build the site in build/site, and execute its tutorials"
	@echo "make format     format the code and apply automatic fixes"
	@echo "make clean      delete .venv, builds and caches"
	@echo "./maintain.sh   list the rarely used targets: coverage, golden, numbers, bench, ..."

$(SETUP): pyproject.toml constraints.txt $(OTHER_PYTHON)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Heirloom needs Python 3.11 or later: make PYTHON=...")'
	@echo "[set-up 1/2] Creating the virtual environment $(VENV) (10 seconds) ..."
	@$(if $(OTHER_PYTHON),if [ -e $(SETUP) ]; then rm -rf $(VENV); fi)
	@$(PYTHON) -m venv $(VENV)
	@echo "[set-up 2/2] Installing Heirloom and the libraries that a run and its report need in $(VENV) (700 MB, a minute) ..."
	@$(INSTALL) '.[report]'
	@touch $(SETUP)

$(READY): $(SETUP)
	@echo "[set-up for tests] Installing test tools, linters, Dask and all extras in $(VENV) (700 MB, a minute or two) ..."
	@$(INSTALL) '.[dev]'
	@PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --no-deps icu-sepsis || \
	echo "cannot install icu-sepsis: its tests and its example are skipped"
	@touch $(READY)

$(DOCS_READY): $(SETUP)
	@echo "[set-up for docs] Installing Sphinx and Dask in $(VENV) (half a minute) ..."
	@$(INSTALL) '.[docs]'
	@touch $(DOCS_READY)

setup: $(SETUP)
	@echo "Heirloom is installed in $(VENV). Try: $(BIN)/heirloom list"

# The first run also compiles the kernels; numba keeps them for later runs.
reproduce: $(SETUP)
	@echo "[run] Running the main experiment of the paper: 9 agents x 10 repetitions of 15 tasks."
	@echo "      It takes half a minute on two processors, and another half minute of compilation in the first run."
	@$(BIN)/heirloom reproduce tight

# Warnings are errors. The build executes the tutorials, and makes no request to a network.
docs: $(DOCS_READY)
	$(BIN)/sphinx-build --fail-on-warning --keep-going --fresh-env --builder html docs build/site
	@echo "Open build/site/index.html in a browser."

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# One process checks types while others compile kernels, which all processes of pytest then load.
PYTEST := $(BIN)/pytest -n auto --dist worksteal

kernels-plain kernels-lazy: $(READY)
	@$(BIN)/python -m tests.compile_kernels $(if $(filter %-lazy,$@),0.999,0.9)

test: $(READY)
	$(MAKE) --jobs=2 check kernels-lazy kernels-plain
	$(PYTEST) -m "not slow and not cluster and not full"

test-slow: $(READY)
	$(PYTEST) -m "slow or cluster"

test-full: $(READY)
	$(PYTEST) -m full
	HEIRLOOM_EXAMPLES=500 $(PYTEST) -m "not slow and not cluster and not full" \
		tests/agents tests/envs tests/kernels tests/learning tests/mdp tests/planning tests/propositions \
		tests/transfer tests/test_theory.py

# Rarely used: each is a command of the script.
coverage golden numbers tables references bench publish-bench examples dist: $(READY)
	@BIN=$(BIN) PYTHON=$(PYTHON) ./maintain.sh $@

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-peers build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
