"""What cuGetProcAddress returns: the exported functions, and from which version on which of them?

Held against the table by which the shim recognises what it has to wrap, and simgpu answers.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.card.driver import Driver, loaded
from tests.gpu.card.run import Run

TABLES = Path(__file__).resolve().parents[3] / "native" / "cuda"
ENTRY = re.compile(
    r"^(?:ENTRY|PLAIN)(_DS|_SZ)?\((?:[A-Z]+, )?(\w+),\s*(\w+),\s*(\d+)", re.MULTILINE
)
LEGACY, PER_THREAD = 1, 2
LADDER = (2000, 2010, 2020, 2030, 3000, 3010, 3020, 4000, 4010, 4020, 5000, 5050, 6000, 6050, 7000,
          7050, 8000, 9000, 9010, 9020, 10000, 10010, 10020, 11000, 11010, 11020, 11030, 11040,
          11050, 11060, 11070, 11080, 12000, 12010, 12020, 12030, 12040, 12050, 12060, 12080,
          12090, 13000, 13010, 13020)  # fmt: skip
ODD = ("cuMemAlloc_v2", "cuMemFreeAsync_ptsz", "cuGetProcAddress", "cuNoSuchFunction")
MOST = 60
"""mismatches that are listed; the rest is counted"""


@dataclass(frozen=True)
class Entry:
    """One line of the table: `suffix` is that of the per-thread flavour."""

    name: str
    symbol: str
    since: int
    suffix: str


def table() -> list[Entry]:
    """entrypoints.def and plain_calls.def."""
    text = "".join((TABLES / f"{n}.def").read_text() for n in ("entrypoints", "plain_calls"))
    return [
        Entry(name, symbol, int(since), {"_DS": "_ptds", "_SZ": "_ptsz"}.get(kind, ""))
        for kind, name, symbol, since in ENTRY.findall(text)
    ]


def ask(driver: Driver, name: str, version: int, flags: int) -> tuple[int, int]:
    """The address that cuGetProcAddress returns (0: none), and the status of the search."""
    function, status = ctypes.c_void_p(), ctypes.c_int(-1)
    if driver.has("cuGetProcAddress_v2"):
        driver.code("cuGetProcAddress_v2", name.encode(), ctypes.byref(function), version, flags,
                    ctypes.byref(status))  # fmt: skip
    else:
        driver.code("cuGetProcAddress", name.encode(), ctypes.byref(function), version, flags)
    return function.value or 0, status.value


def measure(run: Run) -> None:
    """The comparison."""
    driver = run.driver
    entries = table()
    version = driver.get("cuDriverGetVersion")
    run.note("driver", version)
    run.note("known_entries", len(entries))
    run.note("not_exported", sorted(e.symbol for e in entries if not driver.has(e.symbol)))
    with run.part("newest"):
        newest(run, entries, version)
    with run.part("ladder"):
        ladder(run, entries, version)
    with run.part("odd"):
        asked = {n: ask(driver, n, version, 0) for n in ODD}
        run.note("odd_names", {n: [bool(a), status] for n, (a, status) in asked.items()})
        beyond = ask(driver, "cuMemAlloc", version + 1000, 0)
        run.note("version_beyond_the_driver", [bool(beyond[0]), beyond[1]])
    with run.part("exports"):
        exports(run, entries)


def symbols_at(driver: Driver, entries: list[Entry]) -> dict[int, list[str]]:
    """Exported names by address, flavours included."""
    at = defaultdict(list)
    for entry in entries:
        for symbol in {entry.symbol, entry.symbol + entry.suffix}:
            if driver.has(symbol):
                at[driver.address(symbol)].append(symbol)
    return at


def named(at: dict[int, list[str]], address: int) -> str:
    """What an address is."""
    return "/".join(sorted(at[address])) if address in at else "unknown" if address else "none"


def newest(run: Run, entries: list[Entry], version: int) -> None:
    """For the driver's own version: the exported function itself, in each flavour?"""
    driver, at = run.driver, symbols_at(run.driver, entries)
    same, wrong = 0, []
    for name in sorted({e.name for e in entries}):
        forms = [e for e in entries if e.name == name and e.since <= version]
        if not forms:
            continue
        last = max(forms, key=lambda e: e.since)
        for flags in (0, LEGACY, PER_THREAD):
            suffix = last.suffix if flags == PER_THREAD else ""
            expected = last.symbol + suffix
            address, _ = ask(driver, name, version, flags)
            if driver.has(expected) and address == driver.address(expected):
                same += 1
            else:
                wrong.append(f"{name} flags {flags}: {named(at, address)}, not {expected}")
    run.note("same_as_exported", same)
    run.note("different", len(wrong))
    run.note("differences", wrong[:MOST])


def ladder(run: Run, entries: list[Entry], version: int) -> None:
    """From which version on is each form returned, and is that what the table says?"""
    driver, at = run.driver, symbols_at(run.driver, entries)
    steps: dict[str, list[tuple[int, str]]] = {}
    rungs = sorted({v for v in (*LADDER, *(e.since for e in entries)) if v <= version})
    for name in sorted({e.name for e in entries}):
        found: list[tuple[int, str]] = []
        for rung in rungs:
            what = named(at, ask(driver, name, rung, 0)[0])
            if what != "none" and (not found or found[-1][1] != what):
                found.append((rung, what))
        steps[name] = found
    forms = {n: [(e.since, e.symbol) for e in sorted(entries, key=lambda e: e.since)
                 if e.name == n and e.since <= version] for n in steps}  # fmt: skip
    wrong = {
        n: {"driver": steps[n], "table": forms[n]}
        for n in steps
        if [s for s, _ in steps[n]] != [s for s, _ in forms[n]]
        or any(ours not in what.split("/")
               for (_, what), (_, ours) in zip(steps[n], forms[n], strict=False))
    }  # fmt: skip
    run.note("ladders_as_in_the_table", len(steps) - len(wrong))
    run.note("ladders_different", len(wrong))
    run.note("ladder_differences", dict(list(wrong.items())[:MOST]))


def exports(run: Run, entries: list[Entry]) -> None:
    """What the driver exports and the table does not know."""
    path = loaded("libcuda.so")
    found = [s for s in exported(Path(path)) if re.fullmatch(r"cu[A-Z]\w+", s)]
    known = {e.symbol + s for e in entries for s in ("", "_ptds", "_ptsz")}
    run.note("exports", len(found))
    run.note("exports_unknown_here", sorted(set(found) - known))


def exported(path: Path) -> list[str]:
    """The names in an ELF library's dynamic symbol table."""
    image = path.read_bytes()
    at, count = struct.unpack_from("<Q", image, 40)[0], struct.unpack_from("<H", image, 60)[0]
    sections = [struct.unpack_from("<IIQQQQIIQQ", image, at + 64 * i) for i in range(count)]
    names = []
    for section in sections:
        if section[1] != 11:  # SHT_DYNSYM
            continue
        text = sections[section[6]][4]
        for place in range(section[4], section[4] + section[5], 24):
            name, _, _, where = struct.unpack_from("<IBBH", image, place)
            if where and name:
                end = image.index(b"\0", text + name)
                names.append(image[text + name : end].decode())
    return names
