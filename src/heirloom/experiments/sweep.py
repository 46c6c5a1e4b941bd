"""Sweeps over an experiment: one spec for each combination of tasks, episodes, family and so on.

A TOML file may have a table `[sweep]` with lists of values:

    [sweep]
    tasks = [5, 15]
    episodes = [100, 1000]
    family.variant = ["text", "released"]

Each combination is an experiment of its own, with the label `tasks=5,episodes=100,variant=text` and
so on. Lists under the keys of agents are different: they make several agents of one experiment.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heirloom.errors import InvalidArgument
from heirloom.experiments.reading import read_toml
from heirloom.experiments.spec import ExperimentSpec
from heirloom.naming import shortened
from heirloom.validation import shown
from heirloom.wording import did_you_mean

SWEEP = "sweep"
SWEPT = ("tasks", "distinct_tasks", "episodes", "steps", "repetitions", "seed", "in_order")
MOST = 1000  # experiments of one sweep
LONGEST = 40  # characters of a value in a label


def load_sweep(path: str | Path) -> dict[str, ExperimentSpec]:
    """Read the experiments of a TOML file, by their labels; without a sweep, one without a label.

    The label is part of the name of each experiment, and can serve as the name of a folder.
    """
    data = read_toml(path)
    if SWEEP not in data:
        return {"": ExperimentSpec.load(path)}
    try:
        return expanded(data)
    except InvalidArgument as error:
        raise InvalidArgument(*(f"{path}: {message}" for message in error.args)) from None


def expanded(data: Mapping[str, Any]) -> dict[str, ExperimentSpec]:
    """Return the experiments that the tables of a TOML file with a sweep describe, by label."""
    axes = list(_axes(data[SWEEP]))
    n = math.prod(len(values) for _, values in axes)
    if n > MOST:
        raise InvalidArgument(
            f"sweep has {n} combinations: expected at most {MOST} experiments; sweep over fewer "
            "values, or write several files"
        )
    base = {key: value for key, value in data.items() if key != SWEEP}
    specs: dict[str, ExperimentSpec] = {}
    for chosen in itertools.product(*(enumerate(values) for _, values in axes)):
        changed, parts = dict[str, Any](base), []
        for (key, values), (i, value) in zip(axes, chosen, strict=True):
            parts.append(f"{key[-1]}={_labels(values)[i]}")
            if len(key) == 1:
                changed[key[0]] = value
            else:
                family = changed.get("family")
                family = family if isinstance(family, dict) else {}
                changed["family"] = {**family, key[1]: value}
        label = ",".join(parts)
        if isinstance(base.get("name"), str):
            changed["name"] = f"{base['name']} ({label})"
        specs[label] = ExperimentSpec.read(changed)
    return specs


def _axes(sweep: Any) -> Iterator[tuple[tuple[str, ...], list[Any]]]:
    """Yield the keys that are swept, and their values."""
    if not isinstance(sweep, dict) or not sweep:
        raise InvalidArgument(
            f"sweep is {shown(sweep)}: expected a table [sweep] of lists, such as tasks = [5, 15]"
        )
    for key, values in sweep.items():
        if key == "family" and isinstance(values, dict):
            for option, several in values.items():
                yield ("family", option), _values(f"family.{option}", several)
        elif key in SWEPT:
            yield (key,), _values(key, values)
        else:
            raise InvalidArgument(
                f"sweep.{shortened(key)} cannot be swept: expected {', '.join(SWEPT)} or "
                f"family.OPTION{_close_to(key)}; lists of options of agents belong into [[agents]]"
            )


def _close_to(key: str) -> str:
    if key.startswith("family."):
        return f"; write {shortened(key)} without quotation marks"
    return did_you_mean(key, (*SWEPT, "family"))


def _values(key: str, values: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise InvalidArgument(
            f"sweep.{shortened(key)} is {shown(values)}: expected a list of one or more values"
        )
    for i, value in enumerate(values):
        if value in values[:i]:
            raise InvalidArgument(
                f"sweep.{shortened(key)} contains {shown(value)} twice: remove one"
            )
    return values


def _labels(values: list[Any]) -> list[str]:
    """Return values as parts of the names of folders: themselves, or numbers if that is unreadable.

    Numbers, from 1, stand for values that are longer than `LONGEST` characters, or that differ only
    in their case, or in other characters than letters, digits and . _ + -.
    """
    labels = [_plain(value) for value in values]
    names = {label.lower() for label in labels}  # some file systems ignore the case of letters
    if len(names) == len(labels) and all(0 < len(each) <= LONGEST for each in labels):
        return labels
    return [str(i + 1) for i in range(len(values))]


def _plain(value: Any) -> str:
    parts = value if isinstance(value, list) else [value]
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in parts]
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", "-".join(texts)).strip("-")
