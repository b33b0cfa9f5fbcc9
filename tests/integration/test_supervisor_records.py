"""A supervisor starts an attempt once: its lock, its records on disk, and a disk that is full."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.pool.starter.programs import (
    ALREADY_STARTED,
)
from moiety.pool.starter.records import (
    EndReason,
    Exited,
    FailedToStart,
    read_exit,
    read_started,
)
from moiety.testing.waiting import DEADLINE_S
from tests.support.small_disk import fill, small_disk
from tests.support.users import open_folder
from tests.support.workloads import (
    OTHER_UID,
    FolderEvents,
    Pool,
    Told,
    halting,
    pool,
    until_ended,
)

IS_ROOT = os.getuid() == 0
CAP_SYS_RESOURCE = 24


@pytest.fixture
def here() -> Iterator[Pool]:
    with open_folder() as folder, pool(folder) as made:
        yield made


def test_an_attempt_is_started_once(here: Pool) -> None:
    workload = here.workload("echo it runs")
    workload.run()
    assert workload.start().wait(DEADLINE_S) == ALREADY_STARTED
    assert workload.run(attempt=2).attempt == 2
    assert workload.start(attempt=1).wait(DEADLINE_S) == ALREADY_STARTED
    assert workload.exit().attempt == 2
    assert here.log.read_text() == "it runs\nit runs\n"


@pytest.mark.parametrize("name", ["started", "exit"])
def test_a_damaged_record_counts_as_a_start(here: Pool, name: str) -> None:
    workload = here.workload("echo it runs")
    (workload.folder / name).write_text("attemp")
    assert workload.start().wait(DEADLINE_S) == ALREADY_STARTED
    assert not here.log.exists()


def test_a_lock_that_another_holds_keeps_it_from_starting(here: Pool) -> None:
    workload = here.workload("echo it runs")
    with open(workload.folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert workload.start().wait(DEADLINE_S) == ALREADY_STARTED
    assert not here.log.exists()


def test_the_lock_is_held_while_it_runs(here: Pool) -> None:
    workload = here.workload("echo >$TOLD; exec sleep 1000")
    process = workload.start()
    here.told.line()
    with open(workload.folder / "lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    process.terminate()
    assert process.wait(DEADLINE_S) == 0
    with open(workload.folder / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.fixture
def halted(here: Pool) -> Iterator[Told]:
    """The pids of those that stopped."""
    told = Told(here.folder / "halted")
    yield told
    told.close()


def test_of_many_supervisors_at_once_one_starts(here: Pool, halted: Told, tmp_path: Path) -> None:
    workload = here.workload("echo it runs")
    with halting(halted, "flock:1", tmp_path):
        processes = [workload.start() for _ in range(8)]
    for process in processes:
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    for process in processes:
        process.send_signal(signal.SIGCONT)
    codes = sorted(process.wait(DEADLINE_S) for process in processes)
    assert codes == [0] + 7 * [ALREADY_STARTED]
    assert here.log.read_text() == "it runs\n"


@pytest.mark.parametrize("point", ["fsync:1", "rename:1", "fsync:2"])
def test_nothing_is_executed_before_the_record_is_on_disk(
    here: Pool, halted: Told, tmp_path: Path, point: str
) -> None:
    workload = here.workload("echo it runs")
    with halting(halted, point, tmp_path):
        process = workload.start()
    pid = int(halted.line())
    assert pid == process.pid
    (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    process.kill()
    assert process.wait(DEADLINE_S) == -signal.SIGKILL
    until_ended(int(child))
    assert not here.log.exists()
    was_written = point == "fsync:2"
    assert (read_started(workload.folder) is not None) == was_written
    assert read_exit(workload.folder) is None
    assert workload.start().wait(DEADLINE_S) == (ALREADY_STARTED if was_written else 0)
    assert here.log.exists() != was_written


@pytest.fixture
def small(here: Pool) -> Iterator[Path]:
    """A file system of 64 KiB where the state folders are."""
    with small_disk(here.folder / "pool", "size=64k,mode=755") as where:
        yield where


def test_with_a_full_disk_nothing_is_executed(here: Pool, small: Path) -> None:
    workload = here.workload("echo it runs")
    filling = fill(small)
    events = FolderEvents(workload.folder)
    process = workload.start()
    events.until_named(".exit.new")
    assert not here.log.exists()
    with open(workload.folder / "lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    filling.unlink()
    assert process.wait(DEADLINE_S) == 0
    events.close()
    outcome = workload.exit().outcome
    assert outcome == FailedToStart(errno.ENOSPC, "record of the start: No space left on device")
    assert read_started(workload.folder) is None
    assert not here.log.exists()


def test_a_record_of_the_end_waits_for_room(here: Pool, small: Path) -> None:
    workload = here.workload("echo >$TOLD; read x <$TOLD2; exit 5")
    second = Told(here.folder / "told2")
    workload.spec.environment["TOLD2"] = str(second.path)  # type: ignore[index]
    process = workload.start()
    here.told.line()
    filling = fill(small)
    events = FolderEvents(workload.folder)
    with open(second.path, "w") as pipe:
        pipe.write("go\n")
    events.until_named(".exit.new")
    assert read_exit(workload.folder) is None
    with open(workload.folder / "lock") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    filling.unlink()
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().outcome == Exited(5)
    events.close()
    second.close()


def test_a_server_of_another_user_may_cancel_and_read(here: Pool) -> None:
    if not IS_ROOT:
        pytest.skip("there is no other user")
    workload = here.workload("echo >$TOLD; exec sleep 1000")
    os.chown(workload.folder, 65020, 65020)
    process = workload.start()
    here.told.line()
    for uid, code in ((OTHER_UID, 1), (65020, 0)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"kill {process.pid}"], user=uid, group=uid, extra_groups=[],
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == code
    assert process.wait(DEADLINE_S) == 0
    assert workload.exit().reason is EndReason.CANCELLED
    for name in ("lock", "started", "exit"):
        made = (workload.folder / name).stat()
        assert (made.st_uid, made.st_mode & 0o007) == (65020, 0)


def test_a_waiting_supervisor_takes_less_than_a_mebibyte(here: Pool) -> None:
    workload = here.workload("echo >$TOLD; exec sleep 1000", environment={
        "PATH": "/usr/bin:/bin", "TOLD": str(here.told.path), "LARGE": "x" * 100_000,
    })  # fmt: skip
    process = workload.start()
    here.told.line()
    lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    pss_kib = next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    assert pss_kib <= 1024
