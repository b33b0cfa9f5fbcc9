"""The variables of a job: what goes along, and what Slurm sets."""

from __future__ import annotations

from moiety.slurm.getopt import Reader
from moiety.slurm.labels import JobLabels
from moiety.slurm.submit.environment import (
    Submitter,
    exported,
    of_allocation,
    of_batch,
    without_ours,
)
from moiety.slurm.submit.request import JobRequest, MachineSize, request_of

WHO = Submitter(1000, 100, "ann", "node", "/home/ann/50%")
NESTED = {
    "PATH": "/bin",
    "MOIETY_JOB_ID": "7",
    "MOIETY_SOCKET": "/run/x",
    "MOIETY_DIR": "/run/moiety",
    "MOIETY_QUIET": "1",
    "LD_PRELOAD": "/opt/lib/libmoiety.so:/opt/other.so",
    "LD_LIBRARY_PATH": "/opt/moiety/simgpu:/opt/cuda",
    "CUDA_VISIBLE_DEVICES": "0,1",
    "SLURM_JOB_GPUS": "2,3",
    "SLURM_NTASKS": "4",
}


def asked(line: str) -> JobRequest:
    found = Reader("sbatch").read(line.split())[0]
    return request_of(
        found, MachineSize(host="node", cpus=64, memory_mib=1 << 20, gpu_models=("a",) * 8)
    )


def variables(line: str) -> dict[str, str]:
    request = asked(line)
    return of_allocation(request, WHO, "a%b", JobLabels()) | of_batch(request, "node")


def test_a_job_inside_a_job_has_nothing_of_the_outer_ones_share() -> None:
    assert without_ours(NESTED) == {
        "PATH": "/bin",
        "MOIETY_DIR": "/run/moiety",
        "LD_PRELOAD": "/opt/other.so",
        "LD_LIBRARY_PATH": "/opt/cuda",
        "SLURM_NTASKS": "4",
    }


def test_what_a_user_sets_goes_along() -> None:
    own = {"MOIETY_QUIET": "1", "LD_PRELOAD": "/a.so", "LD_LIBRARY_PATH": "/x/simgpu"}
    assert without_ours(own) == own


def test_export_chooses_what_goes_along() -> None:
    own = {"A": "1", "B": "2", "SLURM_X": "3"}
    assert exported(own, None) == own
    assert exported(own, "ALL,C=4") == own | {"C": "4"}
    for word in ("NONE", "NIL"):
        found = exported(own, word)
        assert (found.get("A"), found["SLURM_X"]) == (None, "3")
        assert {"HOME", "PATH", "USER", "SHELL"} <= set(found)
    found = exported(own, "B,C=4")
    assert (found.get("A"), found["B"], found["C"], found["SLURM_X"]) == (None, "2", "4", "3")


def test_numbers_are_there_only_if_they_were_said() -> None:
    found = variables("")
    for name in ("SLURM_NTASKS", "SLURM_CPUS_PER_TASK", "SLURM_MEM_PER_NODE", "SLURM_JOB_GPUS"):
        assert name not in found
    assert "CUDA_VISIBLE_DEVICES" not in found
    assert found["SLURM_CPUS_ON_NODE"] == found["SLURM_TASKS_PER_NODE"] == "1"
    assert found["SLURM_SUBMIT_DIR"] == "/home/ann/50%%", "nothing of it is filled in"
    assert found["SLURM_JOB_NAME"] == "a%%b"
    assert found["SLURM_JOB_ID"] == found["SLURM_JOBID"] == "%j"


def test_numbers_that_were_said() -> None:
    found = variables("-n 3 -c 2 --mem=4G --gres=gpu:2 --ntasks-per-node=3 --gpus-per-node=2")
    assert found["SLURM_NTASKS"] == found["SLURM_NPROCS"] == "3"
    assert found["SLURM_NTASKS_PER_NODE"] == "3"
    assert found["SLURM_CPUS_PER_TASK"] == "2"
    assert found["SLURM_CPUS_ON_NODE"] == found["SLURM_JOB_CPUS_PER_NODE"] == "6"
    assert found["SLURM_MEM_PER_NODE"] == "4096"
    assert found["SLURM_GPUS_ON_NODE"] == found["SLURM_GPUS_PER_NODE"] == "2"
    assert (found["SLURM_JOB_GPUS"], found["CUDA_VISIBLE_DEVICES"]) == ("%{cards}", "%{visible}")


def test_without_tasks_there_is_one_for_each_processor() -> None:
    assert variables("--gpus=2 --cpus-per-gpu=3")["SLURM_TASKS_PER_NODE"] == "6"
    assert variables("-c 2")["SLURM_TASKS_PER_NODE"] == "1"


def test_a_task_of_an_array_knows_the_others() -> None:
    found = variables("--array=1-5:2%1")
    assert {name: value for name, value in found.items() if "ARRAY" in name} == {
        "SLURM_ARRAY_JOB_ID": "%A",
        "SLURM_ARRAY_TASK_ID": "%a",
        "SLURM_ARRAY_TASK_COUNT": "3",
        "SLURM_ARRAY_TASK_MAX": "5",
        "SLURM_ARRAY_TASK_MIN": "1",
        "SLURM_ARRAY_TASK_STEP": "2",
    }
