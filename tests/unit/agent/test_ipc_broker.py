"""Who has memory of whom, after an agent that knew it is gone."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from moiety.agent.shim.ipc_broker import IpcBroker
from moiety.arbiter import events as ev
from moiety.model.errors import ProtocolError
from moiety.wire.codec import decode
from moiety.wire.layout import TOKEN_BYTES, ShareFlag, Type
from moiety.wire.messages import ShareMessage

TOKEN = b"t" * TOKEN_BYTES
SIZE = 1 << 20


class Agent:
    """What exports need of an agent: its processes, and what its arbiter is told."""

    def __init__(self) -> None:
        self.clients: dict[int, Any] = {}
        self.fed: list[ev.Event] = []
        log = SimpleNamespace(info=lambda *_, **__: None)
        runtime: Any = SimpleNamespace(feed=self.fed.append, log=log)
        recovery: Any = SimpleNamespace(is_settled=False)
        self.exports = IpcBroker(runtime, self.clients, recovery)
        self.opened: list[tuple[int, int]] = []
        self.exports.on_opened.append(
            lambda one, other: self.opened.append((one.number, other.number))
        )

    def join(self, *, resumed: bool = True) -> Any:
        """A process."""
        sent: list[bytes] = []
        connection = SimpleNamespace(
            closed=False, expect_fds=lambda: None, send=sent.append, take_fds=list, sent=sent
        )
        number = len(self.clients) + 1
        self.clients[number] = SimpleNamespace(
            number=number,
            pid=number,
            resumed=resumed,
            uid=0,
            account=0,
            gpus={0},
            connection=connection,
        )
        return self.clients[number]

    def export(self, client: Any) -> None:
        """It exports the memory."""
        self.exports.exported(client, ShareMessage(Type.EXPORT, 0, TOKEN, bytes=SIZE))

    def open(self, client: Any, exporter: Any) -> None:
        """It opens the memory: the exporter sends its piece."""
        asked = ShareMessage(Type.IMPORT, 5, TOKEN, flags=int(ShareFlag.ASKED))
        self.exports.wanted(client, asked)
        (serial,) = self.exports._relays
        exporter.connection.take_fds = lambda: [os.open(os.devnull, os.O_RDONLY)]
        piece = ShareMessage(Type.IMPORT, serial, TOKEN, bytes=SIZE, piece_bytes=SIZE, pieces=1)
        client.connection.send = lambda *_: None
        self.exports.wanted(exporter, piece)

    def is_told_to_unpin(self, exporter: Any) -> bool:
        """Whether the exporter was told that no process has its memory open."""
        told = [decode(packet) for packet in exporter.connection.sent]
        return any(each.type == Type.UNSHARE for each in told)

    def hold(self, client: Any) -> None:
        """It has the memory open."""
        held = ShareMessage(Type.IMPORT, 0, TOKEN, bytes=SIZE, flags=int(ShareFlag.HELD))
        self.exports.wanted(client, held)

    def close(self, client: Any) -> None:
        """It has it open no longer."""
        self.exports.ended(client, ShareMessage(Type.UNSHARE, 0, TOKEN))


@pytest.mark.parametrize("first", ["exporter", "importer"])
def test_two_that_share_are_known_to_whoever_comes_back_first(first: str) -> None:
    agent = Agent()
    exporter, importer = agent.join(), agent.join()
    says = [(agent.export, exporter), (agent.hold, importer)]
    for say, who in says if first == "exporter" else reversed(says):
        say(who)
    agent.exports.settled()
    assert agent.opened == [(exporter.number, importer.number)]
    assert not agent.fed, "it is charged to the exporter, who said so itself"


def test_what_has_no_exporter_any_more_is_charged_to_one_who_has_it_open() -> None:
    agent = Agent()
    one, other = agent.join(), agent.join()
    agent.hold(one)
    agent.hold(other)
    agent.exports.settled()
    assert agent.fed == [ev.ChargeTransferred(one.number, 0, SIZE)]
    agent.close(one)
    gone = [ev.ChargeReleased(one.number, 0, SIZE), ev.ChargeTransferred(other.number, 0, SIZE)]
    assert agent.fed[1:] == gone
    agent.exports.left(other)
    assert agent.fed[3:] == [ev.ChargeReleased(other.number, 0, SIZE)]


def test_an_exporter_that_comes_back_late_has_its_memory_again() -> None:
    agent = Agent()
    importer = agent.join()
    agent.hold(importer)
    agent.exports.settled()
    exporter = agent.join()
    agent.export(exporter)
    assert agent.fed[1:] == [ev.ChargeReleased(importer.number, 0, SIZE)]
    assert agent.opened == [(exporter.number, importer.number)]
    agent.close(importer)
    assert len(agent.fed) == 2


def test_nobody_new_can_claim_what_another_exported() -> None:
    agent = Agent()
    agent.hold(agent.join())
    agent.exports.settled()
    with pytest.raises(ProtocolError, match="another's"):
        agent.export(agent.join(resumed=False))


def test_what_a_process_exports_is_bounded_and_what_it_gave_up_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("moiety.agent.shim.ipc_broker.TOKENS_MAX", 2)
    agent = Agent()
    one, other = agent.join(), agent.join()
    first, second, third = (bytes([n]) * TOKEN_BYTES for n in range(3))

    def export(client: Any, token: bytes) -> None:
        agent.exports.exported(client, ShareMessage(Type.EXPORT, 0, token, bytes=SIZE))

    export(one, first)
    export(one, second)
    with pytest.raises(ProtocolError, match="more than 2 exports"):
        export(one, third)
    export(other, third)  # each has its own
    agent.exports.ended(one, ShareMessage(Type.UNSHARE, 0, first))
    export(one, first)
    with pytest.raises(ProtocolError, match="more than 2 exports"):
        export(one, b"n" * TOKEN_BYTES)
    agent.exports.left(one)
    back = agent.join()
    export(back, first)
    export(back, second)


def test_what_all_processes_of_a_user_export_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moiety.agent.shim.ipc_broker.USER_TOKENS_MAX", 2)
    agent = Agent()
    one, other, stranger = agent.join(), agent.join(), agent.join()
    stranger.uid = stranger.account = 7

    def export(client: Any, number: int) -> None:
        token = bytes([number]) * TOKEN_BYTES
        agent.exports.exported(client, ShareMessage(Type.EXPORT, 0, token, bytes=SIZE))

    export(one, 1)
    export(other, 2)
    with pytest.raises(ProtocolError, match="user's programs have more than 2 exports"):
        export(other, 3)
    export(stranger, 3)
    agent.exports.left(one)
    export(other, 1)
    agent.exports.left(other)
    agent.exports.left(stranger)
    assert not agent.exports._by_user


def test_what_all_processes_of_a_user_have_open_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moiety.agent.shim.ipc_broker.USER_TOKENS_MAX", 2)
    agent = Agent()
    one, other, stranger = agent.join(), agent.join(), agent.join()
    stranger.uid = stranger.account = 7

    def hold(client: Any, number: int) -> None:
        token = bytes([number]) * TOKEN_BYTES
        held = ShareMessage(Type.IMPORT, 0, token, bytes=SIZE, flags=int(ShareFlag.HELD))
        agent.exports.wanted(client, held)

    hold(one, 1)
    hold(other, 1)
    for number in (1, 2):
        with pytest.raises(ProtocolError, match="user's programs have more than 2 imports"):
            hold(other, number)
    hold(stranger, 3)
    agent.exports.left(one)
    hold(other, 2)
    agent.exports.settled()
    agent.exports.ended(other, ShareMessage(Type.UNSHARE, 0, bytes([1]) * TOKEN_BYTES))
    hold(other, 4)
    agent.exports.left(other)
    agent.exports.left(stranger)
    assert not agent.exports._open_by_user
    assert not agent.exports._accounts


def test_what_all_processes_of_a_user_ask_for_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moiety.agent.shim.ipc_broker.USER_REQUESTS_MAX", 2)
    agent = Agent()
    exporter, one, other = (agent.join(resumed=False) for _ in range(3))
    agent.export(exporter)

    def ask(client: Any, serial: int) -> None:
        asked = ShareMessage(Type.IMPORT, serial, TOKEN, flags=int(ShareFlag.ASKED))
        agent.exports.wanted(client, asked)

    ask(one, 1)
    ask(other, 1)
    with pytest.raises(ProtocolError, match="more than 2 requests of this user's programs"):
        ask(other, 2)
    del agent.clients[one.number]
    agent.exports.left(one)
    ask(other, 2)
    agent.exports.left(exporter)
    assert not agent.exports._asking_by_user


@pytest.mark.parametrize("ends", [False, True])
def test_an_exporter_is_told_when_no_process_has_its_memory_open(ends: bool) -> None:
    agent = Agent()
    exporter, one, other = (agent.join(resumed=False) for _ in range(3))
    agent.export(exporter)
    agent.open(one, exporter)
    agent.open(other, exporter)
    agent.close(one)
    assert not agent.is_told_to_unpin(exporter)
    if ends:
        del agent.clients[other.number]
        agent.exports.left(other)
    else:
        agent.close(other)
    assert agent.is_told_to_unpin(exporter)


@pytest.mark.parametrize("who", ["exporter", "importer"])
def test_what_a_process_may_have_open_since_before_stays(who: str) -> None:
    agent = Agent()
    exporter = agent.join(resumed=who == "exporter")
    one, other = agent.join(resumed=False), agent.join(resumed=False)
    agent.export(exporter)
    agent.open(one, exporter)
    agent.open(other, exporter)
    if who == "importer":  # its connection broke, and it has another
        again = agent.join()
        again.pid = other.pid
        del agent.clients[other.number]
        agent.exports.left(other)
    else:
        agent.close(other)
    agent.close(one)
    assert not agent.is_told_to_unpin(exporter)
