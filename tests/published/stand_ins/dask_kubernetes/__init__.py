"""Stand-in for dask-kubernetes."""
