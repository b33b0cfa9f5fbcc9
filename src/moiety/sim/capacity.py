"""How many GPUs a trace needs so that waiting stays within a bound, and whether pools should split.

Replays of different sizes; the search halves the range, so it takes about seven of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from moiety.model.errors import InvalidValue
from moiety.policy.model.queues import Queue
from moiety.sim.gangs import GangJob, GangTrace, cluster
from moiety.sim.outcome import GangOutcome, count, order_of, run_gangs
from moiety.sim.runs import RestartCost, Run, UsageTimeline, replay

SIZES_MAX: Final = 4096
"""Nodes; a trace that needs more is refused."""

QueuesOf = Callable[[GangTrace], Sequence[Queue] | None]
Tried = Callable[[GangOutcome], None]


@dataclass(frozen=True, slots=True)
class Part:
    """One of several pools: its GPUs, the largest job that it takes, and its queues."""

    gpus: int
    job_gpus_max: int | None = None
    queues: frozenset[str] = frozenset()
    """Empty: the jobs of all queues."""

    def takes(self, gang: GangJob) -> bool:
        """Whether a job belongs here."""
        most = self.gpus if self.job_gpus_max is None else self.job_gpus_max
        return gang.gpus <= most and (not self.queues or gang.queue in self.queues)


def needed(
    trace: GangTrace,
    wait_p95_s: float,
    order: str,
    cost: RestartCost,
    gpus_per_node: int,
    tried: Tried = lambda _: None,
    queues: QueuesOf = lambda _: None,
) -> GangOutcome | None:
    """The replay on the smallest cluster whose 95th percentile of waiting is within the bound.

    `queues` gives the queues on a cluster of that size. Waiting need not fall with each node, so a
    smaller size may do by luck. None: not even the largest size that is tried is enough.
    """
    most = max(gang.gpus for gang in trace.gangs)
    low = -(-most // gpus_per_node)
    known: dict[int, GangOutcome] = {}

    def at(nodes: int) -> GangOutcome:
        if nodes not in known:
            sized = replace(trace, nodes=cluster(nodes * gpus_per_node, gpus_per_node))
            known[nodes] = run_gangs(sized, order, cost, queues=queues(sized))
            tried(known[nodes])
        return known[nodes]

    high = max(low, len(trace.nodes))
    while at(high).wait_p95_s > wait_p95_s:
        low, high = high + 1, high * 2
        if high > SIZES_MAX:
            return None
    while low < high:
        middle = (low + high) // 2
        if at(middle).wait_p95_s <= wait_p95_s:
            high = middle
        else:
            low = middle + 1
    return at(high)


def split(
    trace: GangTrace, parts: Sequence[Part], order: str, cost: RestartCost, gpus_per_node: int
) -> GangOutcome:
    """The same trace on separate pools, each job in the first pool that takes it.

    Raises InvalidValue if no pool takes a job.
    """
    sorted_into: list[list[int]] = [[] for _ in parts]
    for number, gang in enumerate(trace.gangs):
        for at, part in enumerate(parts):
            if part.takes(gang):
                sorted_into[at].append(number)
                break
        else:
            of = f" of queue {gang.queue}" if any(part.queues for part in parts) else ""
            raise InvalidValue(
                f"no pool takes a job of {gang.gpus} GPUs{of}",
                "a last part without @ and : that is large enough",
            )
    runs: list[Run] = []
    lines: list[UsageTimeline] = []
    nodes: tuple[int, ...] = ()
    for part, numbers in zip(parts, sorted_into, strict=True):
        size = cluster(part.gpus, gpus_per_node)
        nodes += size
        if numbers:
            gangs = tuple(trace.gangs[number] for number in numbers)
            found, line = replay(replace(trace, gangs=gangs, nodes=size), order_of(order), cost)
            runs += found
            lines.append(line)
    whole = replace(trace, nodes=nodes)
    return count(whole, order, runs, _together(lines, sum(nodes)), 0.0)


def _together(lines: Sequence[UsageTimeline], there: int) -> UsageTimeline:
    """The sum of several timelines."""
    moments = sorted(
        (at, line, point) for line, of in enumerate(lines) for point, at in enumerate(of.at_s)
    )
    now: list[tuple[int, int, int]] = [(0, 0, 0)] * len(lines)
    found = UsageTimeline()
    for at, line, point in moments:
        of = lines[line]
        now[line] = (of.used[point], of.wanted[point], of.waiting[point])
        found.at_s.append(at)
        found.used.append(sum(each[0] for each in now))
        found.there.append(there)
        found.wanted.append(sum(each[1] for each in now))
        found.waiting.append(sum(each[2] for each in now))
    return found


def parse_split(text: str) -> list[Part]:
    """`48@1,64`: 48 GPUs for jobs of one GPU, 64 for all others. Raises InvalidValue.

    `48:vision+speech,64`: 48 for the jobs of two queues.
    """
    return list(_parts(text))


def _parts(text: str) -> Iterator[Part]:
    for piece in text.split(","):
        size, colon, names = piece.strip().partition(":")
        gpus, _, most = size.partition("@")
        queues = frozenset(name for name in names.split("+") if name)
        numbers = [gpus, most] if most else [gpus]
        is_fine = all(each.isascii() and each.isdecimal() and len(each) < 8 for each in numbers)
        if not is_fine or not int(gpus) or (colon and not queues):
            raise InvalidValue(f"{piece!r} is no pool", "such as 48@1,64 or 48:vision,64")
        yield Part(int(gpus), int(most) if most else None, queues)
