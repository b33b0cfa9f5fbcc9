"""`moiety queue`: what runs and waits in the pool."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option, table
from moiety.cli.pool_filters import must_be_there
from moiety.cli.pool_rows import rows_table
from moiety.cli.queue_watch import follow
from moiety.pool.client import PoolClient
from moiety.pool.model.records import PoolStatus, WorkPage, WorkRow
from moiety.pool.model.states import ENDS, WorkState


@click.command()
@click.option("--project", default="", help="Only work of this project.")
@click.option("--user", default="", help="Only work of this user.")
@click.option(
    "--state",
    type=click.Choice([str(state) for state in WorkState if state not in ENDS]),
    help="Only work in this state.",
)
@click.option("--limit", type=click.IntRange(1), default=200, show_default=True, help="At most.")
@click.option("--tasks", is_flag=True, help="A line for each task of an array.")
@click.option("--start", is_flag=True, help="When each is expected to start.")
@click.option("--watch", is_flag=True, help="Again after each change, until Ctrl-C.")
@click.option("--projects", is_flag=True, help="The projects instead, with what each has.")
@output_option
def queue(
    project: str,
    user: str,
    state: str | None,
    limit: int,
    tasks: bool,
    start: bool,
    watch: bool,
    projects: bool,
    output: str,
) -> None:
    """List what runs and waits in the pool, the oldest first, and why it waits.

    The waiting tasks of an array are one line. With --start it says when each is expected to start:
    the engine decides ahead of time, by the run times of work like it and by time limits.
    """
    pool = PoolClient()
    query: dict[str, str | int] = {"project": project, "user": user, "state": state or "", "why": 1}
    query["fold"] = int(not tasks and output != "json")
    query["start"] = int(start)

    def show() -> None:
        if projects:
            show_projects(pool.get("/status", PoolStatus), output)
        else:
            show_rows(pool, query, limit, output, starts=start)

    if watch:
        follow(pool.paths, show)
    else:
        show()


def show_rows(
    pool: PoolClient, query: dict[str, str | int], limit: int, output: str, *, starts: bool
) -> None:
    """What lives, the oldest first, up to a number of lines."""
    rows: list[WorkRow] = []
    folds: dict[int, str] = {}
    notes: list[str] = []
    is_all = True
    for page in pool.pages("/workloads", WorkPage, limit, **query):
        rows += page.rows
        folds |= page.folds
        notes, is_all = page.notes, page.after is None
    if not rows:
        must_be_there(pool, str(query["project"]), str(query["user"]))
    if output == "json":
        emit_json(rows)
        return
    click.echo(rows_table(rows, folds, starts=starts))
    for note in notes:
        click.echo(note, err=True)
    if not is_all:
        click.echo(f"only the first {limit}; --limit shows more", err=True)


def show_projects(status: PoolStatus, output: str) -> None:
    """The projects with their quotas and what they have."""
    if output == "json":
        emit_json(status.projects)
        return
    lines = [
        (
            each.project.name,
            "-" if each.project.quota is None else f"{each.project.quota:g}",
            "-" if each.project.limit is None else f"{each.project.limit:g}",
            f"{each.project.weight:g}",
            str(each.project.priority),
            f"{each.gpu_milli / 1000:g}",
            str(each.running),
            str(each.waiting),
        )
        for each in status.projects
    ]
    titles = ("PROJECT", "QUOTA", "LIMIT", "WEIGHT", "PRIORITY", "HAS", "RUNNING", "WAITING")
    click.echo(table(titles, lines))
    click.echo(f"workloads have {status.isolation}")
