"""A pool on simulated GPUs: work is submitted, waits, runs, and ends as it should."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from moiety.pool.model.states import WorkState
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool

EIGHT = "8xA100-80:memory=96MiB"
TWO = "2xA100-80:memory=96MiB"


def test_twenty_programs_of_two_projects_end_within_their_quotas(make_pool: MakePool) -> None:
    pool = make_pool(EIGHT)
    file = pool.node.folder / "pool.yaml"
    file.write_text("projects:\n- {name: nlp, quota: 6}\n- {name: vision, quota: 2, limit: 2}\n")
    done = pool.node.cli("apply", "-f", str(file))
    assert done.stdout == "project nlp created\nproject vision created\n", done.stderr
    assert pool.node.cli("apply", "-f", str(file)).stdout == "nothing is different\n"
    script, opens = pool.gate("open")
    for project in ("vision", "nlp"):
        for _ in range(10):
            pool.submit(f"{script}; echo $MOIETY_JOB_PROJECT $MOIETY_JOB_ID", project=project)

    def running(project: str) -> int:
        rows = [row for row in pool.live() if row.project == project]
        return sum(row.state is WorkState.RUNNING for row in rows)

    until(lambda: running("nlp") == 6 and running("vision") >= 2, "the queue fills the machine")
    assert running("vision") == 2, "its limit holds while others could not use more"
    held = [row.cards for row in pool.live() if row.state is WorkState.RUNNING]
    assert sorted(card for cards in held for card in cards) == list(range(8))
    waits = next(row for row in pool.live() if row.state is WorkState.PENDING)
    why = json.loads(pool.node.cli("explain", str(waits.id), "-o", "json").stdout)
    assert why["kind"] == "queue-limit"
    assert "project vision would have 3 GPUs, and its limit is 2" in why["text"]

    opens.touch()
    for number in range(1, 21):
        row = pool.ended(number)
        assert row.state is WorkState.DONE, row
        assert pool.output(number) == f"runs\n{row.project} {number}\n"
    assert pool.live() == []
    assert pool.status().start_refused == 0
    history = json.loads(pool.node.cli("history", "-o", "json").stdout)
    assert [row["id"] for row in history] == list(range(20, 0, -1))
    assert all(row["submitted_s"] <= row["began_s"] <= row["ended_s"] for row in history)


def test_parts_of_one_gpu_are_given_to_several(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, opens = pool.gate("open")
    numbers = [pool.submit(script, gpu=0.5, memory_bytes=8 << 20) for _ in range(5)]
    for number in numbers[:4]:
        pool.until_state(number, "running")
    assert sorted(pool.row(number).cards[0] for number in numbers[:4]) == [0, 0, 1, 1]
    text = pool.node.cli("explain", str(numbers[4])).stdout
    assert text.startswith(f"workload {numbers[4]} is pending: "), text
    promised = [row["promised_gpu"] for row in pool.node.json("gpu", "ls")]
    assert promised == [1.0, 1.0], "the agent keeps what the engine decided"
    opens.touch()
    assert {pool.ended(number).state for number in numbers} == {WorkState.DONE}


def test_programs_on_gpus_share_them_as_moiety_run_has_them(
    make_pool: MakePool, programs: Path, kernels: Path
) -> None:
    pool = make_pool(TWO)
    done = pool.node.cli(
        "submit", "-q", "--gpu", "0.5", "--log", str(pool.node.folder / "w-%j.log"), "--",
        *map(str, (programs / "worker", kernels, 8 << 20, 3, 1, 1, 7)),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    number = int(done.stdout)
    row = pool.ended(number)
    assert row.state is WorkState.DONE, pool.output(number)
    assert row.stdout == str(pool.node.folder / f"w-{number}.log")


def test_work_that_waits_and_work_that_runs_can_be_cancelled(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, _ = pool.gate("never")
    running = pool.submit(f"trap 'echo told; exit 3' TERM; {script}", gpus=2)
    waiting = pool.submit("true", gpus=2, name="second")
    pool.until_state(running, "running")
    until(lambda: pool.output(running) == "runs\n", "the program runs")
    assert "workload 2 is cancelled" in pool.node.cli("cancel", "second").stdout
    assert pool.row(waiting).state is WorkState.CANCELLED
    pool.node.cli("cancel", str(running))
    row = pool.ended(running)
    assert (row.state, row.exit_code) == (WorkState.CANCELLED, 3)
    lines = pool.output(running).splitlines()
    assert (lines[0], lines[-1]) == ("runs", "told"), "the shell may say more between"
    again = pool.node.cli("cancel", str(running))
    assert (again.returncode, again.stdout) == (0, "workload 1 is cancelled\n")


def test_held_work_waits_until_it_is_released(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    held = pool.submit("echo ran", hold=True)
    other = pool.submit("true")
    pool.ended(other)
    assert pool.row(held).state is WorkState.HELD
    assert "is pending" in pool.node.cli("release", str(held)).stdout
    assert pool.ended(held).state is WorkState.DONE
    script, opens = pool.gate("open")
    running = pool.submit(script)
    pool.until_state(running, "running")
    refused = pool.node.cli("hold", str(running))
    assert refused.returncode == 75
    assert "it cannot become held" in refused.stderr
    opens.touch()


def test_a_program_that_cannot_start_is_tried_again_and_then_held(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    number = pool.submit("true", cwd="/nowhere/at/all")
    row = pool.until_state(number, "held")
    assert (row.failures, row.attempt) == (3, 3)
    assert row.reason.startswith("3 starts in a row failed: its program could not be started: ")
    assert pool.row(pool.submit("true", program="/nowhere/program", hold=True)).failures == 0


def test_a_time_limit_ends_work(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, _ = pool.gate("never")
    row = pool.ended(pool.submit(script, time_limit_s=0.3))
    assert (row.state, row.reason) == (WorkState.TIMED_OUT, "its time limit was reached")


def test_a_program_that_fails_says_how(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    failed, killed = pool.submit("exit 7"), pool.submit("kill -KILL $$")
    row = pool.ended(failed)
    assert (row.state, row.exit_code) == (WorkState.FAILED, 7)
    row = pool.ended(killed)
    assert (row.state, row.reason) == (WorkState.FAILED, "its program was ended by SIGKILL")
    waited = pool.node.cli("wait", str(failed))
    assert (waited.returncode, waited.stdout) == (1, f"workload {failed} is failed, exit code 7\n")
    shown = pool.node.cli("history").stdout
    assert "failed, by SIGKILL" in shown


def test_what_others_run_is_counted(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    pool.node.cli("down")
    other = pool.node.run(["cat"], "--gpu", "0.8", "--gpu-index", "1", stdin=True)
    until(lambda: pool.node.json("gpu", "ls")[1]["promised_gpu"] > 0, "a program has its share")
    pool.up()
    script, opens = pool.gate("open")
    first, second = pool.submit(script), pool.submit(script)
    assert pool.until_state(first, "running").cards == [0]
    assert pool.row(second).state is WorkState.PENDING
    assert other.stdin
    other.stdin.close()
    other.wait()
    assert pool.until_state(second, "running").cards == [1]
    opens.touch()
    assert pool.ended(second).state is WorkState.DONE
    assert pool.status().start_refused == 0


def test_only_the_pool_promises_while_it_is_up(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    refused = pool.node.cli("run", "--gpu", "0.5", "--", "true")
    assert refused.returncode == 75
    assert "only it promises parts of GPUs" in refused.stderr
    assert "moiety submit" in refused.stderr
    assert pool.node.cli("run", "--", "true").returncode == 0
    pool.node.cli("down")
    assert pool.node.cli("run", "--gpu", "0.5", "--", "true").returncode == 0


BY_HAND = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
at, context = ctypes.c_uint64(), ctypes.c_void_p()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]))) == 0
while not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
assert cuda.cuMemFree_v2(at) == 0
"""
"""A server of somebody who does not know of moiety: it has memory of the GPU, and waits."""


def test_a_queued_job_and_a_server_that_was_started_by_hand_both_finish(
    make_pool: MakePool, programs: Path, kernels: Path
) -> None:
    pool = make_pool("1xA100-80:memory=256MiB")
    node, ends = pool.node, pool.node.folder / "ends"
    server = node.run_alone([sys.executable, "-c", BY_HAND, 64 << 20, ends])
    until(
        lambda: any(
            row["state"] == "outside" and row["resident_bytes"] >= 64 << 20
            for row in node.json("ps", "-a")
        ),
        "the server has memory of the GPU",
    )
    whole = pool.submit("true")
    part = node.cli(
        "submit", "-q", "--gpu", "0.1", "--memory", "32MiB",
        "--log", str(node.folder / "part.log"), "--",
        *map(str, (programs / "worker", kernels, 32 << 20, 3, 1, 1, 7)),
    )  # fmt: skip
    row = pool.ended(int(part.stdout))
    assert row.state is WorkState.DONE, pool.output(row.id)
    assert pool.row(whole).state is WorkState.PENDING, "the server has a quarter of the GPU"
    done = node.cli("explain", str(whole))
    text = done.stdout
    assert done.returncode == 0, done.stderr
    assert "programs outside the pool have 6" in text, text
    ends.touch()
    _, err = server.communicate(timeout=60)
    assert server.returncode == 0, err
    assert pool.ended(whole).state is WorkState.DONE
    assert pool.status().start_refused == 0


def test_quota_is_taken_back_from_a_project_that_has_more(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    file = pool.node.folder / "pool.yaml"
    file.write_text("projects: [{name: nlp, quota: 1}, {name: vision, quota: 1}]\n")
    assert pool.node.cli("apply", "-f", str(file)).returncode == 0
    script, opens = pool.gate("open")
    greedy = [pool.submit(script, project="vision") for _ in range(2)]
    for number in greedy:
        pool.until_state(number, "running")
    due = pool.submit(script, project="nlp")
    pool.until_state(due, "running")
    states = sorted(pool.row(number).state for number in greedy)
    assert states == [WorkState.PENDING, WorkState.RUNNING], "one of them waits again"
    opens.touch()
    for number in (*greedy, due):
        assert pool.ended(number).state is WorkState.DONE
    assert sorted(pool.row(number).attempt for number in greedy) == [1, 2]


def test_a_part_that_runs_becomes_smaller_and_larger(make_pool: MakePool) -> None:
    pool = make_pool("1xA100-80:memory=96MiB")
    script, opens = pool.gate("open")
    first = pool.submit(script, gpu=0.8, memory_bytes=8 << 20)
    pool.until_state(first, "running")
    second = pool.submit(script, gpu=0.5, memory_bytes=8 << 20)
    refused = pool.node.cli("update", str(first), "--gpu", "0.9", "--memory", "200MiB")
    assert refused.returncode == 64
    assert "of GPU 0 are left beside others" in refused.stderr
    done = pool.node.cli("update", str(first), "--gpu", "0.4")
    assert done.stdout == f"workload {first} is running, 0.4 GPU\n", done.stderr
    pool.until_state(second, "running")
    assert [row["promised_gpu"] for row in pool.node.json("gpu", "ls")] == [0.9]
    refused = pool.node.cli("update", str(first), "--gpu", "0.6")
    assert "0.5 of the time of GPU 0 is left beside others" in refused.stderr
    assert pool.node.cli("update", str(first), "--gpu", "0.5").returncode == 0
    assert [row["promised_gpu"] for row in pool.node.json("gpu", "ls")] == [1.0]
    third = pool.submit("true", time_limit_s=60.0)
    done = pool.node.cli("update", str(third), "--time", "2h", "--priority", "-5")
    assert done.returncode == 0, done.stderr
    row = pool.row(third)
    assert (row.time_limit_s, row.priority) == (7200.0, -5)
    opens.touch()
    for number in (first, second, third):
        assert pool.ended(number).state is WorkState.DONE
    assert pool.status().start_refused == 0


def test_the_time_limit_of_work_that_runs_is_another_at_once(make_pool: MakePool) -> None:
    pool = make_pool(TWO)
    script, _ = pool.gate("never")
    number = pool.submit(script, gpus=0, time_limit_s=3600.0)
    pool.until_state(number, "running")
    done = pool.node.cli("update", str(number), "--time", "1s")
    assert done.returncode == 0, done.stderr
    row = pool.ended(number)
    assert (row.state, row.reason) == (WorkState.TIMED_OUT, "its time limit was reached")
    late = pool.node.cli("update", str(number), "--time", "1h")
    assert (late.returncode, "submit it once more" in late.stderr) == (75, True)
