"""What becomes of a lag when its tenant no longer wants time, and with what lag a tenant comes.

A lag belongs to a tenant only within its workload. A tenant that stops wanting time leaves its lag
to its workload, or to its owner if the workload wants none, or to all others. It takes along by how
much it differed from them, and gets that back, faded, when it wants time again. So an owner is as
far ahead or behind as before, whichever of its programs end, begin or pause. What an owner takes
along is kept for any program of it that wants time next.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from moiety.arbiter.schedule.owners import Path
from moiety.arbiter.state.tenant import Tenant
from moiety.arbiter.states import RESTING

FADES_S: Final = 2.0
"""After this time without work, a third of a lag is left."""
DEBT_FADES_S: Final = 60.0
"""The same for one that is ahead and works in another class: it saves nothing by the change."""
_FORGOTTEN: Final = 8
"""Lags are forgotten after this many of these times."""
_EXACT_S: Final = 1e-9

Kept = dict[tuple[int, int, Path], tuple[float, float]]
"""By GPU, rank and path: a lag in GPU-seconds, and when it was left."""
Members = Sequence[tuple[Tenant, float]]
"""The tenants of a class that want time on a GPU, with their parts of the time of the class."""


def balance(gpu: int, members: Members, paying: Members) -> None:
    """Make the lags of a class on a GPU add up to 0, at the cost of `paying`, by their parts."""
    give(gpu, paying, -sum(tenant.gpus[gpu].lag_s for tenant, _ in members))


def give(gpu: int, members: Members, lag_s: float) -> None:
    """Divide a lag among tenants by their parts."""
    whole = sum(part for _, part in members)
    for tenant, part in members:
        tenant.gpus[gpu].lag_s += lag_s * part / whole


class Lags:
    """The lags of owners, workloads and processes that want no time now."""

    def __init__(self) -> None:
        self._kept: Kept = {}
        """What tenants left that stopped wanting time, or changed their class."""
        self._debts: Kept = {}
        """What tenants left that were ahead when they changed their class."""
        self._paths: dict[int, Path] = {}
        """By number: where each tenant belonged at the last change."""
        self._ranks: dict[int, int] = {}
        """By number: the rank of each tenant's class then."""

    def change(self, paths: Mapping[int, Path], tenants: Iterable[Tenant], now_s: float) -> None:
        """Take the paths and classes that count from now on, after all classes were changed."""
        self._paths = dict(paths)
        self._ranks = {tenant.number: tenant.usage.class_rank for tenant in tenants}
        for kept, fades_s in self._all():
            while kept and now_s - next(iter(kept.values()))[1] > _FORGOTTEN * fades_s:
                del kept[next(iter(kept))]

    def leave(
        self, gpu: int, before: Members, here: Collection[int], moved: Collection[int], now_s: float
    ) -> None:
        """Divide the lags of tenants that left a class among those that are still in it.

        `here` are the numbers of the tenants that are in it now; `moved` are in another class of
        the GPU. Those that a promise has raised have their lags with them; those whose share names
        another class leave theirs, and get it back if they return soon.
        """
        moved = {
            t.number
            for t, _ in before
            if t.number in moved and t.usage.class_rank == self._rank_of(t)
        }
        stayed = [(t, part) for t, part in before if t.number in here]
        left = [(t, part) for t, part in before if t.number not in here and t.number not in moved]
        if not left or len(before) == 1:
            return
        # The owner of one that is in another class now is not gone from the GPU.
        there = _within(
            self._paths[tenant.number] for tenant, _ in before if tenant.number in moved
        )
        there |= _within(self._paths[tenant.number] for tenant, _ in stayed)
        lags_s = _lags(gpu, before, left)
        for node, leavers in self._apart(left, there).items():
            anchor = node[:-1]
            near = [pair for pair in before if self._paths[pair[0].number][: len(anchor)] == anchor]
            had_s = sum(lags_s[tenant.number] for tenant, _ in leavers)
            near_s = sum(lags_s[tenant.number] for tenant, _ in near) if anchor else 0.0
            own_s = had_s - near_s * _whole(leavers) / _whole(near)
            key = gpu, self._rank_of(leavers[0][0]), node
            self._keep(key, own_s, now_s, works=any(self._works_elsewhere(t) for t, _ in leavers))
            for tenant, _ in leavers:
                lags_s[tenant.number] = 0.0
                if gpu in tenant.gpus:
                    tenant.gpus[gpu].lag_s = 0.0
            if paying := payers([pair for pair in near if pair in stayed]):
                give(gpu, paying, had_s)
                lags_s.update((t.number, t.gpus[gpu].lag_s) for t, _ in paying)

    def come(
        self,
        gpu: int,
        pairs: Members,
        there: Collection[int],
        paths: Mapping[int, Path],
        now_s: float,
    ) -> None:
        """Give lags to tenants that came to a class, at the cost of the nearest other tenants.

        `there` are the numbers of the tenants that were in it before. A tenant that comes has the
        lag that its owner or its workload has, by its part, and the one that it took along.
        """
        stayed = [pair for pair in pairs if pair[0].number in there]
        came = [pair for pair in pairs if pair[0].number not in there]
        for node, comers in _grouped(came, _within(paths[t.number] for t, _ in stayed), paths):
            anchor = node[:-1]
            near = [pair for pair in stayed if paths[pair[0].number][: len(anchor)] == anchor]
            near_s = sum(tenant.gpus[gpu].lag_s for tenant, _ in near) if anchor else 0.0
            lag_s = near_s * _whole(comers) / (_whole(near) + _whole(comers))
            carried_s = sum(tenant.gpus[gpu].lag_s for tenant, _ in comers)
            lag_s += self._take((gpu, comers[0][0].usage.class_rank, node), now_s)
            give(gpu, comers, lag_s)
            for inner, (those, others) in _below(comers, len(node), paths).items():
                if others:  # else there is no other to differ from
                    kept_s = self._take((gpu, those[0][0].usage.class_rank, inner), now_s)
                    give(gpu, those, kept_s)
                    give(gpu, payers(others), -kept_s)
            if near:
                give(gpu, payers(near), -lag_s - carried_s)
            stayed += comers

    def _apart(self, left: Members, there: Collection[Path]) -> dict[Path, Members]:
        return dict(_grouped(left, there, self._paths))

    def _rank_of(self, tenant: Tenant) -> int:
        """The rank of a tenant's class at the last change; what a promise adds does not count."""
        return self._ranks.get(tenant.number, tenant.usage.class_rank)

    def _works_elsewhere(self, tenant: Tenant) -> bool:
        """Whether a tenant that left a class still wants time, in the class of its new share."""
        return tenant.usage.class_rank != self._rank_of(tenant) and tenant.state not in RESTING

    def _all(self) -> tuple[tuple[Kept, float], ...]:
        """The lags that are kept, with the time over which they fade."""
        return (self._kept, FADES_S), (self._debts, DEBT_FADES_S)

    def _keep(self, key: tuple[int, int, Path], lag_s: float, now_s: float, *, works: bool) -> None:
        lag_s += self._take(key, now_s)
        if abs(lag_s) > _EXACT_S:
            (self._debts if works and lag_s < 0 else self._kept)[key] = lag_s, now_s

    def _take(self, key: tuple[int, int, Path], now_s: float) -> float:
        found_s = 0.0
        for kept, fades_s in self._all():
            lag_s, since_s = kept.pop(key, (0.0, now_s))
            found_s += lag_s * math.exp((since_s - now_s) / fades_s)
        return found_s


def payers(members: Members) -> Members:
    """Who pays for tenants that come and go: the tenants without a promise, if there are some."""
    return [pair for pair in members if not pair[0].usage.promised] or members


def _lags(gpu: int, before: Members, left: Members) -> dict[int, float]:
    """The lags of all, by number: tenants that ended had what the others lack of 0."""
    found = {t.number: t.gpus[gpu].lag_s for t, _ in before if gpu in t.gpus}
    ended = [pair for pair in left if pair[0].number not in found]
    lost_s = -sum(found.values())
    for tenant, part in ended:
        found[tenant.number] = lost_s * part / _whole(ended)
    return found


def _within(paths: Iterable[Path]) -> set[Path]:
    """The paths of all groups that these are in."""
    return {whole[:depth] for whole in paths for depth in range(len(whole) + 1)}


def _grouped(
    members: Members, there: Collection[Path], paths: Mapping[int, Path]
) -> list[tuple[Path, Members]]:
    """Members by the largest of their groups of which no tenant is in `there`."""
    found: dict[Path, list[tuple[Tenant, float]]] = {}
    for pair in members:
        whole = paths[pair[0].number]
        depth = next((d for d in range(1, len(whole)) if whole[:d] not in there), len(whole))
        found.setdefault(whole[:depth], []).append(pair)
    return list(found.items())


def _below(
    members: Members, depth: int, paths: Mapping[int, Path]
) -> dict[Path, tuple[Members, Members]]:
    """Members by each of their groups below a depth, with the others of the group around it."""
    found: dict[Path, list[tuple[Tenant, float]]] = {}
    for pair in members:
        whole = paths[pair[0].number]
        for inner in range(depth, len(whole) + 1):
            found.setdefault(whole[:inner], []).append(pair)
    return {
        inner: (those, [pair for pair in found[inner[:-1]] if pair not in those])
        for inner, those in found.items()
        if len(inner) > depth
    }


def _whole(members: Members) -> float:
    return sum(part for _, part in members)
