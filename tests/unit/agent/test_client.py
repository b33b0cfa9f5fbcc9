"""Commands that come while no agent answers."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from moiety.agent.control import client
from moiety.agent.system.paths import Directory
from moiety.model.errors import NoAgent


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
