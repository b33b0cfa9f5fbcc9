"""Which process and which user a workload is of, when another process asks for it."""

from __future__ import annotations

import os

import pytest

from moiety.agent.control.protocol import CreateWorkload
from moiety.agent.control.rights import program_of
from moiety.agent.system.processes import Peer
from moiety.model.errors import NotAllowed

OTHER = 54321


def asked(**values: int) -> CreateWorkload:
    return CreateWorkload("p", ["p"], "/", **values)  # type: ignore[arg-type]


def test_the_asking_process_is_meant_unless_another_is_named() -> None:
    peer = Peer(77, OTHER, 5)
    assert program_of(asked(), peer) is peer


def test_users_name_processes_of_their_own() -> None:
    own = os.getpid()
    administrator = Peer(1, os.getuid(), 5)
    assert program_of(asked(pid=own), administrator) == Peer(own, os.getuid(), 5)
    with pytest.raises(NotAllowed, match=f"process {own} is not a process of yours"):
        program_of(asked(pid=own), Peer(77, OTHER, 5))
    with pytest.raises(NotAllowed):
        program_of(asked(pid=2**22 + 1), Peer(77, OTHER, 5))


def test_only_administrators_name_another_user() -> None:
    own = os.getpid()
    found = program_of(asked(pid=own, uid=OTHER), Peer(1, os.getuid(), 5))
    assert found == Peer(own, OTHER, 5)
    with pytest.raises(NotAllowed):
        program_of(asked(uid=OTHER), Peer(own, OTHER + 1, 5))
