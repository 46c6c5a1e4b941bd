"""In place of dask-jobqueue where there is no Slurm: its jobs are processes of this machine."""

from dask.distributed import LocalCluster


class SLURMCluster(LocalCluster):
    def __init__(self, *, cores, processes, memory, walltime):
        assert cores == processes  # one thread each, as the document says
        assert memory
        assert walltime
        super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=":0")

    def adapt(self, *, maximum_jobs):
        assert maximum_jobs > 0
        super().adapt(minimum=0, maximum=2)
