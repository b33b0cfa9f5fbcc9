"""What a job asks for, counted as Slurm counts it."""

from __future__ import annotations

import pytest

from moiety.slurm.errors import JobRefused
from moiety.slurm.getopt import Reader
from moiety.slurm.submit.request import (
    JobRequest,
    MachineSize,
    is_model,
    machine_of_this,
    request_of,
)

HERE = MachineSize(
    host="node", cpus=16, memory_mib=65536, gpu_models=("NVIDIA A100-SXM4-80GB",) * 4
)


def asked(line: str, machine: MachineSize = HERE) -> JobRequest:
    return request_of(Reader("sbatch").read(line.split())[0], machine)


@pytest.mark.parametrize(
    ("line", "tasks", "ntasks", "cpus"),
    [
        ("", 1, None, 1),
        ("-c 4", 1, None, 4),
        ("-n 3 -c 2", 3, 3, 6),
        ("--ntasks-per-node=4", 4, 4, 4),
        ("-N1 --ntasks-per-node=4 -n 2", 2, 2, 2),
        ("-N 1-4", 1, None, 1),
        ("--gpus=2 --cpus-per-gpu=3", 1, None, 6),
        ("--gpus=2 --ntasks-per-gpu=2", 4, 4, 4),
        ("--gpus=4 --gpus-per-task=2", 2, 2, 2),
        ("--mincpus=8", 1, None, 1),
    ],
)
def test_tasks_and_processors(line: str, tasks: int, ntasks: int | None, cpus: int) -> None:
    found = asked(line)
    assert (found.tasks, found.ntasks, found.cpus) == (tasks, ntasks, cpus)


@pytest.mark.parametrize("word", ["--immediate=abc", "--wait=1.5", "--wait=-3"])
def test_times_of_srun_are_whole_seconds(word: str) -> None:
    option, value = word[2:].split("=")
    with pytest.raises(JobRefused, match=f'Invalid numeric value "{value}" for --{option}.'):
        request_of(Reader("srun").read([word])[0], HERE)
    found, _ = Reader("srun").read(["--immediate", "--wait=30"])
    assert request_of(found, HERE).said == {"immediate": "", "wait": "30"}


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("--gres=gpu:2", 2),
        ("-G 3", 3),
        ("--gpus-per-node=a100:2", 2),
        ("--gpus-per-task=1 -n 4", 4),
        ("--gres=gpu:1 --gpus=2", 2),
        ("--ntasks-per-gpu=2 -n 3", 2),
        ("", 0),
    ],
)
def test_gpus(line: str, gpus: int) -> None:
    assert asked(line).gpus == gpus


@pytest.mark.parametrize(
    ("line", "mebibytes"),
    [
        ("--mem=4G", 4096),
        ("--mem=0", 65536),
        ("--mem-per-cpu=1G -n 2 -c 2", 4096),
        ("--mem-per-gpu=2G -G 3", 6144),
        ("", 0),
    ],
)
def test_memory(line: str, mebibytes: int) -> None:
    assert asked(line).mem_mib == mebibytes


def test_exclusive_is_the_whole_machine() -> None:
    found = asked("--exclusive --gres=gpu:1")
    assert (found.cpus, found.gpus, found.exclusive) == (16, 4, True)
    assert (asked("--exclusive=user").cpus, asked("--exclusive=user").gpus) == (1, 0)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-N 2", "2 nodes are asked for, and there is one machine"),
        ("-n 8 --ntasks-per-node=4", "are several nodes"),
        ("-G 5", "5 GPUs are asked for, and there are 4"),
        ("-c 17", "17 processors are asked for, and there are 16"),
        ("--mincpus=17", "17 processors are asked for"),
        ("--mem=65G", "66560 MiB of memory are asked for, and there are 65536"),
        ("--mem=1G --mem-per-cpu=1G", "mutually exclusive"),
        ("--mem-per-gpu=1G", "without any GPU"),
        ("--gpus-per-task=1", "without either --gpus or"),
        ("--exclusive=foo", "Invalid --exclusive specification"),
        ("--open-mode=foo", "Invalid --open-mode specification"),
        ("-c 0", "Invalid numeric value"),
        ("--gres=nvme:1", "there is no 'nvme' here"),
    ],
)
def test_what_is_not_here_is_refused(line: str, said: str) -> None:
    with pytest.raises(JobRefused, match=said):
        asked(line)


def test_a_model_that_is_not_here_is_noted_or_in_strict_mode_refused() -> None:
    assert asked("--gres=gpu:a100:1").gpu_model == "a100"
    found = asked("--gres=gpu:v100:1")
    assert found.gpu_model == ""
    assert found.notes == ["there is no GPU 'v100' here: any is taken (NVIDIA A100-SXM4-80GB)"]
    strict = MachineSize(cpus=1, gpu_models=("A100",), is_strict=True)
    with pytest.raises(JobRefused, match="there is no v100"):
        asked("--gres=gpu:v100:1", strict)


def test_models_have_many_spellings() -> None:
    assert is_model("rtx_2080_ti", "NVIDIA GeForce RTX 2080 Ti")
    assert is_model("A100", "NVIDIA A100-SXM4-80GB")
    assert not is_model("h100", "NVIDIA A100-SXM4-80GB")


def test_what_means_nothing_is_noted_once_with_the_reason() -> None:
    found = asked("--mail-type=END --mail-type=FAIL -p gpu")
    assert found.said["mail-type"] == "FAIL", "the last counts"
    assert found.notes == [
        "--mail-type means nothing here: no mail is sent",
        "--partition means nothing here: there is one partition; the pool has projects",
    ]


def test_this_machine_has_processors_and_memory() -> None:
    found = machine_of_this()
    assert found.cpus > 0
    assert found.memory_mib > 0
    assert found.gpus == 0
