"""Whose time a tenant uses: its owner's first, then that of its workload, then its own.

Time that no tenant was promised is divided equally among the owners that want it, then among the
workloads of each owner, then among the processes of each workload. An owner is a user, or on
Kubernetes a namespace. A gang counts as one process. So more programs gain their owner no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from moiety.arbiter.state.tenant import Tenant

Path = tuple[str, ...]
"""An owner, a workload and a process or gang; the first one or two of them; or none: a class."""

_REMEMBERED_S: Final = 10.0
"""By then, what a group was ahead when it left has faded (lags.py)."""
_AT_ONCE: Final = 4
"""A group of more units is ahead by longer windows, so that it is not interrupted more often."""


@dataclass(slots=True)
class Group:
    """Tenants of a class that sit out together: an owner's, a workload's, or those of one unit."""

    key: Path
    firsts: list[Tenant]
    """One tenant of each unit; a unit is a process or a gang."""
    members: list[Tenant]
    sits_out: bool = False

    @property
    def lag_s(self) -> float:
        """How far they are behind together, in GPU-seconds; negative: ahead."""
        return sum(tenant.lag_s for tenant in self.firsts)

    @property
    def windows(self) -> float:
        """By how many windows they are ahead when they begin to sit out."""
        return max(1.0, len(self.firsts) / _AT_ONCE)


def path(tenant: Tenant) -> Path:
    """Where a tenant belongs.

    A tenant without a known workload is a workload of its own. A gang of several workloads is one.
    """
    gang = tenant.gang
    if gang is None:
        unit = str(tenant.number)
        return tenant.owner, tenant.workload or unit, unit
    unit = f"gang {gang.name}"
    workloads = {member.workload for member in gang.members}
    workload = workloads.pop() if len(workloads) == 1 else ""
    return tenant.owner, workload or unit, unit


def weights(paths: Sequence[Path]) -> list[float]:
    """The part that each tenant with one of these paths has of their time; they sum up to 1."""
    children: dict[Path, dict[Path, None]] = {}
    members: dict[Path, int] = {}
    for whole in paths:
        for depth in range(len(whole)):
            children.setdefault(whole[:depth], {})[whole[: depth + 1]] = None
        members[whole] = members.get(whole, 0) + 1
    return [
        1.0
        / (len(children[()]) * len(children[each[:1]]) * len(children[each[:2]]) * members[each])
        for each in paths
    ]


def groups(members: Sequence[Tenant]) -> Iterator[Group]:
    """The groups of a class: each unit, and each owner and workload of several units.

    Owners or workloads that make up the whole class are left out: none of its time goes to others.
    """
    found: dict[Path, Group] = {}
    for tenant in members:
        whole = path(tenant)
        is_first = whole not in found
        for depth in (1, 2, 3):
            group = found.setdefault(whole[:depth], Group(whole[:depth], [], []))
            group.members.append(tenant)
            if is_first:
                group.firsts.append(tenant)
    for key, group in found.items():
        if len(key) == 3 or (len(group.members) < len(members) and len(group.firsts) > 1):
            yield group


class Groups:
    """The groups of each class with unequal parts, by its GPU and rank, and who of them sits out.

    A group that leaves its class while it sits out, and returns, sits out until it is no longer
    ahead: a tenant whose lease was revoked is idle until it asks for its next one.
    """

    def __init__(self) -> None:
        self.of: dict[tuple[int, int], dict[Path, Group]] = {}
        self._sat_out: dict[tuple[tuple[int, int], Path], float] = {}
        """When each group that left its class sat out last."""

    def renew(self, classes: Mapping[tuple[int, int], Sequence[Tenant]], now_s: float) -> None:
        """Find the groups of these classes."""
        for key, known in self.of.items():
            for where, group in known.items():
                if group.sits_out:
                    self._sat_out[key, where] = now_s
        self._sat_out = {
            left: since_s
            for left, since_s in self._sat_out.items()
            if now_s - since_s <= _REMEMBERED_S
        }
        self.of = {}
        for key, members in classes.items():
            self.of[key] = {group.key: group for group in groups(members)}
            for where, group in self.of[key].items():
                group.sits_out = self._sat_out.pop((key, where), None) is not None
