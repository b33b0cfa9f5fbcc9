"""Days on a node, by dice that are loaded so that much is under way at any time.

That reaches further into rare states than Hypothesis does in the same time, which in turn finds the
short examples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import Any

import pytest

from moiety.arbiter.settings import OverduePolicy
from moiety.arbiter.states import Apart
from tests.support.arbiter_invariants import CHUNK_MOST, GPUS, ONE_OWNER, UNEQUAL_OWNERS
from tests.support.arbiter_rules import NEVER, PROCESSES, Anything


def first_quarter(seeds: Sequence[int]) -> list[Any]:
    """Parameters of a test: the first quarter is for each run, the rest for `make soak`."""
    few = max(1, len(seeds) // 4)
    return [*seeds[:few], *(pytest.param(seed, marks=pytest.mark.soak) for seed in seeds[few:])]


WEIGHTS = {
    "join": 1.0,
    "join_gang": 0.5,
    "band": 0.3,
    "compute": 3.0,
    "attach": 2.0,
    "allocate": 3.0,
    "free": 2.0,
    "touch": 10.0,
    "detach": 0.3,
    "measure": 0.5,
    "fall_idle": 3.0,
    "misbehave": 0.5,
    "depend": 0.5,
    "decide_otherwise": 0.1,
    "promise": 1.0,
    "suspend": 1.0,
    "guarantee": 0.3,
    "divide": 0.7,
    "die": 0.3,
    "work": 15.0,
    "hear": 15.0,
    "wait": 5.0,
    "restart": 0.2,
    "come_back": 5.0,
    "settle": 5.0,
}


def sizes(dice: Random) -> list[int]:
    """Of one to four chunks of memory."""
    return [dice.randint(1, 4) for _ in range(dice.randint(1, 4))]


def happen(day: Anything, what: str, dice: Random) -> None:
    """Do what a rule does, if it can be done now."""
    tenants = day.known
    if what == "join" and len(day.node.tenants) < PROCESSES:
        day.join(dice)
    elif what == "join_gang" and len(day.node.tenants) < PROCESSES and day.unsettled is None:
        day.join_gang(dice, dice.choice("gh"), dice.randint(0, 3))
    elif what == "band" and tenants and day.unsettled is None:
        day.band(dice, dice.choice("gh"))
    elif what == "compute" and any(t.gang and t.is_open for t in tenants):
        day.compute(dice, dice.randint(1, 3))
    elif what == "wait":
        day.wait(dice.choice([0.0005, 0.03, 0.2, 0.2, 3.0, 11.0]))
    elif what == "restart" and day.unsettled is None:
        day.restart(0)
    elif what == "come_back" and day.unsettled:
        day.come_back()
    elif what == "settle" and day.unsettled == []:
        day.settle()
    elif what == "attach" and tenants:
        day.attach(dice, dice.randrange(GPUS), dice.randint(0, 1))
    elif what == "touch" and tenants:
        day.touch(dice)
    elif what == "write" and any(t.is_open and t.blocks for t in tenants):
        day.write(dice)
    elif what == "misbehave" and tenants:
        day.misbehave(dice, dice.choice([0, 1, 2, 4]))
    elif what == "depend" and tenants:
        day.depend(dice, dice.choice([0, 1, 1, 3, NEVER]))
    elif what == "decide_otherwise" and tenants and day.unsettled is None:
        day.decide_otherwise(dice.choice([OverduePolicy.REPORT, OverduePolicy.FENCE]))
    elif what == "promise" and tenants and day.unsettled is None:
        day.promise(dice)
    elif what == "suspend" and tenants and day.unsettled is None:
        day.suspend(dice)
    elif what == "guarantee" and day.unsettled is None:
        day.guarantee(dice)
    elif what == "divide" and tenants and day.unsettled is None:
        day.divide(dice, dice.choice([Apart.NO, Apart.OF_MPS, Apart.OF_ALL]))
    elif what == "die" and tenants:
        day.die(dice)
    elif what == "free" and any(block.admitted for t in tenants for block in t.blocks):
        day.free(dice)
    elif what == "churn" and any(t.allowed_most for t in tenants):
        day.churn(dice)
    elif what == "fall_idle" and any(t.watched for t in tenants):
        day.fall_idle(dice)
    elif what == "work" and any(t.has_work for t in tenants):
        day.work(dice, dice.randint(1, 5))
    elif what == "hear" and any(t.sent for t in tenants):
        day.hear(dice, dice.randint(1, 5))
    elif any(t.contexts for t in tenants):
        if what == "allocate":
            day.allocate(dice, sizes(dice), dice.random() < 0.08)
        elif what == "detach":
            day.detach(dice)
        elif what == "measure":
            day.measure(dice, dice.randint(0, 2))


ALLOWING = {**WEIGHTS, "join_gang": 0.0, "band": 0.0, "allocate": 6.0, "free": 5.0, "churn": 10.0}
"""With allowances, which gangs never have."""


OVERCOMMITTED = {**WEIGHTS, "write": 15.0, "work": 30.0, "hear": 30.0, "die": 0.1, "free": 1.0}
"""With programs that ask for more than there is, and write some of it."""


def calm_owners(dice: Random) -> set[str]:
    """What does not happen on some days, so that what others need no reason for shows there."""
    calm = {"guarantee"} if dice.random() < 0.6 else set()
    return calm | ({"divide"} if dice.random() < 0.5 else set())


def overcommitted_day(day: Anything, seed: int) -> Iterator[None]:
    """A day in steps on which programs may ask for three times what there is."""
    dice = Random(seed)
    at = [dice.choice([(0,), (0,), (0,), (0, 1)]) for _ in range(dice.randint(2, 4))]
    factor = dice.choice([0.0, 9.0])
    large = [(gpus, [dice.randint(2, CHUNK_MOST) for _ in range(3)]) for gpus in at]
    owners = dice.choice([ONE_OWNER, UNEQUAL_OWNERS])
    day.begin(dice.randint(3, 8), factor, large, overcommit=3.0, owners=owners)
    calm = {"join_gang", "band"} | calm_owners(dice)
    calm |= {"misbehave", "measure", "promise", "depend"} if dice.random() < 0.7 else set()
    weights = {what: weight for what, weight in OVERCOMMITTED.items() if what not in calm}
    for what in dice.choices(list(weights), list(weights.values()), k=250):
        happen(day, what, dice)
        yield


LIGHT = {
    "touch": 12.0,
    "fall_idle": 6.0,
    "promise": 0.7,
    "die": 0.05,
    "join": 0.1,
    "free": 0.2,
    "allocate": 0.2,
    "work": 20.0,
    "hear": 20.0,
    "wait": 8.0,
}
"""With few bytes and no gangs: most hand-offs are of classes, and move nothing."""


def light_day(day: Anything, seed: int) -> Iterator[None]:
    """A day in steps on which all programs mostly fit."""
    dice = Random(seed)
    at = [dice.choice([(0,), (0,), (0,), (1,), (0, 1)]) for _ in range(dice.randint(2, 4))]
    day.begin(1000, dice.choice([0.0, 9.0]), [(gpus, [1]) for gpus in at])
    for _ in range(4):
        happen(day, "promise", dice)
    for what in dice.choices(list(LIGHT), list(LIGHT.values()), k=250):
        happen(day, what, dice)
        yield


def pass_by(day: Anything, seed: int, *, allowing: bool = False) -> Iterator[None]:
    """A day in steps."""
    dice = Random(seed)
    most = 1 if allowing else 4
    at = [dice.choice([(0,), (0,), (1,), (0, 1)]) for _ in range(dice.randint(min(2, most), most))]
    arena, factor = dice.choice([1000, 1000, 5]), dice.choice([0.0, 9.0])
    owners = dice.choice([ONE_OWNER, UNEQUAL_OWNERS])
    given = 4 if allowing else 0
    day.begin(arena, factor, [(g, sizes(dice)) for g in at], given, owners=owners)
    calm = {"misbehave", "measure"} if dice.random() < 0.5 else set()
    calm |= calm_owners(dice)
    calm |= {"promise"} if dice.random() < 0.3 else set()
    calm |= {"suspend"} if dice.random() < 0.5 else set()
    calm |= {"join_gang", "band"} if dice.random() < 0.3 else set()
    chosen = ALLOWING if allowing else WEIGHTS
    weights = {what: weight for what, weight in chosen.items() if what not in calm}
    for what in dice.choices(list(weights), list(weights.values()), k=250):
        happen(day, what, dice)
        yield
