# All targets use the virtual environment .venv; the first call creates it, with what a run needs.
# `make test` and `make docs` install what they need in addition.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.ready-run
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.ready-docs
INSTALL := PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable
PEERS := .venv-peers

.PHONY: help setup reproduce docs dist kernels-plain kernels-lazy test test-slow test-full check format coverage golden numbers tables references bench publish-bench examples clean

help:
	@echo "make setup       create .venv with Heirloom and what a run and its report need (a minute)"
	@echo "make reproduce   set up .venv, then run the main experiment of the paper"
	@echo "make docs        build this documentation in build/site (three minutes; executes the tutorials)"
	@echo "make test        set up .venv, check format, lint, types and imports, and run the tests"
	@echo "make test-slow   run long soundness sweeps, kernels with checked indices, and tests that start clusters"
	@echo "make test-full   run the longest examples in full (ten minutes)"
	@echo "make coverage    report the line coverage of src, kernels included"
	@echo "make examples    run every example; prints tables, writes figures to ./figures"
	@echo "make bench       measure speed relative to a bare loop and other libraries (ten minutes)"
	@echo "make publish-bench   write the results of make bench to docs/performance.md"
	@echo "make golden      recompute the results in tests/golden, and print the differences"
	@echo "make numbers     measure the numbers in README and docs again, and write them (up to an hour)"
	@echo "make tables      write the tables in README and docs from published/results"
	@echo "make dist        build the wheel and the source archive in dist, and test both outside the clone"
	@echo "make references  write the reference results that heirloom reproduce compares with (five minutes)"
	@echo "make format      format the code and apply automatic fixes"

$(SETUP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Heirloom needs Python 3.11 or later: make PYTHON=...")'
	@echo "[set-up 1/2] Creating the virtual environment $(VENV) (10 seconds) ..."
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

dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m published.distribution dist

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

# Kernels are compiled in the first run, and measured in the second, without the compiler. The second
# has tests of small tasks, which reach nearly all lines of kernels; those left out by -k take longer.
WITHOUT_COMPILER := tests/kernels tests/mdp/test_mean_rewards.py tests/metrics/test_rounding.py \
	tests/transfer/refutation/test_audit.py \
	tests/propositions/test_proposition_4_learned_dissimilarity.py

coverage: $(READY)
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not slow and not full"
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -n auto --dist worksteal -m "not slow and not cluster and not full" \
		-k "not long and not bounds and not 500 and not probability" $(WITHOUT_COMPILER)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

golden: $(READY)
	$(BIN)/python -m tests.golden

# Takes up to an hour. Files of unchanged results stay as they are, so a second call changes nothing.
numbers: $(READY)
	$(BIN)/python -m published

tables: $(READY)
	$(BIN)/python -m published --tables

# Runs that are complete in ./results are not computed again.
references: $(READY)
	$(BIN)/python -m heirloom.paper.reference_files

# A library that cannot be installed is skipped; its rows in the benchmark give the reason.
$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers.txt || \
	for peer in $$(grep == benchmarks/peers.txt); do \
		$(PEERS)/bin/python -m pip install --quiet --no-deps $$peer || echo "cannot install $$peer: skipped"; \
	done
	touch $(PEERS)/.ready

bench: $(READY) $(PEERS)/.ready
	$(BIN)/python benchmarks/run.py

publish-bench: $(READY)
	$(BIN)/python -m published --speed results/bench.json

examples: $(READY)
	mkdir -p figures
	for example in examples/*.py; do \
		if [ $$example = examples/icu_sepsis.py ] && ! $(BIN)/python -m pip --quiet show icu-sepsis; then \
			echo "== $$example is skipped: icu-sepsis is not installed"; continue; \
		fi; \
		echo "== $$example"; (cd figures && ../$(BIN)/python ../$$example) || exit 1; \
	done

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(PEERS) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
