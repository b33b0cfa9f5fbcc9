"""Explanations in the words of a pool."""

from __future__ import annotations

from moiety.policy.explain.explanation import Explanation
from moiety.policy.model.snapshot import Task
from moiety.pool.engine.messages import CardView, WaitReason
from moiety.pool.engine.sentences import FORESEEN_MAX, beside, foreseeable, said, sentence
from moiety.pool.engine.snapshot import nodes_of
from tests.unit.pool.test_snapshot import machine, made, row, running


def test_who_is_ahead_is_named_up_to_three() -> None:
    text = "9 waits: full; 4 are ahead of it; it starts in 5 min"
    why = sentence(Explanation("9", "waits", text, ahead=("1", "2", "3", "4")), "gpus-full")
    assert why.text == "full; 4 are ahead of it (1, 2, 3 and 1 more); it starts in 5 min"
    assert (why.kind, why.is_final) == ("gpus-full", False)
    never = sentence(Explanation("9", "never", "9 cannot run here: too large"), "gpu-size")
    assert (never.text, never.is_final) == ("too large", True)
    full = "9 waits: the only node cannot take 1 GPU now; queue queue has 1 of a fair share of 2"
    ours = "this machine cannot take 1 GPU now; project queue has 1 of a fair share of 2"
    assert sentence(Explanation("9", "waits", full), "gpus-full").text == ours
    assert said(Task("7", "main", 0)) == "workload 7"


def test_what_programs_outside_have_is_said_where_gpus_are_full() -> None:
    full = WaitReason("gpus-full", "full")
    cards = [
        CardView(index=i, model="A", memory_mib=1000, outside_mib=5, outside_milli=55)
        for i in range(5)
    ]
    others = beside(nodes_of(machine(*cards)), full)
    assert others is not None
    assert others.text.startswith(
        "full; programs outside the pool have 5 MiB and 5.5 % of the time of GPU 0, 5 MiB"
    )
    assert others.text.endswith("of GPU 2 and of 2 more")
    assert beside(nodes_of(machine()), full) == full
    limit = WaitReason("queue-limit", "limit")
    assert beside(nodes_of(machine(*cards)), limit) == limit


def test_of_much_work_the_oldest_and_what_is_asked_about_is_foreseen() -> None:
    rows = [running(1, 0), *(row(n) for n in range(2, FORESEEN_MAX + 20))]
    last = rows[-1].id
    cut = foreseeable(made(machine(), *rows), [last])
    names = {each.name for each in cut.workloads}
    assert len(names) == 1 + FORESEEN_MAX + 1
    assert {"1", "2", str(last)} <= names
    assert str(last - 1) not in names
    small = made(machine(), *rows[:10])
    assert foreseeable(small, [2]) is small
