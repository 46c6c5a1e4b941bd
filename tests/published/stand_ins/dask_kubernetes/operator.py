"""Stand-in for the Dask Kubernetes operator: its pods are processes on this machine."""

from dask.distributed import LocalCluster


class KubeCluster(LocalCluster):
    def __init__(self, *, name, image):
        assert name
        assert image
        super().__init__(n_workers=0, threads_per_worker=1, dashboard_address=":0")

    def adapt(self, *, maximum):
        assert maximum > 0
        super().adapt(minimum=0, maximum=2)
