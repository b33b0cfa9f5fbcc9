"""The worth of work, kept in slots that time changes all at once."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

from moiety.policy.queue.gittins_order import AGING_S
from moiety.policy.queue.worth_table import SLOTS_MIN, WorkNames, WorthTable

HOUR = 3600.0


def table(*names: str) -> WorthTable:
    """Work of queue q, each worth 1 more than the one before, submitted at 0."""
    found = WorthTable()
    for name in names:
        found.came(name, "q", 0.0)
    found.worth(names, np.arange(1.0, len(names) + 1))
    return found


def test_what_waits_is_worth_more_and_what_runs_stays() -> None:
    found = table("waits", "runs")
    found.has("runs", 0.0, 0.0)
    for now_s in (0.0, HOUR, AGING_S, 9 * AGING_S):
        worth = found.at(now_s)
        assert worth["waits"] == pytest.approx(1.0 + (now_s / AGING_S) ** 1.25)
        assert worth["runs"] == 2.0
        assert dict(worth) == {"waits": worth["waits"], "runs": 2.0}
    found.has("runs", AGING_S, None)
    assert found.at(2 * AGING_S)["runs"] == 4.0


def test_what_is_over_is_not_known_and_its_slot_is_given_up() -> None:
    found = WorthTable()
    for at in range(20 * SLOTS_MIN):
        found.came(f"w{at}", "q", 0.0)
        found.worth([f"w{at}"], np.array([float(at)]))
        if at > 4:
            found.over(f"w{at - 5}")
    worth = found.at(0.0)
    assert dict(worth) == {f"w{at}": float(at) for at in range(20 * SLOTS_MIN - 5, 20 * SLOTS_MIN)}
    assert len(worth.by_slot) <= 2 * SLOTS_MIN
    assert dict(found.copy().at(0.0)) == dict(worth)


def test_names_are_found_whatever_comes_and_goes() -> None:
    random = Random(0)
    found, line = WorthTable(), WorkNames()
    there: list[str] = []
    active: set[str] = set()
    for step in range(1500):
        name = f"w{random.randrange(60)}"
        if name in there and random.random() < 0.3:
            line.remove(there.index(name))
            there.remove(name)
        elif name not in there and random.random() < 0.5:
            at = random.randint(0, len(there))
            line.insert(at, name)
            there.insert(at, name)
        if name in active and random.random() < 0.5:
            found.over(name)
            active.remove(name)
        elif name not in active:
            found.came(name, "q", float(step))
            found.has(name, 0.0, random.choice((None, float(step))))
            found.worth([name], np.array([random.random()]))
            active.add(name)
        worth = found.at(step + 60.0)
        assert line.worth(worth).tolist() == [worth.get(each, 0.0) for each in there]
        assert line.worth(dict(worth)).tolist() == line.worth(worth).tolist()
        if not active.intersection(there) ^ set(there):
            assert line.are_in(worth)


def test_work_yields_in_its_own_queue_only() -> None:
    found = table("runs", "waits")
    found.has("runs", 0.0, 0.0)
    assert not found.any_yields(0.0)
    found.worth(["waits"], np.array([2.1]))
    assert found.any_yields(0.0)
    found.over("waits")
    found.came("other", "r", 0.0)
    found.worth(["other"], np.array([100.0]))
    assert not found.any_yields(0.0)
    assert math.isfinite(found.at(0.0)["runs"])
