"""The rows of the screen: bars, cells, and the orders of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from moiety.agent.control.rows import GpuRow, ProcessRow
from moiety.model.format import format_bytes, format_duration, format_fraction
from moiety.top.sample import Rates

TITLES: Final = (
    "TENANT",
    "PID",
    "PROGRAM",
    "USER",
    "GPU",
    "STATE",
    "SHARE",
    "RECEIVED",
    "ALLOCATED",
    "RESIDENT",
    "EVICTED",
    "MOVED/S",
    "HAND-OFFS",
    "WAITED",
    "WHY",
)
NARROW: Final = ("TENANT", "PROGRAM", "USER", "GPU", "STATE", "SHARE", "RECEIVED", "RESIDENT")
"""The columns of a screen that is narrower than `WIDE_MIN`."""
WIDE_MIN: Final = 120
NAME_WIDTH: Final = 28
NARROW_NAME_WIDTH: Final = 22
BAR_MIN: Final = 10
NARROW_WIDTHS: Final = {"PROGRAM": 14, "USER": 8, "STATE": 9, "SHARE": 6}
"""The most letters of a cell on a narrow screen."""
AMOUNTS: Final = frozenset(
    ("RECEIVED", "ALLOCATED", "RESIDENT", "EVICTED", "MOVED/S", "HAND-OFFS", "WAITED")
)
FREE: Final = 0
"""The number for free cells: numbers of tenants begin at 1."""
ORDERS: Final = ("tenant", "resident", "moved", "hand-offs", "waited", "received", "user")


def bar(gpu: GpuRow, rows: Iterable[ProcessRow], width: int) -> list[tuple[int, int]]:
    """A GPU's shared memory as (tenant, cells), in order of tenants, free memory last.

    The cells add up to `width`; each tenant with resident bytes has a cell, while there are enough.
    """
    there = {
        row.tenant: row.resident_bytes
        for row in sorted(rows, key=lambda row: row.tenant)
        if row.gpu == gpu.gpu and row.resident_bytes > 0
    }
    whole = max(gpu.capacity_bytes, sum(there.values()), 1)
    cells: list[tuple[int, int]] = []
    left = width
    for tenant, resident in there.items():
        size = min(left, max(1, round(resident / whole * width)))
        if size > 0:
            cells.append((tenant, size))
        left -= size
    if left > 0:
        cells.append((FREE, left))
    return cells


def plain_bar(cells: Sequence[tuple[int, int]]) -> str:
    """The bar without colours: each cell is the last digit of its tenant's number."""
    return "".join(("." if tenant == FREE else str(tenant % 10)) * size for tenant, size in cells)


def gpu_words(gpu: GpuRow, width: int | None = None) -> str:
    """The text behind a GPU's bar; with a width, without what matters least and does not fit."""
    if gpu.lost:
        return "lost"
    resident, capacity = format_bytes(gpu.resident_bytes), format_bytes(gpu.capacity_bytes)
    sensors = gpu.sensors
    parts = {
        "memory": f"{resident} of {capacity}",
        "busy": "" if gpu.utilisation is None else f"{gpu.utilisation:.0%} busy",
        "heat": "" if sensors.temperature_c is None else f"{sensors.temperature_c} C",
        "power": "" if sensors.power_w is None else f"{sensors.power_w:.0f} W",
        "slowed": f"slowed by {' and '.join(gpu.slowed_by)}" if gpu.slowed_by else "",
        "waiting": f"{len(gpu.waiting)} waiting" if gpu.waiting else "",
    }
    for least in ("", "power", "heat", "slowed", "busy"):
        parts.pop(least, None)
        text = ", ".join(part for part in parts.values() if part)
        if width is None or len(text) <= width:
            break
    return text


def gpu_name(gpu: GpuRow, screen_width: int) -> str:
    """What stands before a GPU's bar, always with as many letters on a screen of this width."""
    if screen_width >= WIDE_MIN:
        return f"GPU {gpu.gpu} {gpu.name}"[: NAME_WIDTH - 1].ljust(NAME_WIDTH)
    name = gpu.name.removeprefix("NVIDIA ")
    return f"GPU {gpu.gpu} {name}"[: NARROW_NAME_WIDTH - 1].ljust(NARROW_NAME_WIDTH)


def cells(row: ProcessRow, rates: Rates) -> tuple[str, ...]:
    """The cells of one tenant on one GPU, in the order of `TITLES`."""
    rate = rates.of(row)
    return (
        str(row.tenant),
        str(row.pid),
        row.program,
        row.user or "-",
        "-" if row.gpu is None else str(row.gpu),
        row.state,
        row.share.of_time,
        format_fraction(round(row.received, 2)),
        format_bytes(row.allocated_bytes),
        format_bytes(row.resident_bytes),
        format_bytes(row.evicted_bytes),
        "-" if rate is None else format_bytes(round(rate)),
        str(row.handoffs),
        duration(row.waited_s),
        why(row),
    )


def columns(width: int) -> tuple[str, ...]:
    """The titles of the columns that a screen of this width shows."""
    return TITLES if width >= WIDE_MIN else NARROW


def shown(row: ProcessRow, rates: Rates, titles: Sequence[str]) -> list[str]:
    """The cells of these columns; on a narrow screen they are cut, and a share is its request."""
    by_title = dict(zip(TITLES, cells(row, rates), strict=True))
    if tuple(titles) == TITLES:
        return list(by_title.values())
    by_title["SHARE"] = by_title["SHARE"].partition(",")[0]
    return [by_title[title][: NARROW_WIDTHS.get(title)] for title in titles]


def matching(rows: Iterable[ProcessRow], text: str) -> list[ProcessRow]:
    """The rows with this text in the program's name or the user's, in any case."""
    wanted = text.casefold()
    return [r for r in rows if wanted in r.program.casefold() or wanted in r.user.casefold()]


def why(row: ProcessRow) -> str:
    """What the tenant waits for, and since when; or why its memory cannot leave."""
    reason = row.reason
    if row.pinned:
        reason = f"{reason}; " * bool(reason) + f"cannot leave the GPU ({row.pinned})"
    if row.waiting_s is not None:
        reason = f"{reason} (for {duration(row.waiting_s)})".strip()
    return reason


def duration(seconds: float) -> str:
    """A time that changes every second, with few enough digits to be read."""
    rounded = round(seconds, 3 if seconds < 1 else 1)
    return format_duration(rounded) if rounded else "0 s"


def ordered(rows: Iterable[ProcessRow], order: str, rates: Rates) -> list[ProcessRow]:
    """The rows by tenant, or with the largest value of `order` first."""
    keys: dict[str, Callable[[ProcessRow], Any]] = {
        "tenant": lambda row: row.tenant,
        "user": lambda row: row.user,
        "received": lambda row: -row.received,
        "resident": lambda row: -row.resident_bytes,
        "moved": lambda row: -(rates.of(row) or 0.0),
        "hand-offs": lambda row: -row.handoffs,
        "waited": lambda row: -row.waited_s,
    }
    key = keys[order]
    return sorted(rows, key=lambda row: (key(row), row.tenant, row.gpu or 0))
