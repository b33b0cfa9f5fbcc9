"""A real agent, real sockets, and processes that come, share and go."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.model import errors
from moiety.testing.waiting import DEADLINE_S, until
from moiety.wire.codec import OtherVersion, decode
from moiety.wire.layout import Refusal, Type
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
from tests.support.foreground import AgentProcess, pretended_native, uuid_of
from tests.support.wire_end import Closed
from tests.support.wire_fakes import Shim

GIB = 1 << 30
CARD = 16 * GIB
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), CARD, CARD)


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ARGUMENTS) as running:
        yield running


@pytest.fixture
def shims() -> Iterator[Callable[[str], Shim]]:
    made: list[Shim] = []

    def make(path: str) -> Shim:
        made.append(Shim(path))
        return made[-1]

    yield make
    for shim in made:
        shim.close()


Shims = Callable[[str], Shim]


class Other:
    """A process beside the test's own that speaks the protocol, driven line by line."""

    SOURCE = """
import sys
from tests.support.wire_fakes import Shim
from tests.support.foreground import uuid_of
from moiety.wire.layout import Type
shim = Shim(sys.argv[1])
shim.hello("other")
for line in sys.stdin:
    found = eval(line)
    print(found if found is not None else "done", flush=True)
"""

    def __init__(self, path: str) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.SOURCE, path],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.pid = self.process.pid

    def tell(self, line: str) -> None:
        """Let it do something; `listen` hears the result."""
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def listen(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def do(self, line: str) -> str:
        self.tell(line)
        return self.listen()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


Others = Callable[[str], Other]


@pytest.fixture
def others() -> Iterator[Callable[[str], Other]]:
    made: list[Other] = []

    def make(path: str) -> Other:
        made.append(Other(path))
        return made[-1]

    yield make
    for other in made:
        other.kill()


def joined(shims: Shims, agent: AgentProcess, used: int = 0) -> Shim:
    """A process on GPU 0 that holds the lease and `used` bytes."""
    shim = shims(agent.workload())
    shim.hello()
    shim.attach(uuid_of(0))
    if used:
        shim.allocated(0, used)
    else:
        shim.want()
    shim.expect(Type.GRANT)
    return shim


def test_a_lone_process_is_granted_and_its_word_is_open(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload())

    welcome = shim.hello("train.py")
    attached = shim.attach(uuid_of(1))
    assert shim.word == 0
    shim.want()
    shim.expect(Type.GRANT)

    assert attached.gpu == 1
    assert attached.chunk_bytes == 64 << 20
    assert attached.limit_bytes == agent.status().gpus[1].capacity_bytes
    assert shim.is_open
    assert shim.word >> 1 == shim.epoch == welcome.epoch + 1
    (row,) = agent.ps()
    assert (row.program, row.pid, row.gpu, row.state) == ("train.py", os.getpid(), 1, "holding")


def test_the_lease_page_cannot_be_written_by_its_process(agent: AgentProcess, shims: Shims) -> None:
    import mmap

    shim = joined(shims, agent)
    with pytest.raises(PermissionError):
        mmap.mmap(shim.page_fd, 4096)
    with pytest.raises(PermissionError):
        os.ftruncate(shim.page_fd, 0)


def test_a_workloads_limit_is_told_and_enforced(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload(limit_bytes=2 * GIB))
    shim.hello()

    assert shim.attach(uuid_of(0)).limit_bytes == 2 * GIB
    serial = shim.alloc(0, 3 * GIB)

    refusal = shim.refused(Refusal.LIMIT)
    assert refusal.serial == serial
    assert "2 GiB" in refusal.text


def test_a_limit_is_told_without_a_context(agent: AgentProcess, shims: Shims) -> None:
    shim = shims(agent.workload(limit_bytes=2 * GIB))
    shim.hello()
    assert shim.lookup(uuid_of(1)).limit_bytes == 2 * GIB
    (row,) = agent.ps()
    assert row.gpu is None
    assert agent.status().gpus[1].residue_bytes == 0


def test_two_that_do_not_fit_take_turns(agent: AgentProcess, shims: Shims, others: Others) -> None:
    first = joined(shims, agent, used=10 * GIB)
    other = others(agent.workload())
    other.do("shim.attach(uuid_of(0))")

    other.tell("[shim.allocated(0, 8 << 30), shim.is_open][1]")
    first.expect(Type.REVOKE)
    assert not first.is_open
    first.drain({0: 10 * GIB})
    evict = first.expect(Type.EVICT)
    assert isinstance(evict, AmountMessage)
    first.evicted(0, evict.bytes, 10 * GIB - evict.bytes)

    assert other.listen() == "True"
    first.want()
    other.do("shim.expect(Type.REVOKE)")
    other.do("shim.drain({0: 8 << 30})")
    until(lambda: [r.state for r in agent.ps()] == ["restoring", "idle"], "the turn")


def test_a_killed_process_frees_its_memory_at_once(
    agent: AgentProcess, shims: Shims, others: Others
) -> None:
    other = others(agent.workload())
    other.do("shim.attach(uuid_of(0))")
    other.do("shim.allocated(0, 12 << 30)")
    waiter = shims(agent.workload())
    waiter.hello()
    waiter.attach(uuid_of(0))
    serial = waiter.alloc(0, 12 * GIB)
    until(lambda: agent.ps()[0].state == "draining", "the revoke")

    other.kill()

    waiter.reply(serial, AmountMessage)
    assert waiter.is_open
    assert [row.pid for row in agent.ps()] == [os.getpid()]


def test_a_forked_child_that_holds_the_socket_keeps_nobody_alive(
    agent: AgentProcess, others: Others
) -> None:
    other = others(agent.workload())
    child = int(other.do("__import__('os').fork() or __import__('time').sleep(1000)"))
    try:
        until(agent.ps, "the process")
        other.process.kill()
        until(lambda: not agent.ps(), "its end")
        os.kill(child, 0)  # the child is there, and so is the socket in it
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_that_lost_its_connection_comes_back(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent, used=GIB)
    epoch, before = shim.epoch, shim.tenant

    welcome = shim.resume(holding=True)
    shim.attach(uuid_of(0), allocated=GIB, resident=GIB)

    assert welcome.epoch == epoch
    assert shim.word == epoch << 1 | 1
    (row,) = agent.ps()
    assert row.tenant == welcome.tenant != before
    assert (row.state, row.allocated_bytes) == ("holding", GIB)


def test_a_process_that_stays_without_a_connection_is_forgotten(
    agent: AgentProcess, shims: Shims
) -> None:
    shim = joined(shims, agent)
    shim.sock.close()
    until(lambda: [r.state for r in agent.ps()] == ["unconnected"], "the loss")
    until(lambda: not agent.ps(), "the end of patience")


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


def test_counters_show_in_ps(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent)
    os.pwrite(shim.counters, struct.pack("<Q", 2_500_000_000), 6 * 8)
    assert agent.ps()[0].waited_s == 2.5


def test_what_a_context_takes_replaces_the_estimate(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent)
    shim.context(0, 300 << 20)
    until(lambda: agent.ps()[0].residue_bytes == 300 << 20, "the measurement")


def test_a_stopped_process_that_holds_the_gpu_has_a_state_with_a_name(
    tmp_path: Path, pretended: Path, shims: Shims, others: Others
) -> None:
    arguments = [*ARGUMENTS, "--revoke-deadline", "50ms"]
    with AgentProcess(tmp_path / "a", pretended, arguments) as agent:
        other = others(agent.workload())
        other.do("shim.attach(uuid_of(0))")
        other.do("shim.allocated(0, 12 << 30)")
        os.kill(other.pid, signal.SIGSTOP)
        waiter = shims(agent.workload())
        waiter.hello()
        waiter.attach(uuid_of(0))
        waiter.alloc(0, 12 * GIB)

        until(lambda: agent.ps()[0].state == "stopped", "the report")
        assert "overdue" in agent.log()


def test_an_overdue_process_is_killed_if_the_agent_was_told_so(
    tmp_path: Path, pretended: Path, shims: Shims, others: Others
) -> None:
    arguments = [*ARGUMENTS, "--revoke-deadline", "50ms", "--overdue", "kill"]
    with AgentProcess(tmp_path / "a", pretended, arguments) as agent:
        other = others(agent.workload())
        other.do("shim.attach(uuid_of(0))")
        other.do("shim.allocated(0, 12 << 30)")
        waiter = shims(agent.workload())
        waiter.hello()
        waiter.attach(uuid_of(0))
        waiter.reply(waiter.alloc(0, 12 * GIB), AmountMessage)
        assert other.process.wait(DEADLINE_S) == -signal.SIGKILL


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


def test_a_command_of_another_version_is_told_so(
    agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moiety.agent.control.client.__version__", "9.9.9")
    with pytest.raises(errors.AgentVersion, match=r"9\.9\.9"):
        agent.call()


def test_a_limit_above_the_capacity_is_refused_with_the_possible(agent: AgentProcess) -> None:
    with pytest.raises(errors.LimitAboveCapacity, match=r"100 GiB .* 13\.75 GiB"):
        agent.workload(limit_bytes=100 * GIB)


def test_another_capacity_than_the_agents_is_refused_with_both(agent: AgentProcess) -> None:
    with agent.call() as call, pytest.raises(errors.CapacityMismatch, match=r"all .* 4 GiB"):
        call.ask(protocol.CreateWorkload("x", ["x"], "/", capacity_bytes=4 * GIB), protocol.Created)


def test_a_message_to_somebody_elses_version_is_readable() -> None:
    """The shim's side of a version mismatch: the refusal can be read whatever the version."""
    refused: Message = decode(RefusedMessage(code=Refusal.VERSION, version=5, text="no").encode())
    assert isinstance(refused, RefusedMessage)
    with pytest.raises(OtherVersion):
        decode(HelloMessage(version=5).encode())


def test_hanging_up_is_noticed(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent)
    agent.kill()
    with pytest.raises(Closed):
        shim.receive()
