"""What the agent makes of messages that are wrong, of another version, too many or never read."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.testing.waiting import until
from moiety.wire.codec import OtherVersion, decode
from moiety.wire.layout import VERSION, VERSION_LEAST, Refusal, Type
from moiety.wire.message import Message
from moiety.wire.messages import (
    AmountMessage,
    AttachMessage,
    EvictedMessage,
    FreeMessage,
    HelloMessage,
    LeaseNoteMessage,
    RefusedMessage,
)
from tests.support.agent_clients import (
    ARGUMENTS,
    CARD,
    GIB,
    Others,
    Shims,
    joined,
)
from tests.support.foreground import AgentProcess, pretended_native, uuid_of


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), CARD, CARD)


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ARGUMENTS) as running:
        yield running


NONSENSE: dict[str, bytes] = {
    "no header": b"abc",
    "an unknown type": struct.pack("<HHI", 99, 8, 0),
    "a false length": struct.pack("<HHI", Type.LEASE_REQUEST, 999, 0),
    "a second greeting": HelloMessage().encode(),
    "a message of the agent": LeaseNoteMessage(Type.GRANT, 0, 7).encode(),
    "a GPU that is not attached": AmountMessage(Type.RESIDENT, 0, 31, 5).encode(),
    "an eviction elsewhere": EvictedMessage(gpu=4, bytes=1).encode(),
    "a free elsewhere": FreeMessage(gpu=4, bytes=1).encode(),
    "memory from nowhere": AttachMessage(serial=9, uuid=uuid_of(1), allocated_bytes=5).encode(),
}


@pytest.mark.parametrize("packet", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_ends_the_connection_and_nothing_else(
    agent: AgentProcess, shims: Shims, packet: bytes
) -> None:
    shim = joined(shims, agent)
    shim.send_raw(packet)
    refusal = shim.refused(Refusal.PROTOCOL)
    assert refusal.text
    assert shim.closed_by_agent()
    assert agent.status().pid


def test_the_first_message_must_be_a_greeting(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload())
    shim.want()
    assert "greeting" in shim.refused(Refusal.PROTOCOL).text
    assert shim.closed_by_agent()


def test_another_version_is_told_so(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload())
    shim.send(HelloMessage(version=9))
    assert "version 9" in shim.refused(Refusal.VERSION).text


def test_an_unknown_gpu_is_refused_and_the_rest_goes_on(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent)
    shim.send(AttachMessage(serial=50, uuid=bytes(16)))
    assert shim.refused(Refusal.GPU).serial == 50
    shim.allocated(0, GIB)


def test_a_process_that_reads_nothing_does_not_block_the_agent(
    agent: AgentProcess, shims: Shims
) -> None:
    deaf = joined(shims, agent)
    deaf.sock.setblocking(False)
    packets = (AttachMessage(serial=n, uuid=bytes(16)).encode() for n in range(1, 1_000_000))

    def refused_to_write() -> bool:
        try:
            for packet in packets:
                deaf.send_raw(packet)
        except BlockingIOError:
            return False
        except (BrokenPipeError, ConnectionResetError):
            return True
        raise AssertionError("a million packets were taken in")

    until(refused_to_write, "the agent to hang up")
    until(lambda: "does not read" in agent.log(), "the agent to say why")
    assert agent.status().pid


def test_a_process_that_never_stops_talking_does_not_starve_the_others(
    agent: AgentProcess, shims: Shims, others: Others
) -> None:
    flooding = others(agent.workload())
    flooding.do("shim.attach(uuid_of(1))")
    flooding.tell("[shim.want() for _ in range(1_000_000_000)]")
    quiet = joined(shims, agent)
    for _ in range(50):
        quiet.allocated(0, 1 << 20)
    flooding.kill()
    until(lambda: [row.pid for row in agent.ps()] == [os.getpid()], "the end of the noise")


def test_counters_that_could_shrink_are_not_read(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload())
    plain = os.memfd_create("plain")
    shim.send(HelloMessage(program="plain"), plain)
    shim.expect(Type.WELCOME)
    os.close(plain)
    assert agent.ps()[0].waited_s == 0


def test_the_control_socket_survives_nonsense(agent: AgentProcess) -> None:
    for line in (
        b"\n",
        b"{}\n",
        b"nonsense\n",
        b'{"ask":"ps"}\n',
        b"\xff\xfe\n",
        b"[" * 5000 + b"\n",
    ):
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(agent.directory.control))
            sock.sendall(line)
            answer = protocol.decode_answer(sock.makefile("rb").readline())
            assert isinstance(answer, protocol.Failed)
            assert answer.kind == "BadRequest"


def test_a_command_of_another_version_is_answered(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moiety.agent.control.client.__version__", "9.9.9")
    assert agent.ps() == []


@pytest.mark.parametrize("wire", [VERSION_LEAST - 1, VERSION + 1])
def test_a_command_of_a_protocol_that_is_not_served_is_told_so(
    agent: AgentProcess, wire: int
) -> None:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(agent.directory.control))
        sock.sendall(protocol.encode(protocol.HelloRequest("9.9.9", wire)) + b"\n")
        answer = protocol.decode_answer(sock.makefile("rb").readline())
    assert isinstance(answer, protocol.Failed)
    assert answer.kind == "AgentVersion"
    assert "9.9.9" in answer.what


def test_a_message_to_somebody_elses_version_is_readable() -> None:
    """The shim's side of a version mismatch: the refusal can be read whatever the version."""
    refused: Message = decode(RefusedMessage(code=Refusal.VERSION, version=5, text="no").encode())
    assert isinstance(refused, RefusedMessage)
    with pytest.raises(OtherVersion):
        decode(HelloMessage(version=5).encode())
