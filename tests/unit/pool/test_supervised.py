"""What is there of an attempt whose server has gone."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
from pathlib import Path

import pytest

from moiety.agent.system import processes
from moiety.pool.launch.process_start import StartFailed, hold_launch
from moiety.pool.launch.supervised import Supervised, adopt, boot_id, end_stray, remains_of
from moiety.pool.starter.records import Exited, ProcessIdentity


def identity(process: subprocess.Popen[bytes]) -> ProcessIdentity:
    ticks = processes.start_time(process.pid)
    assert ticks is not None
    return ProcessIdentity(process.pid, ticks)


def write_started(
    folder: Path, attempt: int, process: ProcessIdentity, child: ProcessIdentity, boot: str = ""
) -> None:
    (folder / "started").write_text(
        f"attempt {attempt}\nboot_id {boot or boot_id()}\n"
        f"supervisor {process.pid} {process.start_ticks}\n"
        f"child {child.pid} {child.start_ticks}\nprocesses session\nlimits none\nbegin 1.0\n"
    )


def write_exit(folder: Path, attempt: int) -> None:
    (folder / "exit").write_text(
        f"attempt {attempt}\nexited 3\nreason ended\nbegin 1\nend 2\nuser 0\nsystem 0\nmaxrss 5\n"
    )


@pytest.fixture
def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["cat"], stdin=subprocess.PIPE)


def test_a_living_supervisor_counts_then_its_child_then_the_record(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    assert remains_of(tmp_path, 1).started is None
    alive, dead = identity(sleeper), ProcessIdentity(sleeper.pid, 1)
    write_started(tmp_path, 2, alive, dead)
    assert remains_of(tmp_path, 1).alive is None, "it is another attempt"
    assert remains_of(tmp_path, 2).alive == alive
    write_started(tmp_path, 2, dead, alive)
    assert remains_of(tmp_path, 2).alive == alive
    write_started(tmp_path, 2, alive, alive, boot="another")
    found = remains_of(tmp_path, 2)
    assert (found.alive, found.is_of_this_boot) == (None, False)
    write_started(tmp_path, 2, dead, dead)
    found = remains_of(tmp_path, 2)
    assert (found.alive, found.exit, found.is_of_this_boot) == (None, None, True)
    write_exit(tmp_path, 1)
    assert remains_of(tmp_path, 2).exit is None
    write_exit(tmp_path, 2)
    record = remains_of(tmp_path, 2).exit
    assert record is not None
    assert record.outcome == Exited(3)
    sleeper.communicate()


def test_a_supervisor_that_is_just_beginning_is_waited_for(tmp_path: Path) -> None:
    fd = hold_launch(tmp_path, 4)
    assert remains_of(tmp_path, 4).is_launching
    with pytest.raises(StartFailed, match="already"):
        hold_launch(tmp_path, 4)
    assert not remains_of(tmp_path, 5).is_launching
    os.close(fd)
    assert not remains_of(tmp_path, 4).is_launching
    lock = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert remains_of(tmp_path, 4).is_launching, "it has the lock, and has not written yet"
    os.close(lock)


def test_a_damaged_record_is_told(tmp_path: Path) -> None:
    (tmp_path / "exit").write_text("attempt 1\nexited 0")
    found = remains_of(tmp_path, 1)
    assert found.exit is None
    assert found.damaged is not None
    assert found.damaged.name == "exit"


def test_only_the_same_process_is_adopted(sleeper: subprocess.Popen[bytes]) -> None:
    alive = identity(sleeper)
    assert adopt(1, 1, ProcessIdentity(alive.pid, alive.start_ticks + 1), "") is None
    found = adopt(1, 1, alive, "a1b2")
    assert isinstance(found, Supervised)
    found.terminate()
    assert sleeper.wait(60) == -15
    found.terminate()  # it is dead: nothing happens
    found.close()
    assert adopt(1, 1, alive, "") is None
    sleeper.communicate()


def test_one_that_was_stopped_is_ended_too(sleeper: subprocess.Popen[bytes]) -> None:
    found = adopt(1, 1, identity(sleeper), "")
    assert isinstance(found, Supervised)
    sleeper.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED)
    found.terminate()
    assert sleeper.wait(60) == -signal.SIGTERM
    found.close()
    sleeper.communicate()


def test_an_earlier_attempt_that_runs_after_all_is_ended(
    tmp_path: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    alive = identity(sleeper)
    write_started(tmp_path, 2, alive, alive)
    end_stray(tmp_path, 2)
    assert sleeper.poll() is None, "it is the same attempt"
    end_stray(tmp_path, 3)
    assert sleeper.wait(60) == -15
    sleeper.communicate()
