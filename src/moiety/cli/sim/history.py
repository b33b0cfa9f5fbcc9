"""`moiety sim run` and `compare` on the history of a cluster: a folder, or output of `sacct`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moiety.cli.output import count
from moiety.cli.sim.order_tables import show
from moiety.cli.sim.progress import bar
from moiety.cli.sim.replay_options import COSTS, check_companions, is_typed
from moiety.model.errors import BadArgument, FileNotWritable

if TYPE_CHECKING:
    from moiety.sim.cluster_trace import ClusterTrace
    from moiety.sim.history_outcome import HistoryReplay

ORDERS: Final = ("default", "fifo", "backfill", "fifo-queues", "drf")
"""The orders that know all of a history; a test compares them."""
UNUSED: Final = frozenset(
    {
        *("placing", "placings", "choosing", "load", "faster", "name", "pools", "shuffle_nodes"),
        *("changes", "by_queue"),
    }
)
"""Parameters that a history has no use for."""
OF_JOBS: Final = frozenset({"stops", "starts", "is_known", *COSTS})
"""Parameters that only a file of jobs with whole GPUs has a use for."""
OF_FILES: Final = frozenset({"cluster", "node_gpus", "queues"})
"""Parameters that only the output of `sacct` without a folder has a use for."""
SHOWN_MAX: Final = 3


def is_history(folder: str | None) -> bool:
    """Whether a trace is a history: it says more than placing single tasks needs."""
    if folder is None or not Path(folder).exists():
        return False
    from moiety.sim.history_file import is_history

    return is_history(Path(folder), has_pools=not is_typed("pools"))


def replay(
    typed: Sequence[str] | None,
    output: str,
    plot: str | None,
    jobs: str | None,
    options: dict[str, Any],
) -> None:
    """Replay a history with each order that was typed, and show the results."""
    from moiety.sim import gang_plot
    from moiety.sim import plot as plots
    from moiety.sim.history_outcome import run_history
    from moiety.sim.job_records import check_target, write_records
    from moiety.sim.runs import RestartCost

    _check(options)
    orders = typed or (ORDERS if click.get_current_context().info_name == "compare" else ORDERS[:1])
    target = Path(plot) if plot else None
    if target:
        plots.check(target)
    if jobs:
        check_target(Path(jobs))
    trace = _open(options)
    cost = RestartCost(options["restart_s"])
    replays: list[HistoryReplay] = []
    for name in orders:
        with bar(len(trace.jobs), name) as step:
            replays.append(run_history(trace, name, cost, step))
    if jobs:
        write_records(Path(jobs), [each for one in replays for each in one.records])
    outcomes = [each.outcome for each in replays]
    if target:
        try:
            gang_plot.draw(outcomes, target)
        except OSError as error:
            raise FileNotWritable(str(target), error.strerror or str(error)) from None
    show(outcomes, output)
    if output != "json":
        for line in (*trace.notes, *_never(replays)):
            click.echo(line)


def _never(replays: Sequence[HistoryReplay]) -> list[str]:
    """Which jobs never ended, by order."""
    lines = []
    for each in replays:
        if each.never:
            shown = ", ".join(each.never[:SHOWN_MAX])
            more = f" and {len(each.never) - SHOWN_MAX} more" if each.never[SHOWN_MAX:] else ""
            lines.append(
                f"{each.outcome.order}: {count(len(each.never), 'job')} never ended: {shown}{more}"
            )
    return lines


def _open(options: dict[str, Any]) -> ClusterTrace:
    from moiety.sim.history_file import read_history, read_sacct, with_failures
    from moiety.sim.queue_file import read_queues
    from moiety.sim.reading import Complaints

    path, lenient = Path(options["folder"]), options["bad"] == "report"
    if path.is_dir():
        trace = read_history(path, lenient=lenient)
    else:
        complaints = Complaints(lenient)
        named = options["queues"]
        queues = read_queues(Path(named), complaints) if named else ()
        size, of = options["cluster"], options["node_gpus"]
        trace = read_sacct(path, size, of, queues=queues, complaints=complaints)
    if options["fail_hours"]:
        every_s, repair_s = options["fail_hours"] * 3600, options["repair_hours"] * 3600
        trace = with_failures(trace, every_s, repair_s, options["seed"])
    return trace


def _check(options: dict[str, Any]) -> None:
    """Raises BadArgument for an option that this history has no use for."""
    context = click.get_current_context()
    is_folder = Path(options["folder"]).is_dir()
    for each in context.command.params:
        name = each.name or ""
        if not is_typed(name):
            continue
        flag = each.opts[0]
        if name in UNUSED:
            raise BadArgument(
                f"{flag} is not for a history with queues, pools, changes or gangs",
                "tables in its folder: docs/traces-of-pools.md",
            )
        if name in OF_JOBS:
            problem = f"{flag} is for a file of jobs with whole GPUs, and not for a history"
            raise BadArgument(problem, "docs/howto-simulate.md")
        if is_folder and name in OF_FILES:
            raise BadArgument(f"{flag} is for a single file", "nodes.csv and queues.csv")
    check_companions(options)
