"""The server's connection to the starter: its answers reach those who wait for them."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from moiety.model.errors import StarterGone
from moiety.pool.launch.starter_link import StarterLink
from moiety.pool.starter.programs import StartRefusal
from moiety.pool.starter.records import ProcessIdentity
from moiety.testing.waiting import DEADLINE_S, until


class FakeStarter:
    """Takes servers, and says what it is told to say."""

    def __init__(self, path: Path) -> None:
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.listener.bind(str(path))
        self.listener.listen(1)
        self.listener.settimeout(DEADLINE_S)
        self.server: socket.socket | None = None

    def heard(self) -> str:
        """The next packet."""
        if self.server is None:
            self.server, _ = self.listener.accept()
            self.server.settimeout(DEADLINE_S)
        return self.server.recv(100).decode()

    def say(self, packet: str) -> None:
        assert self.server is not None
        self.server.send(packet.encode())

    def hang_up(self) -> None:
        if self.server is not None:
            self.server.close()
        self.server = None

    def close(self) -> None:
        self.hang_up()
        self.listener.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "starter.sock"


@pytest.fixture
def starter(path: Path) -> Iterator[FakeStarter]:
    with closing(FakeStarter(path)) as made:
        yield made


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def test_each_gets_its_own_answer(
    path: Path, starter: FakeStarter, threads: ThreadPoolExecutor
) -> None:
    link = StarterLink(path)
    first = threads.submit(link.hold, "1")
    assert starter.heard() == "+1"
    second = threads.submit(link.hold, "2")
    assert starter.heard() == "+2"
    starter.say("2 0 22 222")
    assert second.result(DEADLINE_S) == ProcessIdentity(22, 222)
    starter.say(f"1 {errno.ENOENT} no such folder")
    with pytest.raises(FileNotFoundError):
        first.result(DEADLINE_S)
    link.begin("2")
    assert starter.heard() == "2"
    starter.say("2 1075 it runs already")
    until(lambda: "2" in link._refusals, "it has come")
    assert link.refusal("2") == StartRefusal("2", 1075, "it runs already")
    assert link.refusal("2") is None
    link.give_up("2")
    assert starter.heard() == "~2"
    link.end()
    assert starter.heard() == "!"


def test_those_who_wait_learn_that_it_has_ended_and_the_next_one_is_found(
    path: Path, starter: FakeStarter, threads: ThreadPoolExecutor
) -> None:
    link = StarterLink(path)
    waiting = threads.submit(link.hold, "1")
    assert starter.heard() == "+1"
    starter.hang_up()
    with pytest.raises(StarterGone):
        waiting.result(DEADLINE_S)
    again = threads.submit(link.hold, "1")
    assert starter.heard() == "+1"
    starter.say("1 0 23 233")
    assert again.result(DEADLINE_S).pid == 23


def test_without_a_starter_nothing_can_be_started(path: Path) -> None:
    link = StarterLink(path)
    for act in (link.must_be_there, lambda: link.hold("1"), lambda: link.begin("1")):
        with pytest.raises(StarterGone, match="No such file"):
            act()
    link.give_up("1")
    link.end()


class Stranger:
    uid = 65033


@pytest.mark.usefixtures("starter")
def test_a_starter_of_another_user_is_none(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moiety.agent.system.processes.peer_of", lambda _: Stranger)
    with pytest.raises(StarterGone, match="no process of root"):
        StarterLink(path).must_be_there()
