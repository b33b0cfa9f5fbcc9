"""The limits of users as the engine plans with them: it starts nothing that the agent would refuse.

The rules are the agent's ([users.NAME], [groups.NAME], [defaults]). A limit of each GPU's time or
memory leaves a workload some of the GPUs; one of the number of workloads is counted in each plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Final

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.policy.model.decisions import Decision, Placement
from moiety.policy.model.workloads import Affinity, Subgroup, Workload
from moiety.pool.engine.messages import CardView, MachineView, UserView, WaitReason
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ACTIVE, WorkState

KIND: Final = "user-limit"
KEPT: Final = 4096
"""Forms of tasks that are kept for the next workload that may have the same GPUs."""
Subgroups = tuple[Subgroup, ...]
Places = Mapping[int, tuple[str, int]]
"""By index of a GPU: its node, and its number there."""


class UserBooks:
    """What users with limits have, and what they may have beside that."""

    def __init__(self, machine: MachineView, rows: Iterable[WorkRow]) -> None:
        """`rows` are all that live; those with GPUs count."""
        self._limits = machine.limits
        self._cards = machine.cards
        self._milli: Counter[tuple[int, int]] = Counter()
        self._mib: Counter[tuple[int, int]] = Counter()
        self._refused: set[int] = set()
        self._has = Counter({uid: limit.outside for uid, limit in machine.limits.items()})
        for row in rows if machine.limits else ():
            if row.state in ACTIVE and row.gpus and row.uid in machine.limits:
                self._count(row, row.cards)

    def why_not(self, row: WorkRow) -> WaitReason | None:
        """Why a waiting workload may not be tried now; None: it may."""
        limit = self._limits.get(row.uid)
        if limit is None or not row.gpus or row.state is not WorkState.PENDING:
            return None
        has = self._has[row.uid]
        if limit.workloads is not None and has >= limit.workloads:
            text = f"{row.user} has {_many(has, 'workload')} with GPUs, and may have "
            text += str(limit.workloads)
            return self._reason(limit, "workloads", text, is_final=limit.workloads == 0)
        allowed = [card for card in self._cards if not self._problem(row, card, limit)]
        if len(allowed) >= row.gpus:
            return None
        field = next((p for card in self._cards if (p := self._problem(row, card, limit))), "")
        if not field:  # the machine has too few: that is the engine's to say
            return None
        alone = [card for card in self._cards if not self._problem(row, card, limit, alone=True)]
        text = f"{row.user} may have {_said(limit, field)}"
        if len(alone) >= row.gpus:
            text += f": beside its other work that leaves {_many(len(allowed), 'GPU')} for this"
        return self._reason(limit, field, text, is_final=len(alone) < row.gpus)

    def confined(self, row: WorkRow, workload: Workload, places: Places) -> Workload:
        """The workload, on none but the GPUs that the limits of its user leave it now."""
        limit = self._limits.get(row.uid)
        if limit is None or not row.gpus:
            return workload
        allowed = [card.index for card in self._cards if not self._problem(row, card, limit)]
        if len(allowed) == len(self._cards):
            return workload
        there = frozenset(places[index] for index in allowed if index in places)
        return only_on(workload, there)

    def take(self, row: WorkRow, cards: Iterable[int]) -> bool:
        """Count GPUs that a workload gets; False: they are more than its user may have.

        Then nothing more of that user is taken: what is due later would overtake.
        """
        limit, indices = self._limits.get(row.uid), set(cards)
        if limit is None or not row.gpus:
            return True
        full = limit.workloads is not None and self._has[row.uid] >= limit.workloads
        if full or any(self._problem(row, c, limit) for c in self._cards if c.index in indices):
            self._refused.add(row.uid)
        if row.uid in self._refused:
            return False
        self._count(row, indices)
        return True

    def too_many(
        self, plan: Iterable[Decision], rows: Mapping[int, WorkRow]
    ) -> tuple[set[int], set[int]]:
        """Users of which a plan starts more than they may have, and what of it they may have."""
        chosen: dict[int, list[int]] = {}
        for each in plan:
            if isinstance(each, Placement):
                row = rows[int(each.task.workload)]
                if row.gpus and row.state is WorkState.PENDING:
                    chosen.setdefault(row.uid, []).append(row.id)
        users: set[int] = set()
        kept: set[int] = set()
        for uid, numbers in chosen.items():
            limit = self._limits.get(uid)
            if limit is not None and limit.workloads is not None:
                room = max(limit.workloads - self._has[uid], 0)
                if len(numbers) > room:
                    users.add(uid)
                    kept.update(numbers[:room])
        return users, kept

    def _problem(
        self, row: WorkRow, card: CardView, limit: UserView, *, alone: bool = False
    ) -> str:
        """The rule that keeps a workload from a GPU; empty: none. `alone`: beside nothing else."""
        key = row.uid, card.index
        if limit.gpus is not None and card.index not in limit.gpus:
            return "gpus"
        milli = 0 if alone else self._milli[key]
        if limit.gpu_milli is not None and milli + _milli(row, card) > limit.gpu_milli:
            return "gpu"
        most = _most_mib(limit, card)
        if most is None:
            return ""
        mib = 0 if alone else self._mib[key]
        own = 0 if row.opportunistic else row.gpu_memory_mib
        return "memory" if max(mib + own, row.memory_limit_mib) > most else ""

    def _count(self, row: WorkRow, cards: Iterable[int]) -> None:
        self._has[row.uid] += 1
        by_index = {card.index: card for card in self._cards}
        for index in cards:
            if index in by_index and not row.opportunistic:
                self._milli[row.uid, index] += _milli(row, by_index[index])
                self._mib[row.uid, index] += row.gpu_memory_mib

    @staticmethod
    def _reason(limit: UserView, field: str, text: str, *, is_final: bool) -> WaitReason:
        where = limit.where.get(field)
        return WaitReason(KIND, f"{text} ({where})" if where else text, is_final=is_final)


def only_on(workload: Workload, there: frozenset[tuple[str, int]]) -> Workload:
    """The workload, on none but these GPUs: each by its node and its number there."""
    return replace(workload, subgroups=_only(workload.subgroups, there))


@lru_cache(KEPT)
def _only(subgroups: Subgroups, there: frozenset[tuple[str, int]]) -> Subgroups:
    return tuple(replace(each, company=Affinity(gpus=there)) for each in subgroups)


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _milli(row: WorkRow, card: CardView) -> int:
    """What a workload is promised of the time of a GPU."""
    if row.opportunistic:
        return 0
    return row.gpu_milli or -(-row.gpu_memory_mib * WHOLE_GPU // max(card.memory_mib, 1))


def _most_mib(limit: UserView, card: CardView) -> int | None:
    """The memory of a GPU that a user may have; None: all of it."""
    if limit.memory_mib is None and limit.memory_part is None:
        return None
    return max(limit.memory_mib or 0, int((limit.memory_part or 0.0) * card.memory_mib))


def _said(limit: UserView, field: str) -> str:
    if field == "gpus":
        return f"no GPUs but {', '.join(map(str, limit.gpus or ()))}"
    if field == "gpu":
        return f"{(limit.gpu_milli or 0) / 10:g} % of each GPU's time"
    amounts = [f"{limit.memory_mib} MiB"] if limit.memory_mib is not None else []
    if limit.memory_part is not None:
        amounts.append(f"{limit.memory_part * 100:g} %")
    return f"{' or '.join(amounts)} of each GPU's memory"
