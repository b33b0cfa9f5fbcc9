"""The tables of replays that try orders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from moiety.cli.output import count, table
from moiety.cli.sim.replay_options import losses_of, name_of, said_of_starts

if TYPE_CHECKING:
    from moiety.sim.outcome import GangOutcome


def show(outcomes: Sequence[GangOutcome], output: str) -> None:
    """A table, or everything."""
    if output == "json":
        import msgspec

        plain = msgspec.to_builtins(outcomes if len(outcomes) > 1 else outcomes[0])
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
        return
    first = outcomes[0]
    head = f"{first.trace}: {count(first.jobs, 'job')}, {count(first.nodes, 'node')}"
    click.echo(f"{head}, {first.gpus} GPUs")
    for told in first.bad_lines_told:
        click.echo(told)
    if first.bad_lines > len(first.bad_lines_told):
        click.echo(f"... and {first.bad_lines - len(first.bad_lines_told)} more lines")
    click.echo(times_table(outcomes))
    for outcome in outcomes:
        if outcome.quota_broken is not None and outcome.queues:
            click.echo(_queue_table(outcome))
            broken = count(outcome.quota_broken, "moment")
            click.echo(f"quotas were not kept at {broken}{_fairness(outcome)}")
        elif any(queue.quota_gpus is not None for queue in outcome.queues):
            click.echo(_queue_table(outcome))
            if fairness := _fairness(outcome):
                click.echo(f"{outcome.order}{fairness}")
        if outcome.starts:
            click.echo(said_of_starts(outcome.starts))
    if any(outcome.knows_durations for outcome in outcomes):
        names = ", ".join(outcome.order for outcome in outcomes if outcome.knows_durations)
        click.echo(f"knows how long jobs run: {names}")


def _fairness(outcome: GangOutcome) -> str:
    """All fairness indices, each with its base; empty for a single queue."""
    of = (
        (outcome.jain_of_due, "of what was due to queues"),
        (outcome.jain_of_due_over_run, "of that over the whole run"),
        (outcome.jain, "of all that they asked for"),
    )
    parts = [f"{index:.3f} {what}" for index, what in of if index is not None]
    return f"; fairness (Jain): {', '.join(parts)}" if parts else ""


def times_table(outcomes: Sequence[GangOutcome], pools: Sequence[str] = ()) -> str:
    """A line for each replay, by its order or by its pools."""
    from moiety.cli.output import seconds

    is_lossy = any(outcome.stops != "keep" for outcome in outcomes)
    rows = [
        [
            pools[at] if pools else name_of(outcome),
            str(outcome.gpus),
            f"{outcome.allocation_percent:.1f} %",
            seconds(outcome.completion_mean_s),
            seconds(outcome.completion_p99_s),
            seconds(outcome.wait_mean_s),
            seconds(outcome.wait_p95_s),
            f"{outcome.preemptions_per_job:.2f}",
            str(outcome.failures),
            str(outcome.queue_longest),
            *losses_of(outcome, is_shown=is_lossy),
        ]
        for at, outcome in enumerate(outcomes)
    ]
    titles = [
        "POOLS" if pools else "ORDER",
        "GPUS",
        "IN-USE",
        "COMPLETION",
        "P99",
        "WAIT",
        "WAIT-P95",
    ]
    titles += ["PREEMPTED", "FAILED", "QUEUE", *(["SUSPENDED", "LOST"] if is_lossy else [])]
    return table(titles, rows)


def _queue_table(outcome: GangOutcome) -> str:
    from moiety.cli.output import seconds

    rows = [
        [
            queue.name,
            "-" if queue.quota_gpus is None else f"{queue.quota_gpus:g}",
            str(queue.jobs),
            f"{100 * queue.satisfied:.1f} %",
            seconds(queue.completion_mean_s),
        ]
        for queue in outcome.queues
    ]
    return table(["QUEUE", "QUOTA", "JOBS", "HAD", "COMPLETION"], rows)
