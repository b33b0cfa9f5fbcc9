"""Carries out decisions about dynamic pools: nodes start, become ready, and are released."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count

from moiety.policy.model.cluster import Node, Pool
from moiety.policy.model.decisions import Decision, Growth, Release
from moiety.policy.model.snapshot import Snapshot, Starting


def scaled(snapshot: Snapshot, decisions: Iterable[Decision]) -> Snapshot:
    """The cluster at its `now_s`, after earlier decisions: nodes are added when they are ready.

    A new node has the name of its pool, with the first number that is free.
    """
    pools = {pool.name: pool for pool in snapshot.pools if pool.is_dynamic}
    if not pools:
        return snapshot
    decided = [each for each in decisions if isinstance(each, Growth | Release)]
    starting = list(snapshot.starting)
    for each in decided:
        if isinstance(each, Growth):
            starting += [Starting(each.pool, each.ready_s)] * each.nodes
    gone = {each.node for each in decided if isinstance(each, Release)}
    nodes = [node for node in snapshot.nodes if node.name not in gone]
    names = {node.name for node in snapshot.nodes}
    now_s = snapshot.now_s
    for came in starting:
        if came.ready_s <= now_s:
            name = free_name(came.pool, names)
            names.add(name)
            template = pools[came.pool].template
            assert template
            nodes.append(replace(template, name=name, pool=came.pool))
    in_use = {running.spot.node for running in snapshot.running}
    return replace(
        snapshot,
        nodes=tuple(nodes),
        starting=tuple(each for each in starting if each.ready_s > now_s),
        empty_since={
            node.name: snapshot.empty_since.get(node.name, now_s)
            for node in nodes
            if node.pool in pools and node.name not in in_use
        },
    )


def with_domains(pools: Iterable[Pool], could: Mapping[str, Sequence[Node]]) -> tuple[Pool, ...]:
    """The pools, with the domains of nodes that are not there yet where the template's differ.

    `could` are such nodes by pool, the next one last.
    """
    found = []
    for pool in pools:
        domains = tuple(node.topology for node in reversed(could.get(pool.name, ())))
        is_known = pool.template is None or {pool.template.topology}.issuperset(domains)
        found.append(pool if is_known else replace(pool, domains=domains))
    return tuple(found)


def free_name(pool: str, names: Iterable[str]) -> str:
    """A name for another node of a pool."""
    return next(free_names(pool, set(names)))


def free_names(pool: str, taken: Container[str]) -> Iterator[str]:
    """Names for nodes of a pool, without those that are taken."""
    return (name for at in count(1) if (name := f"{pool}-{at}") not in taken)
