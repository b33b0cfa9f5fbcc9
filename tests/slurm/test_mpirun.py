"""Debian's mpirun within one workload of a pool."""

from __future__ import annotations

import shutil

import pytest

from moiety.pool.model.states import WorkState
from tests.support.pool_node import PoolNode

SCRIPT = 'echo "$OMPI_COMM_WORLD_RANK of $OMPI_COMM_WORLD_SIZE"'


def test_mpirun_starts_its_processes_within_one_workload(pool: PoolNode) -> None:
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        pytest.skip("there is no mpirun: make test-slurm installs it")
    options = ("--allow-run-as-root", "--oversubscribe", "-np", "3")
    row = pool.ended(
        pool.submit("", program=mpirun, argv=["mpirun", *options, "sh", "-c", SCRIPT], gpus=2)
    )
    assert row.state is WorkState.DONE, pool.output(row.id)
    lines = sorted(pool.output(row.id).splitlines())
    assert lines == [f"{rank} of 3" for rank in range(3)]
