"""The agent's process: takes the locks, opens the sockets, runs until told to end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import gc
import os
import signal
from collections.abc import Sequence
from functools import partial
from typing import Any

from moiety.agent.arena.arena import ArenaSize
from moiety.agent.arena.host_memory import available_bytes
from moiety.agent.components import Components, build
from moiety.agent.control import protocol, saved_settings
from moiety.agent.control.adoption import Adoption
from moiety.agent.control.card_moves import CardMoves
from moiety.agent.control.card_queue import CardQueue
from moiety.agent.control.cards import Cards
from moiety.agent.control.commands import ControlCommands
from moiety.agent.control.configuration import Read
from moiety.agent.control.containers import ContainerShares
from moiety.agent.control.creation import Creation
from moiety.agent.control.gpu_drain import GpuDrain
from moiety.agent.control.limits import LimitEnforcer, LimitRules
from moiety.agent.control.options import ARENA_MOST, ARENA_SHARE, Options
from moiety.agent.control.promises import Promises
from moiety.agent.control.records import survivors as find_survivors
from moiety.agent.control.report import Reports
from moiety.agent.control.server import ControlServer
from moiety.agent.control.shares import Shares
from moiety.agent.control.suspensions import Suspensions
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.journal import Journal
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.system import heap_warmup, oom_protection
from moiety.agent.system.file_lock import FileLock, LockHeld
from moiety.agent.system.gpu_locks import own
from moiety.agent.system.paths import Directory, must_be_usable, prepare
from moiety.agent.system.sd_notify import ServiceManager
from moiety.agent.system.subordinate_users import SubordinateUsers, unchanged
from moiety.agent.system.users import USERS, User
from moiety.arbiter.settings import Settings
from moiety.devices.budget import GpuBudget, budget
from moiety.devices.interface import Device, Devices
from moiety.model.errors import (
    AgentAlreadyRunning,
    ArenaAboveHost,
    CapacityAboveGpu,
    MoietyError,
    NoGpu,
)
from moiety.version import __version__

GC_THRESHOLDS = (50_000, 20, 50)


class Service:
    """One agent, from its locks to its last packet."""

    def __init__(
        self,
        directory: Directory,
        options: Options,
        rules: LimitRules,
        read: Read,
    ) -> None:
        """Take the directory; raises AgentAlreadyRunning or BadAgentDirectory.

        `read` reads the options and the rules anew.
        """
        prepare(directory)
        self._directory = directory
        self._options = options
        self._rules = rules
        self._read = read
        self._log: Any = None
        self._locks: list[FileLock] = [_lock_directory(directory)]
        self._devices: Devices | None = None
        self._manager = ServiceManager()
        self._ended: asyncio.Future[str] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._reloading: asyncio.Future[None] | None = None

    async def run(self, devices: Devices, log: Any) -> None:
        """Serve until it is stopped, or idle for long enough; raises GpuOwned or NoGpu."""
        self._devices = devices
        self._log = log
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        loop.set_exception_handler(self._report)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop, f"got {number.name}")
        gpus = self._own_gpus(devices)
        records, survivors = find_survivors(self._directory)
        outlived = any(not record.container for record in records) or bool(survivors)
        changed = saved_settings.read(self._directory, self._options, log)
        limits = RateLimits(
            messages_per_s=max(1.0, self._options.messages_per_s),
            account_of=SubordinateUsers().owner_of if self._directory.shared else unchanged,
        )
        self._components = parts = build(
            loop,
            devices,
            gpus,
            changed.over(self._settings(outlived, [each for _, each in gpus])),
            self._log,
            expected={s.pid: s.held for s in survivors},
            fenced=[s.pid for s in survivors if s.fenced],
            known={s.pid: s.known for s in survivors},
            journal=self._open_journal(),
            limits=limits,
            shared=self._directory.shared,
        )
        parts.wait_messages.after_s = self._options.say_after_s
        parts.add_arena(
            ArenaSize.of(
                self._arena_bytes,
                self._options.arena_ready_bytes,
                [each for _, each in gpus],
                ARENA_SHARE if self._options.arena_bytes is None else 0.0,
            )
        )
        if parts.arena:
            parts.arena.on_grown.append(lambda size: self._note_arena(f"{size}\n", is_needed=False))
        parts.add_monitors(self._options.watch)
        if self._options.fast_handoff:
            parts.add_fast_handoff()
        self._workloads = known = Workloads(
            self._directory,
            parts.sessions,
            parts.executor,
            linger_s=self._options.linger_s,
            on_empty=self._watch_idleness,
        )
        clients = parts.clients.by_number
        sizes = (gpu.budget.capacity_bytes for gpu in parts.gpus.values())
        account_of = limits.account_of
        enforcer = LimitEnforcer(
            parts.runtime, clients, known, self._rules, account_of, max(sizes, default=0)
        )
        Promises(parts.runtime, clients, parts.gpus, known)
        self._adoption = Adoption(known, parts.runtime)
        self._adoption.adopt(records)
        self._commands = commands = self._make_commands(parts, known, enforcer, changed)
        control = ControlServer(
            self._directory, commands, parts.runtime, parts.journal, parts.limits
        )
        USERS.on_found = partial(self._found, loop, enforcer)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        with must_be_usable(self._directory):
            await control.open()
        self._watch_idleness()
        self._log.info(
            "ready",
            pid=os.getpid(),
            version=__version__,
            gpus=len(gpus),
            workloads=len(records),
            survivors=len(survivors),
            oom_score_adj=oom_protection.lower_score(),
        )
        parts.journal.note("AgentStarted", f"pid {os.getpid()}, version {__version__}")
        tell_ready(self._options.ready_fd, protocol.Done())
        self._manager.ready(self._status())
        self._manager.keep_told(loop, self._status)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        heap_warmup.touch()
        oom_protection.lock_pages()
        reason = await self._ended
        self._manager.stopping(f"ending: {reason}")
        handoff = parts.handoff
        counts = handoff.counts() if handoff else {}
        self._log.info("ending", reason=reason, clients=len(clients), **counts)
        parts.journal.note("AgentStopped", reason)
        # While programs run, no command may start an agent of its own for their GPUs.
        control.close(is_waited_for=self._directory.shared and known.are_alive)
        with contextlib.suppress(OSError):  # a full disk: then it counts as killed
            saved_settings.write(
                self._directory, commands.changed, self._options, ends=not commands.restarts
            )
        await asyncio.sleep(0)  # the answer to the command that asked for the end leaves first
        parts.stop()
        known.close()
        parts.journal.close()
        if not any(self._directory.workloads.glob("*")):  # none also if the folder was removed
            self._directory.arena.unlink(missing_ok=True)

    def _make_commands(
        self,
        parts: Components,
        workloads: Workloads,
        enforcer: LimitEnforcer,
        changed: saved_settings.SavedSettings,
    ) -> ControlCommands:
        """Connect what answers commands with the components."""
        clients = parts.clients.by_number
        cards = Cards(parts.runtime, parts.gpus, clients, parts.arbiter, workloads.by_id)
        shares = Shares(
            runtime=parts.runtime,
            clients=clients,
            gpus=parts.gpus,
            arbiter=parts.arbiter,
            journal=parts.journal,
            workloads=workloads,
            cards=cards,
            limits=enforcer,
        )
        reports = Reports(
            parts.runtime,
            arbiter=parts.arbiter,
            gpus=parts.gpus,
            clients=clients,
            recovery=parts.recovery,
            timeline=parts.timeline,
            journal=parts.journal,
            devices=parts.devices,
            arena=parts.arena,
            monitor=parts.monitor,
            telemetry=parts.telemetry,
            catch_up=parts.catch_up,
        )
        self._queue = CardQueue(parts.runtime, cards, reports.usages, parts.limits)
        cards.kept = self._queue.refuse
        workloads.on_owner.append(lambda _: self._queue.changed())
        moves = CardMoves(parts.runtime, cards, workloads, clients, parts.journal, reports.usages)
        workloads.choose_again = moves.choose_again
        drain = GpuDrain(parts.gpus, clients, cards, parts.journal, parts.orphans)
        drain.set(changed.drained, drained=True, is_told=False)
        return ControlCommands(
            directory=self._directory,
            options=self._options,
            product=__version__,
            stop=self._stop,
            began_s=parts.runtime.now(),
            runtime=parts.runtime,
            settings=parts.settings,
            clients=parts.clients,
            journal=parts.journal,
            recorder=parts.recorder,
            workloads=workloads,
            shares=shares,
            creation=Creation(
                parts.runtime,
                workloads,
                shares,
                cards,
                reports.usages,
                enforcer,
                self._directory.shared,
                self._queue,
            ),
            drain=drain,
            containers=ContainerShares(parts.runtime, clients, workloads, shares),
            reports=reports,
            suspensions=Suspensions(parts.runtime, parts.clients, parts.executor, shares),
            limits=enforcer,
            read=self._read,
            on_gpus_changed=[self._queue.changed, moves.changed],
            changed=changed,
        )

    def release(self) -> None:
        """Release the locks of the GPUs and the directory, and remove their files."""
        for lock in reversed(self._locks):
            lock.release()
        self._locks.clear()
        if self._devices:
            self._devices.close()

    @staticmethod
    def _found(loop: asyncio.AbstractEventLoop, enforcer: LimitEnforcer, user: User) -> None:
        """Receive, in any thread, a user whose name and groups were found."""
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(enforcer.found, user)

    def _reload(self) -> None:
        """Begin to read the configuration again, on SIGHUP."""
        self._reloading = asyncio.ensure_future(self.reload())

    async def reload(self) -> None:
        """Read the configuration again, and tell the service manager when that is done."""
        self._manager.reloading()
        try:
            with contextlib.suppress(MoietyError):  # it is logged, and the old settings stay
                await self._commands.reload()
        finally:  # or the manager would wait for the end of the reload
            self._manager.ready(self._status())

    def _status(self) -> str:
        """The agent in a few words, for the service manager."""
        parts = self._components
        gpus, tenants = len(parts.gpus), len(parts.clients.by_number)
        workloads = len(self._workloads.by_id)
        return f"{gpus} GPU(s), {workloads} workload(s), {tenants} tenant(s)"

    def _settings(self, outlived: bool, budgets: Sequence[GpuBudget]) -> Settings:
        """The arbiter's settings; the arena includes what survivors evicted under the last agent.

        Raises ArenaAboveHost if the host has too little memory, but not if workloads outlived the
        last agent: the memory was available when that agent started.
        """
        settings = self._options.arbiter_settings()
        possible = int(available_bytes() * ARENA_MOST)
        if (
            self._options.arena_bytes is not None
            and not outlived
            and settings.arena_bytes > possible
        ):
            raise ArenaAboveHost(settings.arena_bytes, possible)
        if outlived and self._options.arena_bytes is None:
            try:
                arena_bytes = int(self._directory.arena.read_text())
                settings = dataclasses.replace(settings, arena_bytes=arena_bytes)
            except (OSError, ValueError):
                pass  # no record, or a damaged one: the memory that is free now decides
        self._note_arena(f"{settings.arena_bytes}\n", is_needed=not outlived)
        self._arena_bytes = settings.arena_bytes
        moving = sum(each.moving_bytes for each in budgets)
        return dataclasses.replace(settings, arena_bytes=max(0, settings.arena_bytes - moving))

    def _note_arena(self, text: str, *, is_needed: bool) -> None:
        """Write down the arena's size for the next agent; without programs, there must be room."""
        file = self._directory.arena
        try:
            if not file.exists() or file.read_text() != text:
                file.write_text(text)
        except OSError as error:
            self._log.warning("arena_not_written", problem=str(error))
            if is_needed:
                with must_be_usable(self._directory):
                    raise

    def _open_journal(self) -> Journal:
        with must_be_usable(self._directory):
            return Journal(self._directory.events)

    def _own_gpus(self, devices: Devices) -> list[tuple[Device, GpuBudget]]:
        """Lock every GPU that this agent manages; raises GpuOwned or NoGpu."""
        wanted, inventory = self._options.gpus, devices.inventory()
        if problems := devices.unreadable:
            self._log.warning("gpus_left_out", problems=problems)
        absent = sorted(set(wanted or ()) - {d.index for d in inventory})
        if absent or not inventory:
            raise NoGpu(wanted=absent, problem=", ".join(problems.values()))
        found = [d for d in inventory if wanted is None or d.index in wanted]
        capacity = self._options.capacity_bytes
        for device in found:
            possible = budget(device.total_bytes).capacity_bytes
            if capacity is not None and capacity > possible:
                raise CapacityAboveGpu(capacity, device.index, device.total_bytes, possible)
        self._locks.extend(own(device, self._directory) for device in found)
        return [(d, budget(d.total_bytes, capacity)) for d in found]

    def _report(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log a callback that failed: a bug of the agent, which must not end it."""
        del loop
        self._log.error("failed", what=context["message"], exc_info=context.get("exception"))

    def _stop(self, reason: str) -> None:
        if self._ended and not self._ended.done():
            self._ended.set_result(reason)

    def _watch_idleness(self) -> None:
        """End the agent after its idle time, if it has no workload then."""
        if self._idle_timer:
            self._idle_timer.cancel()
        idle_s = self._options.idle_exit_s
        if idle_s > 0:
            loop = asyncio.get_running_loop()
            self._idle_timer = loop.call_later(idle_s, self._end_if_idle)

    def _end_if_idle(self) -> None:
        if self._queue.waiting:
            self._watch_idleness()
        elif not (self._workloads.by_id or self._adoption.waiting):
            self._stop("no workload uses it")


def tell_ready(fd: int | None, answer: protocol.Answer) -> None:
    """Send the answer to the process that started this agent, once."""
    if fd is None:
        return
    with contextlib.suppress(OSError):  # the process that started it does not wait any more
        os.write(fd, protocol.encode(answer) + b"\n")
    with contextlib.suppress(OSError):
        os.close(fd)


def _lock_directory(directory: Directory) -> FileLock:
    try:
        with must_be_usable(directory):
            return FileLock(directory.lock, f"pid {os.getpid()}")
    except LockHeld as held:
        raise AgentAlreadyRunning(directory=str(directory.path), owner=held.owner) from None
