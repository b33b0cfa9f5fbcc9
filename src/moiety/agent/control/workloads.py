"""Workloads: what one `moiety run` started, each with its own socket and a record on disk.

The socket is the identity: a process that connects to it belongs to that workload. With the
records, an agent that follows a killed one finds the processes that still live.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shutil
import socket
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from moiety.agent.control.client_records import ClientRecords
from moiety.agent.control.records import (
    SOCKET,
    Record,
    folder_of,
    socket_in,
    write_whole,
)
from moiety.agent.control.running_workload import (
    RunningWorkload,
    as_promised,
    is_unbounded,
)
from moiety.agent.core.client import Client
from moiety.agent.core.executor import Executor
from moiety.agent.core.recovery import SETTLE_S
from moiety.agent.shim.session import Session, SessionContext
from moiety.agent.system import container_files, permissions, processes
from moiety.agent.system.paths import Directory, check_socket_path, prepare
from moiety.agent.system.peer_socket import PeerSocket
from moiety.agent.system.users import USERS, User
from moiety.arbiter import events as ev
from moiety.devices.interface import uuid_bytes
from moiety.model.cards import CardRequest
from moiety.model.errors import TooMany
from moiety.model.gang import Gang
from moiety.model.share import Share

ACCEPT_AGAIN_S: Final = 0.1


class Workloads:
    """Every workload of one agent."""

    def __init__(
        self,
        directory: Directory,
        sessions: SessionContext,
        executor: Executor,
        *,
        linger_s: float,
        on_empty: Any = None,
    ) -> None:
        """`linger_s` after its last process is gone, a workload is forgotten."""
        self._directory = directory
        self._sessions = sessions
        self._executor = executor
        self._runtime = sessions.runtime
        self._loop = sessions.loop
        self._clients = sessions.clients.by_number
        self._journal = sessions.journal
        self._limits = sessions.limits
        self._linger_s = linger_s
        self._on_empty = on_empty
        self.by_id: dict[str, RunningWorkload] = {}
        self.effective: Callable[[RunningWorkload], Share] = as_promised
        """Returns the share that a workload has beside the others of its user."""
        self.choose_again: Callable[[RunningWorkload], Record] = lambda workload: workload.record
        """Returns the record of a workload with the GPUs that are best for it now."""
        self.on_owner: list[Callable[[int], None]] = []
        """Called when the workloads of a user change."""
        self._records = ClientRecords(
            sessions.runtime,
            self._clients,
            sessions.arbiter,
            sessions.clients.proofs,
            self._record_of,
        )
        executor.on_grown.append(self._records.grown)
        sessions.clients.on_changed.append(self._changed)
        sessions.clients.on_left.append(self._left)

    def create(
        self,
        peer: processes.Peer,
        *,
        program: str,
        argv: list[str],
        cwd: str,
        share: Share,
        name: str | None = None,
        gang: Gang | None = None,
        cards: Sequence[str] = (),
        only: Sequence[str] = (),
        request: CardRequest | None = None,
    ) -> RunningWorkload:
        """A workload whose first process is `peer`; raises ProcessLookupError if that is dead.

        `cards` are the UUIDs of GPUs that are kept for it by this `request`, `only` those of all
        that it may use; empty: any.
        """
        self._must_be_few(peer)
        started = processes.start_time(peer.pid)
        if started is None:
            raise ProcessLookupError(peer.pid)
        identity = secrets.token_hex(4)
        user = USERS.of(peer.uid)
        record = Record(
            id=identity,
            uid=peer.uid,
            user=user.name if user.is_listed and user.is_known else "",
            groups=sorted(user.groups),
            root_pid=peer.pid,
            root_started=started,
            program=program,
            argv=argv,
            cwd=cwd,
            share=share,
            name=name,
            gang=gang,
            gpus=list(only),
            chosen=list(cards),
            request=request,
        )
        folder = f"{self._directory.workloads}/{identity}"
        check_socket_path(self._directory, f"{folder}/{SOCKET}")
        prepare(self._directory)  # a user may have removed the folders
        try:
            os.mkdir(folder, 0o700)
            os.mkdir(f"{folder}/clients", 0o700)
            write_whole(f"{folder}/workload.json", msgspec.json.encode(record))
            return self._open(record, folder, self._runtime.now())
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def settle(self, workload_id: str) -> tuple[str, ...]:
        """The program looked at its GPUs: from now on the choice does not change.

        Returns their UUIDs in PCI order; those of all GPUs if it was given none in particular.
        """
        workload = self.by_id.get(workload_id)
        whole = [gpu.device.uuid for _, gpu in sorted(self._sessions.gpus.items())]
        if workload is None:
            return tuple(whole)
        if workload.record.chosen:
            workload.record = self.choose_again(workload)
            workload.note(workload.settled(), self._runtime.log)
            self.divide(workload)
            self._tell(workload.record.uid)
            may_use = frozenset(map(uuid_bytes, workload.record.gpus))
            for number in workload.clients & self._clients.keys():
                self._clients[number].may_use = may_use
        return workload.visible(whole)

    def _cards_of(self, workload: RunningWorkload) -> tuple[str, ...]:
        """UUIDs of the GPUs that its programs see; empty: all, with the numbers they always had."""
        found = self.settle(workload.record.id)
        return found if workload.record.gpus else workload.open_to(self._sessions.gpus)

    def _must_be_few(self, owner: processes.Peer) -> None:
        is_admin = processes.may_use(owner, os.getuid())
        if no := self._limits.workloads.refuse(owner.uid, is_admin=is_admin):
            raise TooMany(no)

    def create_container(self, record: Record, owner: processes.Peer) -> RunningWorkload:
        """A workload that containers join, now and after any restart, until it is removed.

        Raises TooMany, BadAgentDirectory or OSError.
        """
        self._must_be_few(owner)
        folder = str(container_files.make(self._directory, record.container, owner))
        write_whole(f"{folder}/workload.json", msgspec.json.encode(record))
        return self._open(record, folder, self._runtime.now())

    def rewrite(self, workload: RunningWorkload, record: Record) -> None:
        """Change the record of a workload."""
        workload.promise(record, self._runtime.now())
        self.divide(workload)
        self._tell(record.uid)

    def remove(self, workload: RunningWorkload) -> None:
        """Forget a workload. If it is a share for containers, its processes lose their agent."""
        del self.by_id[workload.record.id]
        self._close(workload)
        self._tell(workload.record.uid)
        shutil.rmtree(workload.folder, ignore_errors=True)
        if not self.by_id and self._on_empty:
            self._on_empty()

    def adopt(self, record: Record) -> RunningWorkload:
        """A workload of the last agent: its processes find their socket where it was."""
        if record.user:
            USERS.learn(User(record.uid, record.user, frozenset(record.groups)))
        workload = self._open(record, folder_of(self._directory, record))
        workload.has_used = not record.chosen
        if workload.root_pidfd < 0 and not workload.stays:
            self._loop.call_later(SETTLE_S + self._linger_s, self._remove_if_over, workload)
        return workload

    def promise(self, workload: RunningWorkload, share: Share) -> None:
        """Change the share of a workload, also for agents that follow this one."""
        self.rewrite(workload, msgspec.structs.replace(workload.record, share=share))

    def divide(self, workload: RunningWorkload) -> None:
        """Let every process of a workload have its part."""
        share = self.effective(workload)
        for number in list(workload.clients):
            if client := self._clients.get(number):
                client.share = share
                self._set_part(client)
                self._executor.set_mode(client, client.share.mode)

    def _set_part(self, client: Client) -> None:
        """Give a process its part of its workload's share.

        Processes of a workload that use the same GPU divide its share equally.
        """
        own = [c for c in self._clients.values() if c.workload == client.workload]
        sharers = [sum(gpu in other.gpus for other in own) for gpu in client.gpus]
        part = client.share.among(max(sharers, default=1))
        if part != client.part:
            client.part = part
            self._runtime.feed(ev.ShareSet(client.number, part))
            self._executor.tell_limits(client)

    @property
    def are_alive(self) -> bool:
        """Whether a workload lives that the next agent will take over."""
        return any(each.is_alive for each in self.by_id.values())

    def close(self) -> None:
        """Stop listening; records of workloads that still live stay for the next agent."""
        for workload in list(self.by_id.values()):
            is_kept = workload.is_kept
            self._close(workload)
            if not is_kept:
                shutil.rmtree(workload.folder, ignore_errors=True)

    def _open(self, record: Record, folder: str, began_s: float = -math.inf) -> RunningWorkload:
        path = socket_in(folder, record)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = PeerSocket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            listener.bind(path)
            if record.container:
                os.chmod(path, container_files.SOCKET_MODE)
            else:
                permissions.open_to(folder, path, record.uid)
        except OSError:
            listener.close()
            raise
        listener.listen(128)
        listener.setblocking(False)
        account = self._limits.account_of(record.uid)
        workload = RunningWorkload(record, folder, listener, -1, began_s, account=account)
        self.by_id[record.id] = workload
        self._limits.workloads.take(record.uid)
        self._loop.add_reader(listener.fileno(), self._accept, workload)
        if not workload.stays:
            self._watch_root(workload)
        self._tell(record.uid)
        return workload

    def _watch_root(self, workload: RunningWorkload) -> None:
        record, pidfd = workload.record, -1
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(record.root_pid)
        if pidfd >= 0 and processes.is_alive(record.root_pid, record.root_started):
            workload.root_pidfd = pidfd
            self._loop.add_reader(pidfd, self._root_ended, workload)
        elif pidfd >= 0:
            os.close(pidfd)

    def _accept(self, workload: RunningWorkload) -> None:
        try:
            sock, _ = workload.listener.accept()
        except OSError as error:
            if not isinstance(error, BlockingIOError):  # no descriptors are left, say
                self._runtime.log.warning("accept_failed", error=str(error))
                self._loop.remove_reader(workload.listener.fileno())
                self._loop.call_later(ACCEPT_AGAIN_S, self._accept_again, workload)
            return
        peer = processes.peer_of(sock)
        if not workload.stays and not processes.may_use(peer, workload.record.uid):
            self._runtime.log.warning("caller_refused", uid=peer.uid, pid=peer.pid)
            text = f"share {workload.record.id} is another user's"
            self._journal.turned_away(peer, text)
            sock.close()
            return
        if no := container_files.keeps_out(workload.record.pods, peer.pid):
            text = f"share {workload.record.id}: {no}"
            self._runtime.log.warning("caller_refused", pid=peer.pid, reason=no)
            pod = container_files.pod_of(peer.pid)
            self._journal.often(workload.record.id, "Refused", text, pod=pod)
            sock.close()
            return
        is_admin = is_unbounded(workload.record, peer, os.getuid())
        if no := self._limits.connections.refuse(workload.record.uid, is_admin=is_admin):
            self._runtime.log.warning("client_refused", pid=peer.pid, reason=no)
            self._journal.turned_away(peer, no)
            sock.close()
            return
        try:
            Session(
                self._sessions,
                sock,
                peer=peer,
                workload=workload.record.id,
                share=self.effective(workload),
                name=workload.record.name,
                gang=workload.record.gang,
                owner=workload.record.uid,
                gpus=frozenset(map(uuid_bytes, workload.open_to(self._sessions.gpus))),
                labels=workload.record.labels,
                is_admin=is_admin,
                cards=lambda: self._cards_of(workload),
            )
        except OSError:  # it died between connect and now
            sock.close()

    def _accept_again(self, workload: RunningWorkload) -> None:
        if self.by_id.get(workload.record.id) is workload:
            self._loop.add_reader(workload.listener.fileno(), self._accept, workload)

    def _tell(self, uid: int) -> None:
        for call in self.on_owner:
            call(uid)

    def _record_of(self, client: Client) -> str:
        """The file that says what a process has; empty where its share was removed."""
        workload = self.by_id.get(client.workload)
        return f"{workload.folder}/clients/{client.pid}" if workload else ""

    def _changed(self, client: Client) -> None:
        workload = self.by_id.get(client.workload)
        if workload is None:
            return  # its share was removed, and it goes on without one
        workload.joined(client.number)
        self._follow(workload, client)
        self._records.write(client)
        self.divide(workload)
        self._tell(workload.record.uid)

    def _follow(self, workload: RunningWorkload, client: Client) -> None:
        """A program that never asked for its GPUs may take others: the choice follows it."""
        gpus = self._sessions.gpus
        used = {gpus[index].device.uuid for index in client.gpus if index in gpus}
        if workload.record.chosen and not used <= set(workload.record.chosen):
            followed = msgspec.structs.replace(workload.record, chosen=sorted(used))
            workload.note(followed, self._runtime.log)

    def _left(self, client: Client) -> None:
        workload = self.by_id.get(client.workload)
        if workload is None:
            return
        workload.clients.discard(client.number)
        self._records.remove(client)
        self.divide(workload)
        self._tell(workload.record.uid)
        self._linger(workload)

    def _root_ended(self, workload: RunningWorkload) -> None:
        self._loop.remove_reader(workload.root_pidfd)
        os.close(workload.root_pidfd)
        workload.root_pidfd = -1
        self._tell(workload.record.uid)
        self._linger(workload)

    def _linger(self, workload: RunningWorkload) -> None:
        if workload.root_pidfd < 0 and not workload.clients and not workload.stays:
            self._loop.call_later(self._linger_s, self._remove_if_over, workload)

    def _remove_if_over(self, workload: RunningWorkload) -> None:
        if self.by_id.get(workload.record.id) is not workload or workload.is_alive:
            return
        if not workload.is_over(self._sessions.clients):  # one of the last agent may be stopped
            self._loop.call_later(SETTLE_S, self._remove_if_over, workload)
            return
        self._runtime.log.info("workload_ended", workload=workload.record.id)
        self.remove(workload)

    def _close(self, workload: RunningWorkload) -> None:
        self._limits.workloads.give(workload.record.uid)
        self._loop.remove_reader(workload.listener.fileno())
        workload.listener.close()
        if workload.root_pidfd >= 0:
            self._loop.remove_reader(workload.root_pidfd)
            os.close(workload.root_pidfd)
            workload.root_pidfd = -1
