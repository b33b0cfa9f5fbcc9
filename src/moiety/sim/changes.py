"""Changes of a cluster during a replay: nodes fail, are drained, added and removed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from moiety.model.errors import InvalidValue
from moiety.sim.gangs import GangTrace
from moiety.sim.reading import Complaints, TableRow, check_file, read_table
from moiety.sim.runs import ClusterChange, change_nodes
from moiety.sim.seats import Nodes

KINDS: Final = ("fail", "drain", "add", "remove")
COLUMNS: Final = ("at_s", "what")
FAILURES_MAX: Final = 100_000


def read_changes(path: Path, nodes: int, complaints: Complaints) -> list[ClusterChange]:
    """A CSV or JSONL file: `at_s` (after the first submission), `what`, `node`, `gpus`, `for_s`.

    `fail` and `drain` take a node (a position from 0) away, for `for_s` or for good; `remove` is a
    `drain` for good; `add` brings a node with `gpus`. Raises TraceMissing and TraceInvalid.
    """
    check_file(path, "list of changes")
    rows = read_table(path, COLUMNS, _changes, complaints)
    there, wrong = nodes, set()
    for line, [first, *_] in sorted(rows, key=lambda row: row[1][0].at_s):
        if first.what == "add":
            there += 1
        elif first.node >= there:
            wrong.add(line)
            complaints.about(path, line, f"there is no node {first.node}: there are {there} then")
    return [change for line, changes in rows if line not in wrong for change in changes]


def _changes(row: TableRow) -> list[ClusterChange]:
    what = row.text("what")
    at_s = row.number("at_s")
    if what not in KINDS:
        raise ValueError(f"what is {what!r}, and not one of {', '.join(KINDS)}")
    if what == "add":
        gpus = row.whole("gpus")
        if not gpus:
            raise ValueError("a node without GPUs comes")
        return [ClusterChange(at_s, "add", gpus=gpus)]
    node = row.whole("node")
    away = ClusterChange(at_s, "down" if what == "fail" else "drain", node)
    lasts_s = row.number("for_s", 0.0)
    if what == "remove" or not lasts_s:
        return [away]
    return [away, ClusterChange(at_s + lasts_s, "up", node)]


def failures(trace: GangTrace, every_s: float, repair_s: float, seed: int) -> list[ClusterChange]:
    """Each node fails at random, once in `every_s` in the mean, and is back after `repair_s`.

    Failures end with the last submission. Raises InvalidValue for more than `FAILURES_MAX`.
    """
    lasts_s = trace.gangs[-1].submitted_s - trace.gangs[0].submitted_s
    return random_failures(lasts_s, len(trace.nodes), every_s, repair_s, seed)


def random_failures(
    lasts_s: float, nodes: int, every_s: float, repair_s: float, seed: int
) -> list[ClusterChange]:
    """The same for a number of nodes; failures end after `lasts_s`."""
    expected = lasts_s / every_s * nodes
    if expected > FAILURES_MAX:
        raise InvalidValue(f"nodes would fail {expected:.3g} times", "a longer --fail-every")
    random = np.random.Generator(np.random.PCG64(seed))
    found = []
    for node in range(nodes):
        at_s = float(random.exponential(every_s))
        while at_s < lasts_s:
            found += [ClusterChange(at_s, "down", node), ClusterChange(at_s + repair_s, "up", node)]
            at_s += repair_s + float(random.exponential(every_s))
    return found


def most_there(trace: GangTrace, changes: Sequence[ClusterChange]) -> Nodes:
    """The nodes that are left for good after all changes.

    Raises InvalidValue if a job does not fit on them.
    """
    nodes = Nodes(trace.nodes)
    for change in sorted(changes, key=lambda each: each.at_s):
        change_nodes(nodes, change)
    left = Nodes([size if up else 0 for size, up in zip(nodes.size, nodes.up, strict=True)])
    largest = max((gang.gpus for gang in trace.gangs), default=0)
    if not left.could(largest):
        raise InvalidValue(
            f"a job wants {largest} GPUs, and after all changes {left.gpus} are left",
            "changes that leave enough, or --bad report with a smaller --cluster",
        )
    return left
