"""Many connections of one user delay the messages of another no longer than one connection."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections import Counter
from typing import Any

from moiety.agent.core.connection import Connection
from moiety.agent.core.read_turns import PACKETS_A_TURN, PACKETS_BEHIND, REST_S, ReadTurns, UserTurn
from moiety.testing.waiting import DEADLINE_S

ALICE, BOB = 65001, 65002
CROWD, EACH = 40, 50


class Still:
    """A loop whose clock stands: however slow this machine is, nobody has rested."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.call_soon = loop.call_soon

    def time(self) -> float:
        return 0.0


async def _order(users: list[int], each: int, bursts: list[int] | None = None) -> list[int]:
    """Who is read, packet by packet, where each connection of these users has so many to read."""
    loop = asyncio.get_running_loop()
    turns, read = ReadTurns(Still(loop)), list[int]()  # type: ignore[arg-type]
    done = loop.create_future()
    ends: list[Any] = []

    def burst() -> float:
        if bursts is not None:
            bursts.append(len(read))
        return 0.0

    for number, user in enumerate(users):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        for _ in range(each):
            theirs.send(b"x")

        def heard(_: bytes, number: int = number) -> None:
            read.append(number)
            if len(read) == each * len(users):
                done.set_result(None)

        made = Connection(loop, ours, heard, lambda _: None, burst, turn=turns.of(user))
        ends += [made, theirs]
    await asyncio.wait_for(done, DEADLINE_S)
    for end in ends:
        end.close()
    return read


def test_one_message_waits_for_a_turn_of_a_crowd_and_not_for_the_crowd() -> None:
    read = asyncio.run(_order([ALICE] * CROWD + [BOB], EACH))
    first = read.index(CROWD)
    assert first <= PACKETS_A_TURN + PACKETS_BEHIND
    last = len(read) - read[::-1].index(CROWD)
    assert last <= PACKETS_A_TURN + (2 + EACH) * PACKETS_BEHIND
    assert Counter(read) == dict.fromkeys(range(CROWD + 1), EACH), "nothing is lost"


def test_the_connections_of_a_user_take_turns() -> None:
    read = asyncio.run(_order([ALICE] * CROWD, EACH))
    middle = Counter(read[: len(read) // 2])
    assert len(middle) > CROWD // 2


def test_what_one_connection_sends_without_a_pause_is_a_burst_in_turns_as_well() -> None:
    bursts: list[int] = []
    asyncio.run(_order([ALICE] * 2, 2 * PACKETS_A_TURN, bursts))
    assert len(bursts) == 4
    bursts.clear()
    asyncio.run(_order([ALICE] * CROWD, EACH, bursts))
    assert bursts == [], "each sends less than that"


class Clock:
    """A loop that calls nothing by itself."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.soon: list[Any] = []

    def time(self) -> float:
        return self.now_s

    def call_soon(self, callback: Any) -> None:
        self.soon.append(callback)


def test_a_user_has_a_whole_turn_again_after_a_rest() -> None:
    clock: Any = Clock()
    turn = UserTurn(clock)
    assert turn.begin()
    turn.spend(PACKETS_A_TURN)
    assert not turn.begin()
    clock.now_s += REST_S
    assert turn.begin()
    assert turn.left == PACKETS_A_TURN


def test_who_waits_is_read_before_who_comes_later() -> None:
    clock: Any = Clock()
    turn, read = UserTurn(clock), list[int]()

    def first() -> None:
        read.append(1)
        turn.spend(PACKETS_BEHIND)

    turn.wait(first)
    turn.wait(lambda: read.append(2))
    clock.now_s += 1
    assert not turn.begin()
    clock.soon.pop()()
    assert read == [1]
    clock.soon.pop()()
    assert read == [1, 2]
    assert clock.soon == []


def test_a_turn_is_forgotten_with_the_last_connection_of_its_user() -> None:
    turns = ReadTurns(Clock())  # type: ignore[arg-type]
    turn = turns.of(ALICE)
    assert turns.of(ALICE) is turn
    assert turns.of(BOB) is not turn
    del turn
    gc.collect()
    assert len(turns._turns) == 0
