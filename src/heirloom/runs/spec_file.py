"""The spec of a run, which is stored twice: in `spec.json`, and in the attributes of the group."""

import json
from typing import Any, NamedTuple

from heirloom.errors import InvalidArgument, InvalidFile
from heirloom.experiments.limits import MOST_JOBS
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.batch import spec_digest
from heirloom.runs.layout import BATCHES, FORMAT, GROUP, MANIFEST, SPEC, Layout
from heirloom.storage import sealed_json
from heirloom.storage.location import Location

KIND = "run"


class Identity(NamedTuple):
    """What a location says about the run that it contains."""

    spec: dict[str, Any]
    """The spec as it is stored."""
    versions: dict[str, str]
    """Versions of Python and of the libraries that the run was started with."""
    format: int
    intact: bool
    """Whether `spec.json` is intact; otherwise the spec is that of the attributes of the group."""

    def layout(self, location: Location) -> Layout:
        """Return the layout of the run; raise `InvalidFile` if its spec is not valid."""
        try:
            layout = Layout(ExperimentSpec.read(self.spec), self.spec)
            if layout.n_jobs > MOST_JOBS:
                raise InvalidArgument(
                    f"it has {layout.n_jobs:,} jobs: expected at most {MOST_JOBS:,}"
                )
            return layout
        except (KeyError, TypeError, InvalidArgument) as error:
            raise InvalidFile(
                f"the spec of the run in {location} is damaged ({error}): run the same experiment "
                "there again, or choose another folder"
            ) from None


def encode(spec: dict[str, Any], versions: dict[str, str]) -> bytes:
    """Return the bytes of `spec.json`."""
    return sealed_json.encode(KIND, FORMAT, {"spec": spec, "versions": versions})


def attributes(spec: dict[str, Any], versions: dict[str, str]) -> dict[str, Any]:
    """Return the attributes of the zarr group, and of a dataset of results."""
    return {"heirloom_run": FORMAT, "spec": spec, "seed": spec["seed"], "versions": versions}


def read_identity(location: Location) -> Identity | None:
    """Read which experiment a location contains; None if neither copy of the spec is readable.

    Raises:
        InvalidFile: if the run was written by a newer version of Heirloom.
    """
    data = location.read(SPEC)
    content = None
    if data is not None:
        content = sealed_json.decode(data, KIND, FORMAT, f"{location}/{SPEC}")
    if content is not None:
        spec, versions = content.get("spec"), content.get("versions")
        if isinstance(spec, dict):
            return Identity(spec, _texts(versions), FORMAT, intact=True)
    return _from_attributes(location)


def _from_attributes(location: Location) -> Identity | None:
    try:
        stored = json.loads(location.read(GROUP) or b"")["attributes"]
        number, spec = stored["heirloom_run"], stored["spec"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    if type(number) is not int or not isinstance(spec, dict):
        return None
    if number > FORMAT:
        raise InvalidFile(
            f"{location} was written by a newer version of Heirloom: upgrade Heirloom to read it"
        )
    return Identity(spec, _texts(stored.get("versions")), number, intact=False)


def _texts(values: object) -> dict[str, str]:
    return {str(k): str(v) for k, v in values.items()} if isinstance(values, dict) else {}


def recorded_digests(location: Location) -> set[str]:
    """Return the checksums of specs that the manifest and the batches of a run record."""
    digests = set()
    content = sealed_json.decode(
        location.read(MANIFEST) or b"", "manifest", FORMAT, f"{location}/{MANIFEST}"
    )
    if content is not None:
        digests.add(str(content.get("spec")))
    for name in (location / BATCHES).names():
        found = spec_digest(location.read(f"{BATCHES}/{name}") or b"")
        if found is not None:
            digests.add(found)
            break  # all batches of a run have the same spec
    return digests
