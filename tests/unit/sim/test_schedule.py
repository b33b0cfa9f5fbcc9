"""Quotas that change with the time of day: how they are spelled, at the borders, over two days."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from moiety.model.errors import InvalidValue, TraceInvalid
from moiety.policy.cycle import decide
from moiety.policy.model.queues import DAY_S, Amounts, Queue, Window
from moiety.policy.model.snapshot import Snapshot
from moiety.sim.by_queue import QuotaWatch
from moiety.sim.engine import Engine
from moiety.sim.gangs import GangJob, GangTrace
from moiety.sim.outcome import run_gangs
from moiety.sim.queue_file import read_queues
from moiety.sim.reading import Complaints
from moiety.sim.runs import GpuPool, RestartCost, replay
from moiety.sim.scenario import after
from moiety.sim.scenario_file import RefusedCase, Scenario, read_scenarios
from moiety.sim.schedule import days_of, moment, time_of_day, windows
from tests.unit.policy.build import node, work
from tests.unit.sim.test_scenario import CASE

HOUR = 3600.0
HEAD = "name,parent,quota_gpus,limit_gpus,windows\n"


def test_spans_of_a_week_are_read() -> None:
    night, weekend = windows("mon-fri 20:00-08:00=12 | sat,sun 08:00-20:00=2.5")
    assert night == Window(20 * HOUR, 8 * HOUR, Amounts(gpu_milli=12000), frozenset(range(5)))
    assert weekend.days == {5, 6}
    assert weekend.quota.gpu_milli == 2500
    assert windows("00:00-24:00=1")[0].days == frozenset(range(7))
    assert windows("") == ()
    assert days_of("fri-mon") == {4, 5, 6, 0}
    assert time_of_day("7:05") == 7 * HOUR + 300
    assert moment("tue 21:30") == DAY_S + 21.5 * HOUR


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("20:00-08:00", "is no span of time with a quota"),
        ("20:00=1", "is no span of time with a quota"),
        ("20:00-08:00=many", "'many' of '20:00-08:00=many' is no number of GPUs"),
        ("20:00-08:00=nan", "is no number of GPUs"),
        ("20:00-08:00=-1", "is no number of GPUs"),
        ("25:00-08:00=1", "'25:00' is no time of day"),
        ("20:00-24:01=1", "'24:01' is no time of day"),
        ("08:60-09:00=1", "'08:60' is no time of day"),
        ("monday 20:00-08:00=1", "'monday' is no day"),
        ("08:00-08:00=1", "ends when it begins"),
        ("24:00-08:00=1", "a time of day from 86400 s"),
        ("08:00-12:00=1|11:00-14:00=2", "Mon 08:00 to Mon 12:00 and Mon 11:00 to Mon 14:00"),
        ("mon 20:00-08:00=1|tue 07:00-09:00=2", "Mon 20:00 to Tue 08:00 and Tue 07:00 to"),
        ("sun 20:00-08:00=1|mon 00:00-01:00=2", "Sun 20:00 to Mon 08:00 and Mon 00:00 to"),
        ("00:00-24:00=1|wed 05:00-06:00=2", "Wed 00:00 to Thu 00:00 and Wed 05:00 to Wed 06:00"),
    ],
)
def test_spans_that_make_no_sense_are_refused_with_file_and_line(
    tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "queues.csv"
    file.write_text(f"{HEAD}lab,,8,,\nq,lab,4,,{text}\n")
    with pytest.raises(TraceInvalid) as caught:
        read_queues(file, Complaints())
    assert caught.value.what.startswith("queues.csv, line 3: ")
    assert words in caught.value.what


def test_spans_that_touch_do_not_overlap_and_the_border_belongs_to_the_later() -> None:
    found = windows("00:00-08:00=1|08:00-20:00=2|mon-sat 20:00-24:00=3|sun 20:00-24:00=4")
    queue = Queue("q", quota=Amounts(gpu_milli=0), windows=found)
    for at_s, gpus in (
        (0.0, 1),
        (8 * HOUR - 1, 1),
        (8 * HOUR, 2),
        (20 * HOUR, 3),
        (DAY_S - 1, 3),
        (DAY_S, 1),
        (7 * DAY_S - 1, 4),
        (7 * DAY_S, 1),
        (-1.0, 4),
    ):
        assert queue.quota_at(at_s).gpu_milli == gpus * 1000, at_s
    night = Queue("q", quota=Amounts(gpu_milli=0), windows=windows("sun 22:00-06:00=5"))
    assert night.quota_at(5 * HOUR).gpu_milli == 5000  # Monday's morning
    assert night.quota_at(6 * HOUR).gpu_milli == 0
    with pytest.raises(InvalidValue, match="for a time of day is above its limit, 1 GPUs"):
        Queue("q", limit=Amounts(gpu_milli=1000), windows=windows("22:00-06:00=5"))


def test_quotas_beyond_the_parents_at_night_are_refused_with_their_line(tmp_path: Path) -> None:
    file = tmp_path / "queues.csv"
    file.write_text(f"{HEAD}lab,,8,,\na,lab,4,,fri 20:00-08:00=8\nb,lab,4,,\n")
    words = "line 2: quotas below lab add up to 12 GPUs on Fri 20:00, and its own is 8"
    with pytest.raises(TraceInvalid, match=words):
        read_queues(file, Complaints())
    assert len(read_queues(file, Complaints(is_lenient=True))) == 3


def case(**more: Any) -> dict[str, Any]:
    span = {"days": "mon-fri", "from": "20:00", "until": "08:00", "quota_gpus": 2}
    queues = [CASE["queues"][0] | {"windows": [span | more]}, *CASE["queues"][1:]]
    return CASE | {"queues": queues, "now": "tue 07:59"}


def read(tmp_path: Path, *cases: dict[str, Any]) -> list[Scenario | RefusedCase]:
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases))
    return read_scenarios(file)


def test_a_case_says_what_time_it_is_and_what_holds_then(tmp_path: Path) -> None:
    [found] = read(tmp_path, case())
    assert isinstance(found, Scenario)
    snapshot = found.snapshot
    queue = snapshot.queues[0]
    assert queue.quota_at(snapshot.now_s - snapshot.monday_s).gpu_milli == 2000
    assert queue.quota_at(snapshot.now_s - snapshot.monday_s + 60).gpu_milli != 2000


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (case(until="8 o'clock"), 'cases[0].queues[0].windows[0]: "8 o\'clock" is no time of day'),
        (case(days="noday"), "cases[0].queues[0].windows[0]: 'noday' is no day"),
        (case(quota_gpus=-1), "cases[0].queues[0].windows[0].quota_gpus: it is negative"),
        (case(until="20:00"), "cases[0].queues[0].windows[0]: a time of day that ends when it"),
        (case() | {"now": "mon-tue 08:00"}, "cases[0].now: 'mon-tue 08:00' is no moment"),
        (case() | {"now": 7}, "now: it is not a name: 7"),
    ],
)
def test_a_case_whose_times_make_no_sense_says_where(
    tmp_path: Path, wrong: dict[str, Any], words: str
) -> None:
    [found] = read(tmp_path, wrong)
    assert isinstance(found, RefusedCase)
    assert words in found.error.what


DAY_NIGHT = (
    Queue("day", quota=Amounts(gpu_milli=0), windows=windows("08:00-20:00=8")),
    Queue("night", quota=Amounts(gpu_milli=0), windows=windows("20:00-08:00=8"), created_s=1.0),
)


def two_days() -> GangTrace:
    """Both queues want all GPUs all the time; work comes in pieces of an hour."""
    gangs = [
        GangJob(f"{queue}-{at}", 1, 0.0, HOUR, queue)
        for queue in ("day", "night")
        for at in range(8 * 26)
    ]
    return GangTrace("two days", tuple(gangs), (8,))


def test_over_two_days_gpus_go_to_whose_time_it_is() -> None:
    trace = two_days()
    held: list[tuple[float, int, int]] = []
    kept = QuotaWatch(DAY_NIGHT)

    def watch(pool: GpuPool) -> None:
        kept(pool)
        held.append((pool.now_s, pool.held["day"], pool.held["night"]))

    replay(trace, Engine(DAY_NIGHT), RestartCost(), watch=watch)

    def at(hour: float) -> tuple[int, int]:
        _, *found = max(each for each in held if each[0] <= hour * HOUR + 1e-3)
        return found[0], found[1]

    for day in (0, 24):
        assert at(day + 1.0) == (0, 8)
        assert at(day + 8.0) == (8, 0)  # at once, when their time begins
        assert at(day + 19.9) == (8, 0)
        assert at(day + 20.0) == (0, 8)
        assert at(day + 23.9) == (0, 8)
    assert kept.broken == 0


def test_a_rounding_error_before_a_border_the_next_quotas_are_watched() -> None:
    watch = QuotaWatch(DAY_NIGHT)
    for now_s in (8 * HOUR - 1.0, 8 * HOUR - 1e-7):
        moment = Mock(now_s=now_s, held={"day": 0, "night": 8}, kinds={("day", 1): 1})
        moment.asked, moment.waiting = {"day": 1.0}, ["g"]
        watch(moment)
    assert (watch.moments, watch.broken) == (2, 1)


def test_where_dates_are_known_times_of_day_are_those_of_the_dates() -> None:
    """The same, but the clock's Monday begins in twelve hours."""
    trace = replace(two_days(), monday_s=12 * HOUR)
    found = run_gangs(trace, "default", RestartCost(), queues=DAY_NIGHT)
    assert found.quota_broken == 0
    held: list[tuple[float, int]] = []
    order = Engine(DAY_NIGHT, trace.monday_s)
    replay(
        trace, order, RestartCost(), watch=lambda pool: held.append((pool.now_s, pool.held["day"]))
    )
    assert max(each for each in held if each[0] <= 1 * HOUR)[1] == 8  # 13:00 on Sunday
    assert max(each for each in held if each[0] <= 9 * HOUR)[1] == 0  # 21:00


def test_over_two_days_cycles_take_and_give_back_at_the_borders() -> None:
    """The same in cycles of the engine, one each hour, with work that never ends."""
    jobs = tuple(work(f"{queue}{at}", queue) for queue in ("day", "night") for at in range(4))
    snapshot = Snapshot((node(),), jobs, (), DAY_NIGHT, now_s=0.0)
    seen: list[dict[str, int]] = []
    for hour in range(48):
        snapshot = replace(snapshot, now_s=hour * HOUR)
        snapshot = after(snapshot, decide(snapshot))
        count = _count(snapshot)
        seen.append({queue: count(queue) for queue in ("day", "night")})
    for hour, found in enumerate(seen):
        is_day = 8 <= hour % 24 < 20
        assert found == {"day": 4 * is_day, "night": 4 * (not is_day)}, hour


def _count(snapshot: Snapshot) -> Callable[[str], int]:
    return lambda queue: sum(each.task.workload.startswith(queue) for each in snapshot.running)
