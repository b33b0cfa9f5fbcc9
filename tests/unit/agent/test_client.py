"""Commands that come while no agent answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from moiety.agent.control import client, protocol
from moiety.agent.control.server import failed
from moiety.agent.system.paths import Directory
from moiety.model.errors import NoAgent, NotAllowed


def greeting(sock: socket.socket) -> protocol.Here:
    """What the agent at the other end of a socket answers to a greeting."""
    call = client.Call.__new__(client.Call)
    call._sock, call._file = sock, sock.makefile("rb")
    try:
        return call.ask(protocol.HelloRequest(product="1"), protocol.Here)
    finally:
        call._file.close()


def test_a_refusal_is_read_although_the_agent_hung_up_before_the_greeting() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        theirs.sendall(protocol.encode(failed(NotAllowed("not from pods", "in its own"))) + b"\n")
        theirs.close()
        with pytest.raises(NotAllowed, match="not from pods"):
            greeting(ours)


def test_an_agent_that_ends_says_nothing_and_is_none() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        theirs.close()
        with pytest.raises(client.HungUp):
            greeting(ours)


@pytest.mark.parametrize(("quiet", "count"), [("0", 1), ("", 1), ("1", 0)])
def test_whoever_waits_for_an_agent_is_told_so_once(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    quiet: str,
    count: int,
) -> None:
    directory = Directory(tmp_path, shared=True)
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory.control))
    monkeypatch.setattr(client, "SAY_AFTER_S", 0.0)
    monkeypatch.setattr(client, "RESTART_TIMEOUT_S", 0.2)
    monkeypatch.setenv("MOIETY_QUIET", quiet)
    with pytest.raises(NoAgent):
        client.call(directory)
    found = capsys.readouterr()
    assert found.err.count(f"no agent answers in {tmp_path}; waiting for the next one") == count
    assert not found.out
