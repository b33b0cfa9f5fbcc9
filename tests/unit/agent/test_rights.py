"""Which process and which user a workload is of, when another process asks for it."""

from __future__ import annotations

import os

import pytest

from moiety.agent.control.protocol import CreateWorkload
from moiety.agent.control.rights import program_of
from moiety.agent.system.processes import Peer, owner_of
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


def test_the_account_of_the_pool_names_users_and_processes_of_root() -> None:
    pool = Peer(77, OTHER, OTHER)
    of_root = next(pid for pid in (os.getpid(), 1) if owner_of(pid) == 0)
    found = program_of(asked(pid=of_root, uid=OTHER + 1), pool, OTHER)
    assert found == Peer(of_root, OTHER + 1, OTHER)
    for pool_uid in (None, OTHER + 1):
        with pytest.raises(NotAllowed):
            program_of(asked(pid=of_root, uid=OTHER + 1), pool, pool_uid)
    for uid in (0, -1, OTHER):  # not root, and for itself it is a user like others
        with pytest.raises(NotAllowed):
            program_of(asked(pid=of_root, uid=uid), pool, OTHER if uid != OTHER else None)
