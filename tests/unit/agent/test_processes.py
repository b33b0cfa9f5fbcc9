"""What the kernel tells of other people's processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.system import processes

NAMED_BADLY = r"""
import ctypes
ctypes.CDLL(None).prctl(15, b"caf\xe9 \xff", 0, 0, 0)
print("named", flush=True)
input()
"""


@pytest.fixture
def badly_named() -> Iterator[subprocess.Popen[str]]:
    """A process whose name is not in UTF-8, as any program may give itself one."""
    with subprocess.Popen(
        [sys.executable, "-c", NAMED_BADLY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "named\n"
        yield process
        process.kill()


def test_a_name_that_is_no_text_is_told_all_the_same(badly_named: subprocess.Popen[str]) -> None:
    assert processes.name_of(badly_named.pid) == "caf� �"


def test_who_is_gone_has_no_name(badly_named: subprocess.Popen[str]) -> None:
    badly_named.kill()
    badly_named.wait()
    assert processes.name_of(badly_named.pid) == ""


def test_the_kernel_says_whether_a_process_has_a_memfd_mapped() -> None:
    fd = os.memfd_create("moiety-test")
    os.ftruncate(fd, mmap.PAGESIZE)
    assert not processes.has_mapped(os.getpid(), "moiety-test")
    with mmap.mmap(fd, 0):
        assert processes.has_mapped(os.getpid(), "moiety-test")
        assert not processes.has_mapped(os.getpid(), "moiety")
    os.close(fd)
    assert not processes.has_mapped(1 << 30, "moiety-test")


@pytest.mark.parametrize("of_v2", [0, 1])
def test_a_frozen_group_is_seen_alone_and_beside_v1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, of_v2: int
) -> None:
    roots = [tmp_path / "v2", tmp_path / "v2" / "unified"]
    monkeypatch.setattr(processes, "CGROUP_ROOTS", [os.fsencode(root) for root in roots])
    own = next(
        line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"
    )
    events = Path(f"{roots[of_v2]}{own}/cgroup.events")
    events.parent.mkdir(parents=True)
    events.write_text("populated 1\nfrozen 0\n")
    assert not processes.is_stopped(os.getpid())
    events.write_text("populated 1\nfrozen 1\n")
    assert processes.is_stopped(os.getpid())
