"""What a report is about: stored runs, folders of runs, and results in memory."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from heirloom.arrays import FloatArray
from heirloom.choices import Verdict
from heirloom.errors import HeirloomError, InvalidArgument, InvalidFile
from heirloom.experiments.measures import Transfer
from heirloom.experiments.spec import ExperimentSpec
from heirloom.experiments.variables import check_results
from heirloom.runs.layout import texts_of
from heirloom.runs.results import runs_in
from heirloom.runs.stored_run import Status, StoredRun
from heirloom.storage.files import folder_path, regular_file
from heirloom.validation import one_of, shown
from heirloom.wording import are, counted_of

if TYPE_CHECKING:
    import xarray as xr

SUMMARY = "summary.json"
MOST_LISTED = 5  # damaged jobs that are listed by name


@dataclass(frozen=True)
class ShownRun:
    """The results of a run, as far as they exist, and what is known about it."""

    label: str
    """Tells the run from the others of the report."""
    agents: list[str]
    arrays: dict[str, np.ndarray]
    """`returns` [agent, repetition, task, episode], and all other variables of the run; NaN where
    a job is missing."""
    spec: ExperimentSpec | None = None
    versions: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    """Time that the computation of all jobs took together; 0 if it was not recorded."""
    problems: list[str] = field(default_factory=list)
    """What is missing or damaged, each as a sentence."""
    stored: StoredRun | None = None
    suffix: str = ""
    """What is added to the names of agents; empty for the only or the main run."""

    @property
    def returns(self) -> FloatArray:
        """Returns [agent, repetition, task, episode]."""
        return self.arrays["returns"]

    @property
    def optimal(self) -> FloatArray:
        """Optimal expected returns [repetition, task]; NaN where they are not known."""
        return self.arrays["optimal"]

    @property
    def has_transfer(self) -> bool:
        """Whether the run has recorded where transfer came from."""
        return set(Transfer.variables) <= set(self.arrays)


@dataclass(frozen=True)
class Sources:
    """All runs of a report, and the claims that were decided on them."""

    title: str
    runs: list[ShownRun]
    claims: list[dict[str, Any]] = field(default_factory=list)
    reference: dict[str, Any] | None = None
    """The comparison with the reference results that Heirloom ships, if there was one."""
    problems: list[str] = field(default_factory=list)


def read_sources(given: object) -> Sources:
    """Read runs from folders, and take results from memory.

    A dataset of results, a location, or a sequence or a mapping by labels of these is given.
    A location may be a folder that contains runs.
    """
    labelled = _labelled(given)
    runs: list[ShownRun] = []
    claims: list[dict[str, Any]] = []
    problems: list[str] = []
    references = []
    for label, each in labelled:
        if _is_dataset(each):
            runs.append(_in_memory(each, label or "results"))
            continue
        location = folder_path(each, "runs")
        found = runs_in(location)
        summary = _summary(location, problems)
        claims += summary.get("claims", [])
        references.append(summary.get("reference"))
        for run_location in found:
            name = _label(run_location, location, label, several=len(labelled) > 1)
            try:
                runs.append(_stored(StoredRun(run_location), name))
            except HeirloomError as error:
                problems.append(f"The run {name} cannot be read and is left out: {error}.")
    if not runs:
        raise InvalidFile(f"no run can be read: {' '.join(problems)}")
    several = len(labelled) > 1
    reference = None if several else references[0] if references else None
    names = [run.label if run.spec is None else run.spec.name for run in runs]
    is_one = not several or len(set(names)) == 1
    title = names[0] if is_one else f"{names[0]} and {len(names) - 1} more"
    return Sources(title, _with_suffixes(runs, several=several), claims, reference, problems)


def same_tasks(one: ShownRun, other: ShownRun) -> bool:
    """Return whether repetitions of two runs have the same tasks, by their specs."""
    if one.spec is None or other.spec is None:
        return False
    names = ("family", "tasks", "distinct_tasks", "seed", "in_order")
    return all(getattr(one.spec, name) == getattr(other.spec, name) for name in names)


def _labelled(given: object) -> list[tuple[str, Any]]:
    """Return the parts of an argument of `report`, with their labels, empty for none."""
    if isinstance(given, Mapping) and not _is_dataset(given):
        parts = [(str(label), each) for label, each in given.items()]
    elif isinstance(given, Sequence) and not isinstance(given, str | bytes):
        parts = [("", each) for each in given]
    else:
        parts = [("", given)]
    if not parts:
        raise InvalidArgument(
            f"runs is {shown(given)}: expected results, the location of a run, or a list of these"
        )
    return parts


def _is_dataset(given: object) -> bool:
    import xarray as xr

    return isinstance(given, xr.Dataset)


def _in_memory(results: "xr.Dataset", label: str) -> ShownRun:
    names = check_results(results, ("returns", "updates", "optimal"))
    order = ("agent", "repetition", "task")
    arrays = {
        str(name): results[name]
        .transpose(*(d for d in order if d in results[name].dims), ...)
        .values
        for name in results.data_vars
    }
    stored = results.attrs.get("spec")
    try:
        spec = ExperimentSpec.read(stored, stored=True) if isinstance(stored, Mapping) else None
    except HeirloomError:
        spec = None
    versions = texts_of(results.attrs.get("versions"))
    return ShownRun(label, names, arrays, spec=spec, versions=versions)


def _stored(run: StoredRun, label: str) -> ShownRun:
    status = run.status()
    return replace(
        _in_memory(run.results(), label),
        spec=run.spec,
        versions=status.by_versions[0].versions if status.by_versions else run.versions,
        seconds=status.seconds,
        problems=_problems(run, status),
        stored=run,
    )


def _problems(run: StoredRun, status: Status) -> list[str]:
    total = run.layout.n_jobs
    problems = []
    if status.missing:
        problems.append(
            f"{counted_of(len(status.missing), total, 'job')} {are(len(status.missing))} missing: "
            "the run is not complete. All numbers are those of the jobs that exist."
        )
    if status.damaged:
        names = [f"{run.spec.agents[i].name}, repetition {j + 1}" for i, j in status.damaged]
        more = f"; and {len(names) - MOST_LISTED} more" if len(names) > MOST_LISTED else ""
        problems.append(
            f"{counted_of(len(status.damaged), total, 'job')} {are(len(status.damaged))} damaged "
            f"and left out: {'; '.join(names[:MOST_LISTED])}{more}."
        )
    if status.problem:
        problems.append(f"The file of the run is damaged ({status.problem}).")
    if len(status.by_versions) > 1:
        problems.append(
            f"The jobs were computed with {len(status.by_versions)} different sets of versions; "
            "`heirloom status` lists them."
        )
    return problems


def _summary(location: Path, problems: list[str]) -> dict[str, Any]:
    """Return the claims and the reference comparison of `summary.json`, if there is one."""
    try:
        if regular_file(location / SUMMARY) is None:
            return {}
        content = json.loads((location / SUMMARY).read_bytes())
        claims = [
            {
                "statement": str(claim["statement"]),
                "measured": str(claim["measured"]),
                "whose": str(claim["whose"]),
                "verdict": one_of("verdict", claim["verdict"], get_args(Verdict)),
            }
            for claim in content.get("claims", [])
        ]
        reference = content.get("reference")
        return {"claims": claims, "reference": reference if isinstance(reference, dict) else None}
    except (OSError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
        problems.append(f"{SUMMARY} is damaged, so the verdicts of claims are not shown.")
        return {}


def _label(run: Path, given: Path, label: str, *, several: bool) -> str:
    """Return the label of a run that was found at a given location."""
    name = label or _name(given)
    if run == given:
        return name
    own = _name(run).removeprefix("run").lstrip("-") or "main run"
    return f"{name}, {own}" if several else own


def _name(folder: Path) -> str:
    return folder.resolve().name if folder.name in ("", "..") else folder.name


def _with_suffixes(runs: list[ShownRun], *, several: bool) -> list[ShownRun]:
    """Number labels that several runs share, and set what is added to the names of agents."""
    seen: Counter[str] = Counter()
    found = []
    for run in runs:
        seen[run.label] += 1
        label = run.label if seen[run.label] == 1 else f"{run.label} ({seen[run.label]})"
        is_main = len(runs) == 1 or (not several and run is runs[0])
        found.append(replace(run, label=label, suffix="" if is_main else label))
    return found
