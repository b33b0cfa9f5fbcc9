"""Orders to evict that end without their bytes: asked again less and less often, and reported."""

from __future__ import annotations

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from tests.support.simulated_node import handle

DEADLINE_S = 10.0
TOTAL = 100_000
HELD = 64_000


class Evicting:
    """A tenant that has bytes and answers orders to evict as a test says, beside one that waits."""

    def __init__(self, policy: OverduePolicy = OverduePolicy.REPORT) -> None:
        settings = Settings(1 << 20, revoke_deadline_s=DEADLINE_S, overdue=policy, turn_factor=0.0)
        self.arbiter = Arbiter([GpuSpec(0, 120_000, TOTAL)], settings)
        self.now_s = 0.0
        self.resident = HELD
        self.orders: list[float] = []
        """When each order came."""
        self.late: list[do.Overdue] = []
        self.moves = 0
        self.failed = False
        for number in (1, 2):
            self.tell(ev.Hello(number))
            self.tell(ev.Attach(number, 0, 1, 0, TOTAL))
            self.tell(ev.AllocRequest(number, 0, 2, HELD))
        self.run(1.0)

    def tell(self, event: ev.Event) -> None:
        for told in handle(self.arbiter, self.now_s, event):
            if isinstance(told, do.Revoke):
                self.tell(ev.Drained(told.tenant, told.epoch, 0, self.resident))
            elif isinstance(told, do.Evict):
                self.orders.append(self.now_s)
                self.evict(told)
            elif isinstance(told, do.Overdue):
                self.late.append(told)

    def evict(self, told: do.Evict) -> None:
        moved = min(self.moves, told.bytes)
        self.resident -= moved
        self.answer = ev.Evicted(
            told.tenant, 0, moved, self.resident, last=True, failed=self.failed
        )

    def run(self, seconds: float) -> None:
        """Let time pass; each order is answered a millisecond after it came."""
        until_s = self.now_s + seconds
        while self.now_s < until_s:
            self.now_s += 0.001
            if answer := self.__dict__.pop("answer", None):
                self.tell(answer)
            due_s = self.arbiter.deadline_s
            if due_s is not None and due_s <= self.now_s:
                self.tell(ev.Tick())


@pytest.mark.parametrize("failed", [False, True])
def test_an_order_that_ends_without_its_bytes_is_no_answer(failed: bool) -> None:
    node = Evicting()
    node.failed = failed
    node.run(4 * DEADLINE_S)
    assert len(node.orders) < 20, "it is asked again less and less often"
    assert {each.tenant for each in node.late} == {1}
    assert node.late[0].waited_s >= DEADLINE_S
    assert 1 <= len(node.late) <= 4
    assert not any(each.kill for each in node.late)


@pytest.mark.parametrize("failed", [False, True])
def test_it_is_ended_where_that_is_the_policy(failed: bool) -> None:
    node = Evicting(OverduePolicy.KILL)
    node.failed = failed
    node.run(1.5 * DEADLINE_S)
    assert node.late
    assert node.late[0].kill


def test_a_byte_now_and_then_does_not_renew_the_deadline() -> None:
    node = Evicting()
    node.moves = 1
    node.run(1.2 * DEADLINE_S)
    assert [each.tenant for each in node.late] == [1]


def test_one_that_fails_once_is_not_reported() -> None:
    node = Evicting(OverduePolicy.KILL)
    node.failed = True
    node.run(1.0)
    node.failed, node.moves = False, HELD
    node.run(2 * DEADLINE_S)
    assert not node.late
    states = {view.tenant: view.state for view in node.arbiter.tenants()}
    assert states[2] == "holding"


def test_bytes_that_leave_at_a_good_rate_renew_it() -> None:
    node = Evicting()
    node.moves = 4_000
    node.run(2 * DEADLINE_S)
    assert not node.late
    assert node.resident == TOTAL - HELD


def test_what_failed_long_ago_does_not_count() -> None:
    node = Evicting()
    node.failed = True
    node.run(0.5)
    node.tell(ev.Left(2))
    node.run(2 * DEADLINE_S + 61)
    node.tell(ev.Hello(3))
    node.tell(ev.Attach(3, 0, 1, 0, TOTAL))
    node.tell(ev.AllocRequest(3, 0, 2, HELD))
    node.run(DEADLINE_S / 2)
    assert not node.late
