"""A real agent, real sockets, and processes that come, share and go."""

from __future__ import annotations

import os
import signal
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.model import errors
from moiety.testing.waiting import DEADLINE_S, until
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import AmountMessage
from tests.support.agent_clients import (
    ARGUMENTS,
    CARD,
    GIB,
    Others,
    Shims,
    joined,
)
from tests.support.foreground import AgentProcess, pretended_native, uuid_of
from tests.support.wire_end import Closed


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pretended_native(tmp_path_factory.mktemp("native"), CARD, CARD)


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ARGUMENTS) as running:
        yield running


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


def test_a_limit_above_the_capacity_is_refused_with_the_possible(agent: AgentProcess) -> None:
    with pytest.raises(errors.LimitAboveCapacity, match=r"100 GiB .* 13\.75 GiB"):
        agent.workload(limit_bytes=100 * GIB)


def test_another_capacity_than_the_agents_is_refused_with_both(agent: AgentProcess) -> None:
    with agent.call() as call, pytest.raises(errors.CapacityMismatch, match=r"all .* 4 GiB"):
        call.ask(protocol.CreateWorkload("x", ["x"], "/", capacity_bytes=4 * GIB), protocol.Created)


def test_hanging_up_is_noticed(agent: AgentProcess, shims: Shims) -> None:
    shim = joined(shims, agent)
    agent.kill()
    with pytest.raises(Closed):
        shim.receive()
