"""Who the processes on GPUs are: asked once for each process, and again for another one."""

from __future__ import annotations

import os
import subprocess
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.monitor import process_finder as module
from moiety.agent.monitor.process_finder import ProcessFinder, mark_of
from moiety.agent.system import processes
from moiety.devices.interface import GpuProcess


def finder(*pids: int) -> ProcessFinder:
    users = [GpuProcess(pid, 1, 0.0) for pid in pids]
    devices: Any = SimpleNamespace(users=lambda *_: users)
    found = ProcessFinder(devices)
    found.is_blind = False
    return found


def test_a_process_is_asked_who_it_is_once(monkeypatch: pytest.MonkeyPatch) -> None:
    finds = finder(os.getpid())
    _, first = finds.find([0], 0)
    found = first[os.getpid()]
    assert (found.uid, found.is_named) == (os.getuid(), True)
    assert found.started == processes.start_time(os.getpid())
    monkeypatch.setattr(module, "origin_of", lambda *_, **__: pytest.fail("it is known"))
    assert finds.find([0], 0)[1] == first


def test_another_process_with_the_pid_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    finds = finder(os.getpid())
    finds.find([0], 0)
    monkeypatch.setattr(module, "mark_of", lambda _: (1, 2))
    asked: list[int] = []

    def origin_of(pid: int, **_: object) -> None:
        asked.append(pid)

    monkeypatch.setattr(module, "origin_of", origin_of)
    assert finds.find([0], 0)[1] == {}
    assert asked == [os.getpid()]


def test_one_that_has_ended_is_left_out() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert mark_of(process.pid) is None
    assert finder(process.pid).find([0], 0)[1] == {}


def test_two_processes_have_two_marks() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert mark_of(process.pid) not in (None, mark_of(os.getpid()))
        assert mark_of(process.pid) == mark_of(process.pid)
        process.kill()
