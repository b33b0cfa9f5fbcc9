"""The native programs are found, called, and listened to."""

from __future__ import annotations

import errno
import fcntl
import os
import select
from pathlib import Path

import pytest

from moiety.model.errors import NativeLibraryMissing
from moiety.pool.starter.programs import (
    STARTER,
    SUPERVISOR,
    StartRefusal,
    program,
    spec_file,
    start_starter,
    start_supervisor,
)
from moiety.pool.starter.records import Exit, Exited, read_exit
from moiety.pool.starter.spec import Spec, encoded
from moiety.testing.waiting import DEADLINE_S

PLAIN = Spec(
    id="w", attempt=1, uid=os.getuid(), gid=os.getgid(), arguments=("/bin/sh", "-c", "exit 3")
)


def test_both_programs_lie_beside_the_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.access(program(SUPERVISOR), os.X_OK)
    assert program(STARTER).parent == program(SUPERVISOR).parent
    monkeypatch.setenv("MOIETY_NATIVE", str(tmp_path))
    with pytest.raises(NativeLibraryMissing, match="moiety-starter is not where"):
        program(STARTER)


def test_a_spec_in_memory_can_be_changed_no_more() -> None:
    fd = spec_file(b"x=1\0")
    assert os.pread(fd, 10, 0) == b"x=1\0"
    with pytest.raises(PermissionError):
        os.pwrite(fd, b"y", 0)
    with pytest.raises(PermissionError):
        os.truncate(fd, 0)
    assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(fd)


def test_a_supervisor_runs_a_spec(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    assert start_supervisor(encoded(PLAIN), folder).wait(DEADLINE_S) == 0
    os.close(folder)
    ended = read_exit(tmp_path)
    assert isinstance(ended, Exit)
    assert ended.outcome == Exited(3)


def test_a_starter_says_what_it_could_not_start_and_that_it_has_ended(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    starter = start_starter(folder)
    os.close(folder)
    assert starter.refusal() is None
    starter.start("w")
    assert select.select([starter], [], [], DEADLINE_S)[0]
    assert starter.refusal() == StartRefusal("w", errno.ENOENT, "No such file or directory")
    starter.process.terminate()
    assert starter.process.wait(DEADLINE_S) == 0
    with pytest.raises(EOFError):
        starter.refusal()
    with pytest.raises(BrokenPipeError):
        starter.start("w")
    starter.close()
