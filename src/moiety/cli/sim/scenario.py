"""`moiety sim scenario`: the decisions for queues of small clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from moiety.cli.output import count, output_option

if TYPE_CHECKING:
    from moiety.sim.scenario import Outcome


@click.command()
@output_option
@click.option("--strict", is_flag=True, help="Refuse quotas that add up to more than the queue's.")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
def scenario(file: Path, strict: bool, output: str) -> None:
    """Decide small cases, and compare with what each of them expects.

    FILE is a list of cases with nodes, queues and jobs (docs/explanation-queues.md). Each goes
    through two cycles and five more in which nothing should change any more.
    """
    from moiety.sim.scenario import run_all
    from moiety.sim.scenario_file import read_scenarios

    outcomes = run_all(read_scenarios(file, strict=strict), str(file))
    if output == "json":
        import msgspec

        plain = {"cases": [_plain(outcome) for outcome in outcomes]}
        click.echo(msgspec.json.format(msgspec.json.encode(plain), indent=2).decode())
    else:
        _show(outcomes)
    bad = [outcome.error for outcome in outcomes if outcome.error]
    for error in bad[:-1]:
        click.echo(f"moiety: {error.what}", err=True)
    if bad:
        raise bad[-1]


def _plain(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.name,
        "passed": outcome.passed,
        "tasks": outcome.tasks,
        "decisions": list(outcome.decisions),
        "problems": list(outcome.problems),
        "notes": list(outcome.notes),
    }


def _show(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        click.echo(f"{'passed' if outcome.passed else 'FAILED'}  {outcome.name}")
        for problem in outcome.problems:
            click.echo(f"        {problem}")
        for note in outcome.notes:
            click.echo(f"        note: {note}")
    passed = sum(outcome.passed for outcome in outcomes)
    click.echo(f"{passed} of {count(len(outcomes), 'case')} passed")
