"""Choices that the library and the command line share."""

from typing import Literal

Variant = Literal["text", "released"]
"""Settings of an experiment: those of the paper's text, or of the authors' released scripts."""

Backend = Literal["local", "dask"]
"""Where jobs are computed: processes on this machine, or a Dask cluster."""

Format = Literal["parquet", "csv", "netcdf", "zarr"]
"""File formats to which results can be exported."""

Scope = Literal["task", "lifetime"]
"""Whether a probability is for each task on its own, or for all tasks of a lifetime together."""

Plans = Literal["episode", "visits", "steps"]
"""When a bound makes the values on which an agent acts: see `Bound.plans`."""

Keep = Literal["first", "latest", "most_used"]
"""Which sources a memory keeps when its capacity is reached."""

OnRefutation = Literal["warn", "raise", "widen", "ignore"]
"""What an agent does when a pair that becomes known contradicts a claim."""

Verdict = Literal["supported", "contradicted", "undecided"]
"""What an experiment says about a claim."""
