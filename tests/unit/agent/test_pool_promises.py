"""While a pool is up, others get no promises."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moiety.agent.control import pool_promises, protocol
from moiety.agent.system.file_lock import FileLock
from moiety.agent.system.paths import Directory
from moiety.agent.system.processes import Peer
from moiety.model.cards import CardRequest
from moiety.model.errors import PoolPromises
from moiety.model.share import NOTHING_ASKED, Share
from moiety.pool.paths import PoolPaths

OTHER = Peer(1, 1000, 1000)
OWN = Peer(os.getpid(), 1000, 1000)


def run(share: Share = NOTHING_ASKED, cards: CardRequest | None = None) -> protocol.CreateWorkload:
    return protocol.CreateWorkload(program="p", argv=["p"], cwd="/", share=share, cards=cards)


WANTED = [
    run(Share(0.5)),
    run(Share(None, memory_bytes=1 << 20)),
    run(cards=CardRequest(exclusive=True)),
    protocol.CreateContainer(name="c", share=Share(0.1)),
    protocol.SetShare(target="1", gpu=0.2),
]
OPEN = [
    run(),
    run(Share(None, memory_limit_bytes=1 << 30)),
    protocol.SetShare(target="1", gpu=None),
    protocol.SetShare(target="1", memory_limit_bytes=1 << 30),
    protocol.Ping(),
]


@pytest.fixture
def directory(tmp_path: Path) -> Directory:
    found = Directory(tmp_path)
    PoolPaths(found).folder.mkdir(parents=True)
    return found


@pytest.mark.parametrize("request_", WANTED)
def test_only_the_pool_promises_while_it_is_up(directory: Directory, request_: object) -> None:
    pool_promises.check(directory, request_, OTHER)
    lock = FileLock(PoolPaths(directory).lock, f"pid {os.getpid()}")
    with pytest.raises(PoolPromises, match="only it promises"):
        pool_promises.check(directory, request_, OTHER)
    pool_promises.check(directory, request_, OWN)
    lock.release()
    pool_promises.check(directory, request_, OTHER)


@pytest.mark.parametrize("request_", OPEN)
def test_what_is_promised_nothing_runs_beside_it(directory: Directory, request_: object) -> None:
    lock = FileLock(PoolPaths(directory).lock, f"pid {os.getpid()}")
    pool_promises.check(directory, request_, OTHER)
    lock.release()
