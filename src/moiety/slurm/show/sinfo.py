"""`sinfo`: the machine as one node in one partition."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Final

from moiety.slurm.pool import SlurmPool
from moiety.slurm.programs import VERSION
from moiety.slurm.show import columns, hostlist, machine, options
from moiety.slurm.show.columns import Cell, Column
from moiety.slurm.show.jobs import PARTITION
from moiety.slurm.show.machine import Machine
from moiety.slurm.show.options import Given, UsageError, fail

NAME: Final = "sinfo"
OPTIONS: Final = {
    "all": "a", "clusters=": "M", "dead": "d", "exact": "e", "federation": "", "Format=": "O",
    "format=": "o", "future": "F", "help": "", "hide": "", "iterate=": "i", "json": "",
    "list-reasons": "R", "local": "", "long": "l", "noconvert": "", "Node": "N", "nodes=": "n",
    "noheader": "h", "partition=": "p", "reservation": "T", "responding": "r", "sort=": "S",
    "states=": "t", "summarize": "s", "usage": "", "verbose": "v", "version": "V",
}  # fmt: skip
ABSENT: Final = ("iterate", "json", "reservation")
USUAL: Final = "%9P %.5a %.10l %.6D %.6t %N"
LONG: Final = "%9P %.5a %.10l %.10s %.4r %.8h %.10g %.6D %.11T %N"
NODES: Final = "%10N %.5D %.9P %6t"
NODES_LONG: Final = "%10N %.5D %.9P %.11T %4c %.8z %.6m %.8d %.6w %.8f %20E"
SUMMARY: Final = "%9P %.5a %.10l %.16F %N"
REASONS: Final = "%20E %9u %19H %N"
STATES: Final = (
    "unknown", "down", "idle", "allocated", "mixed", "future", "drain", "drained", "draining",
    "no_respond", "reserved", "completing", "fail", "maint", "reboot", "alloc", "mix", "all",
)  # fmt: skip
HELP: Final = """\
Usage: sinfo [-h] [-l] [-N] [-n nodes] [-o format] [-O format] [-p partition] [-s] [-t states]
The machine of the moiety pool, in Slurm's words. docs/reference-slurm-commands.md says more."""


def _fixed(text: str) -> Callable[[Machine], str]:
    return lambda _: text


def _cpus(node: Machine) -> str:
    return f"{node.used_cpus}/{node.cpus - node.used_cpus}/0/{node.cpus}"


def _in_use(node: Machine) -> int:
    return int(node.state != "idle")


LETTERS: Final[dict[str, Column[Machine]]] = {
    "a": Column("AVAIL", _fixed("up")),
    "A": Column("NODES(A/I)", lambda node: f"{_in_use(node)}/{1 - _in_use(node)}"),
    "b": Column("ACTIVE_FEATURES", _fixed("(null)")),
    "B": Column("MAX_CPUS_PER_NODE", _fixed("UNLIMITED")),
    "c": Column("CPUS", lambda node: str(node.cpus)),
    "C": Column("CPUS(A/I/O/T)", _cpus),
    "d": Column("TMP_DISK", _fixed("0")),
    "D": Column("NODES", _fixed("1")),
    "e": Column("FREE_MEM", lambda node: str(node.free_mib)),
    "E": Column("REASON", _fixed("none")),
    "f": Column("AVAIL_FEATURES", _fixed("(null)")),
    "F": Column("NODES(A/I/O/T)", lambda node: f"{_in_use(node)}/{1 - _in_use(node)}/0/1"),
    "g": Column("GROUPS", _fixed("all")),
    "G": Column("GRES", lambda node: node.gres),
    "h": Column("OVERSUBSCRIBE", _fixed("NO")),
    "H": Column("TIMESTAMP", _fixed("Unknown")),
    "I": Column("PRIO_JOB_FACTOR", _fixed("1")),
    "l": Column("TIMELIMIT", _fixed("infinite")),
    "L": Column("DEFAULTTIME", _fixed("n/a")),
    "m": Column("MEMORY", lambda node: str(node.memory_mib)),
    "M": Column("PREEMPT_MODE", _fixed("OFF")),
    "n": Column("HOSTNAMES", lambda node: node.host),
    "N": Column("NODELIST", lambda node: node.host),
    "o": Column("NODE_ADDR", lambda node: node.host),
    "O": Column("CPU_LOAD", lambda node: node.load),
    "p": Column("PRIO_TIER", _fixed("1")),
    "P": Column("PARTITION", _fixed(f"{PARTITION}*")),
    "r": Column("ROOT", _fixed("no")),
    "R": Column("PARTITION", _fixed(PARTITION)),
    "s": Column("JOB_SIZE", _fixed("1")),
    "S": Column("ALLOCNODES", _fixed("all")),
    "t": Column("STATE", lambda node: node.short_state),
    "T": Column("STATE", lambda node: node.state),
    "u": Column("USER", _fixed("Unknown")),
    "U": Column("USER", _fixed("Unknown")),
    "v": Column("VERSION", _fixed(VERSION)),
    "V": Column("CLUSTER", _fixed("N/A")),
    "w": Column("WEIGHT", _fixed("1")),
    "X": Column("SOCKETS", _fixed("1")),
    "Y": Column("CORES", lambda node: str(node.cpus)),
    "z": Column("S:C:T", lambda node: f"1:{node.cpus}:1"),
    "Z": Column("THREADS", _fixed("1")),
}
NAMES: Final[dict[str, Column[Machine]]] = {
    "allocmem": Column("ALLOCMEM", lambda node: str(node.used_memory_mib)),
    "allocnodes": LETTERS["S"],
    "available": LETTERS["a"],
    "cluster": LETTERS["V"],
    "cores": LETTERS["Y"],
    "cpus": LETTERS["c"],
    "cpusload": LETTERS["O"],
    "cpusstate": LETTERS["C"],
    "defaulttime": LETTERS["L"],
    "disk": LETTERS["d"],
    "features": LETTERS["f"],
    "featuresact": LETTERS["b"],
    "freemem": LETTERS["e"],
    "gres": LETTERS["G"],
    "gresused": Column("GRES_USED", lambda node: f"gpu:{node.used_gpus}"),
    "groups": LETTERS["g"],
    "maxcpuspernode": LETTERS["B"],
    "memory": LETTERS["m"],
    "nodeaddr": LETTERS["o"],
    "nodeai": LETTERS["A"],
    "nodeaiot": LETTERS["F"],
    "nodehost": LETTERS["n"],
    "nodelist": LETTERS["N"],
    "nodes": LETTERS["D"],
    "oversubscribe": LETTERS["h"],
    "partition": LETTERS["P"],
    "partitionname": LETTERS["R"],
    "preemptmode": LETTERS["M"],
    "reason": LETTERS["E"],
    "root": LETTERS["r"],
    "size": LETTERS["s"],
    "socketcorethread": LETTERS["z"],
    "sockets": LETTERS["X"],
    "statecompact": LETTERS["t"],
    "statelong": LETTERS["T"],
    "threads": LETTERS["Z"],
    "time": LETTERS["l"],
    "timestamp": LETTERS["H"],
    "user": LETTERS["u"],
    "version": LETTERS["v"],
    "weight": LETTERS["w"],
}
"""By the name that `-O` takes, without dashes and in small letters."""


def main(arguments: list[str]) -> int:
    """Run `sinfo`; the exit code."""
    try:
        given, words = options.read(NAME, arguments, OPTIONS, ABSENT)
        if given.has("help", "usage"):
            print(HELP)
            return 0
        if words:
            fail(NAME, f"Unrecognized option: {options.plain(words[0])[:80]}")
        for text in given.list("states"):
            if text.lower().rstrip("*~#!%$@^-") not in STATES:
                fail(NAME, f'Bad state string: "{options.plain(text)[:80]}"',
                     f"valid states: {','.join(STATES)}")  # fmt: skip
        cells = cells_of(given)
    except UsageError as error:
        return options.usage(error)
    pool = SlurmPool()
    try:
        node = machine.look(pool)
    finally:
        pool.close()
    if given.has("long") and not given.has("noheader"):
        print(time.strftime("%a %b %d %H:%M:%S %Y"))
    shown = [node] if _is_meant(given, node) and not given.has("list-reasons") else []
    for line in columns.lines(cells, shown, header=not given.has("noheader")):
        print(line)
    return 0


def cells_of(given: Given) -> list[Cell[Machine]]:
    """The columns that a command line wants."""
    wrong: list[str] = []
    if given.has("Format"):
        text = given["Format"]
        if text.strip().lower() == "all":
            text = ",".join(f"{name}:1000" for name in NAMES)
        cells = columns.long_cells(text, NAMES, wrong.append)
    else:
        usual = os.environ.get("SINFO_FORMAT", USUAL)
        if given.has("Node"):
            usual = NODES_LONG if given.has("long") else NODES
        elif given.has("long"):
            usual = LONG
        usual = SUMMARY if given.has("summarize") else usual
        usual = REASONS if given.has("list-reasons") else usual
        cells = columns.short_cells(given.get("format", usual), LETTERS, wrong.append)
    said = f"{NAME}: error: Invalid job" if given.has("Format") else "Invalid node"
    for each in wrong:
        print(f"{said} format specification: {options.plain(each)}", file=sys.stderr)
    return cells


def _is_meant(given: Given, node: Machine) -> bool:
    """Whether the node is of what is asked for."""
    if given.has("partition") and PARTITION not in given.list("partition"):
        return False
    if given.has("nodes"):
        try:
            names = hostlist.expand(given["nodes"])
        except ValueError:
            return False
        if node.host not in names:
            return False
    if given.has("dead"):
        return False
    states = [text.lower() for text in given.list("states")]
    return not states or bool({node.state, node.short_state, "all"} & set(states))
