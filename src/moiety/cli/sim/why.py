"""`moiety sim explain` and `what-if`: why a job waits, and what a further job would meet."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from moiety.cli.output import Number, Size, output_option
from moiety.model.errors import BadArgument

if TYPE_CHECKING:
    from moiety.policy.cycle_settings import CycleSettings
    from moiety.policy.explain.explanation import Explanation
    from moiety.policy.model.queues import Amounts
    from moiety.policy.model.snapshot import Snapshot, Task
    from moiety.sim.scenario_file import Scenario

MIB = 1 << 20
TASKS_MAX = 100_000
PRIORITY_MAX = 10**9

case_option = click.option("--case", "case", metavar="NAME", help="Which case, if several.")
history_option = click.option(
    "--history",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Jobs that ran before: how long others like them will.",
)
file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))


@click.command()
@output_option
@case_option
@history_option
@file_argument
@click.argument("job")
def explain(file: Path, job: str, case: str | None, history: Path | None, output: str) -> None:
    """Say why JOB waits: who is ahead, who would have to end, and when it is expected to begin.

    FILE has a cluster with its queues and jobs, as for `moiety sim scenario`.
    """
    from moiety.policy.explain import explanation as policy

    found, snapshot, settings = _read(file, case, history)
    names = [workload.name for workload in snapshot.workloads]
    if job not in names and job in found.incomplete:
        text = f"{job} waits: {found.incomplete[job]}"
        _show(policy.Explanation(job, "waits", text), str, output)
        return
    if job not in names:
        raise BadArgument(f"there is no job {job}", f"one of: {_some(names)}")
    names_of = {task: shown for shown, task in found.tasks.items()}
    say = names_of.__getitem__
    explained = policy.explain(snapshot, job, settings=settings, say=say)
    if job in found.incomplete and explained.status != "ends":
        runs = bool(explained.end)
        text = f"{job} {'ends' if runs else 'waits'}: {found.incomplete[job]}"
        explained = policy.Explanation(job, "waits", text, end=explained.end)
    _show(explained, say, output)


@click.command("what-if")
@output_option
@case_option
@history_option
@click.option("--queue", required=True, help="In which it would wait.")
@click.option("--name", help="What it would be called: others of the kind tell how long it runs.")
@click.option("--user", default="", help="Whose it would be.")
@click.option(
    "--tasks", type=click.IntRange(1, TASKS_MAX), default=1, help="How many; all or none of them."
)
@click.option(
    "--min-tasks", type=click.IntRange(0, TASKS_MAX), help="The fewest tasks that it can run with."
)
@click.option("--gpus", type=click.IntRange(0, 1024), help="Of each task, for itself.")
@click.option("--gpu", "part", type=Number(0, 1, min_open=True), help="Part of a GPU.")
@click.option("--gpu-memory", type=Size(), help="Of each GPU.")
@click.option("--cpu", type=Number(0, 1e6), default=0.0, help="CPUs of each task.")
@click.option("--memory", type=Size(), default=None, help="Host memory of each task.")
@click.option(
    "--priority", type=click.IntRange(-PRIORITY_MAX, PRIORITY_MAX), default=50, show_default=True
)
@click.option("--guaranteed", is_flag=True, help="It would never have to yield.")
@click.option("--opportunistic", is_flag=True, help="It would yield to any job.")
@file_argument
def what_if(file: Path, case: str | None, output: str, **options: Any) -> None:
    """Say what would become of a job before it is submitted: where, when, at whose cost.

    FILE has a cluster with its queues and jobs, as for `moiety sim scenario`.
    """
    from moiety.policy.explain import explanation as policy
    from moiety.policy.model.workloads import Subgroup, Workload

    found, snapshot, settings = _read(file, case, options["history"])
    tasks: int = options["tasks"]
    least = tasks if options["min_tasks"] is None else options["min_tasks"]
    if least > tasks:
        raise BadArgument(f"--min-tasks {least} of --tasks {tasks}", f"at most {tasks}")
    leaves = [queue.name for queue in snapshot.queues if queue.name not in _parents(snapshot)]
    if options["queue"] not in leaves:
        hint = f"one of: {_some(leaves)}"
        raise BadArgument(f"nothing can wait in a queue {options['queue']}", hint)
    name = options["name"] or "what-if"
    while any(workload.name == name for workload in snapshot.workloads):
        name += "'"
    workload = Workload(
        name,
        (Subgroup("main", _shape(options), tasks, least),),
        options["queue"],
        user=options["user"],
        priority=options["priority"],
        is_preemptible=not options["guaranteed"],
        is_opportunistic=options["opportunistic"],
    )
    names_of = {task: shown for shown, task in found.tasks.items()}

    def say(task: Task) -> str:
        return names_of.get(task) or f"{task.workload}/{task.index}"

    _show(policy.what_if(snapshot, workload, settings=settings, say=say), say, output)


def _parents(snapshot: Snapshot) -> set[str | None]:
    return {queue.parent for queue in snapshot.queues}


def _shape(options: dict[str, Any]) -> Any:
    from moiety.policy.model.cluster import WHOLE_GPU
    from moiety.policy.model.workloads import Shape

    gpus, part = options["gpus"], options["part"]
    if gpus is not None and part is not None:
        raise BadArgument("--gpus and --gpu at once", "whole GPUs, or a part of one")
    gpu_memory = (options["gpu_memory"] or 0) // MIB
    if part is not None:
        if part * WHOLE_GPU < 1:
            raise BadArgument(f"--gpu {part:g} is less than a thousandth of a GPU", "--gpu 0.001")
        count, milli = 1, round(part * WHOLE_GPU)
    elif gpus is not None:
        count, milli = gpus, WHOLE_GPU if gpus else 0
    else:
        count, milli = int(bool(gpu_memory)), 0
    memory = (options["memory"] or 0) // MIB
    return Shape(round(options["cpu"] * 1000), memory, count, milli, gpu_memory)


def _read(
    file: Path, name: str | None, history: Path | None
) -> tuple[Scenario, Snapshot, CycleSettings]:
    """The case, its cluster with host memory in MiB, and what is known of run times."""
    from moiety.policy.cycle_settings import CycleSettings
    from moiety.policy.estimate.runtime_history import RuntimeHistory, runtimes, still_running
    from moiety.sim.gangs import ran_before
    from moiety.sim.scenario_file import RefusedCase, read_scenarios

    cases = read_scenarios(file)
    names = [case.name for case in cases]
    chosen = [case for case in cases if name is None or case.name == name]
    if len(chosen) != 1:
        problem = f"it has {len(names)} cases" if name is None else f"no one case is named {name!r}"
        raise BadArgument(f"{file}: {problem}", f"--case with one of: {_some(names)}")
    [case] = chosen
    if isinstance(case, RefusedCase):
        raise case.error
    ran = [*case.ran, *still_running(case.snapshot)]
    if history is not None:
        ran += ran_before(history)
    expects = runtimes(RuntimeHistory(ran), lambda job: case.run_times.get(job.name))
    return case, _in_mib(case.snapshot), CycleSettings(runtimes=expects)


def _some(names: list[str]) -> str:
    return ", ".join(names[:10]) + (" ..." if len(names) > 10 else "")


def _in_mib(snapshot: Snapshot) -> Snapshot:
    """The snapshot with host memory in MiB, not bytes: what there is rounded up, requests down.

    So what fits in bytes fits here too: in nodes, quotas and limits.
    """

    def smaller(shape: Any) -> Any:
        return replace(shape, memory_mib=shape.memory_mib // MIB)

    def bound(amounts: Amounts) -> Amounts:
        most = amounts.memory_mib
        return amounts if most is None else replace(amounts, memory_mib=-(-most // MIB))

    return replace(
        snapshot,
        nodes=tuple(replace(n, memory_mib=-(-n.memory_mib // MIB)) for n in snapshot.nodes),
        workloads=tuple(
            replace(w, subgroups=tuple(replace(s, shape=smaller(s.shape)) for s in w.subgroups))
            for w in snapshot.workloads
        ),
        running=tuple(replace(each, shape=smaller(each.shape)) for each in snapshot.running),
        queues=tuple(
            replace(
                each,
                quota=bound(each.quota),
                limit=bound(each.limit),
                windows=tuple(replace(w, quota=bound(w.quota)) for w in each.windows),
            )
            for each in snapshot.queues
        ),
    )


def _show(found: Explanation, say: Any, output: str) -> None:
    if output == "table":
        click.echo(found.sentence)
        for title, tasks in (("would move", found.move), ("would end", found.end)):
            if len(tasks) > 3:
                click.echo(f"{title}: {', '.join(map(say, tasks))}")
        if found.ahead:
            click.echo(f"ahead of it: {', '.join(found.ahead)}")
        return
    import msgspec

    plain = {
        "job": found.workload,
        "status": found.status,
        "sentence": found.sentence,
        "numbers": found.numbers,
        "places": {say(task): {"node": s.node, "gpus": s.gpus} for task, s in found.spots},
        "ahead": found.ahead,
        "end": [say(task) for task in found.end],
        "move": [say(task) for task in found.move],
        "start": found.start and msgspec.to_builtins(found.start),
    }
    click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
