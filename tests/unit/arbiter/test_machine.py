"""The machine: every event has its handler, and instructions come as soon as they are decided."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.arbiter.machine import HANDLERS, Arbiter
from moiety.arbiter.settings import GpuSpec, Settings
from moiety.arbiter.states import State
from moiety.model.share import Share


@pytest.fixture
def arbiter() -> Arbiter:
    """Two tenants that take turns on one GPU, and hold nothing."""
    arbiter = Arbiter([GpuSpec(0, 120, 100)], Settings(arena_bytes=1000, turn_min_s=0.0))
    for number, share in enumerate([Share(gpu=0.5), Share(gpu=0.3, latency=True)], 1):
        for event in (ev.Hello(number, share=share), ev.Attach(number, 0, 1, 2, 100)):
            list(arbiter.handle(0.0, event))
    return arbiter


def states(arbiter: Arbiter) -> list[str]:
    return [view.state for view in arbiter.tenants()]


def test_every_event_has_a_handler_of_its_name() -> None:
    assert set(HANDLERS) == set(get_args(ev.Event))
    for event, handler in HANDLERS.items():
        stem = re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()
        assert handler.__name__ == f"on_{stem}"


def test_a_lease_comes_before_the_rest_is_decided(arbiter: Arbiter) -> None:
    list(arbiter.handle(1.0, ev.LeaseRequest(1)))
    told = arbiter.handle(2.0, ev.LeaseRequest(2))
    assert next(told) == do.Revoke(1, 1)
    assert do.StateChanged(1, (0,), State.HOLDING, 1.0, State.DRAINING) in told


def test_a_lease_that_waits_for_one_drain_comes_before_the_round(arbiter: Arbiter) -> None:
    list(arbiter.handle(1.0, ev.LeaseRequest(1)))
    list(arbiter.handle(2.0, ev.LeaseRequest(2)))
    told = arbiter.handle(2.05, ev.Drained(1, 1, 0, 0))
    assert next(told) == do.Grant(2, 1)
    assert states(arbiter) == ["draining", "restoring"]
    rest = list(told)
    assert do.Grant(2, 1) not in rest
    assert states(arbiter) == ["idle", "holding"]


def test_stays_end_before_what_follows_and_after_the_lease(arbiter: Arbiter) -> None:
    list(arbiter.handle(1.0, ev.LeaseRequest(1)))
    list(arbiter.handle(2.0, ev.AllocRequest(2, 0, 2, 10)))
    kinds = [type(told) for told in arbiter.handle(3.0, ev.Drained(1, 1, 0, 0))]
    assert kinds.index(do.Grant) < kinds.index(do.StateChanged) < kinds.index(do.Admitted)


def test_no_event_comes_before_all_instructions_were_taken(arbiter: Arbiter) -> None:
    told = arbiter.handle(1.0, ev.LeaseRequest(1))
    with pytest.raises(RuntimeError, match="before all instructions"):
        arbiter.handle(1.0, ev.Tick())
    assert next(told) == do.Grant(1, 1)
    with pytest.raises(RuntimeError, match="before all instructions"):
        arbiter.handle(1.0, ev.Tick())
    list(told)
    list(arbiter.handle(1.0, ev.Tick()))


def test_an_event_that_fails_does_not_block_the_next_one(arbiter: Arbiter) -> None:
    with pytest.raises(KeyError):
        list(arbiter.handle(1.0, object()))  # type: ignore[arg-type]
    assert do.Grant(1, 1) in arbiter.handle(1.0, ev.LeaseRequest(1))


def test_what_is_evicted_is_summed_as_the_rows_show_it(arbiter: Arbiter) -> None:
    assert arbiter.evicted_bytes() == 0
    list(arbiter.handle(1.0, ev.LeaseRequest(1)))
    list(arbiter.handle(1.0, ev.AllocRequest(1, 0, 2, 60)))
    list(arbiter.handle(2.0, ev.LeaseRequest(2)))
    list(arbiter.handle(2.0, ev.Drained(1, 1, 0, 60)))
    told = list(arbiter.handle(2.0, ev.AllocRequest(2, 0, 2, 60)))
    (order,) = [each for each in told if isinstance(each, do.Evict)]
    left = ev.Evicted(1, 0, order.bytes, 60 - order.bytes, last=True, failed=False)
    list(arbiter.handle(3.0, left))
    shown = [on for view in arbiter.tenants() for on in view.gpus.values()]
    away = sum(max(0, on.allocated_bytes - on.resident_bytes) for on in shown)
    assert arbiter.evicted_bytes() == away >= order.bytes > 0
