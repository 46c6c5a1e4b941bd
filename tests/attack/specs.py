"""Hostile specs: each is read as a spec, or refused with a message for each mistake."""

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np

import heirloom as hl
from heirloom.experiments.spec import ExperimentSpec

RAW = ("validation error", "pydantic", "type=", "Assertion failed", "Invalid JSON", "Value error")
"""Parts of errors of pydantic that were passed on as they are, without a key and a value."""
LONGEST = 60.0  # seconds of the processor for one spec

GOOD = {
    "name": "small",
    "tasks": 2,
    "episodes": 3,
    "steps": 11,
    "repetitions": 2,
    "seed": 0,
    "family": {"name": "corridor", "variant": "text"},
    "defaults": {"n_known": 1, "refresh": "none", "epsilon": 0.01},
    "agents": [
        {"algorithm": "RMax"},
        {"algorithm": "LRMax", "d_max": [0.1, 0.2]},
        {"algorithm": "NearRMax", "nearness": {"rewards": 0.1, "transitions": 0.1}},
        {"algorithm": "QLearning", "learning_rate": 0.1},
    ],
}
FAMILIES = (
    {"name": "tight", "slips": [0.0, 0.1], "size": 5},
    {"name": "grid", "cells": ["S.G"], "terminal": True},
    {"name": "garnet", "n_states": 3, "n_actions": 2, "branching": 2},
    {"name": "t-shape", "k": 3},
    {"name": "prices"},
)
VALUES = (
    *(0, -1, 1.5, 10**10, 2**63, -(2**70), 1e308, -0.0, float("nan"), float("inf"), True, False),
    *("", "x", "family", "\x1b[31mred", "a\nb", "\u202eabc", "x" * 10_000, "mine:Missing", ":"),
    *([], [1], [[]], [1, "x", None], {}, {"a": {"b": 1}}, None, ["RMax", "LRMax"], [0.1] * 50),
)


def tables_of(value, found=None):
    """Return all tables within a value."""
    found = [] if found is None else found
    if isinstance(value, dict):
        found.append(value)
    for each in value.values() if isinstance(value, dict) else value:
        if isinstance(each, dict | list):
            tables_of(each, found)
    return found


def hostile(rng):
    """Draw a spec with one to four mistakes."""
    spec = json.loads(json.dumps(GOOD))
    if rng.random() < 0.5:
        spec["family"] = json.loads(json.dumps(FAMILIES[rng.integers(len(FAMILIES))]))
    for _ in range(int(rng.integers(1, 5))):
        tables = [table for table in tables_of(spec) if table]
        if not tables:
            break
        table = tables[rng.integers(len(tables))]
        key = list(table)[rng.integers(len(table))]
        choice = rng.integers(5)
        if choice == 0:
            del table[key]
        elif choice == 1:
            at = int(rng.integers(len(key) + 1))  # a misspelled key
            table[key[:at] + key[at + 1 :] + "l" * int(rng.integers(2))] = table.pop(key)
        else:
            table[key] = VALUES[rng.integers(len(VALUES))]
            if choice == 2:
                table[("\x1b[2J", "new", "a.b", "a\nb", "")[rng.integers(5)]] = table[key]
    return spec


def attack(count, folder, seed=0):
    """Read `count` hostile specs, as tables and as files; return outcomes and failures."""
    import tomli_w

    rng, outcomes, failures = np.random.default_rng(seed), Counter(), []
    path = folder / "hostile.toml"
    for i in range(count):
        spec = hostile(rng)
        started = time.process_time()
        try:
            if i % 2:
                try:
                    data = tomli_w.dumps(spec).encode()
                except (TypeError, ValueError):
                    data = repr(spec).encode("utf-8", "replace")
                if rng.random() < 0.3:
                    at = int(rng.integers(len(data)))
                    data = data[:at] + rng.bytes(int(rng.integers(4))) + data[at + 1 :]
                path.write_bytes(data)
                ExperimentSpec.load(path)
            else:
                ExperimentSpec.read(spec)
            outcomes["accepted"] += 1
        except hl.errors.HeirloomError as error:
            outcomes["refused"] += 1
            lines = str(error).split("\n")
            words = [word for word in RAW if word in str(error)]
            if words or not all(line.isprintable() and line for line in lines):
                failures.append(f"{i}: {words} in {str(error)!r}")
        except Exception as error:
            failures.append(f"{i}: {type(error).__name__}: {error} of {spec!r}"[:500])
        if time.process_time() - started > LONGEST:
            failures.append(f"{i}: took {time.process_time() - started:.0f} s: {spec!r}"[:500])
    return outcomes, failures


def main(argv):
    """Run the attack and print what happened."""
    parser = argparse.ArgumentParser(prog="python -m tests.attack specs")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        outcomes, failures = attack(options.count, Path(folder), options.seed)
    for failure in failures[:20]:
        print(failure)
    print(f"{options.count} specs: {dict(outcomes)}, {len(failures)} failures")
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
