"""Which rows of `moiety ps` are meant: by user, in which order, or by one program's name. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from moiety.agent.control.rows import ProcessRow
from moiety.model.errors import NotAllowed, WorkloadAmbiguous, WorkloadUnknown

ORDERS: Final[dict[str, Callable[[ProcessRow], Any]]] = {
    "tenant": lambda row: row.tenant,
    "pid": lambda row: row.pid,
    "program": lambda row: row.program,
    "user": lambda row: row.user,
    "gpu": lambda row: -1 if row.gpu is None else row.gpu,
    "received": lambda row: -row.received,
    "allocated": lambda row: -row.allocated_bytes,
    "resident": lambda row: -row.resident_bytes,
    "evicted": lambda row: -row.evicted_bytes,
    "waited": lambda row: -row.waited_s,
}
"""Orders of rows by name: amounts largest first, the rest ascending."""


def of_user(rows: Iterable[ProcessRow], user: str | None) -> list[ProcessRow]:
    """The rows of one user, by name or number; None: of all."""
    return [row for row in rows if user is None or user in (row.user, str(row.uid))]


def ordered(rows: Iterable[ProcessRow], order: str | None) -> list[ProcessRow]:
    """The rows in the order of this name; None: as they are."""
    return list(rows) if order is None else sorted(rows, key=ORDERS[order])


def processes_of(rows: Sequence[ProcessRow], target: str) -> list[ProcessRow]:
    """The rows that a tenant's number, a pid, a program's name or a workload's id means.

    A number means one process, a name or an id all processes of one workload. Raises
    WorkloadUnknown, WorkloadAmbiguous, or NotAllowed for a program that this user may not see.
    """
    found: list[ProcessRow] = []
    if target.isascii() and target.isdecimal() and len(target) < 20:
        number = int(target)
        found = [row for row in rows if row.tenant == number and number]
        found = found or [row for row in rows if row.pid == number and number]
    found = found or [row for row in rows if row.workload == target and target]
    if not found and target:
        named = {row.workload: row.tenant or row.pid for row in rows if row.program == target}
        if len(named) > 1:
            raise WorkloadAmbiguous(target, sorted(named.values()))
        found = [row for row in rows if row.workload in named]
    if not found:
        raise WorkloadUnknown(target)
    if any(not row.pid for row in found):
        raise NotAllowed(
            f"{target} is a program of {found[0].user}",
            "one of your own (`moiety ps`), or do it as root",
        )
    return found
