"""A script in real Slurm and in ours: the verdict, and what follows from its options.

What differs by intention is named in `DEVIATIONS`, which the reference has too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from moiety.model.errors import MoietyError
from moiety.slurm.submit.check import check
from moiety.slurm.submit.job import options_of_script
from moiety.slurm.submit.request import MachineSize
from moiety.slurm.submit.script import read
from tests.support.slurm_oracle import CPUS, GPUS, MEMORY_MIB, Oracle

REFUSED_HERE: Final = (
    "nodes are asked for, and there is one machine",
    "are several nodes, and there is one machine",
    "processors are asked for",
    "cannot be used here",
)
"""What we refuse and real Slurm leaves waiting for ever, or does with plugins."""
REFUSED_THERE: Final = (
    "Invalid node name",
    "Invalid license",
    "reservation is invalid",
    "Socket, core and/or thread specification",
    "Temporary disk",
)
"""What real Slurm refuses on a machine that has no such thing, and we note."""


@dataclass(slots=True)
class Compared:
    """The two of one script."""

    name: str
    differences: list[str] = field(default_factory=list)
    deviation: str = ""
    """Why a difference is meant; it does not count then."""


def machine(host: str) -> MachineSize:
    """Ours, with what the oracle has."""
    return MachineSize(host=host, cpus=CPUS, memory_mib=MEMORY_MIB, gpu_models=("GPU",) * GPUS)


def site_words(scripts: Iterable[bytes]) -> tuple[set[str], set[str]]:
    """The partitions and the features that scripts name."""
    partitions: set[str] = set()
    features: set[str] = set()
    for content in scripts:
        try:
            said = {o.name: v for o, v in options_of_script(read(content))}
        except MoietyError:
            continue
        partitions.update(re.findall(r"[\w.-]+", said.get("partition", "")))
        features.update(re.findall(r"[\w.:-]+", re.sub(r"\*\d+", "", said.get("constraint", ""))))
    return partitions - {"pool", "DEFAULT"}, features


def compare(oracle: Oracle, name: str, content: bytes, folder: Path) -> Compared:
    """One script in both; it is held there, and never runs."""
    found = Compared(name)
    (folder / name).write_bytes(content)
    ours = check([str(folder / name)], machine(oracle.host), str(folder))
    done = oracle.run("sbatch", "--parsable", "--hold", name, cwd=folder)
    theirs = "accepted" if done.returncode == 0 else "refused"
    job = oracle.job(done.stdout.strip()) if done.returncode == 0 else {}
    if job:
        oracle.run("scancel", done.stdout.strip())
    reason = ours.get("reason", "")
    if ours["verdict"] != theirs:
        text = reason if theirs == "accepted" else done.stderr
        known = REFUSED_HERE if theirs == "accepted" else REFUSED_THERE
        found.deviation = next((each for each in known if each in text), "")
        found.differences.append(f"verdict: {ours['verdict']}, not {theirs}: {text.strip()[:200]}")
    elif job:
        asked = request_of(ours, done.stdout.strip())
        job["GPUs"] = str(gpus_of(job))
        found.differences += [
            f"{key}: {mine!r}, not {job.get(key)!r}"
            for key, mine in asked.items()
            if job.get(key) != mine
        ]
    return found


def request_of(ours: dict[str, Any], number: str) -> dict[str, str]:
    """Ours in the words of `scontrol show job`."""
    asked, files, said = ours["request"], ours["files"], ours["options"]
    found = {
        "JobName": ours["name"].partition(" ")[0],
        "NumTasks": str(asked["ntasks"] or max(asked["cpus"] // (asked["cpus_per_task"] or 1), 1)),
        "CPUs/Task": str(asked["cpus_per_task"] or 1),
        "TimeLimit": limit_of(asked["time_limit_s"]),
        "Requeue": str(int(asked["requeue"])),
        "WorkDir": files["work_dir"].partition(" ")[0],
    }
    if asked["exclusive"] or "cpus-per-gpu" in said:  # real Slurm counts them when it starts
        del found["NumTasks"], found["CPUs/Task"]
    else:
        found["NumCPUs"] = str(asked["cpus"])
    if not asked["exclusive"]:
        found["GPUs"] = str(asked["gpus"])
    for key, pattern in (
        ("StdOut", files["output"]),
        ("StdErr", files["error"] or files["output"]),
    ):
        found[key] = path_of(pattern, files["work_dir"], number, ours).partition(" ")[0]
    if asked["array"]:
        del found["StdOut"], found["StdErr"]
    if "mem" in said and said["mem"] != "0":
        found["MinMemoryNode"] = size_of(asked["memory_mib"])
    if "mem-per-cpu" in said:
        found["MinMemoryCPU"] = size_of(asked["memory_mib"] // asked["cpus"])
    return found


def gpus_of(job: dict[str, str]) -> int:
    """The GPUs of a job, as far as they are known before it starts."""
    most = 0
    for key, times in (("TresPerNode", 1), ("TresPerJob", 1), ("TresPerTask", job["NumTasks"])):
        parts = re.findall(r"gpu(?::[^:,]*[^:,\d][^:,]*)?(?::(\d+))?(?:,|$)", job.get(key, ""))
        most = max(most, sum(int(part or 1) for part in parts) * int(times))
    return most


def limit_of(seconds: int | None) -> str:
    """A time limit as scontrol shows it."""
    if seconds is None:
        return "UNLIMITED"
    minutes = -(-seconds // 60)
    days, rest = divmod(minutes, 24 * 60)
    return (f"{days}-" if days else "") + f"{rest // 60:02}:{rest % 60:02}:00"


def size_of(mebibytes: int) -> str:
    """A size as scontrol shows it."""
    for unit, factor in (("T", 1 << 20), ("G", 1 << 10)):
        if mebibytes >= factor and mebibytes % factor == 0:
            return f"{mebibytes // factor}{unit}"
    return f"{mebibytes}M"


def path_of(pattern: str, folder: str, number: str, ours: dict[str, Any]) -> str:
    """A path of the pool's patterns, for a job without an array."""
    known: dict[str, str] = {"j": number, "A": number, "a": "0", "x": ours["name"], "%": "%"}

    def filled(mark: re.Match[str]) -> str:
        return known[mark[2]].zfill(int(mark[1] or 0))

    path = re.sub(r"%(\d*)([jAax%])", filled, pattern)
    return path if path.startswith("/") else f"{folder}/{path}"
