"""Whose a process is, by a /proc that a test made and by the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from moiety.devices import process_identity
from moiety.devices.cgroups import CgroupPlacement

C = "a" * 64
STAT = b"4242 (a (strange) name) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 987654 0 0\n"
STATUS = "Name:\tpython3\nUid:\t1234567\t0\t0\t0\nNSpid:\t4242\t17\n"


def process(proc: Path, pid: int = 4242, stat: bytes = STAT, status: str = STATUS) -> Path:
    folder = proc / str(pid)
    folder.mkdir(parents=True)
    (folder / "stat").write_bytes(stat)
    (folder / "status").write_text(status)
    (folder / "cgroup").write_text(f"0::/system.slice/docker-{C}.scope\n")
    return folder


def test_a_process_in_a_container(tmp_path: Path) -> None:
    folder = process(tmp_path)
    (folder / "exe").symlink_to("/opt/venv/bin/trainer")
    found = process_identity.origin_of(4242, tmp_path)
    assert found == process_identity.Origin(
        pid=4242,
        started=987654,
        uid=1234567,
        user="1234567",
        command="trainer",
        placement=CgroupPlacement(C, "docker"),
        inner_pid=17,
    )
    assert str(found) == "trainer (pid 4242, 1234567, docker aaaaaaaaaaaa)"


def test_a_program_that_may_not_be_looked_into_has_the_name_it_gives_itself(tmp_path: Path) -> None:
    process(tmp_path)
    found = process_identity.origin_of(4242, tmp_path)
    assert found is not None
    assert found.command == "python3"


def test_a_program_whose_file_was_replaced_keeps_its_name(tmp_path: Path) -> None:
    (process(tmp_path) / "exe").symlink_to("/usr/bin/python3 (deleted)")
    found = process_identity.origin_of(4242, tmp_path)
    assert found is not None
    assert found.command == "python3"


@pytest.mark.parametrize("stat", [STAT.replace(b") S", b") Z"), b"", b"4242 (cut"])
def test_the_dead_are_nobody(tmp_path: Path, stat: bytes) -> None:
    process(tmp_path, stat=stat)
    assert process_identity.origin_of(4242, tmp_path) is None
    assert process_identity.origin_of(7, tmp_path) is None


def test_a_real_process() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = process_identity.origin_of(child.pid)
        assert found is not None
        assert (found.uid, found.pid) == (os.getuid(), child.pid)
        assert found.command == Path(sys.executable).resolve().name
        child.communicate(b"\n")
    assert process_identity.origin_of(child.pid) is None


def test_nvmls_pids_count_only_in_the_hosts_namespace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOIETY_SIMGPU", raising=False)
    (tmp_path / "self/ns").mkdir(parents=True)
    (tmp_path / "self/ns/pid").write_text("")
    assert not process_identity.sees_host_pids(tmp_path)
    monkeypatch.setenv("MOIETY_SIMGPU", "A100-80")
    assert process_identity.sees_host_pids(tmp_path)
