"""Options of `moiety sim` about stops and about begins, and how their results are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from moiety.cli.output import Size, count
from moiety.model.errors import BadArgument

if TYPE_CHECKING:
    from moiety.sim.outcome import GangOutcome
    from moiety.sim.starts import StartQuestions, StartScore
    from moiety.sim.suspension import Stops, SuspensionCost

STOPS: Final = ("keep", "kill", "suspend")
"""The kinds of `sim.suspension.Stops`; a test compares them."""
OF_QUEUES: Final = ("fifo-queues", "drf")
"""The orders that are replayed as a history is, because they know queues."""

COSTS: Final = ("state_bytes", "host_bytes", "link_bytes", "network_bytes")
"""The parameters of what a suspension moves, and how fast."""

Command = Callable[..., None]


def is_typed(*names: str) -> bool:
    """Whether any of these parameters was typed."""
    context = click.get_current_context()
    typed = ParameterSource.COMMANDLINE
    return any(context.get_parameter_source(name) is typed for name in names)


def check_companions(options: dict[str, Any]) -> None:
    """Raises BadArgument for an option that says nothing without another one, which is absent."""
    missing = [
        ("repair_hours", "fail_hours", options["fail_hours"] is None),
        ("is_known", "starts", options["starts"] is None),
        *((name, "stops", "suspend" not in options["stops"]) for name in COSTS),
    ]
    flags = {each.name: each.opts[0] for each in click.get_current_context().command.params}
    for name, other, is_absent in missing:
        if is_absent and is_typed(name):
            value = {"fail_hours": "20", "starts": "2000", "stops": "suspend"}[other]
            needed = f"{flags[other]} {value}" if other == "stops" else flags[other]
            problem = f"{flags[name]} says nothing without {needed}"
            raise BadArgument(problem, f"{flags[other]} {value}")


def stop_options(command: Command) -> Command:
    """Add the options of what a stop costs."""
    sizes = (
        ("--network", "network_bytes", "10GB", "Bytes a second of each node, to other nodes."),
        ("--link", "link_bytes", "25GB", "Bytes a second of each GPU, to its host."),
        ("--host-memory", "host_bytes", "512GiB", "Of each node, for jobs that are suspended."),
        ("--state", "state_bytes", "40GiB", "What a suspension moves from each GPU."),
    )
    for flag, name, usual, text in sizes:
        said = f"With --stops suspend: {text[0].lower()}{text[1:]}"
        option = click.option(flag, name, type=Size(), default=usual, show_default=True, help=said)
        command = option(command)
    return click.option(
        "--stops",
        type=click.Choice(STOPS),
        multiple=True,
        default=("keep",),
        show_default=True,
        help="Stopped jobs keep their work for nothing, lose what they did since their last "
        "checkpoint, or are suspended where the host has room; again to compare.",
    )(command)


def start_options(command: Command) -> Command:
    """Add the options of questions when jobs will begin."""
    for option in (
        click.option(
            "--known", "is_known", is_flag=True, help="With --starts: run times are declared."
        ),
        click.option(
            "--starts",
            type=click.IntRange(1, 10_000_000),
            metavar="JOBS",
            help="Number of jobs, sampled by --seed, that are asked when they will begin.",
        ),
    ):
        command = option(command)
    return command


def stops_of(orders: Sequence[str], options: dict[str, Any]) -> list[Stops]:
    """What was asked for. Raises BadArgument for an order that cannot."""
    from moiety.sim.suspension import Stops

    found = [Stops(each) for each in dict.fromkeys(options["stops"])]
    if Stops.SUSPEND in found and set(orders) != {"default"}:
        raise BadArgument("only the order default suspends", "--order default")
    if found != [Stops.KEEP] and (of_queues := set(OF_QUEUES) & set(orders)):
        problem = f"with the order {' and '.join(sorted(of_queues))}, stopped jobs keep their work"
        raise BadArgument(problem, "--stops keep")
    return found


def suspension_of(options: dict[str, Any]) -> SuspensionCost:
    """What a suspension moves, and how fast."""
    from moiety.sim.suspension import SuspensionCost

    state, host, link, network = (options[name] for name in COSTS)
    if not (link and network):
        raise BadArgument("--link and --network are at least 1 byte a second", "--link 25GB")
    return SuspensionCost(state, host, link, network)


def questions_of(orders: Sequence[str], options: dict[str, Any]) -> StartQuestions | None:
    """Which jobs are asked about; None: none. Raises BadArgument if no order can answer."""
    from moiety.sim.starts import StartQuestions

    if options["starts"] is None:
        return None
    if "default" not in orders:
        raise BadArgument("only the order default says when jobs will begin", "--order default")
    return StartQuestions(options["starts"], options["is_known"], options["seed"])


def said_of_starts(starts: StartScore) -> str:
    """How true it was what was said of begins."""
    text = f"asked when they will begin: {count(starts.waited, 'job')} that waited over a minute"
    if starts.error_median is None or starts.error_mean is None:
        return text
    text += f"; error {starts.error_median:.2f} in the median, {starts.error_mean:.2f} in the mean"
    if starts.coverage is None or starts.score_ratio is None:
        return text
    return (
        f"{text}; {100 * starts.coverage:.0f} % of {starts.bounded} intervals held (80 % would be "
        f"right), their score is {starts.score_ratio:.2f} of that of recent waits"
    )


def name_of(outcome: GangOutcome) -> str:
    """The order, and what became of stopped jobs."""
    return outcome.order if outcome.stops == "keep" else f"{outcome.order}, {outcome.stops}"


def losses_of(outcome: GangOutcome, *, is_shown: bool) -> list[str]:
    """The cells of suspensions and of lost work."""
    if not is_shown:
        return []
    suspensions, lost = outcome.suspensions_per_job, outcome.lost_gpu_hours
    return [
        "-" if suspensions is None else f"{suspensions:.2f}",
        "-" if lost is None else f"{lost:,.0f} GPU-h",
    ]
