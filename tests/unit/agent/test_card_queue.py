"""Commands that wait for GPUs with room: their order, what is kept for them, and how they leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moiety.agent.control import card_queue as module
from moiety.agent.control import protocol
from moiety.agent.control.visibility import waiters_for
from moiety.agent.core.rate_limits import UserQuota
from moiety.agent.system import processes
from moiety.agent.system.processes import Peer
from moiety.arbiter import events as ev
from moiety.config.values import Visible
from moiety.model.cards import CardRequest
from moiety.model.errors import LimitAboveCapacity, MemoryAboveGpu, ShareTaken, TooMany, UserLimit
from moiety.model.share import Share
from moiety.testing.waiting import Changes
from tests.unit.agent.test_cards import GIB, TOTAL
from tests.unit.agent.test_creation import Agent

ANY = CardRequest()
FIRST, OTHER = Peer(71, 1001, 1001), Peer(72, 1002, 1002)


class Command:
    """A `moiety run --wait` and its connection."""

    def __init__(self, day: Day, share: Share, request: CardRequest | None, peer: Peer) -> None:
        self.told: list[tuple[int, int]] = []
        self.reasons: list[str] = []
        self.ended = asyncio.Event()
        self.is_read = False
        asked = protocol.CreateWorkload("a.out", [], "/", share, cards=request, wait=True)
        conversation: Any = self
        self.was_read_after = False

        async def answer() -> protocol.Created:
            try:
                return await day.agent.creation.create(asked, peer, conversation)
            finally:
                self.was_read_after = self.is_read

        self.answer = asyncio.ensure_future(answer())
        self.changes = day.changes
        self.answer.add_done_callback(lambda _: self.changes.tell())

    async def tell(self, answer: protocol.Waiting) -> None:
        self.told.append((answer.place, answer.number))
        self.reasons.append(answer.reason)
        self.changes.tell()

    async def hung_up(self) -> None:
        self.is_read = True
        try:
            await self.ended.wait()
        finally:
            self.is_read = False

    @property
    def waits(self) -> bool:
        return not self.answer.done() and bool(self.told)


class Day:
    """An agent whose machine has these GPUs, and the commands of one test."""

    def __init__(self, *names: str) -> None:
        self.agent = Agent(*names)
        self.queue = self.agent.queue
        self.changes = Changes()

    def wait(self, share: Share, request: CardRequest | None = ANY, peer: Peer = FIRST) -> Command:
        return Command(self, share, request, peer)

    async def run(
        self, share: Share, request: CardRequest | None = ANY, peer: Peer = FIRST
    ) -> protocol.Created:
        """A command that does not wait."""
        asked = protocol.CreateWorkload("b.out", [], "/", share, cards=request)
        return await self.agent.creation.create(asked, peer)

    async def until(self, is_so: Callable[[], bool]) -> None:
        await self.changes.until(is_so)

    async def tried(self) -> None:
        """Let all who wait try once more, to the end."""
        await self.queue._try_all({})

    def end(self, created: protocol.Created) -> None:
        """A program ends."""
        del self.agent.workloads.by_id[created.id]
        self.queue.changed()


STARTED = {FIRST.pid: 1000, OTHER.pid: 2000}
"""When the process with each pid started."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "start_time", STARTED.get)
    monkeypatch.setattr(module, "TOGETHER_S", 0.0)
    monkeypatch.setattr(module, "AGAIN_S", 3600.0)  # only what happens lets one try again


def day(*names: str) -> Callable[[Callable[[Day], Coroutine[Any, Any, None]]], None]:
    """Run one test on a machine with these GPUs."""

    def run(test: Callable[[Day], Coroutine[Any, Any, None]]) -> None:
        async def main() -> None:
            await test(Day(*names))

        asyncio.run(main())

    return run


def test_they_begin_in_the_order_in_which_they_came() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.6))
        first, second = day.wait(Share(gpu=0.6)), day.wait(Share(gpu=0.6))
        await day.until(lambda: first.waits and second.waits)
        assert (first.told[-1], second.told[-1]) == ((1, 1), (2, 2))
        assert "promised to others" in first.reasons[-1]
        day.end(running)
        began = await first.answer
        await day.until(lambda: second.told[-1] == (1, 1))
        assert not second.answer.done()
        day.end(began)
        assert (await second.answer).id
        assert not day.queue.waiting

    day("A100")(test)


def test_its_connection_can_be_read_again_after_the_wait() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.6))
        command = day.wait(Share(gpu=0.6))
        await day.until(lambda: command.waits and command.is_read)
        day.end(running)
        await command.answer
        assert not command.was_read_after

    day("A100")(test)


def test_another_process_that_got_its_pid_gets_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.6))
        command = day.wait(Share(gpu=0.6))
        await day.until(lambda: command.waits)
        monkeypatch.setitem(STARTED, FIRST.pid, 1001)
        day.end(running)
        with pytest.raises(ProcessLookupError):
            await command.answer
        assert not day.queue.waiting

    day("A100")(test)


def test_several_gpus_are_waited_for_together() -> None:
    async def test(day: Day) -> None:
        running = [await day.run(Share(gpu=0.6)) for _ in range(3)]
        both = day.wait(Share(gpu=0.6), CardRequest(2))
        await day.until(lambda: both.waits)
        day.end(running[0])
        await day.tried()
        assert both.waits
        day.end(running[2])
        assert [card.gpu for card in (await both.answer).cards] == [0, 2]

    day("A100", "A100", "A100")(test)


def test_a_later_one_takes_only_what_the_first_could_not_use() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.5), CardRequest(named=("0",)))
        first = day.wait(Share(gpu=0.6), CardRequest(named=("0",)))
        await day.until(lambda: first.waits)
        for request in (CardRequest(named=("0",)), None):  # also one that has no cards chosen
            small = await day.run(Share(gpu=0.2), request)
            day.end(small)
        assert (await day.run(Share(gpu=0.2), CardRequest(named=("0",)))).id
        with pytest.raises(ShareTaken, match="waited for longer") as refused:
            await day.run(Share(gpu=0.3), CardRequest(named=("0",)))
        assert "--gpu 0.2" in refused.value.hint
        other = await day.run(Share(gpu=0.9), CardRequest(named=("1",)))
        await day.run(Share(), CardRequest(named=("0",)))  # it takes nothing
        assert other.cards[0].gpu == 1
        day.end(running)
        assert (await first.answer).cards[0].gpu == 0

    day("A100", "A100")(test)


def test_one_gpu_is_kept_for_the_first_also_from_a_request_without_cards() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.5))
        first = day.wait(Share(gpu=0.9), None)
        await day.until(lambda: first.waits)
        for request in (ANY, None):
            with pytest.raises(ShareTaken, match="waited for longer"):
                await day.run(Share(gpu=0.2), request)
        with pytest.raises(ShareTaken, match="waited for longer"):
            day.agent.shares.check(Share(gpu=0.2), 5)
        own: Any = day.agent.workloads.by_id["0"]
        day.agent.shares.check(Share(gpu=0.4), 5, own)
        with pytest.raises(ShareTaken, match="waited for longer"):
            day.agent.shares.check(Share(gpu=0.55), 5, own)
        first.ended.set()
        await day.until(lambda: not day.queue.waiting)
        assert (await day.run(Share(gpu=0.2))).id

    day("A100")(test)


def test_memory_is_kept_as_time_is() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(memory_bytes=50 * GIB))
        first = day.wait(Share(memory_bytes=60 * GIB))
        await day.until(lambda: first.waits)
        with pytest.raises(ShareTaken, match="waited for longer") as refused:
            await day.run(Share(memory_bytes=25 * GIB))
        assert "--memory 20480MiB" in refused.value.hint
        await day.run(Share(memory_bytes=20 * GIB))
        await day.run(Share(gpu=0.9))

    day("A100")(test)


def test_a_command_that_ends_leaves_the_queue() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.6))
        first, second = day.wait(Share(gpu=0.6)), day.wait(Share(gpu=0.4), None)
        await day.until(lambda: first.waits or second.waits)
        first.ended.set()
        with pytest.raises(asyncio.CancelledError):
            await first.answer
        assert (await second.answer).id, "it was only in the way of the first"

    day("A100")(test)


def test_what_can_never_fit_is_refused_at_once() -> None:
    async def test(day: Day) -> None:
        for share, request, error in (
            (Share(memory_bytes=TOTAL + 1), ANY, MemoryAboveGpu),
            (Share(memory_bytes=TOTAL + 1), None, MemoryAboveGpu),
            (Share(memory_limit_bytes=2 * TOTAL), ANY, LimitAboveCapacity),
        ):
            with pytest.raises(error):
                await day.wait(share, request).answer
        assert not day.queue.waiting

    day("A100", "A100")(test)


def test_exclusive_waits_for_all_of_a_gpu() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.1))
        whole = day.wait(Share(), CardRequest(exclusive=True))
        await day.until(lambda: whole.waits)
        with pytest.raises(ShareTaken):
            await day.run(Share(gpu=0.1))
        day.end(running)
        share = day.agent.workloads.by_id[(await whole.answer).id].record.share
        assert (share.gpu, share.memory_bytes) == (1.0, TOTAL)

    day("A100")(test)


def test_a_drained_gpu_is_waited_for() -> None:
    async def test(day: Day) -> None:
        day.agent.machine.gpus[0].is_drained = True
        command = day.wait(Share())
        await day.until(lambda: command.waits)
        day.agent.machine.gpus[0].is_drained = False
        day.queue.changed()
        assert (await command.answer).id

    day("A100")(test)


def test_a_user_has_so_many_that_wait_and_its_other_commands_none_less() -> None:
    async def test(day: Day) -> None:
        limits = day.agent.limits
        limits.waiting = UserQuota(1, 9, "commands that wait for GPUs")
        limits.conversations.take(FIRST.uid)
        await day.run(Share(gpu=0.6))
        first = day.wait(Share(gpu=0.6))
        await day.until(lambda: first.waits)
        assert limits.conversations.counts[FIRST.uid] == 0
        with pytest.raises(TooMany, match="commands that wait"):
            await day.wait(Share(gpu=0.6)).answer
        other = day.wait(Share(gpu=0.6), peer=Peer(72, 1002, 1002))
        await day.until(lambda: other.waits)
        for command in (first, other):
            command.ended.set()
        await day.until(lambda: not day.queue.waiting)
        assert (limits.conversations.counts[FIRST.uid], limits.waiting.whole) == (1, 0)

    day("A100")(test)


def test_an_error_of_the_making_ends_the_wait() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.6))
        first, second = day.wait(Share(gpu=0.6)), day.wait(Share(gpu=0.6))
        await day.until(lambda: first.waits and second.waits)

        def fail(*_: object, **__: object) -> None:
            day.agent.workloads.create = day.agent._create
            raise OSError("the disk is full")

        day.agent.workloads.create = fail
        day.end(running)
        with pytest.raises(OSError, match="disk is full"):
            await first.answer
        assert (await second.answer).id

    day("A100")(test)


@pytest.mark.parametrize("names", [("A100",), ("A100", "A100")])
@pytest.mark.parametrize("request_", [ANY, CardRequest(exclusive=True), None])
def test_what_others_guarantees_never_leave_is_refused_at_once(
    names: tuple[str, ...], request_: CardRequest | None
) -> None:
    async def test(day: Day) -> None:
        arbiter = day.agent.machine.arbiter
        event = ev.GuaranteesSet({"user 1": 0.3}, {"students": (0.2, (f"user {FIRST.uid}",))})
        assert not list(arbiter.handle(0.0, event))
        is_exclusive = request_ is not None and request_.exclusive
        share = Share() if is_exclusive else Share(gpu=0.71)
        refused = day.wait(share, request_)
        with pytest.raises(ShareTaken, match="30 % of each are guaranteed to others") as error:
            await refused.answer
        assert "--gpu 0.7 or less" in error.value.hint
        assert not refused.told
        other = day.wait(Share(gpu=0.6), request_ and ANY, Peer(72, 1002, 1002))
        with pytest.raises(ShareTaken, match="50 % of each are guaranteed to others"):
            await other.answer
        running = [await day.run(Share(gpu=0.7)) for _ in names]
        fits = day.wait(Share(gpu=0.7), request_ and ANY)
        await day.until(lambda: fits.waits)
        for each in running:
            day.end(each)
        assert (await fits.answer).id

    day(*names)(test)


@pytest.mark.parametrize(
    ("share", "request_"),
    [(Share(), CardRequest(exclusive=True)), (Share(gpu=0.4, memory_limit_part=0.6), ANY)],
    ids=["exclusive", "memory limit"],
)
def test_what_its_user_may_never_have_is_refused_at_once(
    share: Share, request_: CardRequest
) -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.7))

        def check(_: int, share: Share, *__: object, **___: object) -> None:
            if (share.gpu or 0.0) > 0.5 or (share.memory_limit_bytes or 0) > TOTAL // 2:
                raise UserLimit("user 5 may have half of a GPU", "users.toml:1")

        limits: Any = SimpleNamespace(
            check=check,
            gpus_of=lambda _: None,
            account_of=lambda uid: uid,
            guarantees=SimpleNamespace(asks=lambda _: None),
        )
        day.agent.creation.limits = limits
        object.__setattr__(day.agent.shares, "limits", limits)
        refused = day.wait(share, request_)
        await day.until(lambda: refused.waits or refused.answer.done())
        assert not refused.told
        with pytest.raises(UserLimit):
            await refused.answer

    day("A100")(test)


def test_the_list_shows_each_user_its_own() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.6))
        command = day.wait(Share(gpu=0.6), CardRequest(1))
        await day.until(lambda: command.waits)
        (row,) = rows = day.queue.rows()
        assert (row.place, row.pid, row.program, row.gpus) == (1, 71, "a.out", 1)
        assert waiters_for(rows, FIRST.uid, Visible.NOTHING) == rows
        assert waiters_for(rows, 5, Visible.NOTHING) == []
        (hidden,) = waiters_for(rows, 5, Visible.SIZES)
        assert (hidden.pid, hidden.program, hidden.reason) == (0, "", "")
        command.ended.set()

    day("A100")(test)


def test_a_name_in_the_list_is_short_and_safe_on_a_terminal() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.6))
        command = day.wait(Share(gpu=0.6))
        await day.until(lambda: command.waits)
        (waiter,) = day.queue.waiting
        waiter.asked = msgspec.structs.replace(waiter.asked, name="\x1bc" + "x" * 60_000)
        (row,) = day.queue.rows()
        assert row.program == "?c" + "x" * (protocol.NAME_MAX - 2)
        command.ended.set()

    day("A100")(test)


def test_equal_requests_are_tried_once() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.6))
        commands = [day.wait(Share(gpu=0.6)) for _ in range(30)]
        await day.until(lambda: all(command.waits for command in commands))
        tries = []

        def attempt(_: object) -> protocol.Created:
            tries.append(1)
            raise ShareTaken("none has room", "")

        for waiter in day.queue.waiting:
            waiter.attempt = attempt
        await day.tried()
        assert len(tries) <= 2  # once in each look: one may have been under way
        for command in commands:
            command.ended.set()

    day("A100")(test)


def test_equal_requests_of_others_are_tried_too() -> None:
    async def test(day: Day) -> None:
        running = [await day.run(Share(gpu=gpu)) for gpu in (0.3, 0.7)]
        first, second = day.wait(Share(gpu=0.3)), day.wait(Share(gpu=0.3), ANY, OTHER)
        await day.until(lambda: first.waits and second.waits)
        event = ev.GuaranteesSet({f"user {OTHER.uid}": 0.3}, {})
        assert not list(day.agent.machine.arbiter.handle(0.0, event))
        day.end(running[0])
        assert (await second.answer).id, "it is guaranteed what the first may not have"
        assert first.waits
        first.ended.set()

    day("A100")(test)


def test_a_small_one_that_waits_does_not_pass_a_large_one() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.5))
        large, small = day.wait(Share(gpu=0.9)), day.wait(Share(gpu=0.4))
        await day.until(lambda: large.waits and small.waits)
        await day.tried()
        assert small.waits
        assert "waited for longer" in day.queue.rows()[1].reason
        day.end(running)
        began = await large.answer
        await day.tried()
        assert small.waits
        day.end(began)
        assert (await small.answer).id

    day("A100")(test)


def test_what_began_since_the_first_came_counts_for_the_first() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.5))
        first = day.wait(Share(gpu=0.6))
        await day.until(lambda: first.waits)
        await day.run(Share(gpu=0.3))
        second = day.wait(Share(gpu=0.6))
        await day.until(lambda: second.waits)
        with pytest.raises(ShareTaken, match="waited for longer"):
            await day.run(Share(gpu=0.2))
        for command in (first, second):
            command.ended.set()

    day("A100")(test)


def test_one_whose_user_may_have_no_more_waits_and_keeps_nothing() -> None:
    async def test(day: Day) -> None:
        here = CardRequest(named=("0",))
        running = await day.run(Share(gpu=0.1), here)

        def check(_: int, share: Share, *, alone: bool = False, **__: object) -> None:
            if share.gpu == 0.8 and not alone and running.id in day.agent.workloads.by_id:
                raise UserLimit("user 5 may have 80 % in all", "users.toml:1")

        limits: Any = SimpleNamespace(check=check, gpus_of=lambda _: None)
        day.agent.creation.limits = limits
        own = day.wait(Share(gpu=0.8), here)
        await day.until(lambda: own.waits)
        other = await day.run(Share(gpu=0.9), here)
        day.end(running)
        await day.until(lambda: "promised to others" in own.reasons[-1])
        with pytest.raises(ShareTaken):
            await day.run(Share(gpu=0.1), here)
        day.end(other)
        assert (await own.answer).id

    day("A100", "A100")(test)
