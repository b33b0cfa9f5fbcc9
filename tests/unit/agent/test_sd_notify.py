"""What the service manager is told, heard on a socket of the test's own."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.service import Service
from moiety.agent.system.sd_notify import ServiceManager
from moiety.model.errors import ConfigError


class Turns:
    """A loop on which nothing happens by itself."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Any, tuple[Any, ...]]] = []

    def call_later(self, delay: float, callback: Any, *args: Any) -> None:
        self.due.append((delay, callback, args))

    def turn(self) -> float:
        delay, callback, args = self.due.pop()
        callback(*args)
        return delay


@pytest.fixture
def heard(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(str(tmp_path / "notify"))
        sock.settimeout(10)
        yield sock


def lines(sock: socket.socket) -> list[str]:
    return sock.recv(4096).decode().splitlines()


def test_it_says_when_it_is_ready_reloading_and_stopping(
    heard: socket.socket, tmp_path: Path
) -> None:
    manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    manager.ready("one GPU")
    assert lines(heard) == ["READY=1", "STATUS=one GPU", f"MAINPID={os.getpid()}"]
    manager.reloading()
    first, second = lines(heard)
    assert first == "RELOADING=1"
    assert int(second.removeprefix("MONOTONIC_USEC=")) > 0
    manager.stopping("got SIGTERM")
    assert lines(heard) == ["STOPPING=1", "STATUS=got SIGTERM"]


def test_signs_of_life_come_three_times_as_often_as_they_are_due(
    heard: socket.socket, tmp_path: Path
) -> None:
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "6000000"}
    loop = Turns()
    ServiceManager(environment).keep_told(loop, lambda: "well")
    assert lines(heard) == ["WATCHDOG=1", "STATUS=well"]
    assert loop.turn() == 2.0
    assert lines(heard) == ["WATCHDOG=1", "STATUS=well"]


def test_a_watchdog_that_waits_for_another_process_hears_nothing(
    heard: socket.socket, tmp_path: Path
) -> None:
    environment = {
        "NOTIFY_SOCKET": str(tmp_path / "notify"),
        "WATCHDOG_USEC": "6000000",
        "WATCHDOG_PID": "1",
    }
    ServiceManager(environment).keep_told(Turns(), lambda: "well")
    assert lines(heard) == ["STATUS=well"]


def test_an_abstract_socket_is_found() -> None:
    name = f"moiety-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind("\0" + name)
        sock.settimeout(10)
        ServiceManager({"NOTIFY_SOCKET": "@" + name}).tell("STATUS=hello")
        assert lines(sock) == ["STATUS=hello"]


def test_without_a_manager_nothing_is_said_and_nothing_fails(tmp_path: Path) -> None:
    loop = Turns()
    manager = ServiceManager({})
    manager.ready("well")
    manager.keep_told(loop, lambda: "well")
    assert not manager.listens
    assert loop.due == []
    ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "nobody")}).ready("well")


@pytest.mark.parametrize("failure", [None, ConfigError, RuntimeError])
def test_a_reload_always_ends_for_the_manager(
    heard: socket.socket, tmp_path: Path, failure: type[Exception] | None
) -> None:
    async def reload() -> None:
        if failure is not None:
            raise failure.__new__(failure)

    service: Any = Service.__new__(Service)
    service._manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    service._commands = SimpleNamespace(reload=reload)
    service._components = SimpleNamespace(gpus={}, clients=SimpleNamespace(by_number={}))
    service._workloads = SimpleNamespace(by_id={})
    if failure is RuntimeError:  # our own mistake: the loop writes it down
        with pytest.raises(RuntimeError):
            asyncio.run(service.reload())
    else:
        asyncio.run(service.reload())
    assert lines(heard)[0] == "RELOADING=1"
    assert lines(heard)[0] == "READY=1"
