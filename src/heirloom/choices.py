"""The choices that the library and the command line both offer, each defined once."""

from typing import Literal

Variant = Literal["text", "released"]
"""The settings that the paper states, or those of the authors' released scripts."""

Backend = Literal["local", "dask", "ray"]
"""Where jobs are computed: processes of this machine, a Dask cluster, or a Ray cluster."""

Format = Literal["parquet", "csv", "netcdf"]
"""What results can be exported to."""

Keep = Literal["first", "latest", "most_used"]
"""Which sources a memory with a capacity keeps."""
