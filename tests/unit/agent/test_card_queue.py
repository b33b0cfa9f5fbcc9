"""Commands that wait for GPUs with room: their order, what is kept for them, and how they leave."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.arbiter import events as ev
from moiety.model.cards import CardRequest
from moiety.model.errors import ShareTaken
from moiety.model.share import Share
from tests.unit.agent.queued_commands import ANY, FIRST, OTHER, STARTED, Day, day, quicken
from tests.unit.agent.test_cards import GIB, TOTAL


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


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
