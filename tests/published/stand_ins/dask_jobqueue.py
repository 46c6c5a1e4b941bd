"""Stand-in for dask-jobqueue without Slurm: its jobs are processes on this machine."""

from dask.distributed import LocalCluster


class SLURMCluster(LocalCluster):
    def __init__(self, *, cores, processes, memory, walltime):
        assert cores == processes  # one thread per process, as clusters.md states
        assert memory
        assert walltime
        super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=":0")

    def adapt(self, *, maximum_jobs):
        assert maximum_jobs > 0
        super().adapt(minimum=0, maximum=2)
