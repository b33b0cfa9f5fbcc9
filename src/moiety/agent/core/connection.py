"""One SEQPACKET connection to a process with the shim in it; it never blocks the agent."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from moiety.agent.core.native_reader import Taken
from moiety.agent.core.read_turns import PACKETS_A_TURN, WAITING_FDS_MAX, UserTurn
from moiety.agent.system.event_loop import EventLoop, Timer
from moiety.agent.system.peer_socket import PeerSocket
from moiety.wire.layout import PIECES_MAX
from moiety.wire.structs import COUNTERS_BYTES

PACKET_BYTES = 4096
QUEUE_MAX = 256
"""Packets that a process may leave unread beyond what its socket takes."""


def _never_waits() -> float:
    return 0.0


def _nobody_cares() -> None:
    pass


def _nobody_listens(_: object) -> None:
    pass


class ReaderThread(Protocol):
    """What reads connections beside the loop (fast_handoff.py)."""

    def add(self, fd: int, account: int, receiver: Connection) -> int:
        """Read a socket from now on; returns its key, 0: it cannot."""

    def remove(self, key: int) -> None:
        """Do not touch it any more."""

    def resume(self, key: int) -> None:
        """Read on after a burst."""

    def settle(self) -> None:
        """Disarm, and take in what was carried out."""

    def disarm(self) -> None:
        """Carry out nothing until the next event."""


class Connection:
    """Packets to and from one process.

    `on_packet(packet)` is called for each packet, `on_end(reason)` once: with an empty reason
    when the other side closed it.
    """

    def __init__(
        self,
        loop: EventLoop,
        sock: socket.socket,
        on_packet: Callable[[bytes], None],
        on_end: Callable[[str], None],
        on_burst: Callable[[], float] = _never_waits,
        on_close: Callable[[], None] = _nobody_cares,
        turn: UserTurn | None = None,
    ) -> None:
        """`on_close` is called once, whichever side closes the connection.

        `on_burst` is called when more packets came than are read at once; it returns the seconds
        to wait before the rest is read. `turn` is its user's; None: its own.
        """
        self._loop = loop
        self._sock = PeerSocket.over(sock)
        self._sock.setblocking(False)
        self._fd = self._sock.fileno()
        self._on_packet = on_packet
        self._on_end = on_end
        self._on_burst = on_burst
        self._on_close = on_close
        self._turn = turn or UserTurn(loop)
        self._in_a_row = 0
        """Packets that were read since there were none last."""
        self._queue: deque[tuple[bytes, list[int]]] = deque()
        """Packets, each with its own descriptors."""
        self._fds: list[int] = []
        """Descriptors that came with the present packet."""
        self._takes_fds = False
        self._first = True
        self._closed = False
        self._last_words = False
        self._pause: Timer | None = None
        self._thread: ReaderThread | None = None
        self._next_reader: tuple[ReaderThread, int] | None = None
        self.key = 0
        """Its key in the thread that reads it; 0: the loop does."""
        self._expected: bytes | None = None
        self._is_sent = False
        self.counters_fd = -1
        """The counters page that came with the first packet; -1: none."""
        loop.add_reader(self._fd, self._readable)

    @property
    def closed(self) -> bool:
        """Whether nothing can be sent any more."""
        return self._closed

    @property
    def uid(self) -> int:
        """The user at the other end, by the kernel's word."""
        return self._sock.uid

    @property
    def fd(self) -> int:
        """Its socket; -1 once it is closed."""
        return -1 if self._closed else self._fd

    @property
    def is_read(self) -> bool:
        """Whether what comes is read at once: it neither pauses nor ends."""
        return not self._closed and self._pause is None

    @property
    def is_clear(self) -> bool:
        """Whether what is sent now leaves at once, for all that is known."""
        return not (self._closed or self._last_words or self._queue)

    def hand_over(self, thread: ReaderThread, account: int) -> None:
        """Have a thread read this connection, in the turns of this user, once nothing waits."""
        self._next_reader = thread, account

    def _hand_over(self) -> None:
        if self._next_reader is None or self._closed or self._last_words:
            return
        (thread, account), self._next_reader = self._next_reader, None
        key = thread.add(self._fd, account, self)
        if key:
            self._thread, self.key = thread, key
            self._loop.remove_reader(self._fd)

    def _take_over(self) -> None:
        """Have the thread leave this connection alone; what it carried out is taken in first."""
        if self._thread is not None and self.key:
            self._thread.settle()
        if self._thread is not None and self.key:  # that may have closed it
            key, self.key = self.key, 0
            self._thread.remove(key)

    def expect(self, packet: bytes | None, *, is_sent: bool = False) -> None:
        """The next packet like this is the one that the thread decided; it may be sent already."""
        self._expected, self._is_sent = packet, is_sent

    def is_expected(self, packet: bytes) -> bool:
        """Whether the thread decided this packet, and changed the lease word for it."""
        return packet == self._expected

    @property
    def expects(self) -> bool:
        """Whether that packet was not to be sent yet."""
        return self._expected is not None and not self._closed

    def receive(self, taken: Taken) -> None:
        """Take in what the thread read."""
        if self._closed:
            self._sock.drop(taken.fds)
            return
        if taken.ended:
            self._sock.drop(taken.fds)  # an empty packet may bring some
            reset = taken.error in (0, errno.ECONNRESET)  # it closed, or died before it had read
            self._end("" if reset else f"it cannot be read from: {os.strerror(taken.error)}")
            return
        fds = taken.fds
        if fds and self._takes_fds:
            self._fds, fds = fds[:PIECES_MAX], fds[PIECES_MAX:]
        self._sock.drop(fds)
        self._on_packet(taken.packet)
        self._sock.drop(self.take_fds())
        if taken.burst and not self._closed:
            wait_s = self._on_burst()
            if wait_s > 0 and not self._closed:
                self._pause = self._loop.call_later(wait_s, self._read_on)
            else:
                self._read_on()

    def expect_fds(self) -> None:
        """From now on packets may bring descriptors; before, they are closed."""
        self._takes_fds = True

    def take_fds(self) -> list[int]:
        """Return the descriptors of the packet that `on_packet` handles; the caller closes them."""
        taken, self._fds = self._fds, []
        return taken

    def send(self, packet: bytes, *fds: int) -> None:
        """Send now, or queue; a process that does not read loses its connection."""
        if packet == self._expected:
            self._expected = None
            if self._is_sent:
                return
        if self._closed or self._last_words:
            return
        if not self._queue:
            try:
                self._send_now(packet, fds)
                return
            except BlockingIOError:
                pass
            except OSError as error:
                self._loop.call_soon(self._end, f"it cannot be written to: {error.strerror}")
                return
        waiting = self._turn.waiting_fds + len(fds)
        if len(self._queue) >= QUEUE_MAX or (fds and waiting > WAITING_FDS_MAX):
            self._loop.call_soon(self._end, "it does not read what it is sent")
            return
        if not self._queue:
            self._loop.add_writer(self._fd, self._writable)
            if self._thread is not None:
                self._thread.disarm()  # no note may pass what is queued
        self._queue.append((packet, [os.dup(fd) for fd in fds]))
        self._turn.waiting_fds = waiting

    def _drop_first(self) -> None:
        """Take the first packet off the queue, and close its descriptors."""
        fds = self._queue.popleft()[1]
        self._turn.waiting_fds -= len(fds)
        self._sock.drop(fds)

    def send_last(self, packet: bytes) -> None:
        """Send a refusal and hang up."""
        self.send(packet)
        self._take_over()
        self._last_words = True
        self._discard()
        self.close()

    def _discard(self) -> None:
        """Read what was sent already: else the other side sees a reset instead of the refusal."""
        try:
            self._sock.shutdown(socket.SHUT_RD)
            while self._sock.recv(PACKET_BYTES):
                pass
        except OSError:
            pass  # nothing is left, or the other side is gone

    def close(self) -> None:
        """Hang up, without `on_end`; what is queued is lost."""
        self._take_over()
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._pause:
            self._pause.cancel()
        while self._queue:
            self._drop_first()
        self._sock.drop(self.take_fds())
        self._sock.close()
        if self.counters_fd >= 0:
            os.close(self.counters_fd)
            self.counters_fd = -1
        self._on_close()
        # The callbacks' owner refers to this connection, too: without this, both stay in memory
        # until the next collection of cycles, which is hundreds of tenants away.
        self._thread = self._next_reader = None
        self._on_packet = self._on_end = _nobody_listens
        self._on_burst = _never_waits
        self._on_close = _nobody_cares

    def _readable(self) -> None:
        if self._turn.begin():
            self._read()
        else:
            self._loop.remove_reader(self._fd)
            self._turn.wait(self._read_in_turn)

    def _read_in_turn(self) -> None:
        """Read some packets; the rest waits for the next turn."""
        has_more = not self._closed and self._read()
        if not self._is_read():
            return  # it is closed, or pauses
        if has_more:
            self._turn.wait(self._read_in_turn)
        else:
            self._loop.add_reader(self._fd, self._readable)

    def _is_read(self) -> bool:
        return self.is_read and not self.key

    def _read(self) -> bool:
        """Read as many packets as the turn allows; False: there are no more."""
        most = max(1, min(PACKETS_A_TURN, self._turn.left))
        for number in range(most):
            try:
                packet = self._receive()
            except BlockingIOError:
                self._turn.spend(number)
                self._in_a_row = 0
                self._hand_over()
                return False
            except ConnectionResetError:
                self._end("")  # it closed, or died, before it had read all
                return False
            except OSError as error:
                self._end(f"it cannot be read from: {error.strerror}")
                return False
            if not packet:
                self._end("")
                return False
            self._on_packet(packet)
            self._sock.drop(self.take_fds())
            if self._closed:
                self._turn.spend(number + 1)
                return False
        self._turn.spend(most)
        self._in_a_row += most
        if self._in_a_row >= PACKETS_A_TURN:
            self._in_a_row = 0
            self._check_burst()
        return True

    def _check_burst(self) -> None:
        wait_s = self._on_burst()
        if wait_s > 0 and not self._closed:
            self._loop.remove_reader(self._fd)
            self._pause = self._loop.call_later(wait_s, self._read_on)

    def _read_on(self) -> None:
        self._pause = None
        if self._thread is not None and self.key:
            self._thread.resume(self.key)
        elif not self._closed:
            self._loop.add_reader(self._fd, self._readable)

    def _receive(self) -> bytes:
        """The first packet brings a descriptor; later ones do where that is expected."""
        packet, fds = self._sock.receive(PACKET_BYTES)
        if not fds and not self._first:
            return packet
        if self._first:
            fds = self._keep_counters(fds)
        elif self._takes_fds:
            self._fds, fds = fds[:PIECES_MAX], fds[PIECES_MAX:]
        self._first = False
        self._sock.drop(fds)
        return packet

    def _keep_counters(self, fds: list[int]) -> list[int]:
        """Keep the first that can be read as a counters page; returns the others."""
        fit = next((fd for fd in fds if is_fit(fd)), -1)
        self.counters_fd = fit
        return [fd for fd in fds if fd != fit]

    def _writable(self) -> None:
        while self._queue:
            try:
                self._send_now(*self._queue[0])
            except BlockingIOError:
                return
            except OSError as error:
                self._end(f"it cannot be written to: {error.strerror}")
                return
            self._drop_first()
        self._loop.remove_writer(self._fd)

    def _send_now(self, packet: bytes, fds: Sequence[int]) -> None:
        if not fds:
            self._sock.send(packet)
            return
        try:
            socket.send_fds(self._sock, [packet], fds)
        except OSError as error:
            if error.errno == errno.ETOOMANYREFS:  # this user has too many descriptors in flight
                raise BlockingIOError from error
            raise

    def _end(self, reason: str) -> None:
        if not self._closed:
            on_end = self._on_end
            self.close()
            on_end(reason)


def is_fit(fd: int) -> bool:
    """Whether a descriptor can be read as a counters page: a memfd that cannot shrink."""
    try:
        seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        return bool(seals & fcntl.F_SEAL_SHRINK) and os.fstat(fd).st_size >= COUNTERS_BYTES
    except OSError:
        return False
