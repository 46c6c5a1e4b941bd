"""Find runs in folders, and find out which experiment a folder contains."""

import os

from heirloom.errors import CannotWrite, InvalidArgument, InvalidFile
from heirloom.experiments.spec import ExperimentSpec
from heirloom.runs.layout import (
    BATCH_NAME,
    BATCHES,
    FORMAT,
    GROUP,
    MANIFEST,
    SPEC,
    TEMPORARY,
    Layout,
)
from heirloom.runs.spec_file import Identity, read_identity, recorded_digests
from heirloom.runs.versions import versions
from heirloom.storage.location import Location


def runs_in(location: str | os.PathLike[str] | Location) -> list[Location]:
    """Find the run at a location, or the runs in its subfolders.

    `heirloom reproduce` writes several runs to one folder.
    """
    location = Location(location)
    runs = _runs_below(location, depth=2)
    if not runs:
        raise InvalidFile(f"there is no run in {location}: give the folder of a run")
    return runs


def _runs_below(location: Location, depth: int) -> list[Location]:
    names = location.names()
    if GROUP in names or is_run(names):
        return [location]
    return [run for name in names if depth for run in _runs_below(location / name, depth - 1)]


def not_a_run(location: Location) -> InvalidFile:
    """Return the error for a location that does not contain a run."""
    # `names` raises an error of its own if a URL cannot be reached.
    names = location.names()
    if not names and not location.is_local:
        return InvalidFile(f"there is nothing at {location}: check the URL")
    if is_run(names):
        return InvalidFile(
            f"the spec of the run in {location} is missing or damaged: run the same experiment "
            "there again, which restores it"
        )
    if not names:
        return InvalidFile(f"there is no run in {location}: give the folder of a run")
    return InvalidFile(
        f"{location} is not a run of Heirloom, or its {GROUP} is damaged: give the folder of a "
        "run; to start a run, give an empty or new folder"
    )


def is_run(names: list[str]) -> bool:
    """Return whether these names of files indicate a run of format 2."""
    return BATCHES in names and (SPEC in names or MANIFEST in names)


def identify(location: Location, spec: ExperimentSpec) -> tuple[Identity, Layout]:
    """Return what a location contains; raise an error if that is not this experiment."""
    given = spec.as_json()
    if location.is_local:
        _check_folder(location)
    new = Identity(given, versions(), FORMAT, intact=False)
    names = location.names()
    if all(TEMPORARY.fullmatch(name) for name in names):
        return new, Layout(spec, given)
    found = read_identity(location)
    if found is None or not found.intact:
        digests, layout = recorded_digests(location), Layout(spec, given)
        if layout.digest in digests:
            return (found or new)._replace(spec=given), layout
        if found is None and digests:
            raise InvalidArgument(f"{location} contains another experiment: choose another folder")
        if found is None and _is_remainder(location, names, layout):
            return new, layout
    if found is None:
        raise not_a_run(location)
    if found.spec != given:  # parsed only to describe the difference
        difference = spec.difference(found.layout(location).spec)
        if difference:
            raise InvalidArgument(
                f"{location} contains another experiment ({difference}): choose another folder"
            )
    return found, Layout(spec, found.spec)


def _check_folder(location: Location) -> None:
    """Raise `CannotWrite` if there is something in which a run cannot be stored."""
    path = location.path
    if path.exists() and not path.is_dir():
        raise CannotWrite(f"{location} is a file: choose a folder for the results")
    if path.exists() and not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise CannotWrite(f"{location} may not be written to: choose another folder")


def _is_remainder(location: Location, names: list[str], layout: Layout) -> bool:
    """Return whether a folder contains only files of a run that was killed while it was created.

    A folder with any other file is left alone.
    """
    of_run = {SPEC, MANIFEST, GROUP, BATCHES, *layout.array_names()}
    in_batches = (location / BATCHES).names()
    return BATCHES in names and all(
        name in of_run or BATCH_NAME.fullmatch(name) or TEMPORARY.fullmatch(name)
        for name in (*names, *in_batches)
    )
