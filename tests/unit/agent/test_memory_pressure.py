"""Whether programs wait for memory, read from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.agent.arena.host_memory import spare_bytes
from moiety.agent.arena.memory_pressure import is_under_pressure

TEXT = "some avg10=40.00 avg60=1.00 avg300=0.00 total=9\nfull avg10={} avg60=1.00 total=9\n"


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with 8 GiB available and nobody waiting, and this process in the cgroup /a."""
    monkeypatch.delenv("MOIETY_HOST_MEMORY", raising=False)
    proc = tmp_path / "proc"
    for folder in (proc / "self", proc / "pressure", tmp_path / "cg" / "a"):
        folder.mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemAvailable:   {8 << 20} kB\n")
    (proc / "self" / "cgroup").write_text("0::/a\n")
    (proc / "pressure" / "memory").write_text(TEXT.format("0.00"))
    (tmp_path / "cg" / "a" / "cgroup.procs").touch()
    return proc


def test_a_host_whose_programs_all_wait_has_nothing_to_spare(proc: Path, tmp_path: Path) -> None:
    assert spare_bytes(proc, tmp_path / "cg") == 8 << 30
    (proc / "pressure" / "memory").write_text(TEXT.format("5.00"))
    assert spare_bytes(proc, tmp_path / "cg") == 0


def test_a_group_at_its_limit_counts_although_the_host_has_memory(
    proc: Path, tmp_path: Path
) -> None:
    (tmp_path / "cg" / "a" / "memory.pressure").write_text(TEXT.format("4.90"))
    assert not is_under_pressure(proc, tmp_path / "cg")
    (tmp_path / "cg" / "a" / "memory.pressure").write_text(TEXT.format("61.20"))
    assert is_under_pressure(proc, tmp_path / "cg")


def test_a_kernel_that_does_not_say_is_under_none(proc: Path, tmp_path: Path) -> None:
    (proc / "pressure" / "memory").unlink()
    assert not is_under_pressure(proc, tmp_path / "cg")
    (proc / "pressure" / "memory").write_text("some avg10=90.00\n")
    assert not is_under_pressure(proc, tmp_path / "cg")


def test_what_is_said_from_outside_counts(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (proc / "pressure" / "memory").write_text(TEXT.format("50.00"))
    monkeypatch.setenv("MOIETY_HOST_MEMORY", "3GiB")
    assert spare_bytes(proc, tmp_path / "cg") == 3 << 30
