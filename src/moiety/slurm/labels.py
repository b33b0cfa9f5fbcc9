"""What is kept of a job that Slurm's words asked for: the labels of its workload."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

PREFIX: Final = "slurm."
CLUSTER: Final = "moiety"
PARTITION: Final = "pool"
"""The partition of a job that names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLabels:
    """The words and numbers of one job. Empty and 0 mean: it was not said."""

    program: str = "sbatch"
    """sbatch, salloc or srun."""
    name: str = ""
    """Its name, if that is none of the pool's names: with spaces, say."""
    command: str = ""
    """The path of the script, or the command."""
    submit_dir: str = ""
    work_dir: str = ""
    comment: str = ""
    account: str = ""
    partition: str = ""
    qos: str = ""
    wckey: str = ""
    reservation: str = ""
    features: str = ""
    """Of `--constraint`."""
    licenses: str = ""
    mail_type: str = ""
    mail_user: str = ""
    node_list: str = ""
    exclude: str = ""
    nice: int = 0
    ntasks: int = 0
    """As it was said."""
    ntasks_per_node: int = 0
    tasks: int = 1
    """How many tasks it has, whether or not that was said."""
    cpus_per_task: int = 0
    """As it was said."""
    cpus: int = 1
    """All together."""
    mem_mib: int = 0
    """All together; 0: it was not said."""
    mem_per_cpu_mib: int = 0
    """As it was said."""
    gres: str = ""
    """As scontrol shows it: gpu:2 or gpu:a100:2."""
    time_limit_min: int = 0
    """0: none."""
    time_min: int = 0
    exclusive: int = 0
    requeue: int = 0
    dependency: str = ""
    signal: str = ""
    """As it was said, such as B:USR1@60."""
    array: str = ""
    """As it was said, without the limit of how many run at once."""
    stdin: str = ""
    stdout: str = ""
    """The pattern of its output, as it was said."""
    stderr: str = ""
    open_mode: str = ""
    notes: str = ""
    """What was said on stderr, one note a line."""


def to_labels(job: JobLabels) -> dict[str, str]:
    """The labels of a workload; what was not said is left out."""
    found = {PREFIX + "program": job.program}
    for field in fields(JobLabels):
        value = getattr(job, field.name)
        if value != field.default:
            found[PREFIX + field.name] = str(value)
    return found


def of_labels(labels: Mapping[str, str]) -> JobLabels | None:
    """What the labels of a workload say; None: it was not submitted with Slurm's words."""
    if PREFIX + "program" not in labels:
        return None
    found: dict[str, str | int] = {}
    for field in fields(JobLabels):
        text = labels.get(PREFIX + field.name)
        if text is None:
            continue
        if field.type == "int":
            found[field.name] = int(text) if text.lstrip("-").isdecimal() else 0
        else:
            found[field.name] = text
    return JobLabels(**found)  # type: ignore[arg-type]


def pool_name(name: str) -> str:
    """A name that the pool takes: its letters, and _ for others."""
    found = re.sub(r"[^A-Za-z0-9_.@:+-]", "_", name)[:128]
    return found if re.match(r"[A-Za-z0-9_]", found) else f"_{found[:127]}"
