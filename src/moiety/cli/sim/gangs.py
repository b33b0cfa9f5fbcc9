"""`moiety sim` on traces that say how long gangs ran: one file instead of a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moiety.cli.output import Number, output_option
from moiety.cli.sim.order_tables import show, times_table
from moiety.cli.sim.progress import bar
from moiety.cli.sim.replay_options import (
    OF_QUEUES,
    check_companions,
    is_typed,
    questions_of,
    start_options,
    stop_options,
    stops_of,
    suspension_of,
)
from moiety.model.errors import BadArgument, FileNotWritable

if TYPE_CHECKING:
    from moiety.sim.capacity import QueuesOf
    from moiety.sim.gangs import GangTrace
    from moiety.sim.outcome import GangOutcome
    from moiety.sim.runs import ClusterChange, RestartCost

ORDERS: Final = (
    "default",
    "fifo",
    "backfill",
    "sjf",
    "srtf",
    "srsf",
    "las",
    "tiresias",
)
"""The names of `sim`, for help that does not import it; a test compares them."""
ALL_ORDERS: Final = (*ORDERS, *OF_QUEUES)
SHOWN: Final = ("fifo", "backfill", "las", "srtf", "default")
RESTART_S: Final = 30.0
OF_FILES: Final = frozenset(
    {
        *("order", "orders", "cluster", "node_gpus", "restart_s", "by_queue", "queues"),
        *("changes", "fail_hours", "repair_hours", "splits", "stops", "starts", "is_known"),
        *("state_bytes", "host_bytes", "link_bytes", "network_bytes"),
    }
)
"""Parameters that are not for a trace that is a folder."""
OF_FOLDERS: Final = frozenset(
    {
        *("placing", "placings", "choosing", "load", "live", "faster", "name", "pools"),
        "shuffle_nodes",
    }
)
"""Parameters that are not for a trace that is one file."""

Command = Callable[..., None]


def cluster_options(command: Command) -> Command:
    """Add the options of the cluster's size and the cost of restarts."""
    for option in (
        click.option(
            "--restart",
            "restart_s",
            type=Number(min=0, max=1e9),
            default=RESTART_S,
            show_default=True,
            help="Seconds that a gang loses when it goes on after it was stopped.",
        ),
        click.option(
            "--node-gpus",
            type=click.IntRange(1, 63),
            default=8,
            show_default=True,
            help="GPUs of each node.",
        ),
        click.option("--cluster", type=click.IntRange(1, 1_000_000), help="GPUs in all."),
    ):
        command = option(command)
    return command


def queue_options(command: Command) -> Command:
    """Add the options of queues."""
    for option in (
        click.option(
            "--queues", metavar="FILE", help="Queues: name, parent, quota_gpus, limit_gpus."
        ),
        click.option("--by-queue", is_flag=True, help="Queues have quotas, by what they used."),
    ):
        command = option(command)
    return command


def gang_options(command: Command) -> Command:
    """Add the options that only replays of a file have."""
    for option in (
        click.option(
            "--repair",
            "repair_hours",
            type=Number(min=0, max=1e9, min_open=True),
            default=4.0,
            show_default=True,
            help="Hours until a node that failed is back.",
        ),
        click.option(
            "--fail-every",
            "fail_hours",
            type=Number(min=0, max=1e9, min_open=True),
            help="Mean hours between failures of a node, at random, by --seed.",
        ),
        click.option("--changes", metavar="FILE", help="Nodes that fail, are drained, come or go."),
    ):
        command = option(command)
    return cluster_options(queue_options(stop_options(start_options(command))))


def is_gangs(folder: str | None) -> bool:
    """Whether the path is a trace of gangs: a single file."""
    return folder is not None and Path(folder).is_file()


def check_folder() -> None:
    """Raises BadArgument for an option that a folder has no use for."""
    for flag in _typed(OF_FILES):
        raise BadArgument(f"{flag} is for a trace that is one file", "docs/howto-simulate.md")


def check_file() -> None:
    """Raises BadArgument for an option that a file of jobs has no use for."""
    for flag in _typed(OF_FOLDERS):
        raise BadArgument(f"{flag} is for a trace that is a folder", "docs/traces-of-pools.md")


def _typed(names: Collection[str]) -> Iterator[str]:
    """The options among `names` that were typed."""
    for each in click.get_current_context().command.params:
        if each.name in names and is_typed(each.name):
            yield each.opts[0]


def replay(
    orders: Sequence[str], output: str, plot: str | None, jobs: str | None, options: dict[str, Any]
) -> None:
    """Replay a file with each order, and show the results."""
    from moiety.sim import gang_plot
    from moiety.sim import plot as plots
    from moiety.sim.cluster_trace import of_gangs
    from moiety.sim.history_outcome import run_history
    from moiety.sim.job_records import JobRecord, check_target, write_records
    from moiety.sim.outcome import run_gangs

    check_file()
    check_companions(options)
    questions = questions_of(orders, options)
    if jobs:
        check_target(Path(jobs))
    target = Path(plot) if plot else None
    if target:
        plots.check(target)
    trace, queues_of = _with_queues(options)
    queues = queues_of(trace)
    if queues and not {"default", *OF_QUEUES} & set(orders):
        problem = f"the order {' and '.join(orders)} knows nothing of queues"
        raise BadArgument(problem, "--order default, or drf")
    changes = _changes(trace, options)
    outcomes: list[GangOutcome] = []
    records: list[JobRecord] = []
    for name, stops in product(orders, stops_of(orders, options)):
        is_own = name == "default"
        with bar(len(trace.gangs), name) as step:
            if name in OF_QUEUES:
                whole = of_gangs(trace, queues or (), changes)
                told = run_history(whole, name, _cost(options), step)
                outcomes.append(told.outcome)
                records += told.records
                continue
            outcomes.append(
                run_gangs(
                    trace,
                    name,
                    _cost(options),
                    changes,
                    queues if is_own else None,
                    step,
                    records,
                    questions=questions if is_own else None,
                    stops=stops,
                    suspension=suspension_of(options),
                )
            )
    if jobs:
        write_records(Path(jobs), records)
    if target:
        try:
            gang_plot.draw(outcomes, target)
        except OSError as error:
            raise FileNotWritable(str(target), error.strerror or str(error)) from None
    show(outcomes, output)


def _queues_of(trace: GangTrace, options: dict[str, Any]) -> QueuesOf:
    """The queues that were asked for, on a cluster of any size."""
    from moiety.sim.by_queue import queues_by_use
    from moiety.sim.queue_file import read_queues

    if options["by_queue"] and options["queues"]:
        raise BadArgument("--by-queue makes quotas up, and --queues says them", "one of both")
    if options["by_queue"]:
        if len({gang.queue for gang in trace.gangs}) < 2:
            raise BadArgument(f"{trace.name} names no queues", "no --by-queue")
        return queues_by_use
    if options["queues"]:
        queues = read_queues(Path(options["queues"]), trace.complaints)
        return lambda _: queues
    return lambda _: None


def _with_queues(options: dict[str, Any]) -> tuple[GangTrace, QueuesOf]:
    """The trace, without jobs that its queues never let run, and its queues."""
    from moiety.sim.queue_file import within_queues

    trace = open_file(options)
    queues_of = _queues_of(trace, options)
    queues = queues_of(trace)
    return within_queues(trace, queues) if queues else trace, queues_of


def open_file(options: dict[str, Any]) -> GangTrace:
    """The trace that was named, on the cluster that was named."""
    from moiety.sim.gangs import read_gangs

    return read_gangs(
        Path(options["folder"]),
        options["cluster"],
        options["node_gpus"],
        lenient=options["bad"] == "report",
    )


def _cost(options: dict[str, Any]) -> RestartCost:
    from moiety.sim.runs import RestartCost

    return RestartCost(options["restart_s"])


def _changes(trace: GangTrace, options: dict[str, Any]) -> list[ClusterChange]:
    from moiety.sim.changes import failures, read_changes

    found: list[ClusterChange] = []
    if options["changes"]:
        found += read_changes(Path(options["changes"]), len(trace.nodes), trace.complaints)
    if options["fail_hours"]:
        every_s, repair_s = options["fail_hours"] * 3600, options["repair_hours"] * 3600
        found += failures(trace, every_s, repair_s, options["seed"])
    return found


@click.command()
@output_option
@click.option(
    "--wait",
    "wait_minutes",
    type=Number(min=0, max=1e9),
    default=60.0,
    show_default=True,
    help="Minutes that all but 5 % of the jobs may wait at most, in all.",
)
@click.option(
    "--split",
    "splits",
    multiple=True,
    metavar="GPUS@JOB,GPUS",
    help="Compare with pools apart: 48@1,64 is 48 GPUs for jobs of 1 GPU, 64 for the others; "
    "48:vision,64 is 48 for those of a queue. Again for each split.",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default="default",
    show_default=True,
    help="The order in which jobs begin, where TRACE is a file of jobs.",
)
@click.option("--bad", type=click.Choice(["refuse", "report"]), default="refuse", show_default=True)
@queue_options
@cluster_options
@click.argument("folder", required=False, metavar="[TRACE]")
def capacity(
    output: str, wait_minutes: float, splits: Sequence[str], order: str, **options: Any
) -> None:
    """How many GPUs hold a trace within a given wait; or, with --split, which pools serve better.

    TRACE says how long its jobs ran: a file of jobs (docs/howto-simulate.md), or a folder with
    nodes and jobs (docs/traces-of-pools.md); without it, the one that comes with moiety. The
    search halves the range and shows each size that it tries.
    """
    from moiety.cli.output import seconds
    from moiety.cli.sim import capacity as answers
    from moiety.sim.capacity import needed, parse_split, split
    from moiety.sim.outcome import run_gangs

    if not is_gangs(options["folder"]):
        check_folder()
        answers.search(options["folder"], wait_minutes, options["bad"] == "report", output)
        return
    if splits and is_typed("wait_minutes"):
        problem = "--wait is the bound of a search, and --split compares pools of given sizes"
        raise BadArgument(problem, "one of both")
    trace, queues = _with_queues(options)
    cost = _cost(options)
    if splits:
        parts = [parse_split(text) for text in splits]
        outcomes = [run_gangs(trace, order, cost, queues=queues(trace))]
        outcomes += [split(trace, part, order, cost, options["node_gpus"]) for part in parts]
        names = ["one pool", *splits]
        if output == "json":
            answers.emit_splits(names, outcomes)
            return
        click.echo(times_table(outcomes, names))
        if len({outcome.gpus for outcome in outcomes}) > 1:
            click.echo("they have not equally many GPUs")
        best = min(range(len(outcomes)), key=lambda at: outcomes[at].wait_p95_s)
        click.echo(f"{names[best]} serves best by the wait of all but 5 %")
        return
    tried: list[GangOutcome] = []

    def note(outcome: GangOutcome) -> None:
        tried.append(outcome)
        if sys.stderr is not None and sys.stderr.isatty():
            click.echo(f"{outcome.gpus} GPUs: {seconds(outcome.wait_p95_s)}", err=True)

    found = needed(trace, wait_minutes * 60, order, cost, options["node_gpus"], note, queues)
    tried.sort(key=lambda outcome: outcome.gpus)
    if output == "json":
        answers.emit_sizes(found, tried)
        return
    click.echo(times_table(tried))
    click.echo(answers.sentence(found, wait_minutes))
