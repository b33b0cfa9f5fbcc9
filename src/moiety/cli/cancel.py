"""`moiety cancel`: end a workload of the pool, or take it out of the queue."""

from __future__ import annotations

import sys

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_arrays import outcome_line
from moiety.cli.pool_filters import must_be_there
from moiety.cli.several import each
from moiety.model.errors import BadArgument
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import PAGE_MAX, WorkPage, WorkRow


@click.command()
@click.argument("targets", metavar="ID|NAME...", nargs=-1)
@click.option("--project", default="", help="Everything of this project.")
@output_option
def cancel(targets: tuple[str, ...], project: str, output: str) -> None:
    """Take workloads out of the queue, and end those that run.

    A program that runs gets SIGTERM, and SIGKILL after its grace.
    """
    if bool(targets) == bool(project):
        raise BadArgument("it is not said what to cancel", "one of ID, NAME and --project")
    pool = PoolClient()
    wanted = [*targets]
    after: int | None = 0
    while project and after is not None:
        page = pool.get("/workloads", WorkPage, project=project, after=after, limit=PAGE_MAX)
        wanted += [str(row.id) for row in page.rows]
        after = page.after
    if not wanted:
        must_be_there(pool, project)
        click.echo(f"project {project} has no work to cancel", err=True)

    def show(target: str, row: WorkRow) -> None:
        click.echo(outcome_line(pool, target, row))

    rows, code = each(
        wanted,
        lambda target: pool.post(of(target, "cancel"), WorkRow),
        None if output == "json" else show,
    )
    if output == "json":
        emit_json(rows)
    sys.exit(code)
