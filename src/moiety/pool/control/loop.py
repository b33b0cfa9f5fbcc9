"""The loop: one decision after the other, each committed before it is carried out."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from moiety.agent.control import protocol
from moiety.agent.control.client import ask_or_start
from moiety.model.errors import MoietyError, StarterGone, WorkStateWrong
from moiety.model.share import Priority
from moiety.pool.control import machine, suspendable
from moiety.pool.control.card_watch import CardWatch
from moiety.pool.control.outcomes import CANCELLED, of_failed_start, of_no_starter
from moiety.pool.control.running import RunningWork
from moiety.pool.control.suspension import SuspendedWork
from moiety.pool.engine.messages import (
    CycleAnswer,
    CycleRequest,
    EndOrder,
    ExpectedStart,
    ExplainAnswer,
    ExplainRequest,
    MachineView,
    ReasonsRequest,
    ResizeRequest,
    StartOrder,
    StartsRequest,
    WaitReason,
)
from moiety.pool.engine.process import EngineProcess
from moiety.pool.launch.launcher import Launcher, LaunchOrder
from moiety.pool.launch.process_start import StartFailed
from moiety.pool.model.records import PREEMPTED, RESUMES, Submission, WorkRow
from moiety.pool.model.states import ACTIVE, WorkState
from moiety.pool.paths import PoolPaths
from moiety.pool.store import changes, memory, rows, suspension
from moiety.pool.store.writer import StoreWriter

T = TypeVar("T")
LOOK_S: Final = 5.0
"""The longest time between two decisions while work waits: others' programs end without a word."""
TOGETHER_S: Final = 0.005
"""What happens within this time is decided at once."""
PAUSE_MAX_S: Final = 2.0
"""Between two decisions passes as much time as the last one took, but no more than this."""
FAILED_S: Final = 1.0
"""The time until the next try after the agent or the engine has failed."""
STARTS: Final = 8
"""How many starts are made at the same time."""


class PoolLoop:
    """Decides and carries out, for one pool."""

    def __init__(
        self,
        paths: PoolPaths,
        writer: StoreWriter,
        engine: EngineProcess,
        launcher: Launcher,
        reader: sqlite3.Connection,
    ) -> None:
        self.cards = CardWatch(paths, launcher.agent_arguments, self._look)
        self.running = RunningWork(paths, writer, self.changed, launcher.starts, self.cards)
        self.suspended = SuspendedWork(
            paths, writer, reader, self.running, launcher.agent_arguments, self.changed
        )
        self.start_refused = 0
        """How often the agent refused what the engine had decided."""
        self.machine: MachineView | None = None
        """The machine as it was seen last."""
        self._paths = paths
        self._writer = writer
        self._engine = engine
        self._launcher = launcher
        self._users: set[int] = set()
        """In the pool of a machine: those whose work lives, or that have submitted some."""
        self._reader = reader
        self._threads = ThreadPoolExecutor(STARTS, "start")
        self._wake = asyncio.Event()
        self._waiters: asyncio.Event = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._log: Any = structlog.get_logger()

    def must_serve(self, uid: int) -> None:
        """Raise NotAllowed for a user whose programs cannot be started here."""
        self._launcher.must_serve(uid)
        if self._launcher.starts.serves_all:
            self._users.add(uid)

    def isolation(self) -> str:
        """How workloads are ended and what limits they have, in one line."""
        return self._launcher.starts.described()

    def end_starts(self) -> None:
        """The pool is told to end: nothing is started any more."""
        self._launcher.starts.end()

    def changed(self) -> None:
        """Something changed: those who wait look again, and a decision is made soon."""
        self._wake.set()
        self._waiters.set()
        self._waiters = asyncio.Event()

    async def next_change(self, timeout_s: float) -> None:
        """Wait until something changes, or for this long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._waiters.wait(), timeout_s)

    async def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What a write returns, once it is durable."""
        return await asyncio.wrap_future(self._writer.write(work))

    async def run(self) -> None:
        """Adopt what runs, then decide for ever."""
        active = rows.live(self._reader, ACTIVE)
        if self._launcher.starts.serves_all:
            self._users |= rows.live_users(self._reader)
        await self.running.adopt_all(active)
        for row in active:
            self.suspended.go_on(row)
        self._wake.set()
        wait_s: float | None = None
        took_s = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), wait_s)
            await asyncio.sleep(min(max(took_s, TOGETHER_S), PAUSE_MAX_S))
            self._wake.clear()
            began_s = time.monotonic()
            try:
                wait_s = await self._cycle()
            except (MoietyError, OSError, sqlite3.Error) as error:
                self._log.warning("cycle_failed", problem=str(error))
                wait_s = FAILED_S
            took_s = time.monotonic() - began_s

    async def reasons(self, numbers: list[int]) -> dict[int, WaitReason]:
        """The engine's reasons why these wait; raises InternalError or the agent's errors."""
        view = self.machine or await self._look()
        asked = ReasonsRequest(view, time.time(), numbers)
        return (await asyncio.to_thread(self._engine.reasons, asked)).reasons

    async def starts(self, numbers: list[int]) -> dict[int, ExpectedStart]:
        """When these are expected to begin; raises as `reasons`."""
        view = self.machine or await self._look()
        asked = StartsRequest(view, time.time(), numbers)
        return (await asyncio.to_thread(self._engine.starts, asked)).starts

    async def explain(self, number: int) -> ExplainAnswer:
        """The engine's whole explanation of one that waits; raises as `reasons`."""
        view = self.machine or await self._look()
        asked = ExplainRequest(view, time.time(), number)
        return await asyncio.to_thread(self._engine.explain, asked)

    async def may_resize(self, number: int, gpu_milli: int, gpu_memory_mib: int) -> str:
        """Why a workload may not have this part of its GPUs; empty: it may. Raises as `reasons`."""
        view = await self._look()
        asked = ResizeRequest(view, time.time(), number, gpu_milli, gpu_memory_mib)
        return (await asyncio.to_thread(self._engine.resize, asked)).problem

    async def set_share(self, name: str, gpu: float, memory_bytes: int) -> None:
        """Have the agent change the share that it knows by this name; raises its errors."""
        wanted = protocol.SetShare(target=name, gpu=gpu, memory_bytes=memory_bytes)
        await asyncio.to_thread(
            ask_or_start,
            self._paths.agent,
            self._launcher.agent_arguments,
            lambda call: call.ask(wanted, protocol.Shared),
        )

    async def _cycle(self) -> float | None:
        """Decide once; returns for how long nothing has to be decided, None: for ever."""
        waits = rows.is_any_pending(self._reader) or suspension.is_any_to_resume(self._reader)
        if not waits:
            return None
        await asyncio.to_thread(self._launcher.starts.must_be_ready)
        view = await self._look()
        asked = CycleRequest(view, time.time(), *await self._suspendable())
        plan = await asyncio.to_thread(self._engine.cycle, asked)
        await self._carry_out(plan)
        if plan.memory:
            await self.write(partial(memory.save, name=memory.POLICY, content=plan.memory))
        look_s = LOOK_S if plan.look_s is None else plan.look_s - time.time()
        return min(max(look_s, TOGETHER_S), LOOK_S)

    async def seen(self) -> MachineView | None:
        """The machine as it was seen last; None if its agent does not answer."""
        if self.machine is None:
            with contextlib.suppress(MoietyError, OSError):
                await self._look()
        return self.machine

    async def _look(self) -> MachineView:
        own = self.running.agent_workloads
        arguments = self._launcher.agent_arguments
        pids = {each.process.pid for each in self.running.by_number.values()}
        self.machine = await asyncio.to_thread(
            machine.look, self._paths, arguments, own, pids, frozenset(self._users)
        )
        return self.machine

    async def _suspendable(self) -> tuple[dict[int, int], int]:
        """What can be suspended, and room of the host for it (suspendable.py)."""
        names = {
            found.agent_workload: number
            for number, found in self.running.by_number.items()
            if found.agent_workload
        }
        arguments = self._launcher.agent_arguments
        return await asyncio.to_thread(suspendable.look, self._paths, arguments, names)

    async def _carry_out(self, plan: CycleAnswer) -> None:
        for end in plan.ends:
            await self._end(end)
        begun = await asyncio.gather(*(self._commit(each) for each in plan.starts))
        for found in begun:
            if found is not None:
                task = asyncio.create_task(self._start(found))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        if begun:
            self._waiters.set()
            self._waiters = asyncio.Event()

    async def _end(self, end: EndOrder) -> None:
        """Have a running workload give its GPUs to others; it waits again afterwards."""
        with contextlib.suppress(WorkStateWrong):  # it has just ended
            if end.is_suspension:
                await self.suspended.suspend(end.number, RESUMES, end.reason)
                return
            await self.end(end.number, PREEMPTED, end.reason)

    async def end(self, number: int, intent: str, reason: str) -> WorkRow:
        """Tell a workload that has GPUs to end; raises WorkStateWrong."""
        row = await self.write(
            partial(
                changes.transition,
                number=number,
                state=WorkState.ENDING,
                intent=intent,
                reason=reason,
            )
        )
        self.running.terminate(number)
        return row

    async def cancel(self, number: int, reason: str) -> WorkRow:
        """Take a workload out of the queue, or tell it to end, whatever it does by then."""
        row, is_to_be_told = await self.write(
            partial(
                changes.cancel, number=number, intent=CANCELLED, reason=reason, now_s=time.time()
            )
        )
        if is_to_be_told:
            self.running.terminate(number)
        self.changed()
        return row

    async def _commit(self, start: StartOrder) -> LaunchOrder | None:
        if start.is_resume:
            await self.suspended.resume(start.number, start.attempt)
            return None

        def work(connection: sqlite3.Connection) -> tuple[WorkRow, Submission] | None:
            now_s = time.time()  # the cycle may have begun before the workload was submitted
            row = changes.begin_attempt(connection, start.number, start.attempt, start.cards, now_s)
            return None if row is None else (row, rows.submission(connection, start.number))

        found = await self.write(work)
        if found is None:
            return None
        return LaunchOrder(*found, start.gpu_milli, self._priority(found[0].uid))

    def _priority(self, uid: int) -> Priority:
        """That of a user's work in the agent: the usual one, or the highest that it may have."""
        limit = self.machine.limits.get(uid) if self.machine else None
        highest = Priority.HIGH if limit is None or limit.priority is None else limit.priority
        return min(Priority.NORMAL, Priority(highest))

    async def _start(self, order: LaunchOrder) -> None:
        """Start an attempt that is committed."""
        row = order.row
        loop = asyncio.get_running_loop()
        try:
            launched = await loop.run_in_executor(self._threads, self._launcher.start, order)
        except StarterGone as error:
            self._log.warning("start_waits", workload=row.id, problem=str(error))
            await self.running.end(row.id, row.attempt, partial(of_no_starter, text=str(error)))
            return
        except StartFailed as error:
            self.start_refused += error.is_refusal
            self._log.warning("start_failed", workload=row.id, problem=str(error))
            await self.running.end(row.id, row.attempt, partial(of_failed_start, text=str(error)))
            return
        await self.running.began(row, launched)
