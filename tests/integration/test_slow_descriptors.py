"""Descriptors whose close waits for years, passed to the agent by another user."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from tests.support.foreground import AgentProcess
from tests.support.system_agent import Users, conversing, system_agent
from tests.support.users import ALICE, BOB

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users")

GIB = 1 << 30
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]
CREATE = "call.ask(protocol.CreateWorkload('x', ['x'], '/', Share()), protocol.Created).socket"
STUCK = """
import struct
kept = []
def stuck():
    "A TCP connection with bytes that are never read: its last close waits for an hour."
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    server.listen(1)
    sock = socket.socket()
    sock.connect(server.getsockname())
    kept.append((server, server.accept()[0]))
    sock.setblocking(False)
    try:
        while True:
            sock.send(b"x" * 65536)
    except BlockingIOError:
        pass
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3600))
    return sock
def within(outer):
    "A socket with such a descriptor in its queue, which nobody reads."
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    socket.send_fds(theirs, [b"x"], [outer.fileno()])
    kept.append(theirs)
    return ours
def send(sock, packet, make):
    made = [make() for _ in range(8)]
    socket.send_fds(sock, [packet], [each.fileno() for each in made])
    while made:
        made.pop().close()
"""
BUSY = "LeaseNoteMessage(Type.BUSY, 0, 7).encode()"
SHIM = f"sock = Shim({CREATE}).sock"
GREETED = f"shim = Shim({CREATE}); shim.hello('x'); shim.attach(uuid_of(0)); sock = shim.sock"
COMMAND = "sock = socket.socket(socket.AF_UNIX); sock.connect(str(there.control))"
WAYS = {
    "a bad greeting": (SHIM, "send(sock, b'x' * 8, stuck)"),
    "a later message": (GREETED, f"send(sock, {BUSY}, stuck)"),
    "what is unread when it hangs up": (
        SHIM,
        "sock.send(b'x' * 8); send(sock, b'y', stuck); send(sock, b'', stuck)",
    ),
    "sockets within": (SHIM, "send(sock, b'x' * 8, lambda: within(stuck()))"),
    "a command": (COMMAND, "send(sock, b'{', stuck)"),
    "a command that hangs up": (COMMAND, "send(sock, b'{', stuck); sock.close()"),
}
"""What is made ready, and what is sent while the agent is stopped: then it has the only copies."""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    with system_agent(tmp_path_factory.mktemp("native"), ARGUMENTS, 16 * GIB) as running:
        yield running


@pytest.fixture
def users(agent: AgentProcess) -> Iterator[Users]:
    with conversing(agent.directory.path) as come:
        yield come


@pytest.mark.parametrize("way", WAYS)
def test_what_closes_slowly_keeps_no_other_user_waiting(
    agent: AgentProcess, users: Users, way: str
) -> None:
    bob, alice = users(BOB), users(ALICE)
    alice.do(f"shim = Shim({CREATE}); shim.hello('fine'); shim.attach(uuid_of(0))")
    ready, sent = WAYS[way]
    bob.do(STUCK)
    bob.do(ready)
    assert agent.process is not None
    agent.process.send_signal(signal.SIGSTOP)
    try:
        bob.do(sent)
    finally:
        agent.process.send_signal(signal.SIGCONT)
    for _ in range(3):  # each answer comes after a turn of the agent's loop
        alice.do("shim.allocated(0, 1 << 20)")
        assert alice.do("len(call.ask(protocol.Ps(), protocol.Processes).rows)") >= 1
