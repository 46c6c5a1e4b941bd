# All targets use the virtual environment .venv; the first call creates it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers

.PHONY: help reproduce test test-slow check format coverage golden numbers tables references bench publish-bench examples clean

help:
	@echo "make reproduce   set up .venv, then run the main experiment of the paper"
	@echo "make test        set up .venv, check format, lint, types and imports, and run the tests"
	@echo "make test-slow   run long soundness sweeps, kernels with checked indices, and tests that start clusters"
	@echo "make coverage    report the line coverage of src, kernels included"
	@echo "make examples    run every example; prints tables, writes figures to ./figures"
	@echo "make bench       measure speed relative to a bare loop and other libraries (ten minutes)"
	@echo "make publish-bench   write the results of make bench to docs/performance.md"
	@echo "make golden      recompute the results in tests/golden, and print the differences"
	@echo "make numbers     measure the numbers in README and docs again, and write them (five minutes)"
	@echo "make tables      write the tables in README and docs from published/results"
	@echo "make references  write the reference results that heirloom reproduce compares with (five minutes)"
	@echo "make format      format the code and apply automatic fixes"

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Heirloom needs Python 3.11 or later: make PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[dev]'
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --no-deps icu-sepsis || \
	echo "cannot install icu-sepsis: its tests and its example are skipped"
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

# Kernels are compiled in the first run, and measured in the second, without the compiler. The second
# has tests of small tasks that reach all kernels; those named "long" would take minutes.
WITHOUT_COMPILER := tests/kernels tests/mdp/test_mean_rewards.py tests/planning \
	tests/metrics/test_rounding.py tests/agents/test_soundness.py tests/agents/test_contract.py \
	tests/propositions/test_proposition_4_learned_dissimilarity.py \
	$(addprefix tests/transfer/test_all_sources.py::test_, \
		bound_from_one_direction_is_valid_and_not_below_that_of_both \
		heaviest_states_stay_sorted_as_weights_decrease) \
	tests/transfer/nearness/test_near_models.py

coverage: $(READY)
	rm -f .coverage .coverage.*
	$(BIN)/coverage run -m pytest -n auto -m "not slow"
	NUMBA_DISABLE_JIT=1 $(BIN)/coverage run -m pytest -n auto -m "not slow and not cluster" \
		-k "not long" $(WITHOUT_COMPILER)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

golden: $(READY)
	$(BIN)/python -m tests.golden

# Takes five minutes. Files of unchanged results stay as they are, so a second call changes nothing.
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
	PIP_CONSTRAINT=constraints.txt $(BIN)/python -m pip install --quiet --editable '.[bench]' || \
	echo "cannot install '.[bench]': skipped"
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
