"""Commands that wait for GPUs: what is refused at once, what one user may have, what one sees."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from moiety.agent.control import protocol
from moiety.agent.control.visibility import waiters_for
from moiety.agent.core.rate_limits import UserQuota
from moiety.arbiter import events as ev
from moiety.config.values import Visible
from moiety.model.cards import CardRequest
from moiety.model.errors import LimitAboveCapacity, MemoryAboveGpu, ShareTaken, TooMany, UserLimit
from moiety.model.share import Share
from tests.unit.agent.queued_commands import ANY, FIRST, OTHER, Day, day, quicken
from tests.unit.agent.test_cards import TOTAL


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


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
        other = day.wait(Share(gpu=0.6), peer=OTHER)
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
        other = day.wait(Share(gpu=0.6), request_ and ANY, OTHER)
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
