"""Each tool runs a small workflow on a pool, and its results are right."""

from __future__ import annotations

import json
from pathlib import Path

from tests.slurm_tools.conftest import PROGRAMS, Tools


def test_submitit_gets_results_failures_and_second_starts(tools: Tools, tmp_path: Path) -> None:
    found = json.loads(tools.program("with_submitit.py", tmp_path, folder=tmp_path))
    assert (found["one"], found["array"], found["state"]) == (5, [11, 22, 33], "COMPLETED")
    assert [each.rpartition("_")[2] for each in found["array_ids"]] == ["0", "1", "2"]
    assert found["failure"] is True
    assert found["starts"] == 2
    seen = found["seen"]
    assert seen["SLURM_PROCID"] == "0"
    assert seen["CUDA_VISIBLE_DEVICES"] == "0"
    states = tools.slurm("sacct", "-X", "-n", "-P", "-a", "-j", seen["SLURM_JOB_ID"], "-o", "State")
    assert states == "COMPLETED\n"


def test_dask_starts_workers_as_jobs_and_ends_them(tools: Tools, tmp_path: Path) -> None:
    found = json.loads(tools.program("with_dask.py", tmp_path, folder=tmp_path))
    assert (found["total"], found["workers"]) == (285, 2)
    for number in found["jobs"]:
        row = tools.pool.ended(int(number))
        assert row.state in ("cancelled", "done")
        assert row.labels["slurm.partition"] == "gpu"


def test_snakemake_runs_a_workflow_of_jobs(tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text((PROGRAMS / "Snakefile").read_text())
    done = tools.run(
        tools.python, "-m", "snakemake", "--executor", "slurm", "--jobs", "3",
        "--slurm-init-seconds-before-status-checks", "1", "--slurm-status-command", "sacct",
        "--seconds-between-status-checks", "1", "--latency-wait", "5",
        "--slurm-no-account", "--default-resources", "runtime=10", "mem_mb=200",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}\n{tools.pool.log()[-2000:]}"
    assert (tmp_path / "sum").read_text().strip() == "6"
    assert (tmp_path / "part-2").read_text() == "2 0\n"
    names = set(tools.slurm("sacct", "-X", "-n", "-P", "-a", "-o", "JobName,State").splitlines())
    assert any(line.endswith("|COMPLETED") and "-" in line for line in names)
