"""Reads which pools of a trace are dynamic: how small and large, how fast, how patient."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.model.cluster import Node, Pool
from moiety.sim.reading import COLUMNS_HINT, Complaints, TableRow, check_file, read_table

COLUMNS: Final = ("name",)
EVERY: Final = "*"
"""Instead of a name: every kind of nodes that no other line is about is a pool of its own."""
NODES_MAX: Final = 20_000
"""Of one pool: more are not simulated."""
USUAL: Final = Pool()


@dataclass(frozen=True, slots=True)
class _Line:
    """One line, before it is known which nodes it is about."""

    name: str
    nodes_min: int
    nodes_max: int | None
    start_s: float
    idle_s: float
    like: str

    def pool(self, name: str, nodes: Sequence[Node], template: Node) -> Pool:
        """Of these nodes; raises InvalidValue for bounds that make no sense."""
        most = len(nodes) if self.nodes_max is None else self.nodes_max
        if most > NODES_MAX:
            raise InvalidValue(f"pool {name}: {most} nodes; at most {NODES_MAX} are simulated")
        return Pool(
            name,
            is_dynamic=True,
            nodes_min=self.nodes_min,
            nodes_max=most,
            template=replace(template, pool=name),
            start_s=self.start_s,
            idle_s=self.idle_s,
        )


def read_pools(
    path: Path, nodes: Sequence[Node], complaints: Complaints
) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """The dynamic pools of a CSV or JSONL file, and the nodes that are always there.

    `name`, and where they are given `nodes_min` (0), `nodes_max` (as many as the trace has),
    `start_s`, `idle_s`, `like` (the node that others are like; the pool's first). Raises
    TraceMissing and TraceInvalid, with the line, for what makes no sense: a pool without nodes, of
    nodes that are not alike, or named twice.
    """
    check_file(path, "list of pools")
    pools: list[Pool] = []
    seen: dict[str, int] = {}
    left = list(nodes)
    lines = read_table(path, COLUMNS, _line, complaints)
    for number, line in sorted(lines, key=lambda each: each[1].name == EVERY):
        if line.name in seen:
            problem = f"{line.name} is in line {seen[line.name]} already"
            complaints.about(path, number, problem)
            continue
        seen[line.name] = number
        own = left if line.name == EVERY else [node for node in left if node.pool == line.name]
        try:
            pools += _kinds(line, own) if line.name == EVERY else [_named(line, own, nodes)]
        except InvalidValue as error:
            raise TraceInvalid(path.name, number, error.what, error.hint) from None
        gone = {node.name for node in own}
        left = [node for node in left if node.name not in gone]
    if not pools:
        raise TraceInvalid(path.name, 0, "it has no pools", COLUMNS_HINT)
    return tuple(pools), tuple(left)


def _line(row: TableRow) -> _Line:
    return _Line(
        row.text("name"),
        row.whole("nodes_min", 0),
        row.whole("nodes_max") if row.text("nodes_max", "") else None,
        row.number("start_s", USUAL.start_s),
        row.number("idle_s", USUAL.idle_s),
        row.text("like", ""),
    )


def _named(line: _Line, own: Sequence[Node], nodes: Iterable[Node]) -> Pool:
    if line.like:
        found = [node for node in nodes if node.name == line.like]
        if not found:
            raise InvalidValue(f"pool {line.name}: there is no node {line.like}", "another `like`")
        return line.pool(line.name, own, found[0])
    if not own:
        raise InvalidValue(
            f"pool {line.name} has no nodes in the trace", "`like`: the node that its own are like"
        )
    kinds = {_kind(node) for node in own}
    if len(kinds) > 1:
        raise InvalidValue(
            f"pool {line.name} has nodes of {len(kinds)} kinds, so it is unclear which would start",
            f"`like` with one of them, a pool for each, or {EVERY} as the name",
        )
    return line.pool(line.name, own, own[0])


def _kinds(line: _Line, own: Iterable[Node]) -> list[Pool]:
    if line.like:
        raise InvalidValue(
            f"{EVERY} makes a pool of each kind of node, and they are not all like {line.like}",
            "a line for a pool by its name, or no `like`",
        )
    kinds: dict[tuple[object, ...], list[Node]] = {}
    for node in own:
        kinds.setdefault(_kind(node), []).append(node)
    found = []
    for alike in kinds.values():
        first = alike[0]
        gpus = f"{len(first.gpus)} {first.model}" if first.gpus else "no GPUs"
        name = f"{first.pool}: {gpus}, {first.cpu_milli / 1000:g} CPUs, {first.memory_mib} MiB"
        found.append(line.pool(name, alike, first))
    return found


def _kind(node: Node) -> tuple[object, ...]:
    shape = node.cpu_milli, node.memory_mib, len(node.gpus), node.model, node.gpu_memory_mib
    return (node.pool, *shape)
