"""An arbiter is taken down and made again, and neither side can tell; damage is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from moiety.arbiter import events as ev
from moiety.arbiter.checkpoint import BadCheckpoint, Checkpoint, names, portable, restore, take
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.replay import Replay, Step, replay
from moiety.arbiter.settings import GpuSpec, OverduePolicy, Settings
from moiety.model.share import Priority, Share


def busy_arbiter() -> Arbiter:
    made = Arbiter(
        [GpuSpec(0, 100, 90), GpuSpec(1, 100, 90)], Settings(1000, overdue=OverduePolicy.FENCE)
    )
    for number in (1, 2, 3):
        share = Share(gpu=0.2, priority=Priority.HIGH)
        list(
            made.handle(number, ev.Hello(number, share=share, name=f"program {number}", uid=number))
        )
        list(made.handle(number, ev.Attach(number, 0, 1, 2, 90)))
        list(made.handle(number, ev.AllocRequest(number, 0, 2, 50)))
    list(made.handle(4, ev.GangJoined(2, "both")))
    list(made.handle(4, ev.GangJoined(3, "both")))
    list(made.handle(5, ev.UserLimitsSet({1: (80, "a rule")})))
    return made


def through_json(checkpoint: Checkpoint) -> Checkpoint:
    classes, tree = json.loads(json.dumps([checkpoint.classes, portable(checkpoint.tree)]))
    return Checkpoint([(path, fields) for path, fields in classes], tree)


def test_what_is_made_again_is_the_same() -> None:
    arbiter = busy_arbiter()
    taken = take(arbiter)
    again = restore(through_json(taken))
    assert take(again) == taken
    assert again.tenants() == arbiter.tenants()
    assert again.gpus() == arbiter.gpus()


def test_what_is_shared_is_shared_again() -> None:
    again = restore(through_json(take(busy_arbiter())))
    second, third = (again._context.ledger.tenants[number] for number in (2, 3))
    assert second.gang is not None
    assert second.gang is third.gang
    assert second.gang.members[0] is second
    assert again._context.fair_share._ledger is again._context.ledger


def test_taking_it_down_changes_nothing() -> None:
    arbiter = busy_arbiter()
    assert take(arbiter) == take(arbiter)


def test_names_are_found_with_their_class() -> None:
    found = names(take(busy_arbiter()))
    programs = [("Tenant", f"program {n}") for n in (1, 2, 3)]
    assert sorted(found) == [*programs, ("TenantGang", "both")]


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1 << 64, -(1 << 70)])
def test_numbers_that_json_lacks_survive(value: float) -> None:
    arbiter = busy_arbiter()
    arbiter._context.ledger.tenants[1].drain.told_s = value
    again = restore(through_json(take(arbiter)))
    assert again._context.ledger.tenants[1].drain.told_s == value


def mended(change: Any) -> Checkpoint:
    found = take(busy_arbiter())
    classes = [(path, list(fields)) for path, fields in found.classes]
    tree = json.loads(json.dumps(portable(found.tree)))
    return change(classes, tree)  # type: ignore[no-any-return]


def with_classes(change: Callable[[list[str]], list[str]]) -> Checkpoint:
    found = take(busy_arbiter())
    return Checkpoint([(path, change(fields)) for path, fields in found.classes], found.tree)


def with_tree(tree: Any) -> Checkpoint:
    return Checkpoint(take(busy_arbiter()).classes, tree)


def test_what_has_other_fields_or_classes_is_refused() -> None:
    tree = take(busy_arbiter()).tree
    for damaged in (
        with_classes(lambda fields: fields[1:]),
        with_classes(lambda fields: [*fields, "step"]),
        with_tree(tree[:-1]),
        Checkpoint([], tree),
        Checkpoint([("os.system", [])], ["o", 0]),
        Checkpoint([("moiety.agent.service.Service", [])], ["o", 0]),
        Checkpoint([("moiety.arbiter.checkpoint.restore", [])], ["o", 0]),
    ):
        with pytest.raises(BadCheckpoint):
            restore(damaged)


ARBITER = "moiety.arbiter.machine.Arbiter"


@pytest.mark.parametrize("tree", [["r", 7], ["l"], 7, ["?"], [], [7], ["e", ARBITER, 1]])
def test_what_is_no_checkpoint_is_refused(tree: Any) -> None:
    with pytest.raises(BadCheckpoint):
        restore(with_tree(tree))


def test_a_replay_names_the_first_difference() -> None:
    arbiter = busy_arbiter()
    start = take(arbiter)
    live = Replay(start)
    events: list[tuple[float, ev.Event]] = [
        (6.0, ev.Left(1)),
        (7.0, ev.LeaseRequest(2)),
        (8.0, ev.LeaseRequest(3)),
    ]
    steps = [Step(now_s, each, tuple(live.decide(now_s, each))) for now_s, each in events]
    assert replay(start, steps).difference is None
    assert any(step.instructions for step in steps)
    at = next(i for i, step in enumerate(steps) if step.instructions)
    steps[at] = Step(steps[at].now_s, steps[at].event, steps[at].instructions[:-1])
    found = replay(start, steps).difference
    assert found is not None
    assert (found.number, found.expected) == (at + 1, None)
    assert found.got is not None


def test_a_replay_tells_what_the_arbiter_raised() -> None:
    start = take(busy_arbiter())
    found = replay(start, [Step(9.0, "no event", ())]).difference  # type: ignore[arg-type]
    assert found is not None
    assert "KeyError" in found.error
