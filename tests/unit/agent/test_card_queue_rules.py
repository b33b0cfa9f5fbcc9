"""Commands that wait for GPUs while the rules for users change."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from moiety.arbiter import events as ev
from moiety.model.cards import CardRequest
from moiety.model.errors import BadArgument, MoietyError, ShareTaken, UserLimit
from moiety.model.share import Share
from tests.unit.agent.queued_commands import ANY, FIRST, OTHER, Day, day, quicken
from tests.unit.agent.test_cards import GIB


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


def guarantee(day: Day, parts: dict[str, float]) -> None:
    """The users file is read again, and guarantees this."""
    assert not list(day.agent.machine.arbiter.handle(0.0, ev.GuaranteesSet(parts)))
    day.queue.changed()


def limit(day: Day, most: dict[int, float], gpus: tuple[int, ...] | None = None) -> None:
    """The users file is read again: each of these users may request this part of a GPU in all.

    `gpus` are the only ones that the first user may use.
    """

    def check(uid: int, share: Share, *_: object, **__: object) -> None:
        if (share.gpu or 0.0) > most.get(uid, 1.0):
            raise UserLimit(f"user {uid} may have {most[uid]:.0%} in all", "users.toml:1")

    limits: Any = SimpleNamespace(
        check=check, gpus_of=lambda uid: gpus if uid == FIRST.uid else None
    )
    day.agent.creation.limits = limits
    day.queue.changed()


@pytest.mark.parametrize("names", [("A100",), ("A100", "A100")])
@pytest.mark.parametrize("request_", [ANY, CardRequest(exclusive=True), None])
def test_one_that_other_users_guarantees_leave_no_room_any_more_is_refused(
    names: tuple[str, ...], request_: CardRequest | None
) -> None:
    async def test(day: Day) -> None:
        for _ in names:
            await day.run(Share(gpu=0.5))
        is_exclusive = request_ is not None and request_.exclusive
        share = Share() if is_exclusive else Share(gpu=0.8)
        refused = day.wait(share, request_)
        small = day.wait(Share(gpu=0.6), request_ and ANY)
        guaranteed = day.wait(share, request_, OTHER)
        await day.until(lambda: refused.waits and small.waits and guaranteed.waits)
        guarantee(day, {f"user {OTHER.uid}": 0.3})
        with pytest.raises(ShareTaken, match="30 % of each are guaranteed to others") as error:
            await refused.answer
        assert "--gpu 0.7 or less" in error.value.hint
        await day.tried()
        assert small.waits, "it fits beside the guarantee"
        assert guaranteed.waits, "the guarantee is its own"
        assert [row.place for row in day.queue.rows()] == [1, 2]
        for command in (small, guaranteed):
            command.ended.set()

    day(*names)(test)


def test_a_guaranteed_user_does_not_wait_behind_an_equal_request_of_another() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.3))
        running = await day.run(Share(gpu=0.4))
        first, second = day.wait(Share(gpu=0.4)), day.wait(Share(gpu=0.4), peer=OTHER)
        await day.until(lambda: first.waits and second.waits)
        guarantee(day, {f"user {OTHER.uid}": 0.4})
        await day.tried()
        assert first.waits
        assert second.waits
        day.end(running)
        assert (await second.answer).id
        assert first.waits
        first.ended.set()

    day("A100")(test)


def test_one_whose_user_may_never_have_it_any_more_is_refused() -> None:
    async def test(day: Day) -> None:
        await day.run(Share(gpu=0.5))
        whole = day.wait(Share(), CardRequest(exclusive=True))
        refused, other = day.wait(Share(gpu=0.8)), day.wait(Share(gpu=0.8), peer=OTHER)
        await day.until(lambda: whole.waits and refused.waits and other.waits)
        limit(day, {FIRST.uid: 0.6})
        for command in (whole, refused):
            with pytest.raises(UserLimit, match="user 1001 may have 60%"):
                await command.answer
        await day.tried()
        assert other.waits
        other.ended.set()

    day("A100")(test)


def test_a_part_of_the_memory_is_compared_with_its_users_limit() -> None:
    async def test(day: Day) -> None:
        def check(_: int, share: Share, *__: object, **___: object) -> None:
            if (share.memory_limit_bytes or 0) > 30 * GIB:
                raise UserLimit("the user may have 30 GiB", "users.toml:1")

        await day.run(Share(gpu=0.5))
        refused = day.wait(Share(gpu=0.8, memory_limit_part=0.5))
        other = day.wait(Share(gpu=0.8, memory_limit_part=0.3))
        await day.until(lambda: refused.waits and other.waits)
        limits: Any = SimpleNamespace(check=check, gpus_of=lambda _: None)
        day.agent.creation.limits = limits
        day.queue.changed()
        with pytest.raises(UserLimit):
            await refused.answer
        await day.tried()
        assert other.waits
        other.ended.set()

    day("A100")(test)


def test_a_gpu_that_a_user_may_use_no_more_is_not_kept_for_it() -> None:
    async def test(day: Day) -> None:
        for _ in range(2):
            await day.run(Share(gpu=0.3))
        first, both = day.wait(Share(gpu=0.8)), day.wait(Share(gpu=0.8), CardRequest(2))
        await day.until(lambda: first.waits and both.waits)
        limit(day, {}, gpus=(1,))
        with pytest.raises(BadArgument, match="1 of the kind are here for you"):
            await both.answer
        await day.tried()
        assert first.waits
        here = CardRequest(named=("0",))
        assert (await day.run(Share(gpu=0.6), here, OTHER)).cards[0].gpu == 0
        with pytest.raises(ShareTaken, match="waited for longer"):
            await day.run(Share(gpu=0.6), CardRequest(named=("1",)), OTHER)
        first.ended.set()

    day("A100", "A100")(test)


def test_a_fault_while_one_is_looked_at_keeps_no_other_from_its_turn() -> None:
    async def test(day: Day) -> None:
        running = await day.run(Share(gpu=0.5), CardRequest(named=("0",)))
        first = day.wait(Share(gpu=0.8))
        second = day.wait(Share(gpu=0.6))
        await day.until(lambda: first.waits and second.waits)

        def fail(_: MoietyError) -> dict[int, Share]:
            raise BadArgument("there is no such GPU any more")

        day.queue.waiting[0].possible = fail
        day.queue.changed()
        with pytest.raises(BadArgument, match="any more"):
            await first.answer
        day.end(running)
        assert (await second.answer).id

    day("A100")(test)
