"""Suspends and resumes running workloads: the agent first, then their processes.

A stopped process could move no memory, so processes are stopped only after the agent says that all
of their memory has left that can. They go on before the agent gives them turns again. Each step can
be done twice: a server that follows a killed one begins it anew.
"""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.model.errors import AmountError, MoietyError, WorkloadUnknown
from moiety.model.format import format_bytes
from moiety.pool.control.running import RunningWork
from moiety.pool.model.records import RESUMES, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.paths import PoolPaths
from moiety.pool.store import rows, suspension
from moiety.pool.store.writer import StoreWriter

T = TypeVar("T")
A = TypeVar("A", bound=protocol.Answer)
ASK_S: Final = 2.0
"""How long the agent waits before it answers how far it is."""
DEADLINE_S: Final = 120.0
"""After this time a workload counts as suspended although not all of its memory has left."""
SIGNAL_S: Final = 30.0
"""The longest wait until a supervisor has passed a signal on."""
LOOK_S: Final = 0.02
"""The time between two looks whether it has."""
AGAIN_S: Final = 0.5
"""The time until the next try after the agent has failed, or has refused."""


class SuspendedWork:
    """The workloads of one pool that are being suspended, or resumed."""

    def __init__(
        self,
        paths: PoolPaths,
        writer: StoreWriter,
        reader: sqlite3.Connection,
        running: RunningWork,
        agent_arguments: list[str],
        changed: Callable[[], None],
    ) -> None:
        """`changed` is called after each change of a state."""
        self.deadline_s = DEADLINE_S
        self._paths = paths
        self._writer = writer
        self._reader = reader
        self._running = running
        self._arguments = agent_arguments
        self._changed = changed
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._log: Any = structlog.get_logger()

    async def suspend(self, number: int, intent: str, reason: str) -> WorkRow:
        """Begin to suspend a workload; raises WorkStateWrong."""
        begin = partial(suspension.begin, number=number, intent=intent, reason=reason)
        row = await self._write(begin)
        self.go_on(row)
        self._changed()
        return row

    async def ask_to_resume(self, number: int, reason: str) -> WorkRow:
        """Let a suspended workload go on once its GPUs have room; raises WorkStateWrong."""
        row = await self._write(partial(suspension.ask_to_resume, number=number, reason=reason))
        self._changed()
        return row

    async def resume(self, number: int, attempt: int) -> None:
        """Have a suspended workload go on, as the engine decided."""
        row = await self._write(partial(suspension.resume, number=number, attempt=attempt))
        if row is not None:
            self.go_on(row)
            self._changed()

    def go_on(self, row: WorkRow) -> None:
        """Do what is left to do, also of an earlier server."""
        if row.state not in (WorkState.SUSPENDING, WorkState.RESUMING):
            return
        if row.id in self._tasks:
            return  # it looks at the state again when it has done its step
        task = asyncio.create_task(self._carry_out(row.id))
        self._tasks[row.id] = task
        task.add_done_callback(lambda _: self._tasks.pop(row.id, None))

    def close(self) -> None:
        """Do nothing any more; what is under way is begun anew by the next server."""
        for task in self._tasks.values():
            task.cancel()

    async def _carry_out(self, number: int) -> None:
        """Do one step after the other, until the workload is suspended, runs, or ends."""
        until_s = time.monotonic() + self.deadline_s
        while True:
            row = rows.workload(self._reader, number)
            try:
                if row.state is WorkState.SUSPENDING:
                    await self._suspend(row, is_late=time.monotonic() >= until_s)
                elif row.state is WorkState.RESUMING:
                    await self._resume(row)
                else:
                    return
            except (MoietyError, OSError) as error:
                self._log.warning("suspend_waits", workload=number, problem=str(error))
                await asyncio.sleep(AGAIN_S)
            self._changed()

    async def _suspend(self, row: WorkRow, *, is_late: bool) -> None:
        name = self._agent_name(row)
        found = await self._ask(protocol.SuspendWorkload(name, ASK_S)) if name else None
        if found is not None and not found.is_over and not is_late:
            return
        is_over = found is None or found.is_over
        if is_over:  # a frozen process could move nothing
            await self._stop(row.id)
        reason = _reason(row.reason, found)
        over = partial(
            suspension.is_over,
            number=row.id,
            attempt=row.attempt,
            reason=reason,
            now_s=time.time(),
        )
        if await self._write(over) is not None:
            self._log.info("suspend", workload=row.id, is_frozen=is_over, reason=reason)

    async def _resume(self, row: WorkRow) -> None:
        await self._let_go(row.id)
        try:
            if name := self._agent_name(row):
                await self._ask_to_resume(name)
        except AmountError as error:  # others have what it was promised
            again = partial(
                suspension.begin, number=row.id, intent=RESUMES, reason=f"it waits: {error}"
            )
            await self._write(again)
            await asyncio.sleep(AGAIN_S)
            return
        runs = partial(suspension.resumed, number=row.id, attempt=row.attempt, now_s=time.time())
        if await self._write(runs) is not None:
            self._log.info("resume", workload=row.id)

    async def _stop(self, number: int) -> None:
        """Stop a workload's processes, and wait until they are.

        Signals that wait for a busy supervisor come in the order of their numbers: it must have
        seen one before the other is sent.
        """
        self._running.signal(number, signal.SIGSTOP)
        end_s = time.monotonic() + SIGNAL_S
        while self._running.is_stopped(number) is False and time.monotonic() < end_s:
            await asyncio.sleep(LOOK_S)

    async def _let_go(self, number: int) -> None:
        """Let a workload's processes go on, and wait until they do."""
        end_s = time.monotonic() + SIGNAL_S
        self._running.signal(number, signal.SIGCONT)
        while self._running.is_stopped(number) and time.monotonic() < end_s:
            await asyncio.sleep(LOOK_S)

    def _agent_name(self, row: WorkRow) -> str:
        """The agent's name of its share; empty: it has none, or has just ended."""
        found = self._running.by_number.get(row.id)
        return found.agent_workload if found else ""

    async def _ask(self, asked: protocol.SuspendWorkload) -> protocol.WorkloadSuspended | None:
        """How far the agent is; None: it knows nothing of it any more."""
        try:
            return await self._call(asked, protocol.WorkloadSuspended)
        except WorkloadUnknown:
            return None

    async def _ask_to_resume(self, name: str) -> None:
        try:
            await self._call(protocol.ResumeWorkload(name), protocol.WorkloadResumed)
        except WorkloadUnknown:
            pass  # it has just ended

    async def _call(self, asked: protocol.ControlRequest, expected: type[A]) -> A:
        return await asyncio.to_thread(
            ask_or_start, self._paths.agent, self._arguments, lambda call: call.ask(asked, expected)
        )

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        return await asyncio.wrap_future(self._writer.write(work))


def _reason(why: str, found: protocol.WorkloadSuspended | None) -> str:
    """Why it is suspended, and what of it is still on its GPUs."""
    if found is None or not (found.staying_bytes or not found.is_over):
        return why
    stays = f"{format_bytes(found.staying_bytes)} of it stay on the GPU"
    more = "" if found.is_over else ", and its processes are not stopped: its memory has not left"
    return "; ".join(part for part in (why, stays + more) if part)
