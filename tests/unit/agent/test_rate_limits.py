"""How much of the agent one user can take."""

from __future__ import annotations

import asyncio
import socket

from moiety.agent.control.records import Record
from moiety.agent.control.running_workload import is_unbounded
from moiety.agent.core.connection import Connection
from moiety.agent.core.rate_limits import CALM_S, RESERVE, Flood, RateLimits, TokenRate, UserQuota
from moiety.agent.core.read_turns import PACKETS_A_TURN
from moiety.agent.system.processes import Peer
from moiety.model.format import shortened
from moiety.model.share import Share

ALICE, BOB, ROOT = 65001, 65002, 0


def test_one_user_cannot_have_all_and_all_cannot_have_more_than_there_is() -> None:
    tally = UserQuota(each=2, together=3, what="things")
    for _ in range(2):
        assert tally.refuse(ALICE) == ""
        tally.take(ALICE)
    assert tally.refuse(ALICE) == "65001 has 2 things, which is the limit of one user"
    tally.take(BOB)
    assert tally.refuse(BOB) == "all users together have 3 things, which is the limit"
    tally.give(ALICE)
    assert tally.refuse(BOB) == ""


def test_an_administrator_comes_in_when_all_is_taken_but_not_for_ever() -> None:
    tally = UserQuota(each=1, together=1, what="things")
    tally.take(ALICE)
    for _ in range(RESERVE):
        assert tally.refuse(ROOT, is_admin=True) == ""
        tally.take(ROOT)
    assert tally.refuse(ROOT, is_admin=True)


def test_nothing_is_remembered_of_who_has_nothing() -> None:
    tally = UserQuota(each=2, together=3, what="things")
    for uid in range(1000):
        tally.take(uid)
        tally.give(uid)
    assert not tally.counts
    rate = TokenRate(10.0, burst_s=1.0)
    for uid in range(5000):
        rate.spend(uid, float(uid))
    assert len(rate.buckets) < 1100


def test_a_burst_passes_and_then_so_many_a_second() -> None:
    rate = TokenRate(per_s=10.0, burst_s=2.0)
    assert [rate.spend(ALICE, 0.0) for _ in range(20)] == [0.0] * 20
    assert rate.spend(ALICE, 0.0) == 0.1
    assert rate.spend(BOB, 0.0) == 0.0  # whom it does not concern
    assert rate.spend(ALICE, 10.0) == 0.0


def test_only_who_does_not_stop_is_flooding() -> None:
    rate, alice, bob = TokenRate(per_s=10.0, burst_s=2.0), Flood(5.0), Flood(5.0)
    now_s = 0.0
    while not alice.waits(wait_s := rate.spend(ALICE, now_s), now_s):
        now_s += wait_s
        assert now_s < 10.0
    assert now_s > 5.0
    assert not bob.waits(rate.spend(BOB, 0.0, 25.0), 0.0)
    for now_s in (4.0, 8.0):  # it has waited, and comes back with little
        assert not bob.waits(rate.spend(BOB, now_s), now_s)


def test_a_process_that_connects_again_or_has_a_bad_neighbour_is_not_flooding() -> None:
    rate, bad, other = TokenRate(per_s=10.0, burst_s=2.0), Flood(5.0), Flood(5.0)
    now_s = 0.0
    assert not other.waits(rate.spend(ALICE, now_s), now_s)
    while not bad.waits(wait_s := rate.spend(ALICE, now_s), now_s):
        now_s += wait_s
    again = Flood(5.0)
    for flood in (again, other):
        wait_s = rate.spend(ALICE, now_s)
        assert wait_s > 0, "the rate is that of the user"
        assert not flood.waits(wait_s, now_s)


def test_a_connection_that_pauses_begins_anew() -> None:
    flood = Flood(5.0)
    for now_s in (0.0, 4.0, 4.0 + 1.0 + CALM_S + 0.1, 9.0):
        assert not flood.waits(1.0, now_s)


def test_there_are_never_more_processes_than_descriptors_for_them() -> None:
    for descriptors in (256, 1024, 1 << 16):
        bounds = RateLimits(descriptors)
        assert bounds.processes.together * 8 <= max(512, descriptors)
        assert bounds.processes.each < bounds.processes.together


async def _pour(rate: TokenRate, patience_s: float) -> tuple[int, list[str]]:
    """What a connection with this rate reads of who never stops, until it is hung up on."""
    flood = Flood(patience_s)
    loop = asyncio.get_running_loop()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.setblocking(False)
    read, over = [0], loop.create_future()
    closed: list[str] = []

    def burst() -> float:
        wait_s = rate.spend(ALICE, loop.time())
        if flood.waits(wait_s, loop.time()):
            connection.send_last(b"too much")
            over.set_result(None)
        return wait_s

    def count(packet: bytes) -> None:
        read[0] += len(packet)

    connection = Connection(
        loop, ours, count, lambda _: None, burst, lambda: closed.append("closed")
    )

    def pour() -> None:
        try:
            while True:
                theirs.send(b"x")
        except OSError:
            pass  # it is full, or closed

    loop.add_writer(theirs.fileno(), pour)
    await over
    loop.remove_writer(theirs.fileno())
    while True:
        try:
            if theirs.recv(64) == b"too much":
                break
        except BlockingIOError:
            await asyncio.sleep(0)  # noqa: TID251 (no time: it lets the other end go on)
    theirs.close()
    return read[0], closed


def test_a_flood_is_slowed_down_and_then_refused_with_a_word() -> None:
    rate = TokenRate(per_s=100.0, burst_s=0.1)
    read, closed = asyncio.run(_pour(rate, patience_s=0.2))
    # Ten turns at once, and then a hundred a second: no more however fast it is sent.
    assert read >= 10 * PACKETS_A_TURN
    assert closed == ["closed"]


def test_a_command_line_is_written_down_as_far_as_it_is_of_use() -> None:
    assert shortened(["train", "--epochs", "7"]) == ["train", "--epochs", "7"]
    assert sum(map(len, shortened(["x"] * 100_000))) < 5000
    assert shortened(["train", "x" * 100_000])[1].endswith("x...")


def test_root_in_a_container_is_bounded_whoever_gave_it_its_share() -> None:
    def record(uid: int, container: str = "") -> Record:
        return Record("w", uid, 1, 1, "p", [], "/", Share(), container=container)

    root, alice = Peer(1, ROOT, ROOT), Peer(2, ALICE, ALICE)
    assert is_unbounded(record(ROOT), root, ROOT)
    assert not is_unbounded(record(ALICE), root, ROOT)
    assert not is_unbounded(record(ALICE), alice, ROOT)
    assert not is_unbounded(record(ROOT, "half"), root, ROOT)
