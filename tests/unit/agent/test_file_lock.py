"""Locks that name their holder."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.agent.system.file_lock import FileLock, LockHeld, is_held, take


def test_the_second_is_told_who_has_it(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", "pid 7, directory /x")
    with pytest.raises(LockHeld, match="pid 7, directory /x"):
        FileLock(tmp_path / "lock", "pid 8")
    assert is_held(tmp_path / "lock")
    lock.release()
    assert not is_held(tmp_path / "lock")
    assert not (tmp_path / "lock").exists()
    FileLock(tmp_path / "lock", "pid 8").release()


def test_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    source = (
        "import os, sys; from pathlib import Path;"
        "from moiety.agent.system.file_lock import FileLock;"
        "FileLock(Path(sys.argv[1]), 'dead'); os._exit(0)"
    )
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    subprocess.run(
        [sys.executable, "-c", source, str(tmp_path / "lock")], env=environment, check=True
    )
    assert (tmp_path / "lock").read_text() == "dead\n"
    FileLock(tmp_path / "lock", "alive").release()


def test_a_lock_on_a_full_disk_is_held_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "lock").write_text("the last holder, which was killed\n")
    monkeypatch.setattr(os, "pwrite", full)
    lock = FileLock(tmp_path / "lock", "me")
    assert is_held(tmp_path / "lock")
    assert (tmp_path / "lock").read_text() == ""
    lock.release()


def test_a_lock_is_written_over_without_giving_up_its_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    cut = os.ftruncate

    def watched(fd: int, size: int) -> None:
        sizes.append(size)
        cut(fd, size)

    (tmp_path / "lock").write_text("a holder with a longer name\n")
    monkeypatch.setattr(os, "ftruncate", watched)
    lock = FileLock(tmp_path / "lock", "me")
    assert (tmp_path / "lock").read_text() == "me\n"
    assert sizes == [3]
    lock.release()


def test_a_shared_lock_is_open_to_other_users_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        lock = FileLock(tmp_path / "lock", "me", mode=0o666)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o666
    lock.release()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        FileLock(tmp_path / "lock", "me")


def test_patience_has_an_end(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", "first")
    with pytest.raises(LockHeld):
        take(tmp_path / "lock", "second", 0.03)
    lock.release()
    take(tmp_path / "lock", "second", 0.0).release()


def test_whoever_has_it_is_named_by_the_kernel(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", "pid 1, forged")
    with pytest.raises(LockHeld) as held:
        FileLock(tmp_path / "lock", "pid 8")
    assert held.value.pid in (os.getpid(), None)  # not every system shows it
    lock.release()


def test_what_a_dead_holder_left_may_still_count(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("pid 7, kept\n")
    with pytest.raises(LockHeld, match="pid 7, kept") as held:
        FileLock(tmp_path / "lock", "pid 8", is_kept=lambda left: "kept" in left)
    assert held.value.is_kept
    FileLock(tmp_path / "lock", "pid 8", is_kept=lambda left: "lost" in left).release()


def test_a_lock_is_nothing_but_a_file_of_its_own(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "hard").hardlink_to(victim)
    (tmp_path / "soft").symlink_to(victim)
    os.mkfifo(tmp_path / "pipe")
    for name in ("hard", "soft", "pipe"):
        with pytest.raises(OSError, match=r"no ordinary file|symbolic links"):
            FileLock(tmp_path / name, "me")
    assert victim.read_text() == "precious"
