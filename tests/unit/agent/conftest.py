"""What the tests of the agent share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from moiety.agent.core.native_reader import NativeReader
from tests.support.native_peers import ALICE, Connect, Peer, close_all


@pytest.fixture
def reader() -> Iterator[NativeReader]:
    made = NativeReader(1 << 16)
    yield made
    while taken := made.take():
        close_all(taken)
    made.stop()


@pytest.fixture
def connect(reader: NativeReader) -> Iterator[Connect]:
    made: list[Peer] = []

    def one(account: int = ALICE, sent: Sequence[bytes] = ()) -> Peer:
        made.append(Peer(reader, account, sent))
        return made[-1]

    yield one
    for peer in made:
        peer.close()
