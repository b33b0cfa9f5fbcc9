"""Days on a node, by dice that are loaded so that much is under way at any time.

That reaches further into rare states than Hypothesis does in the same time, which in turn finds the
short examples.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from moiety.arbiter.settings import OverduePolicy
from tests.support.arbiter_invariants import GPUS
from tests.support.arbiter_rules import NEVER, PROCESSES, Anything

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
        day.join()
    elif what == "join_gang" and len(day.node.tenants) < PROCESSES and day.unsettled is None:
        day.join_gang(dice.choice("gh"), dice.randint(0, 3))
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
    elif what == "misbehave" and tenants:
        day.misbehave(dice, dice.choice([0, 1, 2, 4]))
    elif what == "depend" and tenants:
        day.depend(dice, dice.choice([0, 1, 1, 3, NEVER]))
    elif what == "decide_otherwise" and tenants and day.unsettled is None:
        day.decide_otherwise(dice.choice([OverduePolicy.REPORT, OverduePolicy.FENCE]))
    elif what == "promise" and tenants and day.unsettled is None:
        day.promise(dice)
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


def pass_by(day: Anything, seed: int, *, allowing: bool = False) -> Iterator[None]:
    """A day in steps."""
    dice = Random(seed)
    most = 1 if allowing else 4
    at = [dice.choice([(0,), (0,), (1,), (0, 1)]) for _ in range(dice.randint(min(2, most), most))]
    arena, factor = dice.choice([1000, 1000, 5]), dice.choice([0.0, 9.0])
    day.begin(arena, factor, [(g, sizes(dice)) for g in at], 4 if allowing else 0)
    calm = {"misbehave", "measure"} if dice.random() < 0.5 else set()
    calm |= {"promise"} if dice.random() < 0.3 else set()
    calm |= {"join_gang", "band"} if dice.random() < 0.3 else set()
    chosen = ALLOWING if allowing else WEIGHTS
    weights = {what: weight for what, weight in chosen.items() if what not in calm}
    for what in dice.choices(list(weights), list(weights.values()), k=250):
        happen(day, what, dice)
        yield
