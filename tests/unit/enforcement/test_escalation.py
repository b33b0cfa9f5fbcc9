"""Offences go up their ladders, and nobody is ended who should not be."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.enforcement.escalation import Action, ActionKind, Escalation
from moiety.enforcement.policy import Offence, Policy, Who, parse_exemptions, parse_ladder
from moiety.enforcement.usage import Use

MIB = 1 << 20
OWN = 1000
BOB = Who(pid=7, started=70, uid=OWN, user="bob", command="train")
EVE = Who(pid=8, started=80, uid=1001, user="eve", command="mine")
STRAY = Use(BOB, gpu=0, used_bytes=300 * MIB, busy=0.4)
FULL = Policy(unregistered=parse_ladder("warn,10s,event,60s,kill"))
EVERY_S = 5.0


def watch(policy: Policy = FULL, own_uid: int = OWN) -> Escalation:
    return Escalation(policy, own_uid, frozenset({1, 4711}))


def seen(
    watching: Escalation, uses: Sequence[Use], times: Sequence[float]
) -> list[tuple[float, Action]]:
    """What is done, and when, if the same is seen at each of these times."""
    return [(t, action) for t in times for action in watching.step(t, [0], uses)]


def every(begin_s: float, end_s: float) -> list[float]:
    return [begin_s + n * EVERY_S for n in range(int((end_s - begin_s) / EVERY_S) + 1)]


def deeds(found: list[tuple[float, Action]]) -> list[tuple[float, ActionKind]]:
    return [(at_s, action.deed) for at_s, action in found]


def test_the_steps_are_taken_in_order_and_time() -> None:
    found = seen(watch(), [STRAY], every(0, 90))
    assert deeds(found) == [
        (5.0, ActionKind.WARN),
        (15.0, ActionKind.EVENT),
        (75.0, ActionKind.KILL),
    ]
    warning = found[0][1]
    assert warning.text == "uses GPU 0 without moiety (300 MiB, 40% busy)"
    assert warning.threat == "it is ended in 1 min 10 s unless that stops"


def test_the_time_before_a_step_begins_when_the_one_before_it_is_told() -> None:
    watching = watch()
    seen(watching, [STRAY], [0.0, 5.0])
    watching.acted(5.5)
    assert [case.due_s for case in watching.cases()] == [15.5]
    assert deeds(seen(watching, [STRAY], [15.0, 15.5])) == [(15.5, ActionKind.EVENT)]
    watching.acted(15.5)
    assert deeds(seen(watching, [STRAY], [75.0, 75.5])) == [(75.5, ActionKind.KILL)]


def test_by_default_the_last_step_is_an_event() -> None:
    found = seen(watch(Policy()), [STRAY], every(0, 3600))
    assert deeds(found) == [(5.0, ActionKind.WARN), (5.0, ActionKind.EVENT)]
    assert found[0][1].threat == ""


def test_who_is_seen_once_is_left_alone() -> None:
    watching = watch()
    assert seen(watching, [STRAY], [0]) == []
    assert seen(watching, [], every(5, 600)) == []
    assert seen(watching, [STRAY], [605]) == []


def test_behaving_for_a_moment_does_not_begin_anew() -> None:
    watching = watch()
    seen(watching, [STRAY], every(0, 15))
    assert seen(watching, [], every(20, 60)) == []
    assert deeds(seen(watching, [STRAY], every(65, 90))) == [(75.0, ActionKind.KILL)]


def test_nobody_is_ended_for_what_it_does_no_more() -> None:
    watching = watch()
    seen(watching, [STRAY], every(0, 70))
    assert deeds(seen(watching, [], every(75, 300))) == [(130.0, ActionKind.OVER)]
    assert deeds(seen(watching, [STRAY], every(400, 410))) == [(405.0, ActionKind.WARN)]


def test_a_gpu_that_cannot_be_read_changes_nothing() -> None:
    watching = watch()
    seen(watching, [STRAY], every(0, 15))
    assert [watching.step(t, [], []) for t in every(20, 300)] == [[]] * 57
    assert deeds(seen(watching, [STRAY], [305])) == [(305, ActionKind.KILL)]


def test_another_process_with_its_number_is_another() -> None:
    watching = watch()
    seen(watching, [STRAY], every(0, 70))
    other = dataclasses.replace(STRAY, who=dataclasses.replace(BOB, started=99))
    assert deeds(seen(watching, [other], every(75, 85))) == [(80.0, ActionKind.WARN)]


def test_who_ended_is_forgotten() -> None:
    watching = watch()
    seen(watching, [STRAY], every(0, 70))
    assert [a.deed for a in watching.left(BOB.pid, BOB.started)] == [ActionKind.OVER]
    assert watching.cases() == []


@pytest.mark.parametrize(
    ("who", "own_uid", "why"),
    [
        (EVE, OWN, "user eve's; only an agent of root"),
        (dataclasses.replace(BOB, pid=4711), OWN, "belongs to the agent"),
        (dataclasses.replace(BOB, pid=1), 0, "belongs to the agent"),
        (dataclasses.replace(BOB, started=0), OWN, "not known who it is"),
    ],
)
def test_who_may_not_be_ended_is_spared_with_the_reason(who: Who, own_uid: int, why: str) -> None:
    use = dataclasses.replace(STRAY, who=who)
    found = seen(watch(own_uid=own_uid), [use], every(0, 600))
    assert [action.deed for _, action in found] == [
        ActionKind.WARN,
        ActionKind.EVENT,
        ActionKind.SPARE,
    ]
    assert why in found[-1][1].text
    assert found[0][1].threat == ""


def test_root_ends_anybodys() -> None:
    found = seen(watch(own_uid=0), [dataclasses.replace(STRAY, who=EVE)], every(0, 80))
    assert found[-1][1].deed is ActionKind.KILL


def test_who_outlives_a_kill_is_ended_again() -> None:
    found = seen(watch(), [STRAY], every(0, 140))
    assert deeds(found)[2:] == [
        (75.0, ActionKind.KILL),
        (105.0, ActionKind.KILL),
        (135.0, ActionKind.KILL),
    ]


def test_a_dry_run_says_all_of_it_once_and_does_nothing() -> None:
    found = seen(watch(dataclasses.replace(FULL, dry_run=True)), [STRAY], every(0, 600))
    assert [action.deed for _, action in found] == [
        ActionKind.WARN,
        ActionKind.EVENT,
        ActionKind.KILL,
    ]
    assert all(action.dry_run for _, action in found)


@pytest.mark.parametrize("exempt", ["user:bob", "command:tr*", "gpu:0"])
def test_who_is_let_off_is_left_alone(exempt: str) -> None:
    policy = dataclasses.replace(FULL, exempt=parse_exemptions(exempt))
    watching = watch(policy)
    assert seen(watching, [STRAY], every(0, 600)) == []
    assert watching.cases() == []


def test_a_kind_that_is_off_is_not_looked_for() -> None:
    assert seen(watch(Policy(unregistered=parse_ladder("off"))), [STRAY], every(0, 600)) == []


def tenant(
    used_mib: int, *, limit_mib: int | None = 100, busy: float = 0.0, leaseless: bool = False
) -> Use:
    limit = None if limit_mib is None else limit_mib * MIB
    return Use(
        BOB, 0, used_mib * MIB, busy, 3, limit_bytes=limit, beside_bytes=20 * MIB,
        leaseless=leaseless,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("use", "kind"),
    [
        (tenant(120), None),
        (tenant(121), Offence.LIMIT),
        (tenant(500, limit_mib=None), None),
        (tenant(100, busy=0.5), None),
        (tenant(100, busy=0.5, leaseless=True), Offence.LEASE),
        (tenant(100, busy=0.01, leaseless=True), None),
    ],
)
def test_what_is_wrong_with_one_that_shares(use: Use, kind: Offence | None) -> None:
    found = seen(watch(), [use], [0, 5])
    assert {action.offence for _, action in found} == ({kind} if kind else set())


def test_the_figures_are_told() -> None:
    (_, action), *_ = seen(watch(), [tenant(121)], [0, 5])
    assert action.text == (
        "has 121 MiB on GPU 0 as the driver counts; it may have 100 MiB, and 20 MiB for its context"
    )


def test_a_new_ladder_begins_at_its_foot_and_the_same_goes_on() -> None:
    watching = watch(Policy(unregistered=parse_ladder("warn,event")))
    seen(watching, [STRAY], every(0, 100))
    watching.change(Policy(unregistered=parse_ladder("warn,event"), idle_s=1))
    assert seen(watching, [STRAY], every(105, 200)) == []
    watching.change(Policy(unregistered=parse_ladder("event,20s,kill")))
    assert deeds(seen(watching, [STRAY], every(205, 230))) == [
        (205.0, ActionKind.EVENT),
        (225.0, ActionKind.KILL),
    ]


def test_who_was_only_spoken_of_is_told_before_it_is_ended() -> None:
    watching = watch(dataclasses.replace(FULL, dry_run=True))
    seen(watching, [STRAY], every(0, 600))
    watching.change(FULL)
    assert deeds(seen(watching, [STRAY], every(605, 700))) == [
        (605.0, ActionKind.WARN),
        (615.0, ActionKind.EVENT),
        (675.0, ActionKind.KILL),
    ]


def test_what_goes_on_can_be_looked_at() -> None:
    watching = watch()
    seen(watching, [STRAY], [0])
    assert watching.cases() == []
    seen(watching, [STRAY], every(5, 20))
    (case,) = watching.cases()
    assert (case.offence, case.since_s, case.next, case.due_s) == ("unregistered", 0, "kill", 75.0)
    assert case.done == ("warn", "event")


@given(
    st.lists(st.tuples(st.floats(0.1, 90), st.sets(st.sampled_from([BOB, EVE]))), max_size=60),
    st.sampled_from(["warn,event", "kill", "event,0s,kill", "1min,warn,5s,kill"]),
)
def test_nobody_is_ever_ended_who_was_not_just_seen_or_may_not_be(
    looks: list[tuple[float, set[Who]]], ladder: str
) -> None:
    watching = watch(Policy(unregistered=parse_ladder(ladder)))
    now_s = 0.0
    sightings = {BOB: 0, EVE: 0}
    for after_s, who in looks:
        now_s += after_s
        for each in who:
            sightings[each] += 1
        uses = [dataclasses.replace(STRAY, who=each) for each in sorted(who, key=lambda w: w.pid)]
        for action in watching.step(now_s, [0], uses):
            if action.deed is ActionKind.KILL:
                assert action.use.who in who
                assert action.use.who == BOB
                assert sightings[BOB] >= 2
                assert "kill" in ladder
