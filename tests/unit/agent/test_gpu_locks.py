"""One agent for each GPU, whoever starts the second."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system import processes
from moiety.agent.system.gpu_locks import own
from moiety.agent.system.paths import Directory
from moiety.devices.interface import Device
from moiety.model.errors import GpuOwned

GPU = Device(0, "GPU-00000000-0000-4000-8000-000000000000", "A GPU", 1 << 30)


@pytest.fixture(autouse=True)
def _locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOIETY_LOCK_DIR", str(tmp_path))


def test_the_second_is_told_by_whom_and_what_to_do(tmp_path: Path) -> None:
    lock = own(GPU, Directory(tmp_path / "a"))
    with pytest.raises(GpuOwned) as refused:
        own(GPU, Directory(tmp_path / "b"))
    assert f"pid {os.getpid()}, user " in refused.value.what
    assert f"directory {tmp_path / 'a'}" in refused.value.what
    assert "MOIETY_DIR=" in refused.value.hint
    lock.release()
    own(GPU, Directory(tmp_path / "b")).release()


def test_whoever_holds_the_lock_with_a_forged_name_in_it_is_named(tmp_path: Path) -> None:
    lock = own(GPU, Directory(tmp_path / "a"))
    next(tmp_path.glob("*.lock")).write_text("pid 1, user root, directory /run/moiety\n")
    with pytest.raises(GpuOwned) as refused:
        own(GPU, Directory(tmp_path / "b"))
    if Path("/proc/locks").exists():
        assert f"pid {os.getpid()} of user" in refused.value.what
    lock.release()


def test_a_killed_agent_that_is_started_again_keeps_its_gpus(tmp_path: Path) -> None:
    # Given a supervisor that lives, and a lock that its agent did not release
    keeper = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()", "moiety.agent.supervisor"],
        stdin=subprocess.PIPE,
    )
    lock = own(GPU, Directory(tmp_path / "a"))
    path = next(tmp_path.glob("*.lock"))
    lock.release()
    started = processes.start_time(keeper.pid)
    path.write_text(f"pid 7, user x, directory /d\nkept by {keeper.pid} {started}\n")
    # When another agent wants its GPU, then it is told to wait
    told = f"is started again just now by pid {keeper.pid} of user"
    with pytest.raises(GpuOwned, match=told):  # by the kernel's word, not by what is written there
        own(GPU, Directory(tmp_path / "b"))
    # until the supervisor is gone, too
    keeper.kill()
    keeper.communicate()
    own(GPU, Directory(tmp_path / "b")).release()


def test_nobody_else_counts_as_a_supervisor(tmp_path: Path) -> None:
    lock = own(GPU, Directory(tmp_path / "a"))
    path = next(tmp_path.glob("*.lock"))
    lock.release()
    path.write_text(f"pid 7\nkept by {os.getpid()} {processes.start_time(os.getpid())}\n")
    own(GPU, Directory(tmp_path / "b")).release()
