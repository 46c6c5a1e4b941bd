#!/usr/bin/env bash
# Rarely used commands of development. `make NAME` sets up the environment and calls this script.
set -euo pipefail
cd "$(dirname "$0")"
BIN=${BIN:-.venv/bin}
export PYTHONPATH=docs${PYTHONPATH:+:$PYTHONPATH} # for `published`, which is not installed

usage() {
	cat <<'TEXT'
make coverage        report the line coverage of src, kernels included
make examples        run every example; prints tables, writes figures to ./figures
make golden          recompute the results in tests/golden, and print the differences
make numbers         measure the numbers in README and docs, and write them (three hours on two
                     processors)
make tables          write the tables in README and docs from docs/published/results
make references      write the reference results that heirloom reproduce compares with
make bench           measure speed relative to a bare loop and other libraries
make publish-bench   write the results of make bench to docs/performance.md
make dist            build the wheel and the source archive, and test both outside the clone,
                     with each interpreter of PYTHONS="python3.11 python3.12"
TEXT
}

# Kernels are compiled in the first run, and measured in the second, without the compiler. The second
# has tests of small tasks, which reach nearly all lines of kernels; those left out by -k take longer.
coverage() {
	local pytest=("$BIN/coverage" run -m pytest -n auto --dist worksteal)
	rm -f .coverage .coverage.*
	"${pytest[@]}" -m "not slow and not full"
	NUMBA_DISABLE_JIT=1 "${pytest[@]}" -m "not slow and not cluster and not full" \
		-k "not long and not bounds and not 500 and not probability" \
		tests/kernels tests/mdp/test_mean_rewards.py tests/metrics/test_rounding.py \
		tests/transfer/refutation/test_audit.py \
		tests/propositions/test_proposition_4_learned_dissimilarity.py
	"$BIN/coverage" combine --quiet
	"$BIN/coverage" report
}

examples() {
	local python
	python=$(cd "$BIN" && pwd)/python
	mkdir -p figures
	for example in examples/*.py; do
		if [ "$example" = examples/icu_sepsis.py ] && ! "$python" -m pip --quiet show icu-sepsis; then
			echo "== $example is skipped: icu-sepsis is not installed"
			continue
		fi
		echo "== $example"
		(cd figures && "$python" "../$example")
	done
}

# A library that cannot be installed is skipped; its rows in the benchmark give the reason.
bench() {
	local peers=.venv-peers
	if [ ! benchmarks/peers.txt -ot $peers/.ready ]; then
		"${PYTHON:-python3}" -m venv $peers
		local pip=($peers/bin/python -m pip install --quiet --no-deps)
		"${pip[@]}" --requirement benchmarks/peers.txt || for peer in $(grep == benchmarks/peers.txt); do
			"${pip[@]}" "$peer" || echo "cannot install $peer: skipped"
		done
		touch $peers/.ready
	fi
	"$BIN/python" benchmarks/run.py
}

dist() {
	rm -rf dist
	"$BIN/python" -m build --outdir dist
	"$BIN/python" -m published.distribution dist ${PYTHONS:-}
}

case "${1:-}" in
coverage | examples | bench | dist) "$1" ;;
golden) "$BIN/python" -m tests.golden ;;
# Files of unchanged results stay as they are, so a second call changes nothing.
numbers) "$BIN/python" -m published ;;
tables) "$BIN/python" -m published --tables ;;
publish-bench) "$BIN/python" -m published --speed results/bench.json ;;
# Runs that are complete in ./results are not computed again.
references) "$BIN/python" -m published.references ;;
"") usage ;;
*)
	usage >&2
	exit 2
	;;
esac
