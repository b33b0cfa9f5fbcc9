"""A starter settles workloads whose supervisor was killed, or with the starter itself."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.pool.starter.records import (
    EndReason,
    Exited,
    FailedToStart,
    Lost,
    Started,
    read_exit,
    read_started,
)
from moiety.testing.waiting import DEADLINE_S
from tests.support.starters import LONG, begin, events_of, finish, kill, pool_with, refusal
from tests.support.workloads import (
    PYTHON,
    Pool,
    Told,
    halting,
    is_running,
    until_ended,
)

IS_ROOT = os.getuid() == 0


@pytest.fixture(params=["cgroup", "session"])
def here(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool_with(request.param) as made:
        yield made


@pytest.fixture
def plain() -> Iterator[Pool]:
    with pool_with("session") as made:
        yield made


ESCAPED = """
    (setsid sh -c 'echo $$ >$TOLD; trap "" TERM; while :; do sleep 0.01; done' &)
    (sh -c 'echo $$ >$TOLD; exec sleep 1000' &)
    echo $$ >$TOLD; exec sleep 1000
"""


def test_when_a_supervisor_is_killed_its_processes_are_ended_and_the_status_is_lost(
    here: Pool,
) -> None:
    starter = here.starter()
    workload, other = here.workload(ESCAPED, grace_s=0.2), here.workload(LONG)
    begin(starter, workload)
    pids = here.told.pids(3)
    begin(starter, other)
    untouched = int(here.told.line())
    with events_of(workload) as events:
        kill(workload.started().supervisor.pid)
        events.until(lambda: read_exit(workload.folder))
    assert not any(map(is_running, pids))
    ended = workload.exit()
    assert ended.outcome == Lost()
    assert ended.begin_s == workload.started().begin_s <= ended.end_s
    assert is_running(untouched)
    os.kill(other.started().supervisor.pid, signal.SIGTERM)
    finish(starter)
    assert other.exit().reason is EndReason.CANCELLED


def test_several_that_are_killed_together_are_all_settled(here: Pool) -> None:
    starter = here.starter()
    workloads = [here.workload(ESCAPED, grace_s=0.2 * number) for number in range(4)]
    for workload in workloads:
        begin(starter, workload)
    pids = here.told.pids(12)
    for workload in workloads:
        os.kill(workload.started().supervisor.pid, signal.SIGKILL)
    finish(starter)
    assert not any(map(is_running, pids))
    assert [workload.exit().outcome for workload in workloads] == 4 * [Lost()]


TWICE = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
told = os.open(os.environ["TOLD"], os.O_WRONLY)
os.write(told, b"%d\\n" % os.getpid())
for _ in range(2):
    signal.sigwait({signal.SIGTERM})
    os.write(told, b"asked\\n")
"""


def test_a_supervisor_that_is_killed_while_it_ends_its_workload(here: Pool) -> None:
    starter = here.starter()
    workload = here.workload(arguments=(PYTHON, "-c", TWICE), grace_s=3600)
    begin(starter, workload)
    pid = int(here.told.line())
    supervisor = workload.started().supervisor.pid
    os.kill(supervisor, signal.SIGTERM)
    assert here.told.line() == "asked"
    kill(supervisor)
    assert here.told.line() == "asked"  # by the starter
    finish(starter)
    assert not is_running(pid)
    assert workload.exit().outcome == Lost()


@pytest.mark.parametrize(
    ("point", "outcome", "runs"),
    [
        ("flock:1", FailedToStart, False),
        ("fsync:1", FailedToStart, False),
        ("rename:1", FailedToStart, False),
        ("fsync:2", Lost, False),
        ("fsync:3", Lost, True),
        ("rename:2", Lost, True),
        ("fsync:4", Exited, True),
    ],
)
@pytest.mark.parametrize("who", ["supervisor", "both"])
def test_a_supervisor_that_is_killed_at_a_point_of_its_work(
    here: Pool, tmp_path: Path, point: str, outcome: type, runs: bool, who: str
) -> None:
    halted = Told(here.folder / "halted")
    workload = here.workload("echo it runs")
    with halting(halted, point, tmp_path):
        starter = here.starter()
    begin(starter, workload)
    pid = int(halted.line())
    if who == "both":
        starter.process.kill()
        starter.process.wait()
    kill(pid)
    if who == "both":
        starter = here.starter()
        starter.start(workload.spec.id)
        if outcome is FailedToStart:  # nothing had begun, so it begins now
            outcome, runs = Exited, True
    finish(starter)
    assert isinstance(workload.exit().outcome, outcome)
    assert here.log.exists() == runs
    halted.close()


def test_a_program_that_loses_its_supervisor_just_before_it_is_executed(
    here: Pool, tmp_path: Path
) -> None:
    halted = Told(here.folder / "halted")
    workload = here.workload("echo it runs")
    with halting(halted, "exec:1", tmp_path):
        starter = here.starter()
    begin(starter, workload)
    child = int(halted.line())
    started = workload.started()
    assert started.child.pid == child
    kill(started.supervisor.pid)
    finish(starter)
    assert not is_running(child)
    assert workload.exit().outcome == Lost()
    halted.close()


def test_a_killed_starter_leaves_its_supervisors_at_work(here: Pool) -> None:
    starter = here.starter()
    go = Told(here.folder / "go")
    workload = here.workload(f"echo $$ >$TOLD; read x <{go.path}; exit 6")
    begin(starter, workload)
    here.told.line()
    starter.process.kill()
    starter.process.wait()
    supervisor = workload.started().supervisor.pid
    with events_of(workload) as events:
        with open(go.path, "w") as pipe:
            pipe.write("go\n")
        events.until(lambda: read_exit(workload.folder))
    until_ended(supervisor)
    assert workload.exit().outcome == Exited(6)
    go.close()


@pytest.mark.parametrize("order", ["starter first", "supervisor first"])
def test_if_both_are_killed_the_next_starter_settles_the_workload(here: Pool, order: str) -> None:
    starter = here.starter()
    script = ESCAPED if here.cgroups else LONG  # without a cgroup, what hides is not found
    workload = here.workload(script, grace_s=0.2)
    begin(starter, workload)
    pids = here.told.pids(3 if here.cgroups else 1)
    supervisor = workload.started().supervisor.pid
    if order == "starter first":
        starter.process.kill()
        starter.process.wait()
        kill(supervisor)
    else:  # it is stopped meanwhile, so that it does not settle
        os.kill(starter.process.pid, signal.SIGSTOP)
        kill(supervisor)
        starter.process.kill()
        starter.process.wait()
    following = here.starter()
    following.start(workload.spec.id)
    finish(following)
    assert not any(map(is_running, pids))
    assert workload.exit().outcome == Lost()


def test_after_a_restart_of_the_machine_the_status_is_lost_and_no_process_is_touched(
    plain: Pool,
) -> None:
    innocent = plain.workload(LONG)
    process = innocent.start()
    plain.told.line()
    workload = plain.workload("echo it runs")
    started = (innocent.folder / "started").read_text()
    boot_id = innocent.started().boot_id
    (workload.folder / "started").write_text(started.replace(boot_id, boot_id[::-1]))
    starter = plain.starter()
    begin(starter, workload)
    finish(starter)
    assert workload.exit().outcome == Lost()
    assert is_running(innocent.started().child.pid)
    assert not plain.log.exists() or plain.log.read_text() == ""
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_a_process_that_got_the_number_of_an_ended_one_is_not_touched(plain: Pool) -> None:
    innocent = plain.workload(LONG)
    process = innocent.start()
    plain.told.line()
    found = read_started(innocent.folder)
    assert isinstance(found, Started)
    workload = plain.workload("echo it runs")
    text = (innocent.folder / "started").read_text()
    other = text.replace(f" {found.child.start_ticks}\n", f" {found.child.start_ticks - 1}\n")
    assert other != text
    (workload.folder / "started").write_text(other)
    starter = plain.starter()
    begin(starter, workload)
    finish(starter)
    assert workload.exit().outcome == Lost()
    assert is_running(found.child.pid)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_a_damaged_record_of_the_start_is_settled_too(plain: Pool) -> None:
    workload = plain.workload("echo it runs")
    (workload.folder / "started").write_text("attempt")
    starter = plain.starter()
    begin(starter, workload)
    finish(starter)
    assert workload.exit().outcome == Lost()
    assert not plain.log.exists()


def test_a_server_that_does_not_listen_stops_nothing(plain: Pool) -> None:
    starter = plain.starter()
    for _ in range(2000):
        starter.start("nothing")
    workload = plain.workload("echo it runs")
    begin(starter, workload)
    finish(starter)
    assert workload.exit().outcome == Exited(0)


def test_a_request_to_end_lets_what_runs_go_on(plain: Pool) -> None:
    starter = plain.starter()
    go = Told(plain.folder / "go")
    workload = plain.workload(f"echo >$TOLD; read x <{go.path}; exit 2")
    begin(starter, workload)
    plain.told.line()
    starter.process.terminate()
    with pytest.raises(EOFError):
        refusal(starter)
    assert starter.process.poll() is None
    with open(go.path, "w") as pipe:
        pipe.write("go\n")
    assert starter.process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Exited(2)
    go.close()
