"""`moiety sim`: replays the trace of a cluster with rules of placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from moiety.cli.output import Number, count, output_option, table
from moiety.cli.sim import gangs, history
from moiety.cli.sim.progress import bar
from moiety.cli.sim.replay_options import is_typed
from moiety.cli.sim.scenario import scenario
from moiety.cli.sim.why import explain, what_if
from moiety.model.errors import BadArgument, FileNotWritable

if TYPE_CHECKING:
    from moiety.sim.replay import ReplaySettings
    from moiety.sim.results import Result
    from moiety.sim.trace import Trace

RULES: Final = ("default", "fgd", "best-fit", "bin-pack", "spread", "worst-fit", "random")
CHOICES: Final = ("rule", "best-fit", "worst-fit", "least-busy", "first", "random")
"""The names of `policy`, for help that does not import it; a test compares them."""
SHOWN_PERCENTS: Final = (50, 70, 80, 90, 95, 100, 110, 120, 130)
SHOWN_RULES: Final = ("default", "fgd", "best-fit", "random")

Command = Callable[..., None]


@click.group()
def sim() -> None:
    """Replay the trace of a cluster in virtual time, without any GPU."""


sim.add_command(scenario)
sim.add_command(gangs.capacity)
sim.add_command(explain)
sim.add_command(what_if)


def shared(command: Command) -> Command:
    """Add the options of all replays."""
    for option in (
        output_option,
        click.option("--plot", metavar="FILE", help="Draw it: a .png, .svg or .pdf."),
        click.option(
            "--jobs",
            metavar="FILE",
            help="With an order: write what became of each job, as .csv or .jsonl.",
        ),
        click.option(
            "--bad",
            type=click.Choice(["refuse", "report"]),
            default="refuse",
            show_default=True,
            help="What to do about lines that make no sense, or ask for more than there is.",
        ),
        click.option("--shuffle-nodes", is_flag=True, help="Equal nodes in random order, by seed."),
        click.option(
            "--faster",
            type=Number(min=0, max=1e9, min_open=True),
            default=1.0,
            help="With --live: how many times as fast tasks arrive.",
        ),
        click.option(
            "--pools",
            metavar="FILE",
            help="With --live: pools that grow and shrink: name, nodes_min, nodes_max, start_s.",
        ),
        click.option("--live", is_flag=True, help="Tasks come and go at their recorded times."),
        click.option(
            "--load",
            type=click.IntRange(1, 1000),
            default=130,
            show_default=True,
            help="Without --live: percent of the GPUs that tasks ask for until the end.",
        ),
        click.option("--seed", type=click.IntRange(0), default=0, help="Of all that is random."),
        click.option(
            "--gpus",
            "choosing",
            type=click.Choice(CHOICES),
            default="rule",
            show_default=True,
            help="How a GPU is chosen within a node.",
        ),
        click.option("--list", "name", metavar="NAME", help="Which list of pods, if several."),
        click.argument("folder", required=False, metavar="[TRACE]"),
    ):
        command = option(command)
    return command


@sim.command()
@click.option(
    "--placing",
    type=click.Choice(RULES),
    default="default",
    show_default=True,
    help="How a node is chosen.",
)
@click.option(
    "--order",
    type=click.Choice(gangs.ALL_ORDERS),
    default="default",
    show_default=True,
    help="The order in which jobs begin, where TRACE is a file of jobs or a history.",
)
@gangs.gang_options
@shared
def run(
    placing: str, order: str, output: str, plot: str | None, jobs: str | None, **options: Any
) -> None:
    """Replay a trace with one rule of placement, or one order.

    TRACE is a folder with nodes.csv and jobs.csv, or one of Alibaba's traces with nodes.csv and
    pods_NAME.csv; without it, a small part of the latter that comes with moiety. If it is one
    file, of jobs that say how long they ran (docs/howto-simulate.md), output of Slurm's sacct, or
    a folder with queues.csv, pools.csv or changes.csv too, the order is what is tried.
    """
    if _replay_in_order([order], output, plot, jobs, options):
        return
    _show(_replay([placing], plot, **options), output)


@sim.command()
@click.option(
    "--placing",
    "placings",
    type=click.Choice(RULES),
    multiple=True,
    default=SHOWN_RULES,
    show_default=True,
    help="How a node is chosen; again for each rule.",
)
@click.option(
    "--order",
    "orders",
    type=click.Choice(gangs.ALL_ORDERS),
    multiple=True,
    default=gangs.SHOWN,
    show_default=True,
    help="The order in which jobs begin, where TRACE is a file of jobs or a history; again "
    "for each order.",
)
@gangs.gang_options
@shared
def compare(
    placings: Sequence[str],
    orders: Sequence[str],
    output: str,
    plot: str | None,
    jobs: str | None,
    **options: Any,
) -> None:
    """Replay a trace with several rules of placement, or several orders, side by side."""
    if _replay_in_order(list(dict.fromkeys(orders)), output, plot, jobs, options):
        return
    _show(_replay(list(dict.fromkeys(placings)), plot, **options), output)


def _replay_in_order(
    orders: Sequence[str], output: str, plot: str | None, jobs: str | None, options: dict[str, Any]
) -> bool:
    """Replay a trace of which the order is tried; False: it is about placing only."""
    folder = options["folder"]
    has_order = is_typed("order", "orders")
    if history.is_history(folder) or (folder and Path(folder).is_dir() and has_order):
        history.replay(orders if has_order else None, output, plot, jobs, options)
        return True
    if gangs.is_gangs(folder):
        gangs.replay(orders, output, plot, jobs, options)
        return True
    gangs.check_folder()
    if jobs:
        raise BadArgument("--jobs is about orders, and this trace about placing", "--order default")
    return False


def _replay(placings: Sequence[str], plot: str | None, **options: Any) -> list[Result]:
    from moiety.policy.model.cluster import Choosing, Placing
    from moiety.sim import plot as plots
    from moiety.sim.replay import ReplaySettings
    from moiety.sim.tables import open_trace

    folder, name, seed = options["folder"], options["name"], options["seed"]
    if options["faster"] != 1 and not options["live"]:
        raise BadArgument("--faster is about recorded times", "--live --faster 10")
    if options["live"] and is_typed("load"):
        raise BadArgument("--load ends a replay without times, and --live has times", "one of both")
    if options["pools"] and not options["live"]:
        raise BadArgument("--pools is about times at which nodes come and go", "--live")
    target = Path(plot) if plot else None
    if target:
        plots.check(target)
    path = Path(folder) if folder else None
    trace = open_trace(path, name, seed, lenient=options["bad"] == "report")
    if options["live"]:
        trace = trace.faster(options["faster"])
    run = _runner(trace, options)
    results = []
    for placing in placings:
        setting = ReplaySettings(
            Placing(placing),
            Choosing(options["choosing"]),
            seed,
            options["load"],
            options["shuffle_nodes"],
        )
        results.append(run(setting))
    if target:
        try:
            plots.draw(results, target)
        except OSError as error:
            raise FileNotWritable(str(target), error.strerror or str(error)) from None
    return results


def _runner(trace: Trace, options: dict[str, Any]) -> Callable[[ReplaySettings], Result]:
    """The function that replays a trace."""
    from moiety.sim import replay

    if options["pools"]:
        from moiety.sim.live_pools import live_on_pools
        from moiety.sim.pool_file import read_pools

        pools, always = read_pools(Path(options["pools"]), trace.nodes, trace.complaints)

        def on_pools(setting: ReplaySettings) -> Result:
            with bar(len(trace.jobs), setting.placing) as progress:
                return live_on_pools(trace, pools, always, setting, progress)

        return on_pools

    def one(setting: ReplaySettings) -> Result:
        if options["live"]:
            with bar(len(trace.jobs), setting.placing) as progress:
                return replay.live(trace, setting, progress)
        with bar(len(replay.arrivals(trace, setting)), setting.placing) as progress:
            return replay.fill(trace, setting, progress)

    return one


def _show(results: list[Result], output: str) -> None:
    if output == "json":
        import msgspec

        plain = msgspec.to_builtins(results if len(results) > 1 else results[0])
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    first = results[0]
    click.echo(f"{first.trace}: {count(first.nodes, 'node')}, {first.gpus:g} GPUs")
    for told in first.bad_lines_told:
        click.echo(told)
    if first.bad_lines > len(first.bad_lines_told):
        click.echo(f"... and {first.bad_lines - len(first.bad_lines_told)} more lines")
    click.echo(_live_table(results) if first.live else _fill_table(results))
    for result in results:
        if result.live and result.live.pools:
            click.echo(_pools_table(result, is_one_of=len(results) > 1))
    for result in results:
        click.echo(_sentence(result))


def _fill_table(results: list[Result]) -> str:
    """Allocation by load, a column for each rule; with one rule also its fragments."""
    titles = ["ARRIVED", *(result.placing.upper() for result in results)]
    if len(results) == 1:
        titles[1:] = ["ALLOCATED", "FRAGMENTS"]
    rows = []
    for percent in SHOWN_PERCENTS:
        cells = [f"{percent} %"]
        for result in results:
            allocation = result.allocation_at(percent)
            cells.append("-" if allocation is None else f"{allocation:.2f} %")
        if all(cell == "-" for cell in cells[1:]):
            continue
        if len(results) == 1:
            useless = results[0].fragments_at(percent)
            cells.append("-" if useless is None else f"{useless:.2f} %")
        rows.append(cells)
    return table(titles, rows)


def _live_table(results: list[Result]) -> str:
    from moiety.cli.output import seconds

    titles = [
        "RULE",
        "ALLOCATED",
        "WAIT",
        "WAIT-P95",
        "COMPLETION",
        "COMPLETION-P99",
        "QUEUE",
    ]
    rows = []
    for result in results:
        live = result.live
        assert live
        rows.append(
            [
                result.placing,
                f"{live.allocation_percent:.2f} %",
                seconds(live.wait_mean_s),
                seconds(live.wait_p95_s),
                seconds(live.completion_mean_s),
                seconds(live.completion_p99_s),
                str(live.queue_longest),
            ]
        )
    return table(titles, rows)


def _pools_table(result: Result, *, is_one_of: bool) -> str:
    """The sizes and the cost of each dynamic pool, and of all pools together."""
    from moiety.sim.results import saved_percent

    assert result.live
    pools = result.live.pools
    rows = [
        [
            pool.name,
            f"{pool.nodes_min}-{pool.nodes_max}",
            str(pool.nodes_most),
            str(pool.started),
            f"{pool.node_hours:,.1f}",
            f"{pool.static_node_hours:,.1f}",
            f"{saved_percent([pool]):.1f} %",
        ]
        for pool in pools
    ]
    if len(pools) > 1:
        used = sum(pool.node_hours for pool in pools)
        static = sum(pool.static_node_hours for pool in pools)
        whole = [f"{used:,.1f}", f"{static:,.1f}", f"{saved_percent(pools):.1f} %"]
        rows.append(["all", "", "", str(sum(pool.started for pool in pools)), *whole])
    first = f"POOL ({result.placing})" if is_one_of else "POOL"
    return table([first, "NODES", "MOST", "STARTED", "NODE-HOURS", "STATIC", "SAVED"], rows)


def _sentence(result: Result) -> str:
    refused = sum(result.refused.values())
    why = ", ".join(f"{number} {reason}" for reason, number in result.refused.items())
    parts = [f"{result.placed} of {count(result.arrived, 'task')} placed"]
    if refused:
        parts.append(f"{refused} refused ({why})")
    if result.published:
        differs = result.published
        parts.append(
            f"at most {differs.max_error_points:g} points from the published run "
            f"in {count(differs.buckets, 'bucket')}"
        )
    parts.append(f"{result.decisions_per_s:,.0f} decisions/s")
    return f"{result.placing}: {'; '.join(parts)}"
