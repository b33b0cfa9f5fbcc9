"""The three books of a pool: promised time, promised memory, and all memory limits together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from moiety.policy.model.cluster import WHOLE_GPU
from moiety.pool.engine.messages import CardView, WaitReason
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import ACTIVE, WorkState


class GpuBooks:
    """What of each GPU is given out now: a plan counts what it ends as free before it is.

    Promised time is at most 1 for each GPU, and promised memory at most what its arbiter shares
    out. All memory limits, those of suspended work too, are together at most what all arbiters
    share out and what their arena holds: else what leaves a GPU might find no place.
    """

    def __init__(
        self, cards: Sequence[CardView], rows: Iterable[WorkRow], arena_mib: int = 0
    ) -> None:
        self._memory_mib = {card.index: card.memory_mib for card in cards}
        self._own_mib = {card.index: max(card.memory_mib - card.outside_mib, 0) for card in cards}
        """What of each GPU's memory no other program has."""
        self.milli = {card.index: card.outside_milli for card in cards}
        self.mib = {card.index: card.outside_mib for card in cards}
        self.limits_mib = sum(card.outside_mib for card in cards)
        """All memory limits, and what processes outside the pool have."""
        self.holds_mib = sum(self._memory_mib.values()) + arena_mib
        for row in rows:
            if row.state in ACTIVE:
                self._add(row, row.cards, self.milli_of(row, row.cards))

    def take(self, row: WorkRow, cards: Sequence[int], milli: int) -> bool:
        """Give GPUs to a workload; False: what it needs of them is not free yet."""
        if self.beyond_limits(row, cards) or not self._has_room(row, cards, milli):
            return False
        self._add(row, cards, milli)
        return True

    def take_back(self, row: WorkRow) -> bool:
        """Give suspended work its own GPUs again; False: others have them. Its limits count."""
        milli = self.milli_of(row, row.cards)
        if not self._has_room(row, row.cards, milli):
            return False
        self._promise(row, row.cards, milli)
        return True

    def _has_room(self, row: WorkRow, cards: Sequence[int], milli: int) -> bool:
        """Whether what a workload is promised is free on these GPUs."""
        if row.opportunistic:
            return True
        return all(
            self.milli.get(card, WHOLE_GPU) + milli <= WHOLE_GPU
            and self.mib[card] + row.gpu_memory_mib <= self._memory_mib[card]
            for card in cards
        )

    def beyond_limits(self, row: WorkRow, cards: Sequence[int]) -> WaitReason | None:
        """Why a workload waits whose memory limit is too much beside those of others."""
        own = self._limit_mib(row, cards)
        over = self.limits_mib + own - self.holds_mib
        if not cards or over <= 0:
            return None
        text = (
            f"it may allocate {own} MiB, others {self.limits_mib} MiB, and all GPUs and the host "
            f"memory for them have {self.holds_mib} MiB: {over} MiB too little "
            "(a smaller --memory-limit needs less)"
        )
        numbers = {"limit_mib": own, "others_mib": self.limits_mib, "holds_mib": self.holds_mib}
        return WaitReason("memory-limits", text, numbers=numbers)

    def refuse(self, row: WorkRow, milli: int) -> str:
        """Why a workload cannot have this of its own GPUs beside others; empty: it can."""
        for card in row.cards:
            if self.milli[card] + milli > WHOLE_GPU:
                left = max(WHOLE_GPU - self.milli[card], 0) / WHOLE_GPU
                return f"{left:g} of the time of GPU {card} is left beside others"
            left_mib = max(self._memory_mib[card] - self.mib[card], 0)
            if row.gpu_memory_mib > left_mib:
                return f"{left_mib} MiB of GPU {card} are left beside others"
        why = self.beyond_limits(row, row.cards)
        return "" if why is None else why.text

    def _limit_mib(self, row: WorkRow, cards: Sequence[int]) -> int:
        """What it may allocate on all of its GPUs; without a limit, the part that it was promised.

        Opportunistic work has no promise: without a limit it may take all of a GPU.
        """
        if row.memory_limit_mib or row.gpu_memory_mib:
            return max(row.memory_limit_mib, row.gpu_memory_mib) * len(cards)
        milli = WHOLE_GPU if row.opportunistic else row.gpu_milli
        return sum(self._own_mib.get(card, 0) * milli // WHOLE_GPU for card in cards)

    def milli_of(self, row: WorkRow, cards: Sequence[int]) -> int:
        """Thousandths of each of its GPUs that a workload has."""
        sizes = [self._memory_mib.get(card, 1) for card in cards]
        if row.gpu_milli or not sizes:
            return row.gpu_milli
        return -(-row.gpu_memory_mib * WHOLE_GPU // min(sizes))

    def _add(self, row: WorkRow, cards: Sequence[int], milli: int) -> None:
        self.limits_mib += self._limit_mib(row, cards)
        if row.state is not WorkState.SUSPENDED:  # it has given back what it was promised
            self._promise(row, cards, milli)

    def _promise(self, row: WorkRow, cards: Sequence[int], milli: int) -> None:
        if row.opportunistic:
            return
        for card in cards:
            self.milli[card] = self.milli.get(card, 0) + milli
            self.mib[card] = self.mib.get(card, 0) + row.gpu_memory_mib
