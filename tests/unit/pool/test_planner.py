"""The planner reads only what has changed, and decides as from the beginning."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.pool.engine.messages import (
    CardView,
    CycleRequest,
    ExplainRequest,
    MachineView,
    ReasonsRequest,
    ResizeRequest,
    StartsRequest,
)
from moiety.pool.engine.planner import PoolPlanner
from moiety.pool.model.project_rows import ProjectRow
from moiety.pool.model.projects import FIRST_MONDAY_S, monday_of
from moiety.pool.model.records import PREEMPTED
from moiety.pool.model.states import WorkState
from moiety.pool.store import changes, memory
from tests.support.pool_store import reading_in, store_in, submission, submitted

TWO = MachineView(
    name="box",
    cpu_milli=8000,
    memory_mib=1000,
    cards=[CardView(index=i, model="A", memory_mib=1000) for i in range(2)],
)

YEAR_S = 365 * 86400.0
ONE = MachineView(name="box", cpu_milli=8000, memory_mib=1000, cards=TWO.cards[:1])


@pytest.fixture
def store(tmp_path: Path) -> sqlite3.Connection:
    return store_in(tmp_path)


@pytest.fixture
def set_zone() -> Iterator[Callable[[str], None]]:
    """Sets the machine's time zone, and afterwards the one before."""

    def set_(zone: str) -> None:
        patch.setenv("TZ", zone)
        time.tzset()

    with pytest.MonkeyPatch.context() as patch:
        yield set_
    time.tzset()


@pytest.fixture
def planner(store: sqlite3.Connection, tmp_path: Path) -> PoolPlanner:
    del store  # it is there
    return PoolPlanner(reading_in(tmp_path))


def test_it_goes_on_from_what_it_knows(store: sqlite3.Connection, planner: PoolPlanner) -> None:
    first, second, third = (submitted(store, float(at)).id for at in range(3))
    answer = planner.cycle(CycleRequest(TWO, 10.0))
    assert [start.number for start in answer.starts] == [first, second]
    again = planner.cycle(CycleRequest(TWO, 11.0))
    same = (again.starts, again.ends) == (answer.starts, answer.ends)
    assert same, "nothing was committed, so the same is decided"
    for start in answer.starts:
        changes.begin_attempt(store, start.number, start.attempt, start.cards, 11.0)
    assert planner.cycle(CycleRequest(TWO, 12.0)).starts == []
    changes.end_attempt(store, first, 1, WorkState.DONE, "exited 0", 13.0)
    started = planner.cycle(CycleRequest(TWO, 14.0)).starts
    assert [(start.number, start.cards) for start in started] == [(third, answer.starts[0].cards)]


def test_a_project_changed_live_counts_at_once(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    changes.apply(store, [ProjectRow(name="nlp", limit=0)])
    submitted(store, project="nlp")
    assert planner.cycle(CycleRequest(TWO, 1.0)).starts == []
    why = planner.reasons(ReasonsRequest(TWO, 1.0, [1, 99])).reasons
    assert set(why) == {1}
    assert (why[1].kind, why[1].is_final) == ("queue-limit", True)
    changes.apply(store, [ProjectRow(name="nlp")])
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 2.0)).starts] == [1]


def test_work_that_failed_to_start_is_looked_at_when_its_time_comes(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = submitted(store).id
    changes.begin_attempt(store, number, 1, [0], 1.0)
    changes.end_attempt(
        store, number, 1, WorkState.PENDING, "failed to start", 2.0, failures=1, not_before_s=5.0
    )
    answer = planner.cycle(CycleRequest(TWO, 2.0))
    assert (answer.starts, answer.look_s) == ([], 5.0)
    assert [start.attempt for start in planner.cycle(CycleRequest(TWO, 5.0)).starts] == [2]


def test_a_clock_that_jumps_ends_nothing_and_keeps_nothing_waiting(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    runs, waits = submitted(store, 1.0, time_limit_s=3600.0).id, submitted(store, 1.0).id
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 2.0)).starts] == [runs, waits]
    changes.begin_attempt(store, runs, 1, [0], 2.0)
    assert planner.cycle(CycleRequest(TWO, YEAR_S)).ends == [], "its supervisor has its time"
    failed = submitted(store, YEAR_S).id
    changes.begin_attempt(store, failed, 1, [1], YEAR_S)
    changes.end_attempt(
        store, failed, 1, WorkState.PENDING, "failed to start", YEAR_S, failures=1,
        not_before_s=YEAR_S + 60,
    )  # fmt: skip
    assert [start.number for start in planner.cycle(CycleRequest(TWO, YEAR_S)).starts] == [waits]
    changes.begin_attempt(store, waits, 1, [1], YEAR_S)
    changes.end_attempt(store, waits, 1, WorkState.DONE, "exited 0", 4.0)
    answer = planner.cycle(CycleRequest(TWO, 5.0))
    assert ([start.number for start in answer.starts], answer.ends) == ([failed], [])


def test_a_gpu_that_is_drained_gets_nothing(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    for at in range(2):
        submitted(store, float(at))
    cards = [CardView(index=i, model="A", memory_mib=1000, usable=i > 0) for i in range(2)]
    drained = MachineView(name="box", cpu_milli=8000, memory_mib=1000, cards=cards)
    assert [start.cards for start in planner.cycle(CycleRequest(drained, 1.0)).starts] == [[1]]
    assert len(planner.cycle(CycleRequest(TWO, 2.0)).starts) == 2


def ran(store: sqlite3.Connection, user: str, lasted_s: float, times: int) -> None:
    """Work of a user that has run and ended."""
    for at in range(times):
        number = changes.submit(store, submission(), 1000, user, 10.0 * at)
        changes.begin_attempt(store, number, 1, [0], 10.0 * at + 1)
        over_s = 10.0 * at + 1 + lasted_s
        changes.end_attempt(store, number, 1, WorkState.DONE, "exited 0", over_s)


def first_of(planner: PoolPlanner, now_s: float) -> list[int]:
    return [start.number for start in planner.cycle(CycleRequest(ONE, now_s)).starts]


def test_work_that_is_known_to_be_short_goes_first_also_after_a_restart(
    store: sqlite3.Connection, planner: PoolPlanner, tmp_path: Path
) -> None:
    ran(store, "long", 90_000.0, 8)
    ran(store, "short", 60.0, 8)
    now_s = 200_000.0
    numbers = [
        changes.submit(store, submission(), 1000, user, now_s + at)
        for at, user in enumerate(("long", "short"))
    ]
    answer = planner.cycle(CycleRequest(ONE, now_s + 10))
    assert [start.number for start in answer.starts] == numbers[1:]
    other = PoolPlanner(reading_in(tmp_path))
    assert first_of(other, now_s + 11) == numbers[1:], "it reads what has ended"
    assert answer.memory
    memory.save(store, memory.POLICY, answer.memory)
    store.execute("UPDATE workload SET ended_s = began_s + 60 WHERE ended_s IS NOT NULL")
    again = PoolPlanner(reading_in(tmp_path))
    assert first_of(again, now_s + 12) == numbers[1:], "it knows what was kept"


def test_worth_alone_ends_nothing(store: sqlite3.Connection, planner: PoolPlanner) -> None:
    ran(store, "long", 90_000.0, 8)
    ran(store, "short", 60.0, 8)
    number = changes.submit(store, submission(), 1000, "long", 200_000.0)
    changes.begin_attempt(store, number, 1, [0], 200_001.0)
    changes.submit(store, submission(), 1000, "short", 200_002.0)
    answer = planner.cycle(CycleRequest(ONE, 300_000.0))
    assert (answer.ends, answer.starts) == ([], [])


def test_work_with_a_short_time_limit_may_use_room_that_is_kept(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, 0.0, time_limit_s=7200.0).id
    changes.begin_attempt(store, first, 1, [0], 0.0)
    submitted(store, 1.0, gpus=2)
    planner.cycle(CycleRequest(TWO, 700.0))
    submitted(store, 2.0, time_limit_s=90_000.0)
    assert planner.cycle(CycleRequest(TWO, 1000.0)).starts == [], "the room is kept"
    short = submitted(store, 3.0, time_limit_s=600.0).id
    assert [each.number for each in planner.cycle(CycleRequest(TWO, 1001.0)).starts] == [short]


def test_work_that_has_had_its_time_is_left_to_its_supervisor(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, 0.0, time_limit_s=50.0).id
    changes.begin_attempt(store, first, 1, [0], 0.0)
    submitted(store, 1.0)
    answer = planner.cycle(CycleRequest(ONE, 60.0))
    assert (answer.ends, answer.starts) == ([], [])


def test_work_that_was_told_to_give_its_gpus_is_told_once_and_nothing_else_is(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    changes.apply(store, [ProjectRow(name="nlp", quota=1), ProjectRow(name="vision", quota=1)])
    running = [submitted(store, 0.0, project="vision").id for _ in range(2)]
    for card, number in enumerate(running):
        changes.begin_attempt(store, number, 1, [card], 0.0)
    due = submitted(store, 1.0, project="nlp").id
    (end,) = planner.cycle(CycleRequest(TWO, 10.0)).ends
    changes.transition(store, end.number, WorkState.ENDING, intent=PREEMPTED)
    again = planner.cycle(CycleRequest(TWO, 11.0))
    assert (again.ends, again.starts, again.look_s) == ([], [], None)
    changes.end_attempt(store, end.number, 1, WorkState.PENDING, "preempted", 12.0)
    assert [each.number for each in planner.cycle(CycleRequest(TWO, 13.0)).starts] == [due]


def test_an_array_has_no_more_at_once_than_it_may(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, array="0-3%1").id
    answer = planner.cycle(CycleRequest(TWO, 1.0))
    assert [start.number for start in answer.starts] == [first], "the lowest index goes first"
    changes.begin_attempt(store, first, 1, answer.starts[0].cards, 1.0)
    assert planner.cycle(CycleRequest(TWO, 2.0)).starts == []
    why = planner.reasons(ReasonsRequest(TWO, 2.0, [first + 1])).reasons[first + 1]
    assert (why.kind, why.text) == (
        "array-limit", f"its array {first} has 1 of the 1 tasks at once that it may have",
    )  # fmt: skip
    changes.end_attempt(store, first, 1, WorkState.DONE, "exited 0", 3.0)
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 3.0)).starts] == [first + 1]


def test_work_begins_no_sooner_than_its_user_says(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = submitted(store, begin_s=60.0).id
    answer = planner.cycle(CycleRequest(TWO, 1.0))
    assert (answer.starts, answer.look_s) == ([], 60.0)
    why = planner.reasons(ReasonsRequest(TWO, 30.0, [number])).reasons[number]
    assert (why.kind, why.text) == ("begin-time", "it is to begin later, in 30 s")
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 60.0)).starts] == [number]


def test_tasks_of_an_array_go_in_the_order_of_their_indices(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, 1.79e9, array="0-19").id
    starts = planner.cycle(CycleRequest(TWO, 1.8e9)).starts
    assert [start.number for start in starts] == [first, first + 1]


def test_what_depends_on_others_is_not_tried(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, hold=True).id
    number = submitted(store, depends=f"afterok:{first}").id
    never = submitted(store, depends=f"afternotok:{number}").id
    assert planner.cycle(CycleRequest(TWO, 1.0)).starts == []
    why = planner.reasons(ReasonsRequest(TWO, 1.0, [number, never])).reasons
    assert (why[number].kind, why[number].text) == (
        "dependency", f"it depends on afterok:{first}",
    )  # fmt: skip
    changes.transition(store, first, WorkState.PENDING)
    changes.begin_attempt(store, first, 1, [0], 1.0)
    changes.end_attempt(store, first, 1, WorkState.DONE, "exited 0", 2.0)
    assert [start.number for start in planner.cycle(CycleRequest(TWO, 3.0)).starts] == [number]
    changes.begin_attempt(store, number, 1, [0], 3.0)
    changes.end_attempt(store, number, 1, WorkState.DONE, "exited 0", 4.0)
    why = planner.reasons(ReasonsRequest(TWO, 5.0, [never])).reasons
    assert (why[never].kind, why[never].is_final) == ("dependency-never", True)


def test_a_quota_of_a_time_of_day_holds_then(
    store: sqlite3.Connection, planner: PoolPlanner, set_zone: Callable[[str], None]
) -> None:
    set_zone("UTC")
    day, night = ["08:00-20:00=2"], ["20:00-08:00=2"]
    projects = [ProjectRow(name="a", windows=day), ProjectRow(name="b", windows=night)]
    changes.apply(store, projects)
    monday_s = FIRST_MONDAY_S + 50 * 7 * 86400
    for card in range(2):
        number = submitted(store, monday_s, project="b").id
        changes.begin_attempt(store, number, 1, [card], monday_s)
    submitted(store, monday_s, project="a", gpus=2)
    at_night = planner.cycle(CycleRequest(TWO, monday_s + 7.9 * 3600))
    assert at_night.ends == []
    assert at_night.look_s is not None
    assert at_night.look_s <= monday_s + 8 * 3600, "it looks again when the day begins"
    assert len(planner.cycle(CycleRequest(TWO, monday_s + 8.1 * 3600)).ends) == 2
    set_zone("UTC-2")  # two hours ahead: the day has begun at six of UTC
    assert monday_of(monday_s) == FIRST_MONDAY_S - 7200


def test_a_workload_is_explained_with_what_is_ahead_and_until_when(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, 0.0, time_limit_s=1000.0, priority=1).id
    changes.begin_attempt(store, first, 1, [0], 0.0)
    submitted(store, 1.0, time_limit_s=500.0, priority=1)
    last = submitted(store, 2.0, time_limit_s=500.0).id
    found = planner.explain(ExplainRequest(ONE, 900.0, last))
    assert found.reason is not None
    assert found.reason.kind == "gpus-full"
    assert "1 is ahead of it (2)" in found.reason.text
    assert "it would have room if workload 1 ended" in found.reason.text
    assert "it starts in" in found.reason.text
    start = found.start
    assert start.expected_s is not None
    assert start.low_s is not None
    assert start.high_s is not None
    assert 900.0 <= start.low_s <= start.expected_s <= start.high_s <= 900.0 + 100.0 + 500.0
    asked = StartsRequest(ONE, 900.0, [1, 2, last, 99])
    starts = planner.starts(asked).starts
    assert set(starts) == {2, last}, "what runs, and what is not there, will not start"
    assert starts[last] == start, "it is the same answer"
    second_s = starts[2].expected_s
    assert second_s is not None
    assert second_s < start.expected_s


def test_what_never_fits_and_what_is_not_tried_says_so(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    wide = submitted(store, 1.0, gpus=3).id
    later = submitted(store, 1.0, begin_s=500.0).id
    found = planner.explain(ExplainRequest(TWO, 10.0, wide))
    assert found.reason is not None
    assert found.reason.is_final
    assert found.start.expected_s is None
    found = planner.explain(ExplainRequest(TWO, 10.0, later))
    assert found.reason is not None
    assert found.reason.kind == "begin-time"
    assert planner.explain(ExplainRequest(TWO, 10.0, 77)).reason is None


def test_what_was_said_of_starts_is_learned_from(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    first = submitted(store, 0.0, time_limit_s=1000.0).id
    changes.begin_attempt(store, first, 1, [0], 0.0)
    number = submitted(store, 1.0).id
    planner.starts(StartsRequest(ONE, 10.0, [number]))
    changes.end_attempt(store, first, 1, WorkState.DONE, "exited 0", 50.0)
    changes.begin_attempt(store, number, 1, [0], 51.0)
    planner.cycle(CycleRequest(ONE, 52.0))
    assert len(planner.memory.memory.starts.dump()["came"]) == 1


def test_a_part_that_runs_grows_only_into_what_is_left(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    changes.apply(store, [ProjectRow(name="nlp", limit=0.8)])
    first, second = (submitted(store, gpu=0.5, memory_bytes=400 << 20).id for _ in range(2))
    mine = submitted(store, gpu=0.5, project="nlp").id
    waits = submitted(store).id
    for number, card in ((first, 0), (second, 0), (mine, 1)):
        changes.begin_attempt(store, number, 1, [card], 1.0)

    def problem(number: int, milli: int, mib: int) -> str:
        return planner.resize(ResizeRequest(TWO, 2.0, number, milli, mib)).problem

    assert problem(first, 300, 400) == ""
    assert problem(first, 600, 400) == "0.5 of the time of GPU 0 is left beside others"
    assert problem(first, 500, 601) == "600 MiB of GPU 0 are left beside others"
    assert problem(mine, 900, 0) == "project nlp would have 0.9 GPUs, and its limit is 0.8"
    assert problem(mine, 800, 0) == ""
    assert problem(waits, 500, 0) == "it has no GPUs now"
    changes.update(store, first, WorkState.STARTING, {"gpu_milli": 300})
    assert problem(second, 700, 400) == ""


def test_work_is_explained_beside_what_runs_outside_the_pool(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    number = submitted(store, 1.0).id
    card = CardView(index=0, model="A", memory_mib=1000, outside_mib=300, outside_milli=200)
    view = MachineView(name="box", cpu_milli=8000, memory_mib=1000, cards=[card])
    found = planner.explain(ExplainRequest(view, 10.0, number))
    assert found.reason is not None
    assert "programs outside the pool have 300 MiB and 20 % of the time" in found.reason.text
    assert planner.starts(StartsRequest(view, 700.0, [number])).starts.keys() == {number}


def card(index: int, **values: int | bool) -> CardView:
    return CardView(index=index, model="A", memory_mib=1000, **values)  # type: ignore[arg-type]


def with_cards(*cards: CardView, cpu_milli: int = 8000) -> MachineView:
    return MachineView(name="box", cpu_milli=cpu_milli, memory_mib=1000, cards=list(cards))


@pytest.mark.parametrize(
    "other",
    [
        with_cards(card(0), card(1, usable=False)),
        with_cards(card(0), card(1, outside_milli=300, outside_mib=200)),
        with_cards(card(0), card(1), cpu_milli=1000),
        with_cards(card(0)),
    ],
    ids=["drained", "used by others", "fewer processors", "gone"],
)
def test_work_goes_on_and_others_begin_where_its_gpu_or_its_machine_changes(
    store: sqlite3.Connection, planner: PoolPlanner, other: MachineView
) -> None:
    """No cycle could be decided: what ran had more of the machine than there was."""
    runs = submitted(store, 0.0, cpus=4.0).id
    changes.begin_attempt(store, runs, 1, [1], 1.0)
    assert planner.cycle(CycleRequest(TWO, 2.0)).starts == []
    waits = submitted(store, 3.0).id
    answer = planner.cycle(CycleRequest(other, 4.0))
    assert answer.ends == []
    assert [(start.number, start.cards) for start in answer.starts] == [(waits, [0])]


def test_work_does_not_end_for_work_that_has_no_room_beside_a_program_outside(
    store: sqlite3.Connection, planner: PoolPlanner
) -> None:
    runs = submitted(store, 0.0).id
    changes.begin_attempt(store, runs, 1, [0], 1.0)
    used = with_cards(card(0, outside_milli=300))
    submitted(store, 2.0, priority=9)
    assert planner.cycle(CycleRequest(used, 3.0)).ends == []
    submitted(store, 4.0, priority=9, gpu=0.5)
    assert [end.number for end in planner.cycle(CycleRequest(used, 5.0)).ends] == [runs]


@pytest.mark.parametrize("how", ["held", "later", "dependent", "ran"])
def test_room_is_kept_for_work_that_could_have_begun_ten_minutes_ago(
    store: sqlite3.Connection, planner: PoolPlanner, how: str
) -> None:
    """Until then it was held, say: that time does not count."""
    has, other = submitted(store, 0.0, gpu=0.5).id, submitted(store, 0.0, hold=True).id
    changes.begin_attempt(store, has, 1, [0], 0.0)
    asked: dict[str, dict[str, object]] = {
        "held": {"hold": True},
        "later": {"begin_s": 5000.0},
        "dependent": {"depends": f"afterany:{other}"},
        "ran": {},
    }
    whole = submitted(store, 1.0, **asked[how]).id
    if how == "ran":
        changes.begin_attempt(store, whole, 1, [0], 1.0)
    planner.cycle(CycleRequest(ONE, 2.0))
    if how == "held":
        changes.release(store, whole)
    elif how == "dependent":
        changes.cancel(store, other, "cancelled", "", 5000.0)
    elif how == "ran":
        changes.end_attempt(store, whole, 1, WorkState.PENDING, "failed", 5000.0)
    assert planner.cycle(CycleRequest(ONE, 5000.0)).starts == []
    half = submitted(store, 5001.0, gpu=0.5).id
    for now_s, began in ((5599.0, [half]), (5601.0, [])):
        answer = planner.cycle(CycleRequest(ONE, now_s))
        assert [start.number for start in answer.starts] == began
