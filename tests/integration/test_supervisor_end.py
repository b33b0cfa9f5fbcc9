"""A supervisor ends all processes of its workload, whatever they do, and says why."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.pool.launch.supervised import Supervised
from moiety.pool.starter.records import (
    EndReason,
    Exited,
    FailedToStart,
    ProcessIdentity,
    Signaled,
    read_exit,
)
from moiety.testing.waiting import DEADLINE_S, until
from tests.support.starters import pool_with
from tests.support.users import open_folder
from tests.support.workloads import (
    PYTHON,
    Pool,
    Told,
    halting,
    is_running,
    own_cgroup,
    pool,
    until_ended,
    until_stopped,
)

LONG = "exec sleep 1000"


@pytest.fixture(params=["cgroup", "session"])
def here(request: pytest.FixtureRequest) -> Iterator[Pool]:
    with pool_with(request.param) as made:
        yield made


def test_the_record_says_what_the_processes_are_known_by(
    here: Pool, request: pytest.FixtureRequest
) -> None:
    workload = here.workload()
    assert workload.run().outcome == Exited(0)
    assert workload.started().processes == request.node.callspec.params["here"]
    if here.cgroups:
        left = [name for name in os.listdir(here.cgroups[0]) if name.startswith(workload.spec.id)]
        assert left == []


def test_cancel_asks_all_processes_to_end(here: Pool) -> None:
    script = """
        trap 'echo main; exit 7' TERM
        (trap 'echo child; exit 0' TERM; echo >$TOLD; sleep 1000 & wait; wait) &
        (trap 'echo other; exit 0' TERM; echo >$TOLD; sleep 1000 & wait; wait) &
        sleep 1000 & echo >$TOLD; wait; wait
    """
    workload = here.workload(script)
    process = workload.start()
    here.told.lines(3)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    ended = workload.exit()
    assert ended.outcome == Exited(7)
    assert ended.reason is EndReason.CANCELLED
    assert sorted(here.log.read_text().split()) == ["child", "main", "other"]


def test_what_ignores_it_is_killed_after_the_grace(here: Pool) -> None:
    workload = here.workload("trap '' TERM; echo >$TOLD; while :; do sleep 0.01; done", grace_s=0.2)
    process = workload.start()
    here.told.line()
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    ended = workload.exit()
    assert ended.outcome == Signaled(signal.SIGKILL)
    assert ended.reason is EndReason.CANCELLED
    assert ended.end_s - ended.begin_s >= 0.2


def test_without_grace_all_are_killed_at_once(here: Pool) -> None:
    workload = here.workload("trap 'echo asked; exit' TERM; echo >$TOLD; sleep 1000", grace_s=0)
    process = workload.start()
    here.told.line()
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Signaled(signal.SIGKILL)
    assert here.log.read_text() == ""


def test_the_time_limit_ends_it(here: Pool) -> None:
    ended = here.workload(LONG).run(time_limit_s=0.3)
    assert ended.outcome == Signaled(signal.SIGTERM)
    assert ended.reason is EndReason.TIME_LIMIT
    assert ended.end_s - ended.begin_s >= 0.3


@pytest.mark.parametrize("first_s", [None, 3600])
def test_another_time_limit_counts_from_the_begin(here: Pool, first_s: float | None) -> None:
    workload = here.workload(LONG)
    process = workload.start(time_limit_s=first_s)
    until((workload.folder / "started").exists)
    identity = ProcessIdentity(process.pid, 0)
    found = Supervised(1, 1, identity, os.pidfd_open(process.pid))
    for limit_s in (7200.0, None):
        found.limit(limit_s)
    assert read_exit(workload.folder) is None
    found.limit(0.4)
    os.close(found.pidfd)
    assert process.wait(DEADLINE_S) == 0
    ended = workload.exit()
    assert ended.reason is EndReason.TIME_LIMIT
    assert ended.end_s - ended.begin_s >= 0.39


HOSTILE = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
told = os.open(os.environ["TOLD"], os.O_WRONLY)
def stay():
    os.write(told, b"%d\\n" % os.getpid())
    while True:
        signal.pause()
for number in range(1000):
    if os.fork() == 0:
        if number % 4 == 1:
            os.setsid()
        elif number % 4 == 2:
            os.setpgid(0, 0)
        elif number % 4 == 3:
            if os.fork() or os.setsid() is not None or os.fork():
                os._exit(0)
        stay()
stay()
"""


@pytest.mark.slow
def test_a_thousand_children_that_hide_and_ignore_it_are_gone(here: Pool) -> None:
    workload = here.workload(arguments=(PYTHON, "-c", HOSTILE), grace_s=0.1)
    process = workload.start()
    # os.setsid() returns None: the third kind forks once more, and its parents have ended.
    pids = here.told.pids(1001)
    assert all(map(is_running, pids))
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert not any(map(is_running, pids))
    assert workload.exit().outcome == Signaled(signal.SIGKILL)


def test_what_goes_on_forking_is_gone(here: Pool) -> None:
    script = """
        trap '' TERM
        fork() {
            while :; do
                (sleep 0.01; echo x >$TOLD) &
                (setsid sleep 1000 &)
                sleep 0.01
            done
        }
        fork & fork & echo $$ >$TOLD; wait
    """
    workload = here.workload(script, grace_s=0.1, environment={
        "TOLD": str(here.told.path), "PATH": "/usr/bin:/bin", "MARK": str(here.folder),
    })  # fmt: skip
    process = workload.start()
    here.told.lines(50)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert marked(here.folder) == []


def marked(folder: Path) -> list[int]:
    """Processes whose environment has this folder."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        try:
            if f"MARK={folder}\0".encode() in (each / "environ").read_bytes():
                found.append(int(each.name))
        except OSError:
            continue
    return found


ORPHANS = """
    (setsid sh -c 'echo $$ >$TOLD; exec sleep 1000' &)
    (sh -c 'echo $$ >$TOLD; exec sleep 1000' &)
    sh -c 'echo $$ >$TOLD; exec sleep 1000' &
    read x <$GO
    exit 4
"""


@pytest.fixture
def go(here: Pool) -> Iterator[Told]:
    """A pipe that lets a script go on."""
    made = Told(here.folder / "go")
    yield made
    made.close()


def with_go(here: Pool, go: Told) -> dict[str, str]:
    return {"TOLD": str(here.told.path), "GO": str(go.path), "PATH": "/usr/bin:/bin"}


def let_go(go: Told) -> None:
    with open(go.path, "w") as pipe:
        pipe.write("go\n")


def test_what_is_started_meanwhile_is_asked_too(here: Pool, go: Told) -> None:
    late = "setsid sh -c 'echo >$TOLD; exec sleep 1000' &"
    script = f"""
        end() {{ {late} read x <$GO; exit 3; }}
        trap end TERM
        sleep 1000 & echo >$TOLD; wait; wait
    """
    workload = here.workload(script, environment=with_go(here, go), grace_s=3600)
    process = workload.start()
    here.told.line()
    process.terminate()
    here.told.line()  # of the process that was started after the request to end
    let_go(go)
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Exited(3)


MISSES = """
    (trap : TERM; echo >$TOLD; until read x <$GO; do :; done; trap - TERM; exec sleep 1000) &
    echo $$ >$TOLD; wait
"""


def test_what_missed_the_request_to_end_is_asked_again(here: Pool, go: Told) -> None:
    workload = here.workload(MISSES, environment=with_go(here, go), grace_s=3600)
    process = workload.start()
    main = next(int(line) for line in here.told.lines(2) if line)
    process.terminate()
    until_ended(main)
    let_go(go)
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Signaled(signal.SIGTERM)


def test_what_the_main_process_leaves_behind_is_ended(here: Pool, go: Told) -> None:
    workload = here.workload(ORPHANS, environment=with_go(here, go))
    process = workload.start()
    pids = here.told.pids(3)
    let_go(go)
    assert process.wait(DEADLINE_S) == 0
    assert not any(map(is_running, pids))
    ended = workload.exit()
    assert ended.outcome == Exited(4)
    assert ended.reason is EndReason.ENDED


def test_what_is_to_be_kept_goes_on_until_it_is_cancelled(here: Pool, go: Told) -> None:
    workload = here.workload(ORPHANS, environment=with_go(here, go), keep_children=True)
    process = workload.start()
    pids = here.told.pids(3)
    child = workload.started().child.pid
    let_go(go)
    until_ended(child)
    assert all(map(is_running, pids))
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert not any(map(is_running, pids))
    assert workload.exit().reason is EndReason.ENDED


def test_a_signal_reaches_all_processes(here: Pool) -> None:
    script = """
        (trap 'echo child; exit 0' USR1; sleep 1000 & echo >$TOLD; wait; wait) & child=$!
        trap 'echo main' USR1
        echo >$TOLD
        wait $child; wait $child
    """
    workload = here.workload(script)
    process = workload.start()
    here.told.lines(2)
    process.send_signal(signal.SIGRTMIN + signal.SIGUSR1)
    assert process.wait(DEADLINE_S) == 0
    assert sorted(here.log.read_text().split()) == ["child", "main"]
    assert workload.exit().reason is EndReason.ENDED


WARNED = """
    (trap 'echo child >>$TOLD' USR1; echo ready >$TOLD; while :; do sleep 1000 & wait; done) &
    trap 'echo main >>$TOLD; read x <$GO; exit 3' USR1
    echo ready >$TOLD
    while :; do wait; done
"""


@pytest.mark.parametrize(("first", "count"), [(False, 2), (True, 1)])
def test_a_signal_warns_before_the_time_limit(
    here: Pool, go: Told, first: bool, count: int
) -> None:
    workload = here.workload(WARNED, environment=with_go(here, go), grace_s=0)
    process = workload.start(  # five seconds are enough to be ready
        time_limit_s=3600, warn_signal=signal.SIGUSR1, warn_s=3595, warn_first=first
    )
    assert here.told.lines(2) == ["ready", "ready"]
    assert sorted(here.told.lines(count)) == ["child", "main"][-count:]
    let_go(go)
    assert process.wait(DEADLINE_S) == 0
    ended = workload.exit()
    assert (ended.outcome, ended.reason) == (Exited(3), EndReason.ENDED)
    assert ended.end_s - ended.begin_s >= 4.9


def test_a_warning_comes_at_once_where_less_time_is_left(here: Pool) -> None:
    ended = here.workload(LONG).run(time_limit_s=600, warn_signal=signal.SIGUSR1, warn_s=900)
    assert ended.outcome == Signaled(signal.SIGUSR1)


def test_a_longer_time_limit_has_a_warning_of_its_own(here: Pool) -> None:
    script = """
        trap 'echo warned >>$TOLD' USR1
        echo ready >$TOLD
        while :; do sleep 0.05; done
    """
    workload = here.workload(script)
    process = workload.start(time_limit_s=100_000, warn_signal=signal.SIGUSR1, warn_s=90_000)
    assert here.told.line() == "ready"
    identity = ProcessIdentity(process.pid, 0)
    found = Supervised(1, 1, identity, os.pidfd_open(process.pid))
    for limit_s in (90_000.0, 80_000.0, 90_001.0):  # due at once; shorter; due after a second
        found.limit(limit_s)
        if limit_s >= 90_000.0:
            assert here.told.line() == "warned"
    os.close(found.pidfd)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().end_s - workload.exit().begin_s >= 1.0


WARNING = {"time_limit_s": 3600, "warn_signal": signal.SIGUSR1, "warn_s": 3599.5}


@pytest.mark.parametrize("limit", [{"time_limit_s": 0.5}, WARNING], ids=["limit", "warning"])
def test_the_time_limit_stands_still_while_a_workload_is_stopped(
    here: Pool, go: Told, tmp_path: Path, limit: dict[str, float]
) -> None:
    workload, other = here.workload(LONG), here.workload(LONG)
    with halting(go, "flock:1", tmp_path):
        process = workload.start(**limit)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    process.send_signal(signal.SIGRTMIN + signal.SIGSTOP)  # for the first moment of its time
    process.send_signal(signal.SIGCONT)
    until((workload.folder / "started").exists)
    ended = other.run(time_limit_s=0.7)
    assert read_exit(workload.folder) is None
    process.send_signal(signal.SIGRTMIN + signal.SIGCONT)
    assert process.wait(DEADLINE_S) == 0
    by = signal.SIGTERM if limit is not WARNING else signal.SIGUSR1
    assert workload.exit().outcome == Signaled(by)
    stopped_s = ended.end_s - ended.begin_s
    assert workload.exit().end_s - workload.exit().begin_s >= stopped_s + 0.49


def test_a_stopped_workload_goes_on_where_it_was(here: Pool, go: Told) -> None:
    script = "echo $$ >$TOLD; while read x <$GO; do echo $x >$TOLD; done"
    workload = here.workload(script, environment=with_go(here, go))
    process = workload.start()
    pid = int(here.told.line())
    for _ in range(2):
        process.send_signal(signal.SIGRTMIN + signal.SIGSTOP)
        until_stopped(pid, workload.cgroup)
        process.send_signal(signal.SIGRTMIN + signal.SIGCONT)
        let_go(go)
        assert here.told.line() == "go"
    process.terminate()
    assert process.wait(DEADLINE_S) == 0


def test_a_stopped_workload_can_be_cancelled(here: Pool) -> None:
    script = "trap 'echo asked; exit 0' TERM; sleep 1000 & echo $$ >$TOLD; wait; wait"
    workload = here.workload(script)
    process = workload.start()
    pid = int(here.told.line())
    process.send_signal(signal.SIGRTMIN + signal.SIGSTOP)
    until_stopped(pid, workload.cgroup)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Exited(0)
    assert here.log.read_text() == "asked\n"


def test_limits_of_a_cgroup_hold_and_are_named() -> None:
    with own_cgroup("pids") as pids, own_cgroup("memory") as memory:
        if pids is None or memory is None:
            pytest.skip("no cgroup of version 1 can be made here")
        with open_folder() as folder, pool(folder, [memory, pids]) as here:
            show = "while read x; do echo $x; done </proc/self/cgroup"
            script = f"{show}; (exit 0) & (exit 0) & (exit 0) & wait"
            workload = here.workload(script, memory_bytes=64 << 20, pids=1)
            assert workload.run().outcome == Exited(2)  # the shell could not fork
            assert workload.started().limits == {"memory", "pids"}
            assert f"/{workload.spec.id}.1" in here.log.read_text()


def test_a_limit_that_cannot_be_set_is_no_start() -> None:
    with own_cgroup("pids") as pids:
        if pids is None:
            pytest.skip("no cgroup of version 1 can be made here")
        with open_folder() as folder, pool(folder, [pids]) as here:
            ended = here.workload("echo it runs").run(pids=(1 << 31) - 1)
            text = "limits of the cgroup: Invalid argument"
            assert ended.outcome == FailedToStart(errno.EINVAL, text)
            assert not here.log.exists()
            assert not any(name.startswith("w0") for name in os.listdir(pids))
