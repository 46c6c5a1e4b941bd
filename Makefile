# Everything runs in its own environment, .venv, which is made on the first call.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: help reproduce test test-slow check format golden numbers tables bench publish-bench examples clean

help:
	@echo "make reproduce   set up, then run the main experiment of the paper"
	@echo "make test        set up, then check format, lint, types, imports and run the tests"
	@echo "make test-slow   the long soundness sweeps, and the tests that start clusters"
	@echo "make examples    run every example; tables are printed, figures go to ./figures"
	@echo "make bench       speed, as ratios to a bare loop and to other libraries (ten minutes)"
	@echo "make publish-bench   write what make bench measured into docs/performance.md"
	@echo "make golden      compute the golden run anew, print what moved, and keep it"
	@echo "make numbers     measure the numbers in README and docs anew, and write their tables"
	@echo "make tables      write these tables from the results that are kept in published/results"
	@echo "make format      write the code in its format"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Heirloom needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

reproduce: $(READY)
	$(BIN)/heirloom reproduce tight

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest -n auto -m "not slow and not cluster"

test-slow: $(READY)
	$(BIN)/pytest -n auto -m "slow or cluster"

golden: $(READY)
	$(BIN)/python -m tests.golden

# Five minutes. Results that did not move stay as they are, so a second call changes nothing.
numbers: $(READY)
	$(BIN)/python -m published

tables: $(READY)
	$(BIN)/python -m published --tables

# A library that cannot be installed is left out, and the benchmark says so in its row.
$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --no-deps --requirement benchmarks/peers.txt || \
	for peer in $$(grep == benchmarks/peers.txt); do \
		$(PEERS)/bin/python -m pip install --quiet --no-deps $$peer || echo "left out: $$peer"; \
	done
	touch $(PEERS)/.ready

bench: $(READY) $(PEERS)/.ready
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[bench]' || \
	echo "left out: what '.[bench]' names"
	$(BIN)/python benchmarks/run.py

publish-bench: $(READY)
	$(BIN)/python -m published --speed results/bench.json

examples: $(READY)
	mkdir -p figures
	for example in examples/*.py; do \
		echo "== $$example"; (cd figures && ../$(BIN)/python ../$$example) || exit 1; \
	done

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(PEERS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
