"""The control socket: commands ask, the agent answers."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from moiety.agent.configuration import Read, later
from moiety.agent.control import metrics, protocol, saved_settings
from moiety.agent.control.containers import ContainerShares
from moiety.agent.control.limits import Warden
from moiety.agent.control.metrics_server import Scrapes
from moiety.agent.control.report import gpu_rows, process_rows
from moiety.agent.control.shares import Sharing
from moiety.agent.control.timeline_pages import recorded
from moiety.agent.control.usage_report import notes, watched
from moiety.agent.control.visibility import events_for, recorded_for, rows_for
from moiety.agent.control.workloads import Workloads
from moiety.agent.core import refusals
from moiety.agent.core.rate_limits import Bounds
from moiety.agent.core.runtime import Node
from moiety.agent.options import Options
from moiety.agent.system import container_files, permissions, processes
from moiety.agent.system.paths import Directory
from moiety.agent.system.users import USERS, beside, name_of
from moiety.config.values import Visible
from moiety.devices.interface import Usage
from moiety.devices.native import is_simulated
from moiety.model.errors import (
    AgentBusy,
    AgentVersion,
    BadArgument,
    BadRequest,
    CapacityMismatch,
    MoietyError,
    NotAllowed,
    SystemRefusal,
    TooMany,
)
from moiety.wire.layout import VERSION

NOBODY = -1
"""a user who has no program"""
EVENTS_PAGE = 500
EVENTS_WAIT_S = 5.0
READ_S = 10.0
"""the configuration may take to be read"""


@dataclass(slots=True)
class Control:
    """Answers commands of one agent; `stop` ends the agent."""

    directory: Directory
    node: Node
    workloads: Workloads
    options: Options
    product: str
    stop: Callable[[str], None]
    began_s: float
    scrapes: Scrapes | None = None
    warden: Warden | None = None
    """who sees that users have what they may"""
    read: Read | None = None
    """what the agent goes by, as it is written now"""
    changed: saved_settings.Kept = field(default_factory=saved_settings.Kept)
    """what was changed since the first agent here started"""
    server: asyncio.Server | None = None
    reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def sharing(self) -> Sharing:
        """What may be promised here."""
        return Sharing(self.node, self.workloads, self.warden)

    @property
    def contained(self) -> ContainerShares:
        """What containers get."""
        return ContainerShares(self.node, self.workloads, self.sharing)

    async def open(self) -> None:
        """Listen; raises MetricsRefused."""
        if self.options.metrics:
            self.scrapes = Scrapes(self.options.metrics, self.metrics, self.node.log)
            await self.scrapes.open()
        path = self.directory.control
        path.unlink(missing_ok=True)
        self.server = await asyncio.start_unix_server(
            self._converse, path=str(path), limit=protocol.LINE_MAX
        )
        if self.directory.shared:
            permissions.open_to_group(path, self.options.socket_mode, self.options.socket_group)
        else:
            os.chmod(path, 0o600)

    def close(self, *, is_waited_for: bool = False) -> None:
        """Listen no more; who comes is to wait for the next agent, or goes elsewhere."""
        if self.scrapes:
            self.scrapes.close()
        if self.server:
            self.server.close()
        if not is_waited_for:
            self.directory.control.unlink(missing_ok=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        tally = self.node.bounds.conversations
        peer = None
        try:
            peer = processes.peer_of(sock)
            if not (self.directory.shared or _is_admin(peer)):
                peer = None
                return
            no = tally.refuse(peer.uid, is_admin=_is_admin(peer))
            tally.take(peer.uid)
            refusal = TooMany(no) if no else self._not_from_pods(peer)
            if no:
                refusals.turn_away(self.node.journal, peer, no)
            if refusal:
                writer.write(protocol.encode(failed(refusal)) + b"\n")
                await asyncio.wait_for(writer.drain(), Bounds.GREETING_S)
                return
            await self._listen(reader, writer, peer)
        except (OSError, ValueError, TimeoutError, asyncio.CancelledError):
            pass  # it hung up, says or reads nothing, its line has no end, or the agent ends
        finally:
            if peer:
                tally.give(peer.uid)
            writer.close()

    def _not_from_pods(self, peer: processes.Peer) -> MoietyError | None:
        """A pod has its share's socket. Whatever else of this folder it mounts is not meant for it.

        Root in a pod would be root here, and it may not be the machine's.
        """
        pod = container_files.stranger(peer.pid)
        if not pod and peer.pid and processes.start_time(peer.pid) is None:
            return NotAllowed("who asked has ended, so nobody knows whose it was", "ask again")
        if not pod:
            return None
        text = f"pid {peer.pid} of this pod came to the agent's own socket and was turned away"
        self.node.log.warning("stranger turned away", pid=peer.pid, pod=pod)
        self.node.journal.often(pod, "Refused", text, pod=pod)
        return NotAllowed(
            "this agent takes no commands from pods", "the same in its own pod, by kubectl exec"
        )

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: processes.Peer
    ) -> None:
        """Answer one line after the other; raises TimeoutError if nothing comes, or is read."""
        greeted = False
        patience_s = Bounds.GREETING_S
        while line := await asyncio.wait_for(reader.readline(), patience_s):
            if not _is_admin(peer):
                now_s = self.node.loop.time()
                await asyncio.sleep(self.node.bounds.requests.spend(peer.uid, now_s))
            answer = await self._answer_line(line, peer, greeted)
            greeted = greeted or isinstance(answer, protocol.Here)
            writer.write(protocol.encode(answer) + b"\n")
            await asyncio.wait_for(writer.drain(), Bounds.SILENCE_S)
            if not greeted:
                return
            patience_s = Bounds.SILENCE_S

    async def _answer_line(
        self, line: bytes, peer: processes.Peer, greeted: bool
    ) -> protocol.Answer:
        try:
            try:
                request = protocol.decode_request(line)
            except msgspec.MsgspecError as error:
                raise BadRequest(problem=str(error)) from None
            if not greeted and not isinstance(request, protocol.Hello):
                raise BadRequest(problem="the first line must be a greeting")
            try:
                return await self._answer(request, peer)
            except MoietyError as error:
                refusals.tell(self.node.journal, request, peer, error)
                raise
        except MoietyError as error:
            return failed(error)
        except OSError as error:
            self.node.log.exception("request refused by the system")
            return failed(SystemRefusal(error))
        except Exception as error:
            self.node.log.exception("request failed", line=line[:200].decode("utf-8", "replace"))
            return failed(BadRequest(problem=f"the agent failed on it: {error}"))

    async def _answer(self, request: Any, peer: processes.Peer) -> protocol.Answer:
        match request:
            case protocol.Hello():
                return self._greet(request)
            case protocol.CreateWorkload():
                await USERS.found(peer.uid)
                return self._create(request, peer)
            case protocol.CreateContainer():
                await USERS.found(peer.uid)
                self._must_share_out(request.capacity_bytes)
                return self.contained.create(request, peer)
            case protocol.RemoveContainer():
                return self.contained.remove(request, peer)
            case protocol.Containers():
                return self.contained.rows(None if _is_admin(peer) else peer.uid)
            case protocol.Status():
                return await self._status(peer)
            case protocol.Ps():
                return protocol.Processes(rows=self._rows_for(peer))
            case protocol.SetShare():
                return self.sharing.change(request, None if _is_admin(peer) else peer.uid)
            case protocol.SetAgent():
                _must_be_admin(peer, "change how this agent decides")
                return self._set_agent(request)
            case protocol.Timeline():
                page = recorded(self.node, request)
                return recorded_for(page, self.node.timeline.owners, peer.uid, self._seen_by(peer))
            case protocol.Events():
                return await self._events(request, peer)
            case protocol.Watch():
                _must_be_admin(peer, "see who uses GPUs without moiety")
                return watched(self.node, request)
            case protocol.NamePods():
                _must_be_admin(peer, "say what pods are called")
                self.node.journal.pods = request.names
                return protocol.Done()
            case protocol.Reload():
                _must_be_admin(peer, "have the configuration read again")
                return await self.reload()
            case protocol.Stop():
                _must_be_admin(peer, "end this agent")
                if self.node.clients and not request.force:
                    raise AgentBusy(programs=[str(c) for c in self.node.clients.values()])
                self.stop("asked to")
                return protocol.Done()
            case _:
                return protocol.Done()

    def _greet(self, hello: protocol.Hello) -> protocol.Here:
        if hello.product != self.product or hello.wire != VERSION:
            raise AgentVersion(agent=self.product, own=hello.product)
        return protocol.Here(
            product=self.product,
            wire=VERSION,
            pid=os.getpid(),
            capacity_bytes=self.options.capacity_bytes,
            simulated=is_simulated(),
        )

    def _must_share_out(self, wanted: int | None) -> None:
        if wanted is not None and wanted != self.options.capacity_bytes:
            raise CapacityMismatch(running=self.options.capacity_bytes, wanted=wanted)

    def _create(self, request: protocol.CreateWorkload, peer: processes.Peer) -> protocol.Created:
        self._must_share_out(request.capacity_bytes)
        self.sharing.check(request.share, peer.uid)
        gang = request.gang
        if gang and self.directory.shared:  # names of different users are different names
            gang = dataclasses.replace(gang, name=f"u{peer.uid}.{gang.name}")
        if gang:
            self.workloads.check_gang(gang, peer.uid)
        workload = self.workloads.create(
            peer,
            program=request.program[: protocol.NAME_MAX],
            argv=protocol.shortened(request.argv),
            cwd=request.cwd[: protocol.ARGV_MAX],
            share=request.share,
            name=request.name and request.name[: protocol.NAME_MAX],
            gang=gang,
        )
        self.node.log.info(
            "workload",
            workload=workload.record.id,
            program=workload.record.program,
            pid=peer.pid,
            uid=peer.uid,
            share=str(request.share),
        )
        return protocol.Created(id=workload.record.id, socket=str(workload.socket))

    def _set_agent(self, request: protocol.SetAgent) -> protocol.Done:
        before = saved_settings.Kept() if request.defaults else self.changed
        changed = before.and_then(request.settings)
        as_started = self.options.settings_over(self.node.settings)
        try:
            found = changed.over(as_started)
        except ValueError as error:
            raise BadArgument.of(error, "moiety set --help") from None
        saved_settings.write(self.directory, changed, self.options)
        self.changed = changed
        self.node.set_settings(found)
        self.node.log.info("settings", changed=changed.settings)
        told = ", ".join(f"{k}={v}" for k, v in request.settings.items()) or "the defaults"
        self.node.journal.note("SettingsChanged", told)
        return protocol.Done()

    def _seen_by(self, peer: processes.Peer) -> Visible:
        """What somebody sees of others."""
        return Visible.ALL if _is_admin(peer) else self.options.visible

    def _rows_for(self, peer: processes.Peer) -> list[protocol.ProcessRow]:
        return rows_for(process_rows(self.node), peer.uid, self._seen_by(peer))

    async def reload(self) -> protocol.Reloaded:
        """Go by what is written now; raises ConfigError, and all stays as it was."""
        if self.read is None:
            return protocol.Reloaded()
        async with self.reloading:
            return await self._reload(self.read)

    async def _reload(self, read: Read) -> protocol.Reloaded:
        try:
            # Beside the loop: a name of a group in there may be a question to a directory service.
            again = asyncio.wrap_future(beside(read))
            after, entitlements = await asyncio.wait_for(again, READ_S)
            before = self.options
            found = self.changed.over(after.settings_over(self.node.settings))
        except (MoietyError, ValueError, TimeoutError) as error:
            if isinstance(error, TimeoutError):
                error = BadArgument(f"it could not be read within {READ_S:.0f} s")
            self.node.log.error("configuration refused", problem=str(error))
            self.node.journal.note("ReloadRefused", f"{error}; what was read before still counts")
            if isinstance(error, MoietyError):
                raise
            raise BadArgument.of(error, "moiety config check") from None
        waits = later(before, after)
        self.options = dataclasses.replace(
            before,
            settings=after.settings,
            filed=after.filed,
            watch=after.watch,
            visible=after.visible,
        )
        self.node.set_settings(found)
        if self.node.watching and after.watch != before.watch:
            self.node.watching.change(after.watch)
        if self.warden:
            self.warden.replace(entitlements)
        self.node.log.info("configuration", later=waits)
        told = f"for the next agent only: {', '.join(waits)}" if waits else ""
        self.node.journal.note("Reloaded", told)
        return protocol.Reloaded(later=waits)

    async def _events(self, asked: protocol.Events, peer: processes.Peer) -> protocol.Happened:
        journal = self.node.journal
        if asked.after >= journal.next - 1 and asked.wait_s > 0:
            await journal.changed(min(asked.wait_s, EVENTS_WAIT_S))
        found = journal.after(asked.after, EVENTS_PAGE)
        more = bool(found) and found[-1].number < journal.next - 1
        seen = events_for(found, peer.uid, self._seen_by(peer))
        read_to = found[-1].number if found else 0
        return protocol.Happened(events=seen, more=more, read_to=read_to)

    async def _usages(self) -> dict[int, Usage]:
        """What NVML says now, of the GPUs of which it says something."""
        loop = asyncio.get_running_loop()
        usages: dict[int, Usage] = {}
        try:
            for gpu in self.node.gpus:
                usages[gpu] = await loop.run_in_executor(None, self.node.devices.usage, gpu)
        except Exception as error:  # whatever NVML raises: the rest is still true
            self.node.log.warning("GPU not readable", error=str(error))
        return usages

    async def metrics(self) -> bytes:
        """The answer to Prometheus."""
        seen = metrics.snapshot(self.node, await self._usages(), self.began_s)
        at = self.options.metrics
        if self.directory.shared and at and not at.path:  # every user can ask a port
            rows = rows_for(seen.processes, NOBODY, self.options.visible)
            seen = dataclasses.replace(seen, processes=rows)
        return await asyncio.get_running_loop().run_in_executor(None, metrics.exposition, seen)

    async def _status(self, peer: processes.Peer) -> protocol.NodeStatus:
        arena = self.node.arena
        usages = await self._usages()
        driver = ""
        with contextlib.suppress(Exception):  # whatever NVML raises: "unknown" is shown
            driver = self.node.devices.driver_version
        return protocol.NodeStatus(
            pid=os.getpid(),
            product=self.product,
            driver_version=driver,
            up_s=self.node.loop.time() - self.began_s,
            settled=self.node.settled,
            simulated=is_simulated(),
            arena_bytes=arena.size_bytes if arena else 0,
            arena_ready_bytes=arena.ready_bytes if arena else 0,
            arena_used_bytes=arena.used_bytes() if arena else 0,
            workloads=len(self.workloads.by_id),
            tenants=len(self.node.clients),
            gpus=gpu_rows(self.node, usages),
            metrics=str(self.scrapes.address) if self.scrapes else "",
            settings=dataclasses.asdict(self.node.settings),
            user=name_of(os.getuid()),
            shared=self.directory.shared,
            notes=notes(self.node) if _is_admin(peer) else [],
        )


def _is_admin(peer: processes.Peer) -> bool:
    """Whether somebody may do here what they like: root, and whose agent it is."""
    return processes.may_use(peer, os.getuid())


def _must_be_admin(peer: processes.Peer, what: str) -> None:
    if not _is_admin(peer):
        who = "root" if os.getuid() == 0 else f"root and {name_of(os.getuid())}"
        raise NotAllowed(f"only {who} may {what}")


def failed(error: MoietyError) -> protocol.Failed:
    """An error, in parts."""
    return protocol.Failed(
        kind=type(error).__name__,
        what=error.what,
        hint=error.hint,
        exit_code=error.exit_code,
    )
