"""The variables of a job: those of the submitter that go along, and Slurm's own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moiety.slurm.labels import CLUSTER, PARTITION, JobLabels
from moiety.slurm.submit.request import JobRequest

OURS: Final = "MOIETY_"
OF_STEPS: Final = {"MOIETY_JOB_SPOOL": "%{spool}", "MOIETY_JOB_ATTEMPT": "%{attempt}"}
"""What `srun` needs to know of its job: the folder with its steps, and which start this is."""
WHERE: Final = frozenset(
    {
        "MOIETY_AGENT",
        "MOIETY_CONFIG",
        "MOIETY_DIR",
        "MOIETY_SIMGPU",
        "MOIETY_SYSTEM_DIR",
        "MOIETY_NATIVE",
    }
)
"""They say which pool and which GPUs are meant; a job that submits others needs them."""
CARDS: Final = frozenset(
    {
        "CUDA_VISIBLE_DEVICES",
        "GPU_DEVICE_ORDINAL",
        "NVIDIA_VISIBLE_DEVICES",
        "ROCR_VISIBLE_DEVICES",
        "SLURM_GPUS_ON_NODE",
        "SLURM_JOB_GPUS",
        "SLURM_STEP_GPUS",
    }
)
LIBRARY: Final = "libmoiety"
LOGIN_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Submitter:
    """Who submits, where."""

    uid: int
    gid: int
    user: str
    host: str
    folder: str


def submitter(folder: str) -> Submitter:
    """The user of this process."""
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:
        user = str(uid)
    return Submitter(uid, os.getgid(), user, os.uname().nodename.partition(".")[0], folder)


def without_ours(environment: Mapping[str, str]) -> dict[str, str]:
    """The same without what moiety set for the job that submits: each job gets its own."""
    is_nested = "MOIETY_JOB_ID" in environment
    found = {
        name: value
        for name, value in environment.items()
        if name not in CARDS and (name in WHERE or not name.startswith(OURS))
    }
    if not is_nested:
        found |= {
            name: value
            for name, value in environment.items()
            if name.startswith(OURS) and name != "MOIETY_SOCKET"
        }
    for name, marks in (("LD_PRELOAD", " :"), ("LD_LIBRARY_PATH", ":")):
        if name in found:
            kept = _without_library(found.pop(name), marks, is_nested)
            if kept:
                found[name] = kept
    return found


def _without_library(text: str, marks: str, is_nested: bool) -> str:
    for mark in marks[1:]:
        text = text.replace(mark, marks[0])
    parts = [part for part in text.split(marks[0]) if part]
    return ":".join(
        part
        for part in parts
        if not (LIBRARY in os.path.basename(part) or (is_nested and part.endswith("/simgpu")))
    )


def exported(environment: Mapping[str, str], said: str | None) -> dict[str, str]:
    """What goes along, as `--export` says."""
    own = without_ours(environment)
    words = (said or "ALL").split(",") if said != "" else ["ALL"]
    first = words[0].upper()
    slurms = {n: v for n, v in own.items() if n.startswith("SLURM_")}
    if first == "NONE" or first == "NIL":
        return login(environment) | slurms
    found = dict(own) if "ALL" in (word.upper() for word in words) else login(environment) | slurms
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            found[name] = value
        elif name.upper() != "ALL" and name in own:
            found[name] = own[name]
    return found | {n: own[n] for n in WHERE if n in own}


def login(environment: Mapping[str, str]) -> dict[str, str]:
    """What a login gives a user before any file of settings."""
    try:
        entry = pwd.getpwuid(os.getuid())
        user, home, shell = entry.pw_name, entry.pw_dir, entry.pw_shell
    except KeyError:
        user, home, shell = str(os.getuid()), "/", "/bin/sh"
    where = {name: environment[name] for name in WHERE if name in environment}
    return {
        "HOME": home, "USER": user, "LOGNAME": user, "SHELL": shell, "PATH": LOGIN_PATH,
        **where,
    }  # fmt: skip


def of_allocation(
    request: JobRequest, who: Submitter, name: str, labels: JobLabels
) -> dict[str, str]:
    """Slurm's variables of a job; values have marks, such as %j, for what the pool fills in."""
    cpus, host = str(request.cpus), who.host
    per_task = request.cpus_per_task or 1
    tasks = request.ntasks or max(request.cpus // per_task, 1)
    found = {
        "SLURM_CLUSTER_NAME": CLUSTER,
        "SLURM_CPUS_ON_NODE": cpus,
        "SLURM_JOBID": "%j",
        "SLURM_JOB_CPUS_PER_NODE": cpus,
        "SLURM_JOB_GID": str(who.gid),
        "SLURM_JOB_ID": "%j",
        "SLURM_JOB_NAME": _fixed(name),
        "SLURM_JOB_NODELIST": host,
        "SLURM_JOB_NUM_NODES": "1",
        "SLURM_JOB_PARTITION": _fixed(labels.partition or PARTITION),
        "SLURM_JOB_UID": str(who.uid),
        "SLURM_JOB_USER": _fixed(who.user),
        "SLURM_NNODES": "1",
        "SLURM_NODELIST": host,
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_RESTART_COUNT": "%{restarts}",
        "SLURM_SUBMIT_DIR": _fixed(who.folder),
        "SLURM_SUBMIT_HOST": host,
        "SLURM_TASKS_PER_NODE": str(tasks),
        "SLURM_TOPOLOGY_ADDR": host,
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "TMPDIR": "/tmp",
    }  # fmt: skip
    found |= _said(request, labels)
    if request.gpus:
        found |= {
            "CUDA_VISIBLE_DEVICES": "%{visible}",
            "GPU_DEVICE_ORDINAL": "%{visible}",
            "SLURM_GPUS_ON_NODE": str(request.gpus),
            "SLURM_JOB_GPUS": "%{cards}",
        }
    return found


def of_batch(request: JobRequest, host: str) -> dict[str, str]:
    """What the script itself has beside the variables of its job."""
    found = {
        "ENVIRONMENT": "BATCH",
        "HOSTNAME": host,
        "SLURMD_NODENAME": host,
        "SLURM_GTIDS": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_PROCID": "0",
    }
    if request.array:
        steps = {b - a for a, b in zip(request.array, request.array[1:], strict=False)}
        found |= {
            "SLURM_ARRAY_JOB_ID": "%A",
            "SLURM_ARRAY_TASK_ID": "%a",
            "SLURM_ARRAY_TASK_COUNT": str(len(request.array)),
            "SLURM_ARRAY_TASK_MAX": str(max(request.array)),
            "SLURM_ARRAY_TASK_MIN": str(min(request.array)),
            "SLURM_ARRAY_TASK_STEP": str(steps.pop() if len(steps) == 1 else 1),
        }
    return found


def _said(request: JobRequest, labels: JobLabels) -> dict[str, str]:
    """Variables that are there only if something was said."""
    said = request.said
    found: dict[str, str] = {}
    if request.ntasks is not None:
        found |= {"SLURM_NTASKS": str(request.ntasks), "SLURM_NPROCS": str(request.ntasks)}
    if request.ntasks_per_node is not None:
        found["SLURM_NTASKS_PER_NODE"] = str(request.ntasks_per_node)
    if request.cpus_per_task is not None:
        found["SLURM_CPUS_PER_TASK"] = str(request.cpus_per_task)
    if request.mem_per_cpu_mib:
        found["SLURM_MEM_PER_CPU"] = str(request.mem_per_cpu_mib)
    elif request.mem_per_gpu_mib:
        found["SLURM_MEM_PER_GPU"] = str(request.mem_per_gpu_mib)
    elif request.mem_mib and said.get("mem") not in ("0", None):
        found["SLURM_MEM_PER_NODE"] = str(request.mem_mib)
    for name, variable in SAID.items():
        if name in said:
            found[variable] = _fixed(said[name])
    if "open-mode" in said:
        found["SLURM_OPEN_MODE"] = said["open-mode"][:1].lower()
    if "overcommit" in said:
        found["SLURM_OVERCOMMIT"] = "1"
    if labels.account:
        found["SLURM_JOB_ACCOUNT"] = _fixed(labels.account)
    if said.get("hint") == "nomultithread":
        found["SLURM_THREADS_PER_CORE"] = "1"
    if said.get("export", "ALL") != "ALL":
        found["SLURM_GET_USER_ENV"] = "1"
    return found


SAID: Final = {
    "cpus-per-gpu": "SLURM_CPUS_PER_GPU",
    "distribution": "SLURM_DISTRIBUTION",
    "export": "SLURM_EXPORT_ENV",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus": "SLURM_GPUS",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "gpus-per-task": "SLURM_GPUS_PER_TASK",
    "hint": "SLURM_HINT",
    "ntasks-per-gpu": "SLURM_NTASKS_PER_GPU",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
}


def _fixed(text: str) -> str:
    """A value in which the pool fills in nothing."""
    return text.replace("%", "%%")
