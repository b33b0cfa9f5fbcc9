"""The watch's hands: whom it sees, and that only that very process is ended."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.control import usage_report
from moiety.agent.control.protocol import Watched, WatchRequest
from moiety.agent.core.journal import Journal
from moiety.agent.monitor.usage_monitor import UsageMonitor
from moiety.agent.system.users import USERS, User
from moiety.arbiter.events import DivisionSet, Event
from moiety.arbiter.states import Apart
from moiety.devices.budget import budget
from moiety.devices.interface import GpuProcess
from moiety.enforcement.division import Division
from moiety.enforcement.policy import Policy, parse_ladder
from moiety.model.errors import BadArgument
from moiety.testing.clocks import FakeClock
from moiety.testing.fakes import FakeDevices

MIB = 1 << 20
GIB = 1 << 30
KILL = Policy(every_s=5, unregistered=parse_ladder("event,5s,kill"))


class Log:
    """A log that nobody reads."""

    def info(self, *words: object, **more: object) -> None:
        """Nothing."""

    warning = info


class PaperAgent:
    """What the usage monitor needs of an agent: `look` has it see what NVML says now."""

    def __init__(self, policy: Policy, *, outlived: frozenset[int] = frozenset()) -> None:
        self.devices = FakeDevices.of(80 * GIB)
        self.gpus = {0: SimpleNamespace(budget=budget(80 * GIB), residue_bytes=GIB)}
        self.clients: dict[int, Any] = {}
        self.loop = FakeClock()
        self.loop.call_soon_threadsafe = at_once  # type: ignore[attr-defined]
        self.journal = Journal()
        self.fed: list[Event] = []
        runtime: Any = SimpleNamespace(
            now=self.loop.time, call_at=self.loop.call_at, log=Log(), feed=self.fed.append
        )
        timeline: Any = SimpleNamespace(on_stay=[], waiting_for_more=list)
        arbiter: Any = SimpleNamespace(tenants=list, gpus=list)
        probe: Any = SimpleNamespace(submit=at_once)
        recovery: Any = SimpleNamespace(outlived=outlived.__contains__)
        loop: Any = self.loop
        gpus: Any = self.gpus
        self.watch = UsageMonitor(
            runtime,
            loop,
            self.devices,
            policy,
            probe=probe,
            gpus=gpus,
            clients=self.clients,
            arbiter=arbiter,
            recovery=recovery,
            timeline=timeline,
            journal=self.journal,
        )
        self.watch.finder.is_blind = False
        USERS.wait_for(os.geteuid())
        self.watch.start()

    def watched(self, asked: WatchRequest = WatchRequest()) -> Watched:  # noqa: B008
        """What `moiety watch` shows."""
        return usage_report.watched(self.watch, asked, self.loop.time())

    def reasons(self) -> list[str]:
        """What was told."""
        return [event.reason for event in self.journal.ring]


def at_once(call: Any, *arguments: Any) -> None:
    call(*arguments)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield child
        child.kill()


def test_a_process_is_seen_told_and_ended(process: subprocess.Popen[bytes]) -> None:
    agent = PaperAgent(KILL)
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(10)
    assert agent.reasons() == ["Unregistered"]
    assert process.poll() is None
    agent.loop.advance(5)
    assert process.wait(60) == -9
    assert agent.reasons() == ["Unregistered", "Killed"]
    assert next(reversed(agent.journal.ring)).program == "sleep"


def test_a_process_whose_user_is_not_known_yet_is_found_and_left_alone(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = PaperAgent(KILL)
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    uid = os.geteuid()
    monkeypatch.setattr(USERS, "wait_for", lambda *_: User(uid, str(uid), is_known=False))
    _, origins = agent.watch.finder.find([0], 0)
    assert (origins[process.pid].user, origins[process.pid].is_named) == (str(uid), False)
    agent.loop.advance(20)
    assert agent.watch.uses == []
    assert agent.reasons() == []
    assert process.poll() is None


def test_a_number_that_was_used_again_is_nobodys_death(process: subprocess.Popen[bytes]) -> None:
    agent = PaperAgent(Policy(every_s=5, unregistered=parse_ladder("0s,kill")))
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    found = agent.watch.finder.find([0], 0)
    origin = found[1][process.pid]
    other = dataclasses.replace(origin, started=origin.started - 1)
    for _ in range(3):  # what was read a moment ago is of a process that is gone by now
        agent.watch.looked((found[0], {process.pid: other}))
    assert process.poll() is None
    assert "Killed" not in agent.reasons()


def test_the_agent_does_not_end_itself() -> None:
    agent = PaperAgent(Policy(every_s=5, unregistered=parse_ladder("0s,kill")))
    agent.devices.processes[0] = {os.getpid(): 5 * GIB}
    agent.loop.advance(60)
    assert agent.reasons() == ["Spared"]


def test_a_look_that_fails_is_not_the_last(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("what /proc shows")

    agent = PaperAgent(KILL)
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    with monkeypatch.context() as patched:
        patched.setattr(agent.watch.finder, "find", fail)
        agent.loop.advance(10)
    assert agent.reasons() == []
    agent.loop.advance(10)
    assert agent.reasons() == ["Unregistered"]


def test_who_outlived_the_last_agent_is_no_stranger(process: subprocess.Popen[bytes]) -> None:
    agent = PaperAgent(KILL, outlived=frozenset({process.pid}))
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(60)
    assert agent.reasons() == []
    assert agent.watch.strangers == {}


def test_in_another_pid_namespace_nobody_is_accused(process: subprocess.Popen[bytes]) -> None:
    agent = PaperAgent(KILL)
    agent.watch.finder.is_blind = True
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(60)
    assert agent.reasons() == []
    assert agent.watched().is_blind


def test_while_nvml_does_not_answer_nothing_is_forgotten(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = PaperAgent(Policy(every_s=5))
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(10)

    def fails(*_: object) -> list[GpuProcess]:
        raise RuntimeError("the GPU has fallen off the bus")

    monkeypatch.setattr(FakeDevices, "users", fails)
    agent.loop.advance(300)
    assert agent.reasons() == ["Unregistered"]
    (row,) = agent.watched().strangers
    assert row.pid == process.pid


def test_who_ended_on_a_gpu_that_does_not_answer_is_forgotten(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("GPU is lost")

    agent = PaperAgent(Policy(every_s=5, unregistered=parse_ladder("event")))
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(10)
    monkeypatch.setattr(agent.devices, "users", fail)
    agent.loop.advance(5)
    assert [row.pid for row in agent.watched().strangers] == [process.pid]
    process.kill()
    process.wait()
    agent.loop.advance(5)
    assert (agent.watched().strangers, agent.watched().offences) == ([], [])
    assert agent.reasons() == ["Unregistered", "OffenceOver"]


def test_the_policy_can_change_while_it_goes_on(process: subprocess.Popen[bytes]) -> None:
    agent = PaperAgent(Policy(every_s=5))
    agent.devices.processes[0] = {process.pid: 5 * GIB}
    agent.loop.advance(10)
    agent.watch.change(Policy(every_s=0))
    agent.loop.advance(300)
    assert agent.reasons() == ["Unregistered"]
    agent.watch.change(KILL)
    agent.loop.advance(5)
    assert agent.reasons() == ["Unregistered", "Unregistered"]  # with its grace before it
    assert process.poll() is None
    agent.loop.advance(5)
    assert process.wait(60) == -9


def test_a_policy_is_tried_and_written_as_it_is_read() -> None:
    policy = usage_report.tried(
        Policy(), {"lease": "event,1min,kill", "slack": "3GiB", "idle": "0"}
    )
    written = usage_report.texts(policy)
    assert (written["lease"], written["slack"], written["idle"]) == (
        "event,1min,kill",
        "3 GiB",
        "0",
    )
    assert usage_report.tried(Policy(), {k: v for k, v in written.items() if v}) == policy
    with pytest.raises(BadArgument, match="no setting 'colour'"):
        usage_report.tried(Policy(), {"colour": "red"})
    with pytest.raises(BadArgument, match="lease: 'shoot' is no step"):
        usage_report.tried(Policy(), {"lease": "shoot"})


def test_without_looks_nobody_takes_turns_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = PaperAgent(Policy(every_s=5))
    monkeypatch.setattr(Division, "end", lambda _: [7])
    agent.watch.change(Policy(every_s=10))
    assert agent.fed == []
    agent.watch.change(Policy(every_s=0))
    assert agent.fed == [DivisionSet(7, Apart.NO)]
