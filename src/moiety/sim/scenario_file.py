"""Reads scenarios: small clusters with queues and jobs, and what should become of them.

Host memory is taken in bytes, as it stands in the file, so that exact fits stay exact: the policy
only adds and compares it, in any unit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from moiety.model.errors import MoietyError, ScenarioInvalid
from moiety.policy.estimate.runtime_history import PastRun
from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.queues import Amounts, Queue, QueueTree
from moiety.policy.model.snapshot import Snapshot, Task
from moiety.policy.model.workloads import Shape, Subgroup, Workload
from moiety.sim import case_time
from moiety.sim.case_values import BadCase, amount, as_object, number, text
from moiety.sim.scenario_nodes import allowed_models, read_nodes
from moiety.sim.scenario_places import Own, Seating

FILE_MAX = 64 << 20
"""The most bytes that are read; a hundred cases take a tenth of one MiB."""
STATES = ("running", "pending", "releasing")
"""A releasing task gives up its place for good: other tasks may have it at once."""
NOWHERE = frozenset({"nowhere"})
"""The pools of an incomplete gang."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected status of a task, and its node if that matters."""

    status: str
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """One case, as the file has it."""

    name: str
    snapshot: Snapshot
    tasks: Mapping[str, Task]
    """Tasks by the names that the scenario gives them: job/0."""
    expected: Mapping[str, Expected]
    notes: tuple[str, ...] = ()
    """Oddities of the case that do not keep it from running."""
    run_times: Mapping[str, float] = field(default_factory=dict)
    """Seconds that jobs are expected to run in all, where the file gives them."""
    ran: tuple[PastRun, ...] = ()
    """Jobs that have ended, from which the run times of other jobs are estimated."""
    incomplete: Mapping[str, str] = field(default_factory=dict)
    """Why a gang cannot run that has fewer tasks in the file than it needs."""
    machines: Mapping[str, str] = field(default_factory=dict)
    """The machine of each node that is the part of one with several GPU models."""


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """A case that makes no sense."""

    name: str
    error: ScenarioInvalid


def read_scenarios(path: Path, *, strict: bool = False) -> list[Scenario | RefusedCase]:
    """All cases of a file, in its order; `strict` also refuses quotas that cannot be kept.

    Raises ScenarioInvalid if the file cannot be read or is not a list of cases.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(FILE_MAX + 1)
        if len(raw) > FILE_MAX:
            raise ScenarioInvalid(str(path), "", "it is too large for a list of cases")
        data = json.loads(raw)
    except OSError as error:
        raise ScenarioInvalid(str(path), "", error.strerror or str(error)) from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}"
        raise ScenarioInvalid(str(path), where, f"it is not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # no text, numbers of thousands of digits
        raise ScenarioInvalid(str(path), "", f"it is not JSON: {error}") from None
    cases = data
    if isinstance(data, dict):
        cases = [data] if "nodes" in data else data.get("cases")
    if not isinstance(cases, list):
        raise ScenarioInvalid(str(path), "", "it is not a list of cases")
    found: list[Scenario | RefusedCase] = []
    for at, case in enumerate(cases):
        name = str(case.get("name", f"case {at}")) if isinstance(case, dict) else f"case {at}"
        try:
            found.append(_case(name, as_object(case, ""), strict))
        except BadCase as error:
            key = f"cases[{at}].{error.key}".rstrip(".")
            found.append(RefusedCase(name, ScenarioInvalid(str(path), key, str(error))))
        except MoietyError as error:
            found.append(RefusedCase(name, ScenarioInvalid(str(path), f"cases[{at}]", error.what)))
    return found


def _rows(case: Mapping[str, Any], key: str) -> list[tuple[str, Mapping[str, Any]]]:
    rows = case.get(key)
    if not isinstance(rows, list):
        raise BadCase(key, "there is no such list")
    found = [(f"{key}[{at}]", as_object(row, f"{key}[{at}]")) for at, row in enumerate(rows)]
    names: set[str] = set()
    for where, row in found:
        name = text(row, "name", where)
        if name in names:
            raise BadCase(f"{where}.name", f"there are two {key} of the name {name}")
        names.add(name)
    return found


def _case(name: str, case: Mapping[str, Any], strict: bool) -> Scenario:
    nodes, machines = read_nodes(_rows(case, "nodes"))
    notes: list[str] = []
    queues = tuple(_queue(row, where, notes) for where, row in _rows(case, "queues"))
    tree = _tree(queues)
    for parent, resource, total, whole, when in tree.ever_above_parents():
        at = f" on {when}" if when else ""
        notes.append(
            f"the quotas below queue {parent} add up to {total} {resource}{at}, "
            f"it has {whole} itself"
        )
    if strict and notes:
        raise BadCase("queues", notes[0])
    incomplete: dict[str, str] = {}
    jobs = [
        _job(row, where, tree, allowed_models(row, where, nodes), incomplete)
        for where, row in _rows(case, "jobs")
    ]
    notes += [f"job {job}: {why}" for job, why in incomplete.items()]
    workloads = tuple(workload for workload, _, _ in jobs if workload)
    tasks = {shown: task for _, own, _ in jobs for shown, task in own.items()}
    running = Seating(nodes, machines).seat([task for _, _, own in jobs for task in own])
    now_s = 1 + max((workload.submitted_s for workload in workloads), default=0)
    ages, run_times = _times(case, tasks)
    snapshot = Snapshot(
        nodes,
        workloads,
        tuple(
            replace(each, since_s=now_s - ages[each.task]) if each.task in ages else each
            for each in running
        ),
        queues,
        now_s=now_s,
        monday_s=case_time.monday_s(case, now_s),
    )
    expected, ran = _expected(case, tasks), case_time.history(case)
    return Scenario(
        name, snapshot, tasks, expected, tuple(notes), run_times, ran, incomplete, machines
    )


def _times(
    case: Mapping[str, Any], tasks: Mapping[str, Task]
) -> tuple[dict[Task, float], dict[str, float]]:
    """How long tasks have run, and how long jobs are expected to run, where the case gives it."""
    ages: dict[Task, float] = {}
    run_times: dict[str, float] = {}
    for where, row in _rows(case, "jobs"):
        name = row["name"]
        if row.get("expected_run_s") is not None:
            run_times[name] = number(row, "expected_run_s", where)
        for at, each in enumerate(row["tasks"]):
            if each.get("running_for_s") is not None:
                key = f"{where}.tasks[{at}]"
                ages[tasks[f"{name}/{at}"]] = number(each, "running_for_s", key)
    return ages, run_times


def _queue(row: Mapping[str, Any], where: str, notes: list[str]) -> Queue:
    quota: dict[str, int | None] = {}
    limit: dict[str, int | None] = {}
    for name, key, scale in (
        ("gpu_milli", "gpus", WHOLE_GPU),
        ("cpu_milli", "cpu_milli", 1),
        ("memory_mib", "memory_bytes", 1),
    ):
        quota[name] = amount(row, f"quota_{key}", where, scale)
        most = limit[name] = amount(row, f"limit_{key}", where, scale)
        own = quota[name]
        if own is not None and most is not None and own > most:
            notes.append(f"queue {row['name']}: its quota of {own} {name} is above its limit")
            quota[name] = most
    if "quota_gpus" not in row:
        quota["gpu_milli"] = 0
    parent = row.get("parent")
    return Queue(
        row["name"],
        None if parent is None else text(row, "parent", where),
        Amounts(**quota),
        Amounts(**limit),
        number(row, "over_quota_weight", where, 1),
        int(number(row, "priority", where, 0)),
        case_time.windows(row, where),
        number(row, "created", where, 0),
    )


def _tree(queues: tuple[Queue, ...]) -> QueueTree:
    try:
        return QueueTree(queues)
    except MoietyError as error:
        raise BadCase("queues", error.what) from None


def _job(
    row: Mapping[str, Any],
    where: str,
    tree: QueueTree,
    models: frozenset[str],
    incomplete: dict[str, str],
) -> tuple[Workload | None, dict[str, Task], list[Own]]:
    """A job's workload, its tasks and where they run; no workload if no task runs or could run."""
    queue = text(row, "queue", where)
    if queue not in tree.queues:
        raise BadCase(f"{where}.queue", f"there is no queue {queue}")
    if tree.children.get(queue):
        raise BadCase(
            f"{where}.queue", f"queue {queue} has queues below it, so no job can be in it"
        )
    rows = row.get("tasks")
    if not isinstance(rows, list):
        raise BadCase(f"{where}.tasks", "it has no list of tasks")
    name = row["name"]
    keys = [f"{where}.tasks[{at}]" for at in range(len(rows))]
    tasks = [(key, as_object(each, key)) for key, each in zip(keys, rows, strict=True)]
    here = [at for at, (key, one) in enumerate(tasks) if _state(one, key) != "releasing"]
    least = int(number(row, "min_tasks", where, len(rows)))
    # a gang needs `least` of its tasks, any of them: running tasks first, then the first others
    here.sort(key=lambda at: (_state(tasks[at][1], tasks[at][0]) != "running", at))
    needed = set(here[:least])
    groups: dict[Shape, list[int]] = {}
    shown: dict[str, Task] = {}
    running: list[Own] = []
    devices = _devices(row, where, [one for _, one in tasks])
    for at, (key, one) in enumerate(tasks):
        state = _state(one, key)
        if state == "releasing":
            shown[f"{name}/{at}"] = Task(name, "releasing", at)
            continue
        shape = _shape(row, one, where, key, devices)
        if shape.gpus and models:
            shape = replace(shape, models=models)
        members = groups.setdefault(shape, [])
        task = Task(name, f"shape{list(groups).index(shape)}", len(members))
        members.append(at)
        shown[f"{name}/{at}"] = task
        if state == "running":
            on = one.get("gpu_group") or []
            if not isinstance(on, list):
                raise BadCase(f"{key}.gpu_group", f"it is not a list: {on!r}")
            running.append((task, shape, text(one, "node", key), tuple(map(str, on))))
    if not here:
        incomplete[name] = "it has no tasks to run"
        return None, shown, running
    subgroups = [
        Subgroup(f"shape{index}", shape, len(at), sum(each in needed for each in at))
        for index, (shape, at) in enumerate(groups.items())
    ]
    if least > len(here):
        incomplete[name] = f"it needs {least} tasks at once, and there are only {len(here)}"
        # One that can be nowhere is enough, however many there are to come.
        subgroups.append(Subgroup("missing", Shape(), 1, 1))
    preemptible = row.get("preemptible")
    workload = Workload(
        name,
        tuple(subgroups),
        queue,
        NOWHERE if name in incomplete else frozenset(),
        user="" if row.get("user") is None else text(row, "user", where),
        priority=int(number(row, "priority", where, 0)),
        is_preemptible=preemptible is None or bool(preemptible),
        is_opportunistic=bool(row.get("opportunistic", False)),
        submitted_s=number(row, "created", where, 0),
        max_run_s=_max_run_s(row, where),
    )
    return workload, shown, running


def _max_run_s(row: Mapping[str, Any], where: str) -> float | None:
    if row.get("max_run_s") is None:
        return None
    found = number(row, "max_run_s", where)
    if not found:
        raise BadCase(f"{where}.max_run_s", "it is 0, so the job could never run")
    return found


def _state(task: Mapping[str, Any], key: str) -> str:
    state = task.get("state")
    if state not in STATES:
        raise BadCase(f"{key}.state", f"it is {state!r}, not running or pending (or releasing)")
    return str(state)


def _devices(row: Mapping[str, Any], where: str, tasks: list[Mapping[str, Any]]) -> int:
    """On how many GPUs a task has its part: as the job says, or as one that runs is seen to."""
    said = int(number(row, "gpu_devices_per_task", where, 0))
    groups = [task.get("gpu_group") for task in tasks if task.get("state") == "running"]
    seen = [len(group) for group in groups if isinstance(group, list)]
    return said or max(seen, default=1) or 1


def _shape(
    job: Mapping[str, Any], task: Mapping[str, Any], where: str, key: str, devices: int
) -> Shape:
    cpu = int(number(job, "cpu_milli_per_task", where, 0))
    memory = int(number(job, "memory_bytes_per_task", where, 0))
    gpu_memory = int(number(job, "gpu_memory_mib_per_task", where, 0))
    is_own = task.get("gpus") is not None
    if gpu_memory and not is_own:
        return Shape(cpu, memory, devices, 0, gpu_memory)
    wanted = number(task, "gpus", key) if is_own else number(job, "gpus_per_task", where, 0)
    if wanted > 1 and wanted != int(wanted):
        raise BadCase(f"{where}.gpus_per_task", f"{wanted:g} is neither a part of one nor whole")
    if not wanted:
        return Shape(cpu, memory)
    if wanted >= 1:
        return Shape(cpu, memory, int(wanted), WHOLE_GPU)
    if wanted * WHOLE_GPU < 1:
        raise BadCase(f"{where}.gpus_per_task", f"{wanted:g} is less than a thousandth of a GPU")
    return Shape(cpu, memory, devices, round(wanted * WHOLE_GPU))


def _expected(case: Mapping[str, Any], tasks: Mapping[str, Task]) -> dict[str, Expected]:
    """By task; what is said of a job holds for each of its tasks."""
    expect = as_object(case.get("expect", {}), "expect")
    found: dict[str, Expected] = {}
    for name, row in as_object(expect.get("jobs", {}), "expect.jobs").items():
        wanted = _status(row, f"expect.jobs.{name}")
        own = [shown for shown, task in tasks.items() if task.workload == name]
        for shown in own or [name]:
            found[shown] = wanted
    for shown, row in as_object(expect.get("tasks", {}), "expect.tasks").items():
        found[shown] = _status(row, f"expect.tasks.{shown}")
    return found


def _status(value: Any, key: str) -> Expected:
    row = as_object(value, key)
    return Expected(str(row.get("status")), row.get("node"))
