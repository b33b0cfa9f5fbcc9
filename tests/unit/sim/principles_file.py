"""Scenarios in a short notation: what each principle of the queues comes to in a small cluster.

A case in principles/*.txt is a paragraph of lines:

    # what it shows
    node NAME GPUS [cpu= mem= mib=]
    queue NAME QUOTA|none [parent= weight= priority= limit= quota_cpu= limit_cpu= quota_mem= ...]
    job NAME QUEUE GPUS|mib=MIB TASK... [np p= min= cpu= mem= devices=]
    expect JOB=STATUS[@NODE] JOB/INDEX=STATUS...
    fixed

A task is a node's name (it runs there; `n#0#1`: on these devices), `?` (it waits) or `-n` (it is
being released); `*2` after it is a number of GPUs of its own. What comes first is older. `fixed`:
it would not be the same case with twice as many GPUs.
"""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

FOLDER = Path(__file__).parent / "principles"
Case = dict[str, Any]
QUEUE_KEYS = {
    "limit": "limit_gpus",
    "quota_cpu": "quota_cpu_milli",
    "limit_cpu": "limit_cpu_milli",
    "quota_mem": "quota_memory_bytes",
    "limit_mem": "limit_memory_bytes",
}


@dataclass(frozen=True)
class Principle:
    """A case in the format of scenarios, and whether it can be scaled."""

    case: Case
    is_fixed: bool

    @property
    def name(self) -> str:
        """What it shows."""
        return str(self.case["name"])


def principles() -> list[Principle]:
    """All cases of all files."""
    return [
        _principle(text)
        for path in sorted(FOLDER.glob("*.txt"))
        for text in path.read_text().strip().split("\n\n")
    ]


def _principle(text: str) -> Principle:
    case: Case = {"nodes": [], "queues": [], "jobs": [], "expect": {"jobs": {}, "tasks": {}}}
    is_fixed = False
    for line in text.splitlines():
        word, *rest = line.split()
        if word == "#":
            case["name"] = " ".join(rest)
        elif word == "node":
            case["nodes"].append(_node(rest))
        elif word == "queue":
            case["queues"].append(_queue(rest, len(case["queues"])))
        elif word == "job":
            case["jobs"].append(_job(rest, len(case["jobs"])))
        elif word == "expect":
            for each in rest:
                name, _, wanted = each.partition("=")
                status, _, node = wanted.partition("@")
                kind = "tasks" if "/" in name else "jobs"
                assert status in ("running", "pending"), line
                case["expect"][kind][name] = {"status": status, **({"node": node} if node else {})}
        else:
            assert word == "fixed", line
            is_fixed = True
    return Principle(case, is_fixed)


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words)


def _node(words: list[str]) -> Case:
    name, gpus, *rest = words
    options = _options(rest)
    return {
        "name": name,
        "gpus": int(gpus),
        "gpu_memory_mib": int(options.get("mib", 100)),
        "cpu_milli": int(options.get("cpu", 20000)),
        "memory_bytes": int(options.get("mem", 20_000_000)),
        "labels": {},
    }


def _queue(words: list[str], age: int) -> Case:
    name, quota, *rest = words
    options = _options(rest)
    return {
        "name": name,
        "parent": options.pop("parent", None),
        "created": age,
        "priority": int(options.pop("priority", 100)),
        "quota_gpus": None if quota == "none" else int(quota),
        "limit_gpus": None,
        "over_quota_weight": int(options.pop("weight", 1)),
        **{QUEUE_KEYS[key]: int(value) for key, value in options.items()},
    }


def _job(words: list[str], age: int) -> Case:
    name, queue, gpus, *rest = words
    is_kept = "np" in rest
    options = _options([word for word in rest if "=" in word])
    tasks = [_task(word) for word in rest if "=" not in word and word != "np"]
    job = {
        "name": name,
        "queue": queue,
        "priority": int(options.get("p", 100 if is_kept else 50)),
        "preemptible": not is_kept,
        "created": age,
        "gpus_per_task": 0,
        "min_tasks": int(options.get("min", min(len(tasks), 1))),
        "tasks": tasks,
    }
    kind, _, mib = gpus.partition("=")
    if kind == "mib":
        job["gpu_memory_mib_per_task"] = int(mib)
    else:
        job["gpus_per_task"] = float(gpus) if "." in gpus else int(gpus)
    for key, name_ in (
        ("cpu", "cpu_milli_per_task"),
        ("mem", "memory_bytes_per_task"),
        ("devices", "gpu_devices_per_task"),
    ):
        if key in options:
            job[name_] = int(options[key])
    return job


def _task(word: str) -> Case:
    word, _, own = word.partition("*")
    task: Case = {"gpus": float(own) if "." in own else int(own)} if own else {}
    node, *devices = word.lstrip("-").split("#")
    if node == "?":
        return {**task, "state": "pending"}
    state = "releasing" if word.startswith("-") else "running"
    return {**task, "state": state, "node": node, **({"gpu_group": devices} if devices else {})}


def renamed(case: Case, random: Random) -> Case:
    """The same with other names of everything, which also sort otherwise."""
    names = [row["name"] for key in ("nodes", "queues", "jobs") for row in case[key]]
    new = [f"x{number:03}" for number in random.sample(range(1000), len(names))]
    at = iter(new)
    of = {key: {row["name"]: next(at) for row in case[key]} for key in ("nodes", "queues", "jobs")}
    other = copy.deepcopy(case)
    for key, known in of.items():
        for row in other[key]:
            row["name"] = known[row["name"]]
    for queue in other["queues"]:
        queue["parent"] = of["queues"].get(queue["parent"])
    for job in other["jobs"]:
        job["queue"] = of["queues"][job["queue"]]
        for task in job["tasks"]:
            if "node" in task:
                task["node"] = of["nodes"][task["node"]]
    expect = case["expect"]
    other["expect"] = {
        "jobs": {of["jobs"][name]: row for name, row in expect["jobs"].items()},
        "tasks": {
            "/".join([of["jobs"][name.split("/")[0]], name.split("/")[1]]): row
            for name, row in expect["tasks"].items()
        },
    }
    for kind in ("jobs", "tasks"):
        other["expect"][kind] = {
            name: {**row, "node": of["nodes"][row["node"]]} if "node" in row else row
            for name, row in other["expect"][kind].items()
        }
    return other


def reordered(case: Case, random: Random) -> Case:
    """The same, listed in another order; ages stay what they are."""
    other = copy.deepcopy(case)
    for key in ("nodes", "queues", "jobs"):
        random.shuffle(other[key])
    return other


def doubled(case: Case) -> Case:
    """Twice as many GPUs of everything."""
    other = copy.deepcopy(case)
    for node in other["nodes"]:
        node["gpus"] *= 2
    for queue in other["queues"]:
        for key in ("quota_gpus", "limit_gpus"):
            if queue.get(key) is not None:
                queue[key] *= 2
    for job in other["jobs"]:
        job["gpus_per_task"] *= 2
        if "gpu_memory_mib_per_task" in job:
            job["gpu_devices_per_task"] = 2 * job.get("gpu_devices_per_task", 1)
        for task in job["tasks"]:
            if "gpus" in task:
                task["gpus"] *= 2
            task.pop("gpu_group", None)
    return other


def with_strangers(case: Case) -> Case:
    """With a queue and a department in which nobody wants anything, and a node of no use."""
    other = copy.deepcopy(case)
    usual = {"created": 99, "priority": 500, "limit_gpus": None, "over_quota_weight": 50}
    other["queues"] += [
        {"name": "idle", "parent": None, "quota_gpus": 7, **usual},
        {"name": "idle-too", "parent": "idle", "quota_gpus": 7, **usual},
    ]
    other["nodes"].append({"name": "useless", "gpus": 0, "cpu_milli": 0, "memory_bytes": 0})
    return other


def without_defaults(case: Case) -> Case:
    """What goes without saying, said with null or not at all, and keys that nobody knows."""
    other = copy.deepcopy(case)
    for job in other["jobs"]:
        if job["preemptible"]:
            job["preemptible"] = None
        if not job["gpus_per_task"]:
            job["gpus_per_task"] = None
        job.setdefault("gpu_memory_mib_per_task", None)
        job.setdefault("cpu_milli_per_task", None)
        job["comment"] = {"of": "no matter"}
        for task in job["tasks"]:
            task.setdefault("gpus", None)
            task.setdefault("gpu_group", None)
            task.setdefault("node", None)
    for queue in other["queues"]:
        if queue["parent"] is None:
            del queue["parent"]
        if queue["limit_gpus"] is None:
            del queue["limit_gpus"]
        queue.setdefault("limit_cpu_milli", None)
        queue.setdefault("quota_memory_bytes", None)
    other["more"] = []
    return other


def written(path: Path, cases: list[Case]) -> Path:
    """A file with these cases."""
    path.write_text(json.dumps(cases))
    return path
