"""Work that runs again, waits for other work, is warned, and has several processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from moiety.agent.system.processes import is_alive
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import ProcessIdentity, Started, read_started
from moiety.testing.waiting import until
from tests.support.pool_node import MakePool, PoolNode

MIB = 1 << 20
TWO = "2xA100-80:memory=96MiB"


@pytest.fixture
def pool(make_pool: MakePool) -> PoolNode:
    return make_pool(TWO)


def test_a_program_that_fails_runs_again_and_its_log_grows(pool: PoolNode) -> None:
    log = pool.node.folder / "log"
    log.write_text("old\n")
    script = "echo try $MOIETY_JOB_ATTEMPT; [ $MOIETY_JOB_ATTEMPT = 2 ]"
    done = pool.node.cli(
        "submit", "-q", "--retries", "2", "--log", str(log), "--truncate", "--", "sh", "-c", script
    )
    row = pool.ended(int(done.stdout))
    assert (row.state, row.attempt, row.retried, row.restarts) == (WorkState.DONE, 2, 1, 1)
    assert log.read_text() == "try 1\ntry 2\n"
    shown = pool.node.cli("history", str(row.id)).stdout.splitlines()
    assert shown[0].split() == ["ATTEMPT", "BEGAN", "TIME", "ON", "ENDED"]
    assert [line.split()[-2:] for line in shown[1:]] == [["exited", "1"], ["exited", "0"]]


def test_work_waits_for_other_work_and_says_so(pool: PoolNode, tmp_path: Path) -> None:
    script, opens = pool.gate("open")
    (tmp_path / "in").write_text("from a file\n")
    first = pool.submit(script)
    log = str(pool.node.folder / "%j.log")
    options = ("submit", "-q", "--log", log)
    second = pool.node.cli(
        *options, "--depends", f"afterok:{first}", "--input", str(tmp_path / "in"), "--", "cat"
    ).stdout.strip()
    never = pool.node.cli(*options, "--depends", f"afternotok:{first}", "--", "true").stdout.strip()
    gone = pool.node.cli(
        *options, "--depends", f"afternotok:{first}", "--kill-invalid", "--", "true"
    ).stdout.strip()
    later = pool.node.cli(*options, "--begin", "now+1hour", "--", "true").stdout.strip()
    pool.until_state(first, "running")
    why = pool.node.cli("explain", second).stdout
    assert why == f"workload {second} is pending: it depends on afterok:{first}\n"
    assert f"depends on afterok:{first}" in pool.node.cli("queue").stdout
    why = pool.node.cli("explain", later).stdout
    assert re.search(r"it is to begin later, in (59 min|1 h)\b", why), why
    opens.touch()
    assert pool.ended(int(second)).state is WorkState.DONE
    assert pool.output(int(second)) == "from a file\n"
    assert pool.ended(int(gone)).state is WorkState.CANCELLED
    assert "cannot happen any more" in pool.node.cli("explain", never).stdout
    for depends, said in (("afterok:99", "no workload 99"), ("sometimes:1", "no dependency")):
        refused = pool.node.cli(*options, "--depends", depends, "--", "true")
        assert (refused.returncode != 0, said in refused.stderr) == (True, True), refused.stderr
    pool.node.cli("cancel", never, later)


def test_a_warning_comes_before_the_time_limit(pool: PoolNode) -> None:
    log = str(pool.node.folder / "log")
    script = "trap 'echo warned; exit 0' USR1; echo ready; while :; do sleep 0.05; done"
    done = pool.node.cli(
        "submit", "-q", "--time", "1h", "--signal", f"B:USR1@{3600 - 5}", "--log", log,
        "--", "sh", "-c", script,
    )  # fmt: skip
    assert pool.ended(int(done.stdout)).state is WorkState.DONE
    assert Path(log).read_text() == "ready\nwarned\n"
    refused = pool.node.cli("submit", "--signal", "NOPE@3", "--", "true")
    assert "'NOPE' is no signal" in refused.stderr


RANKS = 'echo "$RANK/$WORLD_SIZE $LOCAL_RANK $MASTER_ADDR ${CUDA_VISIBLE_DEVICES-all}"'


def test_each_process_of_a_workload_has_its_rank(pool: PoolNode) -> None:
    log = pool.node.folder / "log"
    done = pool.node.cli(
        "submit", "-q", "--tasks", "2", "--gpus-per-task", "1", "--log", str(log),
        "--", "sh", "-c", RANKS,
    )  # fmt: skip
    row = pool.ended(int(done.stdout))
    assert (row.state, row.gpus, row.tasks) == (WorkState.DONE, 2, 2)
    assert sorted(log.read_text().splitlines()) == ["0/2 0 127.0.0.1 0", "1/2 1 127.0.0.1 1"]
    assert pool.ended(pool.submit(RANKS, tasks=3)).state is WorkState.DONE
    lines = sorted(pool.output(row.id + 1).splitlines())
    assert lines == [f"{rank}/3 {rank} 127.0.0.1 all" for rank in range(3)]


def test_one_process_that_fails_ends_the_others(pool: PoolNode) -> None:
    script = "[ $RANK = 1 ] && { kill -SEGV $$; }; echo waits; exec sleep 1000"
    row = pool.ended(pool.submit(script, tasks=3, grace_s=60.0))
    assert (row.state, row.exit_signal) == (WorkState.FAILED, signal.SIGSEGV)
    assert "moiety: process 1 of 3 was ended by signal 11; the others are ended" in pool.output(
        row.id
    )
    script, _ = pool.gate("never")
    number = pool.submit(script, tasks=2)
    until(lambda: pool.output(number) == "runs\nruns\n", "both run")
    pool.node.cli("cancel", str(number))
    assert pool.ended(number).state is WorkState.CANCELLED
    assert pool.output(number) == "runs\nruns\n", "nothing is said of what was asked for"


def test_a_gpu_on_which_different_programs_fail_at_once_is_drained(pool: PoolNode) -> None:
    for name in ("train", "tune", "serve"):
        row = pool.ended(pool.submit("exit 3", argv=[name, "-c", "exit 3"]))
        assert row.cards == [0]
    until(lambda: pool.node.json("gpu", "ls")[0]["drained"], "it is drained")
    number = pool.submit("true")
    assert pool.ended(number).cards == [1]
    said = pool.node.cli("queue").stderr
    assert said == (
        "GPU 0 is drained: workloads 1, 2, 3 failed on it within 10 s each; "
        "`moiety gpu resume 0` once it is repaired\n"
    )
    assert json.loads(pool.node.cli("gpu", "resume", "0", "-o", "json").stdout)


def test_work_starts_beside_a_gpu_that_is_drained_under_running_work(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    first = pool.submit(script)
    card = pool.until_state(first, "running").cards[0]
    assert pool.node.cli("gpu", "drain", str(card)).returncode == 0
    assert pool.ended(pool.submit("true")).cards == [1 - card]
    opens.touch()
    assert pool.ended(first).state is WorkState.DONE
    assert pool.ended(pool.submit("true")).cards == [1 - card]
    assert "cycle_failed" not in pool.log()
    assert pool.node.cli("gpu", "resume", str(card)).returncode == 0


def test_a_program_that_is_left_on_a_gpu_ends_with_its_workload(
    pool: PoolNode, programs: Path, kernels: Path
) -> None:
    gate = pool.node.folder / "gate"
    orphan = f"setsid {programs / 'worker'} {kernels} {60 * MIB} 1000000 0 0 1"
    script = f"{orphan} >/dev/null 2>&1 & until [ -e {gate} ]; do sleep 0.02; done"
    number = pool.submit(script, gpus=1, environment=pool.node.env)
    rows = until(lambda: pool.node.json("ps"), "it has memory of a GPU")
    gate.touch()
    assert pool.ended(number).state is WorkState.DONE
    assert not Path(f"/proc/{rows[0]['pid']}/exe").exists(), "nothing of it is left"
    assert until(lambda: pool.node.json("ps") == [], "its memory is free")


def test_a_log_of_gigabytes_is_read_in_parts(pool: PoolNode) -> None:
    number = pool.submit("echo begin; truncate -s 8G /proc/self/fd/1; echo end")
    assert pool.ended(number).state is WorkState.DONE
    assert Path(pool.row(number).stdout).stat().st_size > 8 << 30
    command = [sys.executable, "-m", "moiety", "logs", str(number)]
    with subprocess.Popen(command, env=pool.node.env, stdout=subprocess.PIPE) as logs:
        assert logs.stdout is not None
        assert logs.stdout.read(7) == b"begin\n\0"
        peak = Path(f"/proc/{logs.pid}/status").read_text()
        logs.kill()
    assert int(peak.split("VmHWM:")[1].split()[0]) < 100 * 1024, "KiB, of 8 GiB"


def test_a_file_names_options_as_the_command_line_does(pool: PoolNode) -> None:
    file = pool.node.folder / "w.yaml"
    file.write_text(
        "array: 0-3%2\ntime: 12h\nsignal: B:USR1@60\nerror-log: '%a.err'\nretries: 2\nhold: true\n"
        "requeue: true\ndepends: singleton\ncommand: [sh, -c, 'true']\n"
    )
    done = pool.node.cli("submit", "-f", str(file))
    assert done.stdout == "submitted array 1 with 4 tasks\n", done.stderr
    row = pool.row(2)
    assert (row.array_at_once, row.time_limit_s, row.retries, row.requeue, row.depends) == (
        2, 43200.0, 2, True, "singleton",
    )  # fmt: skip
    assert row.stderr.endswith("/1.err")
    pool.node.cli("cancel", "1")


def test_work_that_asked_for_it_runs_again_after_a_restart_of_the_machine(pool: PoolNode) -> None:
    script, opens = pool.gate("open")
    again, lost = pool.submit(script, requeue=True), pool.submit(script)
    for number in (again, lost):
        until(partial(pool.output, number), "it runs")
    pool.kill()
    for number in (again, lost):
        record = pool.paths.of_workload(number) / "started"
        started = read_started(record.parent)
        assert isinstance(started, Started)
        for each in (started.supervisor, started.child):
            os.kill(each.pid, signal.SIGKILL)
            until(partial(is_gone, each), "it is gone, as after a restart")
        text = record.read_text().replace(started.boot_id, "another-boot")
        record.write_text(text)
    pool.up()
    opens.touch()
    row = pool.ended(again)
    assert (row.state, row.attempt, row.restarts) == (WorkState.DONE, 2, 1)
    assert pool.output(again) == "runs\nruns\n"
    row = pool.ended(lost)
    assert (row.state, row.reason) == (WorkState.FAILED, "the machine was restarted while it ran")


def is_gone(process: ProcessIdentity) -> bool:
    return not is_alive(process.pid, process.start_ticks)


FAULT = (
    "import ctypes, sys; driver = ctypes.CDLL(sys.argv[1]); assert not driver.cuInit(0);"
    "assert not driver.simgpu_fault(0, 79, 0)"
)
"""GPU 0 falls off the bus."""


def test_work_that_asked_for_it_leaves_a_gpu_that_is_lost(
    pool: PoolNode, programs: Path, kernels: Path, native: Path
) -> None:
    worker = list(map(str, (programs / "worker", kernels, 8 << 20, 1_000_000, 3, 0, 7, 50)))
    log = str(pool.node.folder / "log")
    done = pool.node.cli("submit", "-q", "--requeue", "--log", log, "--", *worker)
    number = int(done.stdout)
    until(lambda: [row for row in pool.node.json("ps") if row["resident_bytes"]], "it uses its GPU")
    driver = str(native / "simgpu" / "libcuda.so.1")
    subprocess.run([sys.executable, "-c", FAULT, driver], env=pool.node.env, check=True)
    row = until(
        lambda: now if (now := pool.row(number)).state == "running" and now.restarts else None,
        "it runs again",
    )
    assert (row.cards, row.attempt) == ([1], 2)
    pool.node.cli("cancel", str(number))
    assert pool.ended(number).state is WorkState.CANCELLED
