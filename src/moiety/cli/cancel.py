"""`moiety cancel`: end a workload of the pool, or take it out of the queue."""

from __future__ import annotations

import sys

import click

from moiety.cli.output import output_option
from moiety.cli.pool_arrays import act_on
from moiety.cli.pool_filters import must_be_there
from moiety.model.errors import BadArgument
from moiety.pool.client import PoolClient
from moiety.pool.model.records import PAGE_MAX, WorkPage


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
    sys.exit(act_on(pool, wanted, "cancel", output))
