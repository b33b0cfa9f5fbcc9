"""The agent's native thread: what it reads, in which order, and what fires.

Each step is waited for: by the descriptor that says that a packet is there, or by a call that takes
the thread's lock after it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.core.native_reader import (
    FDS_MAX,
    PACKET_BYTES,
    NativeReader,
    ReaderCounts,
    ReaderRecord,
    Shot,
)
from tests.support.native import compile_c
from tests.support.native_peers import (
    ALICE,
    BOB,
    TIMEOUT_MS,
    Connect,
    Peer,
    close_all,
    is_built,
    settle,
    take,
)

pytestmark = pytest.mark.skipif(not is_built(), reason="libmoiety-agent.so is not built")
ROOT = Path(__file__).resolve().parents[3]
TURN = 64


def test_the_layouts_are_those_of_the_header(tmp_path: Path) -> None:
    fields = [
        (ReaderRecord, "ma_record", {}),
        (Shot, "ma_shot", {"source": "from", "target": "to"}),
        (ReaderCounts, "ma_counts", {}),
    ]
    lines = []
    expected = []
    for kind, name, renamed in fields:
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append(ctypes.sizeof(kind))
        for field, *_ in kind._fields_:
            own = renamed.get(field, field)
            lines.append(f'printf("%zu\\n", __builtin_offsetof(struct {name}, {own}));')
            expected.append(getattr(kind, field).offset)
    lines += ['printf("%u\\n%u\\n", MA_PACKET_BYTES, MA_FDS_MAX);']
    expected += [PACKET_BYTES, FDS_MAX]
    source = tmp_path / "sizes.c"
    head = '#include <stdio.h>\n#include "agent/agent_abi.h"\n'
    source.write_text(head + "int main(void)\n{\n" + "\n".join(lines) + "\n}\n")
    program = compile_c([source], tmp_path / "sizes", flags=(f"-I{ROOT / 'native'}",))
    said = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [int(each) for each in said.split()] == expected


def test_packets_come_in_order_with_their_descriptors(
    reader: NativeReader, connect: Connect
) -> None:
    one, other = connect(), connect()
    one.send(b"first")
    with Path("/dev/null").open("rb") as null:
        socket.send_fds(other.theirs, [b"second"], [null.fileno()] * 3)
        settle(reader, one, other)
        socket.send_fds(one.theirs, [b"third"], [null.fileno()])
        came = [take(reader) for _ in range(4)]
    came = [each for each in came if each.packet != b"last"]
    assert sorted((t.key, t.packet, len(t.fds)) for t in came) == sorted(
        [(one.key, b"first", 0), (other.key, b"second", 3), (one.key, b"third", 1)]
    )
    assert [t.packet for t in came if t.key == one.key] == [b"first", b"third"]
    for each in came:
        assert all(os.readlink(f"/proc/self/fd/{fd}") == "/dev/null" for fd in each.fds)
        assert not any(os.get_inheritable(fd) for fd in each.fds)
        close_all(each)


def test_a_packet_that_is_too_long_is_cut_and_the_next_is_whole(
    reader: NativeReader, connect: Connect
) -> None:
    peer = connect()
    peer.send(b"x" * (PACKET_BYTES + 100), b"next")
    assert [len(take(reader).packet), take(reader).packet] == [PACKET_BYTES, b"next"]


def test_the_end_of_a_connection_comes_last_and_once(
    reader: NativeReader, connect: Connect
) -> None:
    peer = connect()
    peer.send(b"words")
    peer.theirs.close()
    assert take(reader).packet == b"words"
    end = take(reader)
    assert (end.ended, end.error in (0, errno.ECONNRESET)) == (True, True)
    settle(reader)
    assert take(reader).packet == b"last"
    assert reader.take() is None


def test_the_end_may_bring_descriptors(reader: NativeReader, connect: Connect) -> None:
    peer = connect()
    with Path("/dev/null").open("rb") as null:
        socket.send_fds(peer.theirs, [b""], [null.fileno()] * 3)
    end = take(reader)
    assert (end.ended, len(end.fds)) == (True, 3)
    close_all(end)


def test_a_connection_is_read_on_after_a_burst_when_it_may(
    reader: NativeReader, connect: Connect
) -> None:
    peer = connect(sent=[b"x"] * TURN)
    came = [take(reader) for _ in range(TURN)]
    assert [t.burst for t in came] == [False] * (TURN - 1) + [True]
    peer.send(b"later")
    settle(reader)
    assert take(reader).packet == b"last"
    assert reader.take() is None
    reader.resume(peer.key)
    assert take(reader).packet == b"later"


def test_a_user_with_many_connections_has_one_turn_in_the_ring(
    reader: NativeReader, connect: Connect
) -> None:
    crowd = [connect() for _ in range(40)]
    for peer in crowd:
        peer.send(*[b"x"] * 10)
    one = connect(BOB)
    settle(reader)
    one.send(b"honest")
    order = [take(reader).packet for _ in range(40 * 10 + 2)]
    assert order.index(b"honest") <= TURN + 1
    assert order.count(b"x") == 400, "the others are read in turns, and none is lost"


def test_connections_that_wait_in_vain_hold_up_no_other(
    reader: NativeReader, connect: Connect
) -> None:
    crowd = [connect() for _ in range(4)]
    with Path("/dev/null").open("rb") as null:
        half_a_turn = [null.fileno()] * 8 * (TURN // 2 - 1)
        for peer in (crowd[0], *crowd):
            socket.send_fds(peer.theirs, [b"x"], half_a_turn)
            settle(reader)
        take_of_user(reader)
        settle(reader)
        socket.send_fds(crowd[0].theirs, [b"x"], half_a_turn)
        settle(reader)
    for _ in crowd[1:]:  # each is read, looks for more behind a full turn, and waits
        take_of_user(reader)
        settle(reader)
    while taken := reader.take():
        close_all(taken)
    crowd[-1].send(b"asks")
    assert take(reader).packet == b"asks"


def take_of_user(reader: NativeReader) -> None:
    """Take the next packet that is no `settle`'s."""
    while (taken := take(reader)).packet == b"last":
        pass
    close_all(taken)


def test_descriptors_count_as_packets(reader: NativeReader, connect: Connect) -> None:
    peer = connect()
    before = len(os.listdir("/proc/self/fd"))
    with Path("/dev/null").open("rb") as null:
        for _ in range(20):
            socket.send_fds(peer.theirs, [b"many"], [null.fileno()] * 64)
    settle(reader)
    assert len(os.listdir("/proc/self/fd")) - before < 64 * 9
    came = [take(reader) for _ in range(21)]
    assert sum(len(t.fds) for t in came) == 20 * 64
    for each in came:
        close_all(each)


def test_a_full_ring_stops_reading_and_loses_nothing() -> None:
    small = NativeReader(1)  # of one largest packet
    peers = [Peer(small, account) for account in range(5)]
    for number, peer in enumerate(peers):
        peer.send(*[bytes([number, n]) * 2000 for n in range(8)])
    came = [take(small) for _ in range(5 * 8)]
    for number, peer in enumerate(peers):
        own = [t.packet for t in came if t.key == peer.key]
        assert own == [bytes([number, n]) * 2000 for n in range(8)]
        peer.close()
    small.stop()


def test_a_thread_with_a_full_ring_can_be_ended() -> None:
    small = NativeReader(1)
    peer = Peer(small)
    peer.send(b"x" * PACKET_BYTES, b"y")
    poll = select.poll()
    poll.register(small.event_fd, select.POLLIN)
    assert poll.poll(TIMEOUT_MS)
    small.stop()
    peer.ours.close()
    peer.theirs.close()


def test_after_it_was_removed_a_socket_is_not_read(reader: NativeReader, connect: Connect) -> None:
    peer = connect()
    reader.remove(peer.key)
    peer.send(b"mine")
    settle(reader)
    assert take(reader).packet == b"last"
    assert (reader.take(), peer.ours.recv(100)) == (None, b"mine")
    again = reader.add(peer.ours.fileno(), ALICE)
    assert again != peer.key, "packets in the ring are never those of another connection"
    reader.remove(again)


def test_signals_are_left_to_python() -> None:
    code = (
        "import os, signal, threading\n"
        "from moiety.agent.core.native_reader import NativeReader\n"
        "reader = NativeReader()\n"
        "own = [t for t in os.listdir('/proc/self/task') if int(t) != os.getpid()]\n"
        "for task in own:\n"
        "    text = open(f'/proc/self/task/{task}/status').read()\n"
        "    blocked = int(text.split('SigBlk:')[1].split()[0], 16)\n"
        "    assert blocked >> (signal.SIGTERM - 1) & 1, task\n"
        "reader.stop()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
