"""One round of deciding: a fresh look at the whole state, and everything that follows from it."""

from __future__ import annotations

from collections.abc import Iterator

from moiety.arbiter.schedule.queue_depth import pace
from moiety.arbiter.schedule.round import Round
from moiety.arbiter.schedule.select import make_fit, refuse_outgrown, take_turns
from moiety.arbiter.schedule.throttle import end_windows, mend, separate
from moiety.arbiter.schedule.transfers import (
    answer_requests,
    finish_coming,
    give_room,
    order_evictions,
)


def decide(round_: Round) -> Iterator[None]:
    """Run every phase, in the order in which one makes way for the next.

    It yields whenever instructions are decided, so that they are carried out before the rest is.
    """
    if round_.asking:
        refuse_outgrown(round_)
    yield from finish_coming(round_)
    round_.fair_share.refresh()
    granted = True
    while granted:  # whoever got its lease may be in the way of those who wait
        if round_.ledger.gangs:
            mend(round_)
        make_fit(round_)
        if round_.has_rivals:
            separate(round_)
        if round_.has_limited:
            end_windows(round_)
        if round_.asking or round_.ledger.queue:
            yield from take_turns(round_)
        order_evictions(round_)
        if round_.asking:
            answer_requests(round_)
        give_room(round_)
        granted = yield from finish_coming(round_)
    round_.watch_crowded()
    if round_.watched:
        round_.end_watches()
    pace(round_)
