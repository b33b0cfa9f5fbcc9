"""What users see of each other's programs, where several share one agent. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from moiety.agent.control.protocol import Recorded
from moiety.agent.control.rows import ProcessRow, Sample, Span, WaiterRow
from moiety.agent.core.journal_events import Event
from moiety.agent.system.users import name_of
from moiety.config.values import Visible

OF_NODE: Final = frozenset(
    {
        "AgentStarted",
        "AgentStopped",
        "SettingsChanged",
        "Reloaded",
        "ReloadRefused",
        "GpuDrained",
        "GpuResumed",
        "GpuUnreadable",
        "HostMemoryShort",
        "HostMemoryEnough",
        "WatchBlind",
        "UnequalDivision",
        "EqualDivision",
    }
)
"""Reasons of events that concern the node and no one user."""


def rows_for(rows: Iterable[ProcessRow], viewer: int, visible: Visible) -> list[ProcessRow]:
    """What this user sees of `moiety ps`."""
    found = []
    for row in rows:
        if row.uid == viewer or visible is Visible.ALL:
            found.append(row)
        elif visible is Visible.SIZES:
            found.append(_sizes_of(row))
    return found


def _sizes_of(row: ProcessRow) -> ProcessRow:
    return msgspec.structs.replace(
        row,
        pid=0,
        program="",
        workload="",
        reason="",
        gang="",
        container="",
        pod="",
        labels={},
        cost="",
        pinned="yes" if row.pinned else "",
        pins={},
        unknown={},
    )


def waiters_for(rows: Iterable[WaiterRow], viewer: int, visible: Visible) -> list[WaiterRow]:
    """What this user sees of the commands that wait for GPUs; each keeps its place."""
    found = []
    for row in rows:
        if row.uid == viewer or visible is Visible.ALL:
            found.append(row)
        elif visible is Visible.SIZES:
            found.append(msgspec.structs.replace(row, pid=0, program="", reason=""))
    return found


def events_for(events: Iterable[Event], viewer: int, visible: Visible) -> list[Event]:
    """What this user sees of `moiety events`: the node's events, and its own."""
    if visible is Visible.ALL:
        return list(events)
    return [e for e in events if e.uid == viewer or (e.uid is None and e.reason in OF_NODE)]


def recorded_for(page: Recorded, owners: dict[int, int], viewer: int, visible: Visible) -> Recorded:
    """What this user sees of `moiety trace`. `owners` are the users by tenant."""
    if visible is Visible.ALL:
        return page
    own = {named.tenant for named in page.tenants if owners.get(named.tenant) == viewer}
    seen = own if visible is Visible.NOTHING else {named.tenant for named in page.tenants}

    def spans(of: Iterable[Span]) -> list[Span]:
        return [
            span if span.tenant in own else msgspec.structs.replace(span, detail="")
            for span in of
            if span.tenant in seen
        ]

    samples: list[Sample] = [sample for sample in page.samples if sample.tenant in seen]
    return msgspec.structs.replace(
        page,
        tenants=[
            named
            if named.tenant in own
            else msgspec.structs.replace(
                named,
                pid=0,
                program=f"of {name_of(owners[named.tenant])}" if named.tenant in owners else "",
                workload="",
                gang="",
            )
            for named in page.tenants
            if named.tenant in seen
        ],
        spans=spans(page.spans),
        open=spans(page.open),
        samples=samples,
    )
