"""Overcommitted memory: nothing is lost, nothing leaves without room, and who can go on does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings, WhenFull
from tests.support.arbiter_days import first_quarter, overcommitted_day
from tests.support.arbiter_rules import Anything
from tests.support.simulated_node import SimulatedNode, handle
from tests.support.simulated_tenants import SimulatedTenant

T = TypeVar("T")
NO_ROOM = "the host has no room for others' data"


def made(
    factor: float = 2.0, arena: int = 40, when_full: WhenFull = WhenFull.WAIT
) -> SimulatedNode:
    """One GPU with 100 bytes for data."""
    settings = Settings(arena, overcommit=factor, when_full=when_full, turn_factor=0.0)
    return SimulatedNode([GpuSpec(0, 120, 100)], settings)


def asking(node: SimulatedNode, *chunks: int) -> SimulatedTenant:
    """A program that has asked for memory, and has used it if it could."""
    tenant = node.start({0: list(chunks)})
    turn(node, tenant)
    return tenant


def turn(node: SimulatedNode, tenant: SimulatedTenant) -> None:
    """Let a tenant have the turn that it wants, if it can within a second."""
    for _ in range(4):
        tenant.touch()
        node.settle()
        node.tick(0.25)
        node.settle()


def write(tenant: SimulatedTenant, *chunks: int) -> None:
    assert tenant.is_open
    for chunk in chunks:
        tenant.write(tenant.blocks[0], chunk)


def said(node: SimulatedNode, kind: type[T]) -> list[T]:
    return [told for told in node.told if isinstance(told, kind)]


def test_it_is_off_by_default_and_then_asks_nothing() -> None:
    node = made(factor=Settings(0).overcommit)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    assert two.refusals
    assert not one.refusals
    third = asking(node, 20, 20, 20)
    turn(node, third)
    assert third.is_open
    assert not said(node, do.ContentQuery)


@pytest.mark.parametrize(("factor", "fit"), [(1.0, 1), (2.0, 3), (3.0, 5)])
def test_the_sum_may_be_that_many_times_gpu_and_arena(factor: float, fit: int) -> None:
    node = made(factor)
    tenants = [asking(node, 25, 25, 25) for _ in range(6)]
    assert [bool(t.refusals) for t in tenants] == [False] * fit + [True] * (6 - fit)
    if factor > 1:
        assert f"overcommitted {factor:g} times" in tenants[-1].refusals[0].text


@pytest.mark.parametrize("kind", ["pinned", "managed"])
def test_bytes_that_are_surely_needed_count_in_full(kind: str) -> None:
    node = made(2.0)
    asking(node, 60)
    two = asking(node, 60)
    kinds: dict[str, Any] = {kind: True}
    node.feed(ev.AllocRequest(two.number, 0, 99, 85, **kinds))
    assert any(told.serial == 99 for told in said(node, do.Refused))


def test_programs_that_write_little_take_turns() -> None:
    node = made(3.0, arena=40)
    tenants = [asking(node, 5, 35, 35) for _ in range(4)]
    assert not any(t.refusals for t in tenants)
    for tenant in tenants * 3:
        turn(node, tenant)
        assert tenant.is_open
        write(tenant, 0)
    assert said(node, do.ContentQuery)
    assert not said(node, do.HostShort)


def test_nothing_leaves_without_room_and_the_holder_gets_its_lease_back() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    assert one.resident_bytes(0) == 75
    assert not two.is_open
    assert NO_ROOM in node.view(two).reason
    turn(node, one)
    assert one.is_open
    (told, *_) = said(node, do.HostShort)
    assert told.tenant == two.number
    assert not told.kill
    assert "10 B short" in told.text


def test_it_is_tried_again_less_and_less_often() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    two.touch()
    for _ in range(300):
        one.touch()
        node.settle()
        node.tick(1.0)
    assert 5 <= len(said(node, do.HostShort)) <= 15


def test_it_goes_on_at_once_when_there_is_room() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    assert node.view(two).state == "queued"
    node.feed(ev.ArenaSet(80))
    node.settle()
    assert node.view(two).state in ("restoring", "holding")


def test_it_goes_on_when_the_other_has_ended() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    node.kill(one)
    node.settle()
    assert two.is_open


def test_one_that_can_go_on_passes_one_that_cannot() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    small = asking(node, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    assert not two.is_open
    turn(node, small)
    assert small.is_open


def test_killed_where_it_is_so_set() -> None:
    node = made(2.0, arena=40, when_full=WhenFull.KILL)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    (told, *_) = said(node, do.HostShort)
    assert (told.tenant, told.kill) == (two.number, True)


def test_what_a_holder_asks_beyond_the_hosts_room_is_refused() -> None:
    node = made(2.0, arena=20)
    one, two = asking(node, 25, 25, 25), asking(node, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    turn(node, two)
    assert two.is_open
    two.allocate(0, [25, 25])
    node.settle()
    node.tick(5.0)
    node.settle()
    assert [NO_ROOM in refusal.text for refusal in two.refusals] == [True]
    assert one.resident_bytes(0) == 75


def test_a_tenant_that_comes_beyond_the_hosts_room_is_refused() -> None:
    node = made(2.0, arena=10)
    one, two = asking(node, 25, 25), asking(node, 25, 25)
    for tenant in (one, two):
        turn(node, tenant)
        write(tenant, 0, 1)
    for tenant in (one, two):
        tenant.fall_idle()
    node.settle()
    late = node.join()
    late.attach(0, 40, 100)
    node.settle()
    node.tick(5.0)
    node.settle()
    assert late.refusals
    assert not late.contexts
    assert (one.resident_bytes(0), two.resident_bytes(0)) == (50, 50)


def test_settings_that_are_taken_back_leave_the_check() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, one)
    write(one, 0, 1, 2)
    node.feed(ev.SettingsSet(replace(node.settings, overcommit=1.0)))
    turn(node, two)
    assert one.resident_bytes(0) == 75
    assert not two.is_open


def test_what_is_on_the_host_already_takes_room() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25, 25)
    turn(node, two)
    write(two, 0, 1)
    turn(node, one)
    write(one, 0, 1, 2)
    assert two.chunks_on(0, resident=False, data=True) == 25
    third = asking(node, 25)  # 25 more bytes of data would have to leave
    assert [NO_ROOM in refusal.text for refusal in third.refusals] == [True]
    assert two.chunks_on(0, resident=False, data=True) == 25


def test_what_was_freed_is_counted_anew() -> None:
    node = made(2.0, arena=40)
    one, two = asking(node, 25, 25, 25), asking(node, 25, 25)
    two.allocate(0, [25])
    turn(node, two)
    write(two, 0, 1)
    turn(node, one)
    assert two.chunks_on(0, resident=False, data=True) == 25
    two.free(two.blocks[0])  # the 25 bytes that are left on the host are zeros
    node.settle()
    write(one, 0, 1, 2)
    node.feed(ev.ContentReply(one.number, 0, 75, 0))  # it was not asked: that changes nothing
    third = asking(node, 25, 25)
    assert third.is_open
    assert one.chunks_on(0, resident=False, data=True) == 25


@pytest.mark.parametrize("first", first_quarter(range(0, 120, 15)))
def test_many_overcommitted_days(first: int) -> None:
    short = 0
    for seed in range(first, first + 15):
        day = Anything()
        for _ in overcommitted_day(day, seed):
            day.what_is_there_fits()
            day.holders_have_every_byte()
            day.the_ledger_never_says_less()
            day.evicted_data_has_room()
        short += len(said(day.node, do.HostShort))
        day.teardown()
    assert short, "the host always had room"


def test_a_context_that_is_refused_leaves_nothing_behind() -> None:
    specs = [GpuSpec(gpu, total_bytes=120, capacity_bytes=100) for gpu in (0, 1)]
    arbiter = Arbiter(specs, Settings(arena_bytes=0, overcommit=2.0))
    first, last, comes = 1, 2, 3

    def say(now_s: float, event: ev.Event) -> list[do.Instruction]:
        told = handle(arbiter, now_s, event)
        arbiter.check()
        return told

    for number, gpu, size in ((first, 0, 60), (last, 0, 40), (comes, 1, 10)):
        say(1.0, ev.Hello(number))
        say(1.0, ev.Attach(number, gpu, 1, 0, 100))
        say(1.0, ev.LeaseRequest(number))
        assert do.Admitted(number, gpu, 2) in say(1.0, ev.AllocRequest(number, gpu, 2, size))
    # All of GPU 0 is data that the host has no room for, and a context would take some of it.
    assert do.Revoke(first, 1) in say(2.0, ev.Attach(comes, 0, 3, 30, 100))
    say(2.0, ev.LeaseRequest(first))
    assert do.Revoke(last, 1) in say(2.0, ev.Drained(first, 1, 0, 60))
    say(2.0, ev.LeaseRequest(last))
    assert say(2.0, ev.Drained(last, 1, 0, 40)) == [do.ContentQuery(last, 0)]
    say(2.0, ev.DriverOom(comes, 0, 4, 1, 0))
    told = say(2.0, ev.ContentReply(last, 0, 0, 0))
    refused = [each for each in told if isinstance(each, do.Refused)]
    assert {(each.tenant, each.gpu, each.serial) for each in refused} == {
        (comes, 0, 3),
        (comes, 0, 4),
    }
    assert [list(view.gpus) for view in arbiter.tenants()] == [[0], [0], [1]]
    granted = [each for _ in range(5) for each in say(arbiter.deadline_s or 9.0, ev.Tick())]
    assert do.Grant(last, 2) in granted
    assert do.Admitted(comes, 0, 5) in say(9.0, ev.Attach(comes, 0, 5, 20, 100))
