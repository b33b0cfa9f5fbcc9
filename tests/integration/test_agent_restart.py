"""Agents that are killed, stopped, started twice, or not needed any more."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import client, protocol
from moiety.agent.core.recovery import SETTLE_MOST_S
from moiety.agent.system.file_lock import is_held
from moiety.agent.system.paths import Directory
from moiety.model import errors
from moiety.testing.waiting import until
from moiety.wire.layout import Type
from moiety.wire.messages import AmountMessage
from tests.support.foreground import AgentProcess, uuid_of
from tests.support.wire_fakes import Shim

GIB = 1 << 30
ARGUMENTS = ["--turn-min", "1ms", "--linger", "0", "--arena", "64GiB"]


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ARGUMENTS) as running:
        yield running


def other_process(path: str) -> subprocess.Popen[str]:
    """A process with a connection that does nothing about it."""
    source = (
        "import sys; from tests.support.wire_fakes import Shim;"
        "from tests.support.foreground import *;"
        "s = Shim(sys.argv[1]); s.hello('other'); s.attach(uuid_of(0)); print('in', flush=True);"
        "sys.stdin.read()"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-c", source, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout
    assert process.stdout.readline() == "in\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_a_holder_outlives_its_agent_and_is_taken_over(agent: AgentProcess) -> None:
    shim = Shim(agent.workload())
    shim.hello()
    shim.attach(uuid_of(0))
    shim.allocated(0, 10 * GIB)
    shim.expect(Type.GRANT)
    epoch = shim.epoch

    agent.kill()
    assert shim.is_open  # it runs on meanwhile
    agent.start()
    welcome = shim.resume(holding=True)
    assert shim.is_open
    assert welcome.epoch == epoch
    shim.attach(uuid_of(0), allocated=10 * GIB, resident=10 * GIB)

    (row,) = agent.ps()
    assert (row.state, row.allocated_bytes, row.resident_bytes) == ("holding", 10 * GIB, 10 * GIB)
    until(lambda: agent.status().settled, "the new agent to decide")
    shim.close()


def test_a_fence_is_written_down_for_the_next_agent(tmp_path: Path, pretended: Path) -> None:
    arguments = [*ARGUMENTS, "--overdue", "fence", "--revoke-deadline", "100ms"]
    with AgentProcess(tmp_path / "a", pretended, arguments) as agent:
        holder, other = Shim(agent.workload()), Shim(agent.workload())
        for shim in (holder, other):
            shim.hello()
            shim.attach(uuid_of(0))
        holder.allocated(0, 10 * GIB)
        holder.expect(Type.GRANT)
        other.alloc(0, 10 * GIB)

        def is_fenced() -> bool:
            own = Path(holder.path).parent.name
            return any((row.workload, row.state) == (own, "fenced") for row in agent.ps())

        until(is_fenced, "the deadline of the revoke")
        other.close()  # it is the same process, and the fence is by pid
        until(lambda: len(agent.ps()) == 1, "the other one to be gone")
        agent.kill()
        agent.start()
        holder.resume(holding=True)
        assert not holder.is_open
        holder.attach(uuid_of(0), allocated=10 * GIB, resident=10 * GIB)
        assert is_fenced()
        holder.drain({0: 10 * GIB})
        until(lambda: not is_fenced(), "the agent to read its answer")
        holder.close()


def test_the_host_memory_for_evicted_data_outlives_the_agent(
    tmp_path: Path, pretended: Path
) -> None:
    with AgentProcess(tmp_path / "a", pretended, ["--linger", "0"]) as agent:
        other = other_process(agent.workload())
        agent.kill()
        agent.directory.arena.write_text("123456789")
        agent.start()
        assert agent.status().arena_bytes == 123456789
        end(other)


def test_an_agent_goes_after_its_programs_where_memory_runs_out(agent: AgentProcess) -> None:
    """As far as it may: this process' rights are the agent's."""
    assert agent.process
    said = Path(f"/proc/{agent.process.pid}/oom_score_adj").read_text()
    assert f"oom_score_adj={int(said)}" in agent.log()


def test_a_new_agent_decides_as_soon_as_everybody_is_back(agent: AgentProcess) -> None:
    holder = Shim(agent.workload())
    holder.hello()
    holder.attach(uuid_of(0))
    holder.allocated(0, 10 * GIB)
    holder.expect(Type.GRANT)
    other = other_process(agent.workload())

    def is_late() -> bool:
        """Whether the agent's time may be up already, because this machine is slow."""
        return time.monotonic() - began_s > SETTLE_MOST_S / 2

    try:
        agent.kill()
        began_s = time.monotonic()
        agent.start()
        holder.resume(holding=True)
        assert not agent.status().settled or is_late()  # it does not know yet what the holder has
        holder.attach(uuid_of(0), allocated=10 * GIB, resident=10 * GIB)
        assert not agent.status().settled or is_late()  # the other one is awaited
        end(other)
        was_late = is_late()
        until(lambda: agent.status().settled, "the new agent to decide")
        assert "all processes are back" in agent.log() or was_late
    finally:
        end(other)
        holder.close()


def test_a_new_agent_does_not_wait_for_ever(agent: AgentProcess) -> None:
    other = other_process(agent.workload())
    try:
        agent.kill()
        agent.start()
        until(lambda: agent.status().settled, "the new agent to decide")
        assert "time is up" in agent.log()
    finally:
        end(other)


def test_the_dead_are_not_awaited_and_leave_nothing(agent: AgentProcess) -> None:
    other = other_process(agent.workload())
    folder = agent.directory.workloads
    assert [file.name for file in folder.glob("*/clients/*")] == [str(other.pid)]
    agent.kill()
    end(other)
    agent.start()
    assert agent.status().settled
    assert list(folder.glob("*/clients/*")) == []


def test_waiting_goes_on_with_the_next_agent(agent: AgentProcess) -> None:
    holder = other_process(agent.workload())
    waiter = Shim(agent.workload())
    waiter.hello()
    waiter.attach(uuid_of(0))
    assert agent.signal(signal.SIGTERM) == 0
    agent.start()
    end(holder)
    waiter.resume(holding=False)
    waiter.attach(uuid_of(0))
    waiter.reply(waiter.alloc(0, GIB), AmountMessage)
    assert waiter.is_open
    waiter.close()


def test_a_second_agent_of_a_directory_is_refused(agent: AgentProcess, pretended: Path) -> None:
    code, said = AgentProcess(agent.directory.path, pretended).refusal()
    assert code == errors.AgentAlreadyRunning.exit_code
    assert str(agent.directory.path) in said


def test_two_agents_never_own_one_gpu(agent: AgentProcess, pretended: Path, tmp_path: Path) -> None:
    code, said = AgentProcess(tmp_path / "b", pretended).refusal()
    assert code == errors.GpuOwned.exit_code
    assert f"directory {agent.directory.path}" in said


def test_an_agent_that_ends_leaves_no_files(agent: AgentProcess, pretended: Path) -> None:
    assert agent.signal(signal.SIGTERM) == 0
    left = {path.name for path in agent.directory.path.rglob("*")}
    assert left == {"agent.log", "events.jsonl", "w"}
    assert list((pretended / "state").iterdir()) == []


def test_an_agent_that_nobody_needs_ends(tmp_path: Path, pretended: Path) -> None:
    # Not so short that it may be gone before it was seen to answer.
    with AgentProcess(tmp_path / "a", pretended, ["--idle-exit", "2s"]) as agent:
        assert agent.wait() == 0
        assert "no workload uses it" in agent.log()


def test_a_workload_keeps_the_agent_from_ending(tmp_path: Path, pretended: Path) -> None:
    # Not so short that it may be gone before the workload is there.
    arguments = ["--idle-exit", "2s", "--linger", "0"]
    with AgentProcess(tmp_path / "a", pretended, arguments) as agent:
        other = subprocess.Popen(
            [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, text=True
        )
        agent.workload()
        end(other)
        assert agent.process
        with pytest.raises(subprocess.TimeoutExpired):
            agent.process.wait(3)
        assert agent.status().workloads == 1


def test_stop_is_refused_while_somebody_is_there(agent: AgentProcess) -> None:
    shim = Shim(agent.workload())
    shim.hello("busy.py")
    with agent.call() as call, pytest.raises(errors.AgentBusy, match=r"busy\.py \(pid \d+\)"):
        call.ask(protocol.Stop(), protocol.Done)
    with agent.call() as call:
        call.ask(protocol.Stop(force=True), protocol.Done)
    assert agent.wait() == 0
    assert shim.closed_by_agent()
    shim.close()


def test_an_agent_in_the_background_is_started_again_when_killed(background: AgentProcess) -> None:
    with client.call_or_start(background.directory, ARGUMENTS) as call:
        first = call.agent.pid
    shim = Shim(background.workload())
    shim.hello()
    shim.attach(uuid_of(0))
    shim.want()
    shim.expect(Type.GRANT)

    os.kill(first, signal.SIGKILL)
    shim.resume(holding=True)
    shim.attach(uuid_of(0))
    shim.allocated(0, GIB)

    with background.call() as call:
        assert call.agent.pid != first
    shim.close()


def test_a_supervisor_passes_the_end_on(background: AgentProcess) -> None:
    client.start(background.directory, ARGUMENTS)
    with background.call() as call:
        agent = call.agent.pid
    (parent,) = (
        int(line.split()[1])
        for line in Path(f"/proc/{agent}/status").read_text().splitlines()
        if line.startswith("PPid:")
    )
    os.kill(parent, signal.SIGTERM)
    until(lambda: not is_held(background.directory.supervisor_lock), "the end of both")
    assert not background.directory.lock.exists()
    assert "got SIGTERM" in background.log()


def test_commands_that_start_an_agent_at_the_same_time_get_the_same_one(
    tmp_path: Path, pretended: Path
) -> None:
    template = AgentProcess(tmp_path / "a", pretended)
    source = (
        "from moiety.agent.control import client;"
        "from moiety.agent.system import paths;"
        "c = client.call_or_start(paths.find(), ['--idle-exit', '500ms']); print(c.agent.pid)"
    )
    commands = [
        subprocess.Popen(
            [sys.executable, "-c", source],
            env=template.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    pids = {command.communicate()[0] for command in commands}
    assert len(pids) == 1
    assert int(pids.pop()) > 0
    until(lambda: not template.directory.lock.exists(), "its end")


def test_why_an_agent_could_not_start_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_SIMGPU", "pretended")
    monkeypatch.setenv("MOIETY_NATIVE", str(tmp_path))
    with pytest.raises(errors.NoGpu, match="simgpu"):
        client.start(Directory(tmp_path / "a"), [])
    with pytest.raises(errors.BadArgument, match="does not know '--nonsense'"):
        client.start(Directory(tmp_path / "a"), ["--nonsense"])
