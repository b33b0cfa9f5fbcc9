"""One round of deciding: a fresh look at the whole state, and everything that follows from it."""

from __future__ import annotations

from moiety.arbiter.schedule.queue_depth import pace
from moiety.arbiter.schedule.round import Scene
from moiety.arbiter.schedule.select import make_fit, refuse_outgrown, take_turns
from moiety.arbiter.schedule.throttle import end_windows, mend, separate
from moiety.arbiter.schedule.transfers import (
    answer_requests,
    finish_coming,
    give_room,
    order_evictions,
)


def decide(scene: Scene) -> None:
    """Every phase, in the order in which one makes way for the next."""
    if scene.asking:
        refuse_outgrown(scene)
    finish_coming(scene)
    scene.accounts.refresh()
    granted = True
    while granted:  # whoever got its lease may be in the way of those who wait
        if scene.ledger.gangs:
            mend(scene)
        make_fit(scene)
        if scene.has_rivals:
            separate(scene)
        if scene.has_limited:
            end_windows(scene)
        if scene.asking or scene.ledger.queue:
            take_turns(scene)
        order_evictions(scene)
        if scene.asking:
            answer_requests(scene)
        give_room(scene)
        granted = finish_coming(scene)
    scene.watch_crowded()
    if scene.watched:
        scene.end_watches()
    pace(scene)
