"""Reads which pools of a trace are dynamic: how small and large, how fast, how patient."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Final

from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.model.cluster import Node, Pool
from moiety.sim.node_table import HOST
from moiety.sim.reading import COLUMNS_HINT, Complaints, TableRow, check_file, read_table
from moiety.sim.scaling import free_names

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

    def members(self, pool: Pool, own: Sequence[Node], taken: Container[str]) -> tuple[Node, ...]:
        """The nodes that the pool may ever have: those of the trace, if these are enough.

        Others have no name of `taken`. Nodes of one domain come one after the other. Raises
        InvalidValue if it is unclear in which domains others would be.
        """
        assert pool.template
        assert pool.nodes_max is not None
        if not self.like:
            if pool.nodes_max <= len(own):
                kept = sorted(own[: pool.nodes_max], key=_domains)
                return tuple(replace(node, pool=pool.name) for node in kept)
            if len({_domains(node) for node in own}) > 1:
                raise InvalidValue(
                    f"pool {pool.name} may have {pool.nodes_max} nodes, and its {len(own)} in the "
                    "trace are in several domains, so it is unclear in which the others would be",
                    f"nodes_max of at most {len(own)}, more nodes in the trace, or a line with "
                    "`like`: a node in whose domains all are",
                )
        domains = _domains(pool.template)
        has_hosts = len(domains) < len(pool.template.topology)
        names = islice(free_names(pool.name, taken), pool.nodes_max)
        return tuple(
            replace(
                pool.template,
                name=name,
                topology=(*domains, (HOST, name)) if has_hosts else domains,
            )
            for name in names
        )


@dataclass(frozen=True, slots=True)
class DynamicPools:
    """The dynamic pools of a trace, and its nodes."""

    pools: tuple[Pool, ...]
    always: tuple[Node, ...]
    """The nodes of no dynamic pool."""
    nodes: Mapping[str, tuple[Node, ...]]
    """The nodes that each pool may ever have, by its name, in the order in which they start."""


def read_pools(
    path: Path, nodes: Sequence[Node], complaints: Complaints
) -> tuple[tuple[Pool, ...], tuple[Node, ...]]:
    """The dynamic pools of a CSV or JSONL file, and the nodes that are always there.

    Domains of the topology are not looked at. Raises as `read_dynamic`.
    """
    found = read_dynamic(path, [replace(node, topology=()) for node in nodes], complaints)
    always = {node.name for node in found.always}
    return found.pools, tuple(node for node in nodes if node.name in always)


def read_dynamic(path: Path, nodes: Sequence[Node], complaints: Complaints) -> DynamicPools:
    """The dynamic pools of a CSV or JSONL file.

    `name`, and where they are given `nodes_min` (0), `nodes_max` (as many as the trace has),
    `start_s`, `idle_s`, `like` (the node that others are like; the pool's first). Raises
    TraceMissing and TraceInvalid, with the line, for what makes no sense: a pool without nodes, of
    nodes that are not alike, named twice, or of nodes of which it is unclear in which domains of
    the topology they would be.
    """
    check_file(path, "list of pools")
    pools: dict[str, Pool] = {}
    members: dict[str, tuple[Node, ...]] = {}
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
            kinds = _kinds(line, own) if line.name == EVERY else [(_named(line, own, nodes), own)]
            others = {node.name for node in nodes} - {node.name for node in own}
            for pool, alike in kinds:
                taken = others | {node.name for each in members.values() for node in each}
                pools[pool.name], members[pool.name] = pool, line.members(pool, alike, taken)
        except InvalidValue as error:
            raise TraceInvalid(path.name, number, error.what, error.hint) from None
        gone = {node.name for node in own}
        left = [node for node in left if node.name not in gone]
    if not pools:
        raise TraceInvalid(path.name, 0, "it has no pools", COLUMNS_HINT)
    return DynamicPools(tuple(pools.values()), tuple(left), members)


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


def _kinds(line: _Line, own: Iterable[Node]) -> list[tuple[Pool, list[Node]]]:
    """A pool for each kind of node, with the nodes of that kind."""
    if line.like:
        raise InvalidValue(
            f"{EVERY} makes a pool of each kind of node, and they are not all like {line.like}",
            "a line for a pool by its name, or no `like`",
        )
    kinds: dict[tuple[object, ...], list[Node]] = {}
    for node in own:
        kinds.setdefault(_kind(node), []).append(node)
    found: dict[str, tuple[Pool, list[Node]]] = {}
    for alike in kinds.values():
        first = alike[0]
        gpus = f"{len(first.gpus)} {first.model}" if first.gpus else "no GPUs"
        name = f"{first.pool}: {gpus}, {first.cpu_milli / 1000:g} CPUs, {first.memory_mib} MiB"
        if name in found:  # only the memory of their GPUs differs
            name += f", GPUs of {first.gpu_memory_mib} MiB"
        found[name] = line.pool(name, alike, first), alike
    return list(found.values())


def _domains(node: Node) -> tuple[tuple[str, str], ...]:
    """The domains of the topology that a node shares with others, so without its host."""
    return tuple(domain for domain in node.topology if domain[0] != HOST)


def _kind(node: Node) -> tuple[object, ...]:
    shape = node.cpu_milli, node.memory_mib, len(node.gpus), node.model, node.gpu_memory_mib
    return (node.pool, *shape)
