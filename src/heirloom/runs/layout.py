"""The files of a run, and the shapes of its arrays, which follow from its spec."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heirloom.experiments.job import Job
from heirloom.experiments.observers import OBSERVERS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.schema import MARKS, RAGGED, RECORDING, SHARED, VARIABLES, recorded

FORMAT = 2
"""Version of the layout of a run. Format 1 had one zarr chunk per job and variable, no batches."""

SPEC, MANIFEST, BATCHES, GROUP = "spec.json", "manifest.json", "batches", "zarr.json"
BATCH_NAME = re.compile(r"(\d{6})-[0-9a-f]{16}\.npz")
TEMPORARY = re.compile(
    rf"\.({SPEC}|{MANIFEST}|{GROUP}|c(\.\d+)*|{BATCH_NAME.pattern})\.[A-Za-z0-9_]{{8}}"
)
"""Names of temporary files that a killed run may leave."""


@dataclass(frozen=True)
class Layout:
    """What the spec of a run says about its files.

    Args:
        spec: the experiment.
        stored: the spec as it is stored; a version of Heirloom whose specs have more keys stores
            an equal spec differently.
    """

    spec: ExperimentSpec
    stored: dict[str, Any]

    @cached_property
    def digest(self) -> str:
        """Checksum of the stored spec; binds batches and results to their experiment."""
        text = json.dumps(self.stored, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def n_agents(self) -> int:
        """Number of agents."""
        return len(self.spec.agents)

    @property
    def n_jobs(self) -> int:
        """Number of jobs: agents times repetitions."""
        return self.n_agents * self.spec.repetitions

    @property
    def names(self) -> list[str]:
        """Names of the variables recorded for each job."""
        return recorded(self.spec.measure)

    @property
    def ragged(self) -> list[str]:
        """Names of the variables whose size differs between jobs."""
        return [] if self.spec.record is None else [RECORDING]

    def names_of(self, job: Job) -> list[str]:
        """Names of the arrays in the results of a job.

        Jobs of the first agent also compute what all agents share.
        """
        names = [*self.names, *self.ragged]
        return [*names, *SHARED] if job[0] == 0 else names

    def sizes(self, own: dict[str, int]) -> dict[str, int]:
        """Sizes of all dimensions; `own` has those of the dimensions that a measure adds."""
        spec = self.spec
        sizes = {"agent": self.n_agents, "repetition": spec.repetitions}
        sizes |= {"task": spec.tasks, "episode": spec.episodes}
        return sizes | {name: own.get(name, 0) for name in self.own_dimensions}

    @property
    def own_dimensions(self) -> list[str]:
        """Names of the dimensions that the measure of the spec adds."""
        return [] if self.spec.measure is None else [*OBSERVERS[self.spec.measure].own_dimension]

    def shape_per_job(self, name: str) -> tuple[int, ...]:
        """Shape of an array in the results of one job; -1 for a dimension that a measure adds."""
        sizes = self.sizes(dict.fromkeys(self.own_dimensions, -1))
        return tuple(
            sizes[dimension]
            for dimension in VARIABLES[name].dimensions
            if dimension not in ("agent", "repetition")
        )

    def array_names(self) -> list[str]:
        """Names of all arrays of the zarr group."""
        ragged = RAGGED if self.ragged else {}
        return [*self.names, *SHARED, *MARKS, *ragged, *self.sizes({})]

    def coordinates(self, own: dict[str, int]) -> dict[str, np.ndarray]:
        """Labels of each dimension."""
        sizes = self.sizes(own)
        agents = np.array([agent.name for agent in self.spec.agents], dtype=object)
        numbers = {name: np.arange(1, n + 1) for name, n in sizes.items() if name != "agent"}
        return {"agent": agents} | numbers

    def checksum(self, results: Mapping[str, np.ndarray | bytes]) -> np.uint64:
        """64-bit BLAKE2b digest of the spec, and of the names and bytes of arrays of one job."""
        return checksum(results, self.digest)


def checksum(results: Mapping[str, np.ndarray | bytes], digest: str = "") -> np.uint64:
    """Return a 64-bit BLAKE2b digest of a text, and of the names and the bytes of arrays."""
    hashed = hashlib.blake2b(digest.encode(), digest_size=8)
    for name, array in sorted(results.items()):
        hashed.update(name.encode())
        hashed.update(array if isinstance(array, bytes) else np.ascontiguousarray(array).tobytes())
    return np.frombuffer(hashed.digest(), dtype="<u8")[0]
