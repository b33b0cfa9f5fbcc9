"""The connection to the starter of a machine's pool, made anew when that has ended."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from moiety.agent.system import processes
from moiety.model.errors import StarterGone
from moiety.pool.starter.programs import Held, StarterSocket, StartRefusal
from moiety.pool.starter.records import ProcessIdentity

ANSWER_S: Final = 20.0
"""How long the starter may take to make a process."""
REFUSALS_MAX: Final = 1024
"""How many refusals are kept until they are asked for."""


class StarterLink:
    """Asks the starter; may be used in every thread."""

    def __init__(self, path: Path) -> None:
        """`path` is the socket of the starter, which root has made for this server."""
        self._path = path
        self._lock = threading.Lock()
        self._socket: StarterSocket | None = None
        self._held: dict[str, Future[ProcessIdentity]] = {}
        self._refusals: dict[str, StartRefusal] = {}

    def must_be_there(self) -> None:
        """Raise StarterGone unless a starter answers."""
        with self._lock:
            self._connected()

    def hold(self, workload: str) -> ProcessIdentity:
        """The process that will be the supervisor of a workload once `begin` is called.

        Raises StarterGone, or OSError for what the starter has refused.
        """
        answer: Future[ProcessIdentity] = Future()
        with self._lock:
            connection = self._connected()
            self._held[workload] = answer
            self._refusals.pop(workload, None)
            self._send(lambda: connection.hold(workload))
        try:
            return answer.result(ANSWER_S)
        except TimeoutError:
            self.give_up(workload)  # it may come late
            raise StarterGone(f"it made no process in {ANSWER_S:.0f} s") from None

    def begin(self, workload: str) -> None:
        """Let the supervisor begin, or have the workload settled; raises StarterGone."""
        with self._lock:
            connection = self._connected()
            self._send(lambda: connection.start(workload))

    def give_up(self, workload: str) -> None:
        """End the process that `hold` has made; nothing happens if the starter has ended."""
        with self._lock:
            if self._socket is not None:
                connection = self._socket
                try:
                    self._send(lambda: connection.give_up(workload))
                except StarterGone:
                    pass  # so has the process

    def refusal(self, workload: str) -> StartRefusal | None:
        """What the starter said about the last start of a workload."""
        return self._refusals.pop(workload, None)

    def end(self) -> None:
        """Let the starter end after the last workload."""
        with self._lock:
            try:
                connection = self._connected()
                self._send(connection.end)
            except StarterGone:
                pass  # it has ended already

    def _send(self, send: Callable[[], None]) -> None:
        try:
            send()
        except OSError as error:
            raise StarterGone(error.strerror or str(error)) from None

    def _connected(self) -> StarterSocket:
        if self._socket is not None:
            return self._socket
        raw = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        try:
            raw.connect(str(self._path))
            if processes.peer_of(raw).uid not in (0, os.geteuid()):
                raise PermissionError("it is no process of root")
        except OSError as error:
            raw.close()
            raise StarterGone(error.strerror or str(error)) from None
        self._socket = StarterSocket(raw)
        reads = threading.Thread(target=self._read, args=(self._socket,), daemon=True)
        reads.name = "starter"
        reads.start()
        return self._socket

    def _read(self, connection: StarterSocket) -> None:
        """Hand out answers until the starter has ended."""
        try:
            while True:
                self._take(connection.answer(wait=True))
        except (EOFError, OSError):
            pass
        with self._lock:
            if self._socket is connection:
                self._socket = None
            waiting, self._held = self._held, {}
        connection.close()
        for answer in waiting.values():
            answer.set_exception(StarterGone("it has just ended"))

    def _take(self, found: Held | StartRefusal | None) -> None:
        if found is None:
            return
        with self._lock:
            answer = self._held.pop(found.workload, None)
            if answer is None and isinstance(found, StartRefusal):
                while len(self._refusals) >= REFUSALS_MAX:
                    self._refusals.pop(next(iter(self._refusals)))
                self._refusals[found.workload] = found
        if answer is None:
            return
        if isinstance(found, Held):
            answer.set_result(found.process)
        else:
            answer.set_exception(OSError(found.number, found.text))
