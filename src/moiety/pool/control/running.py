"""The workloads that run now: each is watched until its attempt is over."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Collection, Coroutine
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import structlog

from moiety.agent.system import processes
from moiety.model.errors import StarterGone, SystemRefusal
from moiety.pool.control.card_watch import CardWatch
from moiety.pool.control.outcomes import AttemptOutcome, is_bad, of_failed_start, of_remains
from moiety.pool.launch.process_start import Launched, OwnStart, ProcessStart
from moiety.pool.launch.spool import remove, sweep
from moiety.pool.launch.supervised import Remains, Supervised, adopt, end_stray, remains_of
from moiety.pool.model.records import GRACE_S, WorkRow
from moiety.pool.model.states import WorkState
from moiety.pool.paths import PoolPaths
from moiety.pool.starter.programs import ALREADY_STARTED
from moiety.pool.starter.records import Started, read_started
from moiety.pool.store import changes, rows
from moiety.pool.store.writer import StoreWriter

T = TypeVar("T")
AGAIN_S: Final = 0.02
"""Time between two looks at a supervisor that is just beginning."""
ASK_AGAIN_S: Final = 5.0
"""Time between two requests to settle one workload: the starter may be another one by then."""
FULL_S: Final = 1.0
"""Time between two tries to write where the disk is full."""
LEAVES_S: Final = 0.5
"""How long after an attempt its share may still be the pool's: the agent sees the end by itself."""
Decide = Callable[..., AttemptOutcome]


class RunningWork:
    """Watches supervisors, and writes down how attempts end."""

    def __init__(
        self,
        paths: PoolPaths,
        writer: StoreWriter,
        changed: Callable[[], None],
        starts: ProcessStart | None = None,
        cards: CardWatch | None = None,
    ) -> None:
        """`changed` is called after each change of a state; `starts` settles what is left."""
        self._cards = cards
        self.by_number: dict[int, Supervised] = {}
        self._shares: dict[tuple[int, int], str] = {}
        """By workload and attempt: the agent's name of its share."""
        self._paths = paths
        self._writer = writer
        self._changed = changed
        self._starts = starts or OwnStart(paths)
        self._tasks: set[asyncio.Task[None]] = set()
        self._log: Any = structlog.get_logger()

    async def adopt_all(self, active: list[WorkRow]) -> None:
        """Take over what an earlier server started."""
        await asyncio.to_thread(sweep, self._paths, {row.id for row in active})
        for row in active:
            name = await self._write(partial(changes.agent_workload, number=row.id))
            if name:
                self._shares[row.id, row.attempt] = name
            await self._adopt(row, name)

    async def _adopt(self, row: WorkRow, name: str) -> None:
        while True:
            remains = await self._remains(row)
            if remains.is_left and self._starts.serves_all:
                self._later(self._settle(row.id, row.attempt))
                return
            if remains.alive is None and not remains.is_launching:
                await self.end(row.id, row.attempt, partial(of_remains, remains=remains))
                return
            if remains.alive is not None:
                found = adopt(row.id, row.attempt, remains.alive, name)
                if found is not None:
                    await self._follow(row, found, is_new=False)
                    return
            await asyncio.sleep(AGAIN_S)

    @property
    def agent_workloads(self) -> frozenset[str]:
        """The agent's names of the shares of this pool's attempts.

        A share that stays after its attempt, because a program of it lives on, is none of them: its
        GPUs are not free, whatever the store says.
        """
        return frozenset(self._shares.values())

    async def began(self, row: WorkRow, launched: Launched) -> None:
        """A supervisor was told to begin."""
        if launched.agent_workload:
            self._shares[row.id, row.attempt] = launched.agent_workload
        found = adopt(row.id, row.attempt, launched.process, launched.agent_workload)
        if found is None:  # it has ended already
            await asyncio.to_thread(_wait_for, launched.child)
            await self._over(row.id, row.attempt, launched.agent_workload, launched.child)
            return
        found.child = launched.child
        await self._follow(row, found)

    async def _follow(self, row: WorkRow, found: Supervised, *, is_new: bool = True) -> None:
        self.by_number[row.id] = found
        asyncio.get_running_loop().add_reader(found.pidfd, self._is_over, found)

        def work(connection: sqlite3.Connection) -> tuple[WorkState | None, float | None]:
            state = changes.started(
                connection,
                number=row.id,
                attempt=row.attempt,
                pid=found.process.pid,
                started_at=found.process.start_ticks,
                agent=found.agent_workload,
            )
            return state, rows.workload(connection, row.id).time_limit_s

        now, limit_s = await self._write(work)
        if not is_new or limit_s != row.time_limit_s:  # its supervisor may not know of a change
            try:
                self.limit(row.id, limit_s)
            except SystemRefusal as error:
                self._log.warning("limit_not_told", workload=row.id, problem=str(error))
        self._log.info("workload_runs", workload=row.id, pid=found.process.pid)
        if now is WorkState.ENDING:  # it was cancelled meanwhile
            self.terminate(row.id)
        self._changed()

    def terminate(self, number: int) -> None:
        """Tell a workload to end; one that is about to start is told when it has."""
        found = self.by_number.get(number)
        if found is None:
            return
        if not self._is_alone(found):
            found.terminate()
            return
        found.send_all(signal.SIGTERM)
        asyncio.get_running_loop().call_later(GRACE_S, self._kill, found)

    def _kill(self, found: Supervised) -> None:
        if self.by_number.get(found.number) is found:
            found.send_all(signal.SIGKILL)

    def _is_alone(self, found: Supervised) -> bool:
        """Whether it is a program that has lost its supervisor, which would have ended it."""
        started = read_started(self._paths.of_workload(found.number))
        return isinstance(started, Started) and started.child == found.process

    def signal(self, number: int, which: int) -> None:
        """Have a supervisor pass a signal on to its workload; nothing if that is over."""
        if found := self.by_number.get(number):
            found.pass_on(which, is_supervised=self._is_supervised(found))

    def limit(self, number: int, limit_s: float | None) -> None:
        """Give a workload another time limit; nothing if it is over or has no supervisor.

        Raises SystemRefusal if its supervisor cannot be told.
        """
        if (found := self.by_number.get(number)) and self._is_supervised(found):
            try:
                found.limit(limit_s)
            except OSError as error:
                raise SystemRefusal(error) from error

    def _is_supervised(self, found: Supervised) -> bool:
        """Whether it is a supervisor, and not a program that has lost its own."""
        started = read_started(self._paths.of_workload(found.number))
        return isinstance(started, Started) and started.supervisor == found.process

    def is_stopped(self, number: int) -> bool | None:
        """Whether the main process of a workload is stopped; None: it is over."""
        started = read_started(self._paths.of_workload(number))
        if number not in self.by_number or not isinstance(started, Started):
            return None
        child = started.child
        if not processes.is_alive(child.pid, child.start_ticks):
            return None
        return processes.is_stopped(child.pid)

    def close(self) -> None:
        """Watch nothing any more; workloads run on."""
        loop = asyncio.get_running_loop()
        for found in self.by_number.values():
            loop.remove_reader(found.pidfd)
            os.close(found.pidfd)
        self.by_number.clear()

    async def end(self, number: int, attempt: int, decide: Decide) -> None:
        """Write down that an attempt is over, with what `decide(row, now_s=)` makes of it."""

        def work(connection: sqlite3.Connection) -> tuple[WorkRow, AttemptOutcome] | None:
            row, now_s = rows.workload(connection, number), time.time()
            outcome = decide(row, now_s=now_s)
            after = changes.end_attempt(
                connection, number, attempt, outcome.state, outcome.word, now_s, **outcome.values
            )
            return None if after is None else (row, outcome)

        await asyncio.to_thread(remove, self._paths, number)  # before another attempt has its own
        found = await self._write(work)
        loop = asyncio.get_running_loop()
        loop.call_later(LEAVES_S, self._shares.pop, (number, attempt), None)
        self._changed()
        if found is not None:
            before, outcome = found
            self._log.info("workload_ended", workload=number, state=str(outcome.state))
            if self._cards and await self._cards.ended(before, outcome, time.time()):
                self._changed()

    def _is_over(self, found: Supervised) -> None:
        asyncio.get_running_loop().remove_reader(found.pidfd)
        self._later(self._finish(found))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, found: Supervised) -> None:
        if self.by_number.get(found.number) is found:
            del self.by_number[found.number]
        found.close()
        await self._over(found.number, found.attempt, found.agent_workload, found.child)

    async def _over(
        self, number: int, attempt: int, agent: str, child: subprocess.Popen[bytes] | None
    ) -> None:
        """A supervisor has ended: so has its attempt, unless it was killed."""
        folder = self._paths.of_workload(number)
        remains = await asyncio.to_thread(remains_of, folder, attempt)
        if remains.is_left and self._starts.serves_all:
            await self._settle(number, attempt)
            return
        if remains.alive is not None:  # the supervisor was killed, and the program lives
            other = adopt(number, attempt, remains.alive, agent)
            if other is not None:
                self.by_number[number] = other
                asyncio.get_running_loop().add_reader(other.pidfd, self._is_over, other)
                row = await self._write(partial(rows.workload, number=number))
                if row.state is WorkState.ENDING:  # its supervisor was to end it
                    self.terminate(number)
                return
            remains = await asyncio.to_thread(remains_of, folder, attempt)
        lost = await self._lost(number) if is_bad(remains) else ()
        decide: Decide = partial(of_remains, remains=remains, lost=lost)
        if remains.exit is None and remains.started is None:
            text = await self._never_began(folder, number, attempt, child)
            decide = partial(of_failed_start, text=text)
        await self.end(number, attempt, decide)

    async def _lost(self, number: int) -> Collection[int]:
        """The GPUs of a workload that have failed, if it is to run again then."""
        row = await self._write(partial(rows.workload, number=number))
        if self._cards is None or not row.requeue:
            return ()
        return await self._cards.lost_of(row.cards)

    async def _never_began(
        self, folder: Path, number: int, attempt: int, child: subprocess.Popen[bytes] | None
    ) -> str:
        """Why a supervisor has ended that wrote nothing; what is in its way is ended."""
        await asyncio.to_thread(end_stray, folder, attempt)
        if child is not None and child.returncode == ALREADY_STARTED:
            return "an earlier attempt had begun after all, and is ended"
        said = self._starts.refusal(number)
        if child is not None:
            said = f"it ended with {child.returncode}"
        return f"its supervisor did not begin: {said}" if said else "its supervisor did not begin"

    async def _settle(self, number: int, attempt: int) -> None:
        """Have the starter end what a killed supervisor has left, until that has a record."""
        folder = self._paths.of_workload(number)
        wait_s, asked_s = AGAIN_S, -math.inf
        while True:
            remains = await asyncio.to_thread(remains_of, folder, attempt)
            if not remains.is_left:
                break
            if time.monotonic() - asked_s >= ASK_AGAIN_S:
                try:
                    await asyncio.to_thread(self._starts.settle, number)
                    asked_s = time.monotonic()
                except StarterGone as error:
                    self._log.warning("settling_waits", workload=number, problem=str(error))
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, FULL_S)
        await self.end(number, attempt, partial(of_remains, remains=remains))

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


def _wait_for(child: subprocess.Popen[bytes] | None) -> None:
    if child is not None:
        child.wait()
