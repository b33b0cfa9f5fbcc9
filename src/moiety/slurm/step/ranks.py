"""The variables of each process of a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

CARDS: Final = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class StepShape:
    """A step: how many processes, and the GPUs of each."""

    number: int
    tasks: int
    cpus_per_task: int = 0
    """As it was said; 0: it was not."""
    gpus: int | None = None
    """How many GPUs of the job the step uses; None: all."""
    gpus_per_task: int = 0
    cards: tuple[str, ...] = ()
    """Which GPUs of the job it uses, in the job's words; empty: those that come first."""


def of_rank(
    environment: Mapping[str, str], shape: StepShape, rank: int, host: str, pid: int
) -> dict[str, str]:
    """The environment of the process with this rank."""
    tasks = str(shape.tasks)
    found = dict(environment) | {
        "SLURM_GTIDS": ",".join(map(str, range(shape.tasks))),
        "SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1",
        "SLURM_LOCALID": str(rank),
        "SLURM_NNODES": "1",
        "SLURM_NODEID": "0",
        "SLURM_NPROCS": tasks,
        "SLURM_NTASKS": tasks,
        "SLURM_PROCID": str(rank),
        "SLURM_STEPID": str(shape.number),
        "SLURM_STEP_ID": str(shape.number),
        "SLURM_STEP_NODELIST": host,
        "SLURM_STEP_NUM_NODES": "1",
        "SLURM_STEP_NUM_TASKS": tasks,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_SRUN_COMM_HOST": "127.0.0.1",
        "SLURM_TASK_PID": str(pid),
        "SLURMD_NODENAME": host,
    }
    if shape.cpus_per_task:
        found["SLURM_CPUS_PER_TASK"] = str(shape.cpus_per_task)
    return found | cards_of(found, shape, rank)


def least_used(cards: Sequence[str], wanted: int, used: Iterable[str]) -> tuple[str, ...]:
    """As many of these GPUs as a step wants: those that the fewest other steps use."""
    times = Counter(used)
    chosen = sorted(cards, key=lambda card: times[card])[:wanted]
    return tuple(card for card in cards if card in chosen)


def cards_of(environment: Mapping[str, str], shape: StepShape, rank: int) -> dict[str, str]:
    """Which GPUs of the job the process sees."""
    numbers = [part for part in environment.get(CARDS, "").split(",") if part]
    job = [part for part in environment.get("SLURM_JOB_GPUS", "").split(",") if part]
    if not numbers:
        return {}
    used = [at for at, card in enumerate(numbers) if not shape.cards or card in shape.cards]
    if shape.gpus_per_task:
        first = rank * shape.gpus_per_task
        used = [used[at % len(used)] for at in range(first, first + shape.gpus_per_task)]
    elif shape.gpus is not None:
        used = used[: shape.gpus]
    found = {CARDS: ",".join(numbers[at] for at in used)}
    found["GPU_DEVICE_ORDINAL"] = found[CARDS]
    if job:
        found["SLURM_STEP_GPUS"] = ",".join(job[at] for at in used if at < len(job))
    return found
