"""A cluster of dask workers, each a job of the pool."""

from __future__ import annotations

import json
import sys

from dask.distributed import Client
from dask_jobqueue import SLURMCluster


def square(number: int) -> int:
    """What a worker computes."""
    return number * number


def main(folder: str) -> None:
    """Start two workers, compute, and end them."""
    cluster = SLURMCluster(
        cores=1,
        memory="1GB",
        walltime="00:10:00",
        queue="gpu",
        interface="lo",
        local_directory=folder,
        log_directory=folder,
        python=sys.executable,
        scheduler_options={"dashboard_address": None},
    )
    cluster.scale(jobs=2)
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=200)
        futures = client.map(square, range(10))
        total = sum(client.gather(futures))
        workers = sorted(cluster.workers)
        jobs = sorted(worker.job_id for worker in cluster.workers.values())
    cluster.close()
    print(json.dumps({"total": total, "workers": len(workers), "jobs": jobs}))


if __name__ == "__main__":
    main(sys.argv[1])
