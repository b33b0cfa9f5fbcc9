"""Sockets of which the other end may be any user's program.

Such a program can send descriptors, and the last close of one may wait for as long as its sender
likes: of a TCP connection with SO_LINGER, or of a file whose file system is the sender's. The
thread that closes it waits, also for a descriptor that was not asked for, and for those in the
queue of a connection that is closed. So all that come are received, each user's are closed in a
thread of their own, and so are the connections of that user.
"""

from __future__ import annotations

import array
import contextlib
import os
import queue
import socket
import struct
import threading
from collections.abc import Iterable
from typing import Any, Final

FDS_MAX: Final = 253
"""The most descriptors of one message (SCM_MAX_FD): what has no room is closed by the reader."""
_ROOM: Final = socket.CMSG_SPACE(FDS_MAX * 4)
_AT_ONCE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER: what is not sent is lost."""
_IDLE_S: Final = 5.0
"""How long a thread waits for more to close before it ends."""
_NO_USER: Final = -1


class PeerSocket(socket.socket):
    """A Unix socket, or a listener whose connections are such sockets."""

    @classmethod
    def over(cls, sock: socket.socket) -> PeerSocket:
        """The same socket as one of these; the old object has none any more."""
        return sock if isinstance(sock, cls) else cls(fileno=sock.detach())

    def accept(self) -> tuple[PeerSocket, Any]:
        """The next connection and its address."""
        sock, address = super().accept()
        return PeerSocket.over(sock), address

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Bytes, or one packet; descriptors that come with them are closed."""
        packet, fds = self.receive(size, flags)
        self.drop(fds)
        return packet

    def receive(self, size: int, flags: int = 0) -> tuple[bytes, list[int]]:
        """Bytes, or one packet, with the descriptors, which the caller keeps or drops."""
        packet, ancillary, _, _ = self.recvmsg(size, _ROOM, flags | socket.MSG_CMSG_CLOEXEC)
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        return packet, list(fds)

    def drop(self, fds: Iterable[int]) -> None:
        """Close descriptors that came over this socket."""
        if gone := list(fds):
            close_later(self.uid, gone)

    @property
    def uid(self) -> int:
        """The user at the other end, by the kernel's word; -1: there is no other end."""
        try:
            found = self.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        except OSError:
            return _NO_USER
        uid: int = struct.unpack("iii", found)[1]
        return uid

    def close(self) -> None:
        """Hang up at once; what is in the queue goes later. A listener is just closed."""
        uid = self.uid if self.fileno() >= 0 else _NO_USER
        if uid == _NO_USER:
            super().close()
            return
        with contextlib.suppress(OSError):
            self.shutdown(socket.SHUT_RDWR)
        close_later(uid, [self.detach()])


_lock = threading.Lock()
_queues: dict[int, queue.SimpleQueue[int]] = {}
"""By user: descriptors to close, while there is a thread for them."""


def close_later(uid: int, fds: Iterable[int]) -> None:
    """Close descriptors that came from this user, in the thread that closes those of that user."""
    with _lock:
        waiting = _queues.get(uid)
        if waiting is None:
            waiting = _queues[uid] = queue.SimpleQueue()
            name = f"close-{uid}"
            threading.Thread(target=_close_all, args=(uid, waiting), name=name, daemon=True).start()
        for fd in fds:
            waiting.put(fd)


def _close_all(uid: int, waiting: queue.SimpleQueue[int]) -> None:
    while True:
        try:
            _close(waiting.get(timeout=_IDLE_S))
        except queue.Empty:
            with _lock:
                if waiting.empty():
                    del _queues[uid]
                    return


def _close(fd: int) -> None:
    """Close a descriptor, without waiting if it is a socket itself."""
    try:
        sock = socket.socket(fileno=fd)
    except OSError:  # it is no socket
        with contextlib.suppress(OSError):
            os.close(fd)
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    with contextlib.suppress(OSError):
        sock.close()
