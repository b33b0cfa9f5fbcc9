"""`moiety history`: what has ended in the pool."""

from __future__ import annotations

import click

from moiety.cli.output import emit_json, output_option
from moiety.cli.pool_rows import rows_table
from moiety.pool.client import PoolClient
from moiety.pool.model.records import PAGE_MAX, WorkPage, WorkRow


@click.command()
@click.option("--project", default="", help="Only work of this project.")
@click.option("--user", default="", help="Only work of this user.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most.")
@output_option
def history(project: str, user: str, limit: int, output: str) -> None:
    """List what has ended in the pool, the newest first, and how it ended."""
    pool = PoolClient()
    rows: list[WorkRow] = []
    query: dict[str, str | int] = {"over": 1, "project": project, "user": user}
    while len(rows) < limit:
        page = pool.get("/workloads", WorkPage, **query, limit=min(PAGE_MAX, limit - len(rows)))
        rows += page.rows
        if page.after is None:
            break
        query["after"] = page.after
    if output == "json":
        emit_json(rows)
    else:
        click.echo(rows_table(rows))
