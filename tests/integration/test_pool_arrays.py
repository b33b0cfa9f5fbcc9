"""Arrays of workloads, as people type them."""

from __future__ import annotations

import json
import re

import pytest

from moiety.pool.model.states import WorkState
from tests.support.pool_node import MakePool, PoolNode

TWO = "2xA100-80:memory=96MiB"


@pytest.fixture
def pool(make_pool: MakePool) -> PoolNode:
    return make_pool(TWO)


def test_an_array_runs_its_tasks_and_is_waited_for(pool: PoolNode) -> None:
    folder = pool.node.folder
    done = pool.node.cli(
        "submit", "--array", "2-6:2%1", "--gpu", "0.1", "--log", f"{folder}/%A-%a.log", "--",
        "sh", "-c", 'echo $MOIETY_ARRAY_ID $MOIETY_ARRAY_INDEX; [ "$MOIETY_ARRAY_INDEX" != 4 ]',
    )  # fmt: skip
    assert done.stdout == "submitted array 1 with 3 tasks\n", done.stderr
    waited = pool.node.cli("wait", "1")
    assert (waited.returncode, waited.stdout) == (1, "array 1: 2 done, 1 failed\n")
    texts = [(folder / f"1-{index}.log").read_text() for index in (2, 4, 6)]
    assert texts == ["1 2\n", "1 4\n", "1 6\n"]
    rows = [pool.row(number) for number in (1, 2, 3)]
    ended = [row.ended_s for row in rows if row.ended_s is not None]
    assert all(row.began_s is not None and row.began_s >= before
               for row, before in zip(rows[1:], ended, strict=False)), "one at a time"  # fmt: skip
    assert pool.node.cli("wait", "1_6").stdout == "workload 1_6 is done\n"
    assert pool.node.cli("logs", "1_4").stdout == "1 4\n"
    refused = pool.node.cli("logs", "1")
    assert (refused.returncode, "one of its tasks: 1_2" in refused.stderr) == (64, True)
    assert "1_4 " in pool.node.cli("history").stdout


def test_tasks_are_held_released_and_cancelled_together_or_alone(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    pool.node.env["SCRIPT"] = script
    pool.node.cli(
        "submit", "--array", "0-9", "--name", "sweep", "--log", f"{pool.node.folder}/%A-%a.log",
        "--", "sh", "-c", 'eval "$SCRIPT"',
    )  # fmt: skip
    for number in (1, 2):
        pool.until_state(number, "running")
    shown = pool.node.cli("queue").stdout
    assert [line.split()[0] for line in shown.splitlines()] == ["ID", "1_0", "1_1", "1_[2-9]"]
    each = pool.node.cli("queue", "--tasks").stdout
    assert each.splitlines()[-1].split()[0] == "1_9"
    assert len(json.loads(pool.node.cli("queue", "-o", "json").stdout)) == 10
    assert pool.node.cli("hold", "1").stdout == "array 1: 8 held, 2 running\n"
    assert pool.node.cli("release", "1_5").stdout == "workload 1_5 is pending\n"
    assert pool.node.cli("cancel", "1_[7-9]").stdout == "array 1: 3 cancelled\n"
    again = pool.node.cli("queue").stdout.splitlines()
    assert [line.split()[0] for line in again] == ["ID", "1_0", "1_1", "1_[2-4,6]", "1_5"]
    assert "is pending: " in pool.node.cli("explain", "1_5").stdout
    said = pool.node.cli("cancel", "sweep").stdout
    counts = re.fullmatch(r"array 1: (\d+) cancelled(?:, (\d+) ending)?\n", said)
    assert counts, said  # the two that ran may have ended already
    assert (int(counts[1]) >= 8, int(counts[1]) + int(counts[2] or 0)) == (True, 10)
    for number in (1, 2):
        assert pool.ended(number).state is WorkState.CANCELLED
    assert pool.live() == []
    opens.touch()


def test_an_array_that_makes_no_sense_is_refused(pool: PoolNode) -> None:
    for array, said in (("5-1", "'5-1' has no index"), ("0-10000", "at most 10000 tasks"),
                        ("0-3%0", "'0' is no number of tasks at once")):  # fmt: skip
        done = pool.node.cli("submit", "--array", array, "--", "true")
        assert (done.returncode, said in done.stderr) == (64, True), done.stderr
    assert pool.live() == []


def test_all_tasks_that_can_be_changed_are(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    pool.node.env["SCRIPT"] = script
    code = '[ "$MOIETY_ARRAY_INDEX" != 0 ] && eval "$SCRIPT"'
    log = f"{pool.node.folder}/%A-%a.log"
    options = ("--array", "0-3%2", "--gpu", "0.1", "--log", log)
    pool.node.cli("submit", *options, "--", "sh", "-c", code)
    for number in (2, 3):
        pool.until_state(number, "running")
    changed = pool.node.cli("update", "1", "--time", "1h")
    assert changed.stdout == "array 1: 1 failed, 1 pending, 2 running\n", changed.stderr
    limits = [pool.row(number).time_limit_s for number in (1, 2, 3, 4)]
    assert limits == [None, 3600.0, 3600.0, 3600.0]
    opens.touch()
    for number in (2, 3, 4):
        pool.ended(number)
    over = pool.node.cli("update", "1", "--time", "2h")
    assert (over.returncode, "submit it once more" in over.stderr) == (75, True), over.stderr
