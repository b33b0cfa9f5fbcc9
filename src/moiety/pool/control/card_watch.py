"""Drains GPUs that fail under one workload after the other, and knows which are lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Final

import structlog

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.model.errors import MoietyError
from moiety.pool.control.card_health import CardHealth
from moiety.pool.control.outcomes import AttemptOutcome
from moiety.pool.engine.messages import MachineView
from moiety.pool.model.records import WorkRow
from moiety.pool.paths import PoolPaths

LOOKS: Final = 5
"""How often the agent is asked about the GPUs of work that failed, before they are well."""
LOOK_S: Final = 0.2


class CardWatch:
    """The GPUs of one pool, as its workloads find them."""

    def __init__(
        self,
        paths: PoolPaths,
        agent_arguments: list[str],
        look: Callable[[], Awaitable[MachineView]],
    ) -> None:
        """`look` asks the agent."""
        self.drained: dict[int, str] = {}
        """By GPU: why the pool has drained it."""
        self._paths = paths
        self._agent_arguments = agent_arguments
        self._look = look
        self._health = CardHealth()
        self._log: Any = structlog.get_logger()

    async def ended(self, row: WorkRow, outcome: AttemptOutcome, now_s: float) -> bool:
        """Take note of an attempt that is over, by the row as it was; whether a GPU was drained."""
        is_drained = False
        for card, why in self._health.ended(row, outcome, now_s).items():
            wanted = protocol.DrainGpus([str(card)])
            try:
                await asyncio.to_thread(
                    ask_or_start,
                    self._paths.agent,
                    self._agent_arguments,
                    lambda call, asked=wanted: call.ask(asked, protocol.GpuList),
                )
            except (MoietyError, OSError) as error:
                self._log.warning("gpu_not_drained", gpu=card, problem=str(error))
                continue
            self.drained[card], is_drained = why, True
            self._log.warning("gpu_drained", gpu=card, reason=why)
            await self._lost(())  # what is seen from now on has it drained
        return is_drained

    async def lost_of(self, cards: Collection[int]) -> frozenset[int]:
        """Which of these GPUs have failed: a program may learn of it before the agent does."""
        for _ in range(LOOKS if cards else 0):
            if found := await self._lost(cards):
                return found
            await asyncio.sleep(LOOK_S)
        return frozenset()

    async def _lost(self, cards: Collection[int]) -> frozenset[int]:
        """The same as it is known now; none if the agent does not answer."""
        try:
            view = await self._look()
        except (MoietyError, OSError):
            return frozenset()
        return frozenset(card.index for card in view.cards if card.lost and card.index in cards)

    def notes(self, view: MachineView | None) -> list[str]:
        """What users of the pool should know about its GPUs, a sentence each."""
        if view is None:
            return []
        for card in view.cards:
            if not card.drained:
                self.drained.pop(card.index, None)  # an administrator has taken it into use again
        return [
            f"GPU {card.index} is drained: {self.drained[card.index]}; `moiety gpu resume "
            f"{card.index}` once it is repaired"
            for card in view.cards
            if card.index in self.drained
        ]
