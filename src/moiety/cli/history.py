"""`moiety history`: what has ended in the pool."""

from __future__ import annotations

import time

import click

from moiety.cli.output import emit_json, output_option, seconds, table
from moiety.cli.pool_filters import must_be_there
from moiety.cli.pool_rows import rows_table
from moiety.pool.client import PoolClient
from moiety.pool.connection import of
from moiety.pool.model.records import (
    AttemptRow,
    AuditPage,
    WorkPage,
)


@click.command()
@click.argument("target", metavar="[ID|NAME]", default="")
@click.option("--project", default="", help="Only work of this project.")
@click.option("--user", default="", help="Only work of this user.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most.")
@click.option("--audit", is_flag=True, help="Who did what instead; for administrators.")
@output_option
def history(target: str, project: str, user: str, limit: int, audit: bool, output: str) -> None:
    """List what has ended in the pool, the newest first, and how it ended.

    With ID or NAME: each start of this workload, where it ran, and how that ended.
    """
    pool = PoolClient()
    if audit:
        show_audit(pool, limit, output)
        return
    if target:
        show_attempts(pool.get(of(target, "attempts"), list[AttemptRow]), output)
        return
    pages = pool.pages("/workloads", WorkPage, limit, over=1, project=project, user=user)
    rows = [row for page in pages for row in page.rows]
    if not rows:
        must_be_there(pool, project, user)
    if output == "json":
        emit_json(rows)
    else:
        click.echo(rows_table(rows))


def show_audit(pool: PoolClient, limit: int, output: str) -> None:
    """The audit log, the newest first."""
    rows = [row for page in pool.pages("/audit", AuditPage, limit) for row in page.rows]
    if output == "json":
        emit_json(rows)
        return
    lines = [(when(row.at_s), row.user, row.act, row.target) for row in rows]
    click.echo(table(("WHEN", "USER", "DID", "WHAT"), lines))


def when(at_s: float) -> str:
    """A moment, in the time of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at_s))


def show_attempts(attempts: list[AttemptRow], output: str) -> None:
    """Each start of a workload."""
    if output == "json":
        emit_json(attempts)
        return
    now_s = time.time()
    lines = [
        (
            str(each.number),
            when(each.began_s),
            seconds(max((now_s if each.ended_s is None else each.ended_s) - each.began_s, 0.0)),
            ",".join(map(str, each.cards)) or "-",
            each.outcome or "it runs",
        )
        for each in attempts
    ]
    click.echo(table(("ATTEMPT", "BEGAN", "TIME", "ON", "ENDED"), lines))
