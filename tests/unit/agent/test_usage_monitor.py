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
from moiety.agent.control.protocol import Watch
from moiety.agent.core.journal import Journal
from moiety.agent.monitor.usage_monitor import Watching
from moiety.devices.budget import budget
from moiety.devices.interface import User
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


class PaperNode:
    """What the watch needs of a node: `look` has it see what NVML says now."""

    def __init__(self, policy: Policy, *, outlived: frozenset[int] = frozenset()) -> None:
        self.devices = FakeDevices.of(80 * GIB)
        self.gpus = {0: SimpleNamespace(budget=budget(80 * GIB), residue_bytes=GIB)}
        self.clients: dict[int, Any] = {}
        self.loop = FakeClock()
        self.log = Log()
        self.journal = Journal()
        self.timeline = SimpleNamespace(on_stay=[], waiting_for_more=list)
        self.on_left: list[Any] = []
        self.arbiter = SimpleNamespace(tenants=list)
        self.watching: Watching | None = None
        self.outlived = outlived.__contains__
        self.watch = Watching(self, policy)  # type: ignore[arg-type]
        self.watch.is_blind = False
        self.watch.start()

    def beside(self, ask: Any) -> None:
        """At once."""
        ask()

    def call_soon_threadsafe(self, call: Any, *arguments: Any) -> None:
        """At once."""
        call(*arguments)

    def reasons(self) -> list[str]:
        """What was told."""
        return [event.reason for event in self.journal.ring]


def node_with(policy: Policy, **more: Any) -> PaperNode:
    node = PaperNode(policy, **more)
    node.loop.call_soon_threadsafe = node.call_soon_threadsafe  # type: ignore[attr-defined]
    return node


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"]) as child:
        yield child
        child.kill()


def test_a_process_is_seen_told_and_ended(process: subprocess.Popen[bytes]) -> None:
    node = node_with(KILL)
    node.devices.processes[0] = {process.pid: 5 * GIB}
    node.loop.advance(10)
    assert node.reasons() == ["Unregistered"]
    assert process.poll() is None
    node.loop.advance(5)
    assert process.wait(60) == -9
    assert node.reasons() == ["Unregistered", "Killed"]
    assert node.journal.ring[-1].program == "sleep"


def test_a_number_that_was_used_again_is_nobodys_death(process: subprocess.Popen[bytes]) -> None:
    node = node_with(Policy(every_s=5, unregistered=parse_ladder("0s,kill")))
    node.devices.processes[0] = {process.pid: 5 * GIB}
    found = node.watch._ask([0], 0)
    origin = found[1][process.pid]
    other = dataclasses.replace(origin, started=origin.started - 1)
    for _ in range(3):  # what was read a moment ago is of a process that is gone by now
        node.watch.looked((found[0], {process.pid: other}))
    assert process.poll() is None
    assert "Killed" not in node.reasons()


def test_the_agent_does_not_end_itself() -> None:
    node = node_with(Policy(every_s=5, unregistered=parse_ladder("0s,kill")))
    node.devices.processes[0] = {os.getpid(): 5 * GIB}
    node.loop.advance(60)
    assert node.reasons() == ["Spared"]


def test_a_look_that_fails_is_not_the_last(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("what /proc shows")

    node = node_with(KILL)
    node.devices.processes[0] = {process.pid: 5 * GIB}
    with monkeypatch.context() as patched:
        patched.setattr(node.watch, "_ask", fail)
        node.loop.advance(10)
    assert node.reasons() == []
    node.loop.advance(10)
    assert node.reasons() == ["Unregistered"]


def test_who_outlived_the_last_agent_is_no_stranger(process: subprocess.Popen[bytes]) -> None:
    node = node_with(KILL, outlived=frozenset({process.pid}))
    node.devices.processes[0] = {process.pid: 5 * GIB}
    node.loop.advance(60)
    assert node.reasons() == []
    assert node.watch.strangers == {}


def test_in_another_pid_namespace_nobody_is_accused(process: subprocess.Popen[bytes]) -> None:
    node = node_with(KILL)
    node.watch.is_blind = True
    node.devices.processes[0] = {process.pid: 5 * GIB}
    node.loop.advance(60)
    assert node.reasons() == []
    assert usage_report.watched(node, Watch()).is_blind  # type: ignore[arg-type]


def test_while_nvml_does_not_answer_nothing_is_forgotten(
    process: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_with(Policy(every_s=5))
    node.devices.processes[0] = {process.pid: 5 * GIB}
    node.loop.advance(10)

    def fails(*_: object) -> list[User]:
        raise RuntimeError("the GPU has fallen off the bus")

    monkeypatch.setattr(FakeDevices, "users", fails)
    node.loop.advance(300)
    assert node.reasons() == ["Unregistered"]
    (row,) = usage_report.watched(node, Watch()).strangers  # type: ignore[arg-type]
    assert row.pid == process.pid


def test_the_policy_can_change_while_it_goes_on(process: subprocess.Popen[bytes]) -> None:
    node = node_with(Policy(every_s=5))
    node.devices.processes[0] = {process.pid: 5 * GIB}
    node.loop.advance(10)
    node.watch.change(Policy(every_s=0))
    node.loop.advance(300)
    assert node.reasons() == ["Unregistered"]
    node.watch.change(KILL)
    node.loop.advance(5)
    assert node.reasons() == ["Unregistered", "Unregistered"]  # with its grace before it
    assert process.poll() is None
    node.loop.advance(5)
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
