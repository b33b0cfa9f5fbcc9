"""Messages that cross each other, one by one."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from tests.support.simulated_node import handle


class Talk:
    """An arbiter with one GPU of 100 bytes (and 20 for contexts), spoken to word by word."""

    def __init__(self, *sizes: int) -> None:
        self.arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000))
        self.now_s = 0.0
        for number, size in enumerate(sizes, 1):  # all there, evicted, and wanting nothing
            self.say(ev.Hello(number))
            self.say(ev.Attach(number, 0, 0, 0, 100, allocated_bytes=size))

    def say(self, event: ev.Event) -> list[do.Instruction]:
        return handle(self.arbiter, self.now_s, event)

    def later(self, seconds: float = 1000.0) -> list[do.Instruction]:
        self.now_s += seconds
        return self.say(ev.Tick())

    def come(self, number: int) -> list[do.Instruction]:
        return self.say(ev.LeaseRequest(number)) + self.say(ev.Restored(number))

    def free_bytes(self) -> int:
        return self.arbiter.gpus()[0].free_bytes


def test_who_is_granted_at_once_has_its_turn_end_for_those_behind_it() -> None:
    talk = Talk()
    talk.arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000), settled=False)
    for number in (1, 2):
        talk.say(ev.Hello(number, resumed=True))
        talk.say(ev.Attach(number, 0, 0, 0, 100, allocated_bytes=60))
    talk.say(ev.LeaseRequest(1))
    talk.say(ev.LeaseRequest(2))
    talk.say(ev.Free(1, 0, 60, 0))
    talk.say(ev.AllocRequest(1, 0, 1, 60))
    assert talk.say(ev.Settled()) == [
        do.Grant(1, 1),
        do.Admitted(1, 0, 1),
        do.SetIdleTimeout(1, 0.02),
        do.SetQueueDepth(1, 0.002),
    ]
    assert talk.arbiter.deadline_s is not None


def test_a_lease_waits_for_the_end_of_an_eviction_under_way() -> None:
    talk = Talk(60, 60)
    talk.come(1)
    talk.say(ev.LeaseRequest(2))
    assert do.Revoke(1, 1) in talk.later()
    talk.say(ev.Resident(1, 0, 60))
    assert talk.say(ev.Drained(1, 1)) == [do.Evict(1, 0, 20)]
    talk.say(ev.Left(2))
    assert talk.say(ev.LeaseRequest(1)) == []
    assert talk.say(ev.Evicted(1, 0, 20, 40)) == []
    assert talk.say(ev.Evicted(1, 0, 0, 40, last=True)) == [do.RestoreBudget(1, 0, 20)]
    assert talk.say(ev.Restored(1)) == [do.Grant(1, 2), do.SetQueueDepth(1, 0.0)]


def test_what_was_ordered_is_not_ordered_again() -> None:
    talk = Talk(60, 60)
    talk.come(1)
    talk.say(ev.LeaseRequest(2))
    talk.later()
    talk.say(ev.Resident(1, 0, 60))
    assert talk.say(ev.Drained(1, 1)) == [do.Evict(1, 0, 20)]
    assert talk.say(ev.AllocRequest(2, 0, 1, 50)) != []  # refused: more than the GPU has
    assert talk.say(ev.AllocRequest(2, 0, 2, 40)) == [do.Evict(1, 0, 40)]
    assert talk.say(ev.Hello(3)) == []
    talk.say(ev.Evicted(1, 0, 20, 40, last=True))
    assert talk.say(ev.Tick()) == []


def postponed() -> Talk:
    """Tenant 2 has 40 bytes of room it did not use, and is postponed for a pinned one."""
    talk = Talk(60, 60, 30)
    talk.come(1)
    talk.say(ev.LeaseRequest(2))
    told = talk.later()
    assert do.RestoreBudget(2, 0, 40) in told
    talk.say(ev.Pinned(1, "cuIpcGetMemHandle"))
    talk.say(ev.Resident(1, 0, 60))
    talk.say(ev.Drained(1, 1))
    assert talk.arbiter.tenants()[1].state == "queued"
    return talk


def test_room_that_was_not_used_is_void_after_an_eviction() -> None:
    talk = postponed()
    assert talk.say(ev.LeaseRequest(3)) == [do.Evict(2, 0, 30)]
    told = talk.say(ev.Evicted(2, 0, 0, 0, last=True))
    assert told == [do.RestoreBudget(3, 0, 30)]
    assert talk.free_bytes() == 10


def test_room_that_was_not_used_is_void_although_another_eviction_goes_on() -> None:
    talk = postponed()
    assert talk.say(ev.LeaseRequest(3)) == [do.Evict(2, 0, 30)]
    assert talk.say(ev.AllocRequest(3, 0, 1, 5)) == [do.Evict(2, 0, 5)]
    assert talk.say(ev.Evicted(2, 0, 0, 0, last=True)) == [do.RestoreBudget(3, 0, 30)]
    assert talk.say(ev.Evicted(2, 0, 0, 0, last=True)) == []


def test_restored_before_it_read_the_eviction() -> None:
    talk = postponed()
    talk.say(ev.LeaseRequest(3))
    talk.say(ev.Restored(2))  # what it knows of is there; the rest was never mapped
    talk.say(ev.Evicted(2, 0, 0, 0, last=True))
    talk.say(ev.Free(2, 0, 60, 0))
    assert talk.arbiter.tenants()[1].state == "holding"


def test_a_large_context_never_makes_two_pinned_ones_fit() -> None:
    talk = Talk(60, 60)
    talk.come(1)
    talk.say(ev.Pinned(1))
    talk.say(ev.Measured(1, 0, 25))
    talk.say(ev.LeaseRequest(2))
    talk.later()
    assert talk.arbiter.gpus()[0].capacity_bytes <= 100
    assert "do not fit into" in talk.arbiter.tenants()[1].reason


def test_an_order_ends_with_its_gpu() -> None:
    talk = Talk(60, 60)
    talk.come(1)
    talk.say(ev.LeaseRequest(2))
    talk.later()
    talk.say(ev.Resident(1, 0, 60))
    talk.say(ev.Drained(1, 1))
    assert do.Overdue(1, 10.0, "idle") in talk.later(10.0)
    talk.say(ev.Detach(1, 0))
    assert talk.say(ev.LeaseRequest(1)) == [do.Grant(1, 2), do.SetQueueDepth(1, 0.0)]


def test_an_allocation_that_the_driver_refused_is_not_charged() -> None:
    talk = Talk(50)
    talk.come(1)
    talk.say(ev.AllocRequest(1, 0, 1, 30))
    talk.say(ev.Free(1, 0, 30, 0))
    assert talk.free_bytes() == 50


def test_a_word_from_before_an_eviction_does_not_count_after_it() -> None:
    talk = postponed()
    talk.say(ev.LeaseRequest(3))
    talk.say(ev.Restored(2))
    talk.say(ev.Evicted(2, 0, 30, 10, last=True))
    assert talk.say(ev.Left(1)) == [do.RestoreBudget(2, 0, 50)]
    assert talk.say(ev.Restored(2)) == [do.Grant(2, 1), do.SetQueueDepth(2, 0.002)]
