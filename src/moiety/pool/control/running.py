"""The workloads that run now: each is watched until its attempt is over."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from moiety.pool.control.outcomes import AttemptOutcome, of_failed_start, of_remains
from moiety.pool.launch.launcher import Launched
from moiety.pool.launch.supervised import Remains, Supervised, adopt, end_stray, remains_of
from moiety.pool.model.records import WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.programs import ALREADY_STARTED
from moiety.pool.starter.records import ProcessIdentity
from moiety.pool.store import changes, rows
from moiety.pool.store.writer import StoreWriter

T = TypeVar("T")
AGAIN_S: Final = 0.02
"""Time between two looks at a supervisor that is just beginning."""
FULL_S: Final = 1.0
"""Time between two tries to write where the disk is full."""
Decide = Callable[..., AttemptOutcome]


class RunningWork:
    """Watches supervisors, and writes down how attempts end."""

    def __init__(self, paths: PoolPaths, writer: StoreWriter, changed: Callable[[], None]) -> None:
        """`changed` is called after each change of a state."""
        self.by_number: dict[int, Supervised] = {}
        self.agent_workloads: set[str] = set()
        """The agent's names of all shares that this pool has or had."""
        self._paths = paths
        self._writer = writer
        self._changed = changed
        self._tasks: set[asyncio.Task[None]] = set()
        self._log: Any = structlog.get_logger()

    async def adopt_all(self, active: list[WorkRow]) -> None:
        """Take over what an earlier server started."""
        for row in active:
            name = await self._write(partial(changes.agent_workload, number=row.id))
            if name:
                self.agent_workloads.add(name)
            await self._adopt(row, name)

    async def _adopt(self, row: WorkRow, name: str) -> None:
        while True:
            remains = await self._remains(row)
            if remains.alive is None and not remains.is_launching:
                await self.end(row.id, row.attempt, partial(of_remains, remains=remains))
                return
            if remains.alive is not None:
                found = adopt(row.id, row.attempt, remains.alive, name)
                if found is not None:
                    await self._follow(row, found)
                    return
            await asyncio.sleep(AGAIN_S)

    async def began(self, row: WorkRow, launched: Launched) -> None:
        """A supervisor of this server was told to begin."""
        process = ProcessIdentity(launched.process.pid, launched.started)
        pidfd = os.pidfd_open(process.pid)  # our own child: its pid is its own until it is waited
        if launched.agent_workload:
            self.agent_workloads.add(launched.agent_workload)
        found = Supervised(
            row.id, row.attempt, process, pidfd, launched.process, launched.agent_workload
        )
        await self._follow(row, found)

    async def _follow(self, row: WorkRow, found: Supervised) -> None:
        self.by_number[row.id] = found
        asyncio.get_running_loop().add_reader(found.pidfd, self._is_over, found)
        now = await self._write(
            partial(
                changes.started,
                number=row.id,
                attempt=row.attempt,
                pid=found.process.pid,
                started_at=found.process.start_ticks,
                agent=found.agent_workload,
            )
        )
        self._log.info("workload_runs", workload=row.id, pid=found.process.pid)
        if now is WorkState.ENDING:  # it was cancelled meanwhile
            found.terminate()
        self._changed()

    def terminate(self, number: int) -> None:
        """Tell a workload to end; one that is about to start is told when it has."""
        if found := self.by_number.get(number):
            found.terminate()

    def close(self) -> None:
        """Watch nothing any more; workloads run on."""
        loop = asyncio.get_running_loop()
        for found in self.by_number.values():
            loop.remove_reader(found.pidfd)
            os.close(found.pidfd)
        self.by_number.clear()

    async def end(self, number: int, attempt: int, decide: Decide) -> None:
        """Write down that an attempt is over, with what `decide(row, now_s=)` makes of it."""

        def work(connection: sqlite3.Connection) -> WorkRow | None:
            row, now_s = rows.workload(connection, number), time.time()
            outcome = decide(row, now_s=now_s)
            return changes.end_attempt(
                connection, number, attempt, outcome.state, outcome.word, now_s, **outcome.values
            )

        row = await self._write(work)
        if row is not None:
            self._log.info("workload_ended", workload=number, state=str(row.state))
        self._changed()

    def _is_over(self, found: Supervised) -> None:
        asyncio.get_running_loop().remove_reader(found.pidfd)
        task = asyncio.create_task(self._finish(found))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, found: Supervised) -> None:
        if self.by_number.get(found.number) is found:
            del self.by_number[found.number]
        found.close()
        folder = self._paths.of_workload(found.number)
        remains = await asyncio.to_thread(remains_of, folder, found.attempt)
        if remains.alive is not None:  # the supervisor was killed, and the program lives
            other = adopt(found.number, found.attempt, remains.alive, found.agent_workload)
            if other is not None:
                self.by_number[found.number] = other
                asyncio.get_running_loop().add_reader(other.pidfd, self._is_over, other)
                return
            remains = await asyncio.to_thread(remains_of, folder, found.attempt)
        decide: Decide = partial(of_remains, remains=remains)
        if remains.exit is None and remains.started is None and found.child is not None:
            code = found.child.returncode
            text = f"its supervisor ended with {code}"
            if code == ALREADY_STARTED:
                text = "an earlier attempt had begun after all, and is ended"
                await asyncio.to_thread(end_stray, folder, found.attempt)
            decide = partial(of_failed_start, text=text)
        await self.end(found.number, found.attempt, decide)

    async def _remains(self, row: WorkRow) -> Remains:
        return await asyncio.to_thread(remains_of, self._paths.of_workload(row.id), row.attempt)

    async def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Write down what has happened: a disk that is full now must not lose it."""
        while True:
            try:
                return await asyncio.wrap_future(self._writer.write(work))
            except sqlite3.OperationalError as error:
                self._log.warning("write_waits", problem=str(error))
            await asyncio.sleep(FULL_S)
