"""The control socket: commands connect, and their lines are answered one after the other."""

from __future__ import annotations

import asyncio
import os
import socket
from dataclasses import dataclass
from typing import Final

import msgspec

from moiety.agent.control import protocol, refusals
from moiety.agent.control.commands import ControlCommands
from moiety.agent.control.conversation import Conversation
from moiety.agent.control.metrics_server import MetricsServer
from moiety.agent.control.rights import is_admin
from moiety.agent.core.journal import Journal
from moiety.agent.core.rate_limits import RateLimits
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import container_files, permissions, processes
from moiety.agent.system.paths import Directory
from moiety.agent.system.peer_socket import PeerSocket
from moiety.model.errors import BadRequest, MoietyError, NotAllowed, SystemRefusal, TooMany

LISTS: Final = (protocol.Ps, protocol.Status, protocol.GpusRequest, protocol.Containers)
"""Requests whose answer looks at each program."""


@dataclass(slots=True)
class ControlServer:
    """Listens on the control socket of one agent."""

    directory: Directory
    commands: ControlCommands
    runtime: Runtime
    journal: Journal
    limits: RateLimits
    server: asyncio.Server | None = None
    metrics: MetricsServer | None = None

    async def open(self) -> None:
        """Listen; raises MetricsRefused."""
        options = self.commands.options
        if options.metrics:
            self.metrics = MetricsServer(
                options.metrics,
                self.commands.metrics,
                self.runtime.log,
                options.metrics_hosts or (),
            )
            await self.metrics.open()
            self.commands.metrics_address = str(self.metrics.address)
        path = self.directory.control
        path.unlink(missing_ok=True)
        listener = PeerSocket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        listener.bind(str(path))
        # start_unix_server would remove the socket's file in `close`, since Python 3.13: it stays
        # while the next agent is waited for.
        self.server = await asyncio.start_server(
            self._converse, sock=listener, limit=protocol.LINE_MAX
        )
        if self.directory.shared:
            permissions.open_to_group(path, options.socket_mode, options.socket_group)
        else:
            os.chmod(path, 0o600)

    def close(self, *, is_waited_for: bool = False) -> None:
        """Listen no more; `is_waited_for`: new commands are to wait for the next agent."""
        if self.metrics:
            self.metrics.close()
        if self.server:
            self.server.close()
        if not is_waited_for:
            self.directory.control.unlink(missing_ok=True)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sock: socket.socket = writer.get_extra_info("socket")
        quota = self.limits.conversations
        peer = None
        try:
            peer = processes.peer_of(sock)
            if not (self.directory.shared or is_admin(peer)):
                peer = None
                return
            no = quota.refuse(peer.uid, is_admin=is_admin(peer))
            quota.take(peer.uid)
            refusal = TooMany(no) if no else self._not_from_pods(peer)
            if no:
                self.journal.turned_away(peer, no)
            if refusal:
                writer.write(protocol.encode(failed(refusal)) + b"\n")
                await asyncio.wait_for(writer.drain(), RateLimits.GREETING_S)
                return
            await self._listen(reader, writer, peer)
        except (OSError, ValueError, TimeoutError, asyncio.CancelledError):
            pass  # it hung up, says or reads nothing, its line has no end, or the agent ends
        finally:
            if peer:
                quota.give(peer.uid)
            writer.close()

    def _not_from_pods(self, peer: processes.Peer) -> MoietyError | None:
        """Refuse commands from pods: a pod has its share's socket, and no other is meant for it.

        Root in a pod would count as root here, although it may not be the machine's root.
        """
        pod = container_files.stranger(peer.pid)
        if not pod and peer.pid and processes.start_time(peer.pid) is None:
            return NotAllowed("the process that asked has ended: its pod is unknown", "ask again")
        if not pod:
            return None
        text = f"pid {peer.pid} of this pod came to the agent's own socket and was turned away"
        self.runtime.log.warning("caller_refused", pid=peer.pid, pod=pod)
        self.journal.often(pod, "Refused", text, pod=pod)
        return NotAllowed(
            "this agent takes no commands from pods", "the same in its own pod, by kubectl exec"
        )

    async def _listen(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: processes.Peer
    ) -> None:
        """Answer one line after the other; raises TimeoutError if nothing comes, or is read."""
        greeted = False
        conversation = Conversation(reader, writer)
        patience_s = RateLimits.GREETING_S
        while line := await asyncio.wait_for(reader.readline(), patience_s):
            answer = await self._answer_line(line, peer, greeted, conversation)
            greeted = greeted or isinstance(answer, protocol.Here)
            await conversation.tell(answer)
            if not greeted:
                return
            patience_s = RateLimits.SILENCE_S

    async def _pace(self, peer: processes.Peer, request: protocol.ControlRequest | None) -> None:
        """Wait until a user may have this answered: a list of all programs counts by its length."""
        if not is_admin(peer):
            amount = 1.0
            if isinstance(request, LISTS):
                amount += len(self.commands.clients.by_number) / RateLimits.ROWS_A_REQUEST
            wait_s = self.limits.requests.spend(peer.uid, self.runtime.now(), amount)
            await asyncio.sleep(wait_s)

    async def _answer_line(
        self, line: bytes, peer: processes.Peer, greeted: bool, conversation: Conversation
    ) -> protocol.Answer:
        try:
            try:
                request = protocol.decode_request(line)
            except msgspec.MsgspecError as error:
                await self._pace(peer, None)
                raise BadRequest(problem=str(error)) from None
            await self._pace(peer, request)
            if not greeted and not isinstance(request, protocol.HelloRequest):
                raise BadRequest(problem="the first line must be a greeting")
            try:
                return await self.commands.answer(request, peer, conversation)
            except MoietyError as error:
                refusals.record(self.journal, request, peer, error)
                raise
        except MoietyError as error:
            return failed(error)
        except OSError as error:
            self.runtime.log.exception("request_refused_by_system")
            return failed(SystemRefusal(error))
        except Exception as error:
            text = line[:200].decode("utf-8", "replace")
            self.runtime.log.exception("request_failed", line=text)
            return failed(BadRequest(problem=f"the agent failed on it: {error}"))


def failed(error: MoietyError) -> protocol.Failed:
    """Return an error in the parts that a command shows."""
    return protocol.Failed(
        kind=type(error).__name__,
        what=error.what,
        hint=error.hint,
        exit_code=error.exit_code,
    )
