"""How much host memory there is, read from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.agent.arena.host_memory import available_bytes
from moiety.agent.control import options

GIB = 1 << 30


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with 8 GiB available, and this process in the cgroup /a/b."""
    monkeypatch.delenv("MOIETY_HOST_MEMORY", raising=False)
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:   {8 << 20} kB\n")
    (proc / "self" / "cgroup").write_text("4:memory:/old\n0::/a/b\n")
    return proc


def limit(folder: Path, most: str, used: int, inactive_file: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive_file}\n")


def test_without_a_limit_it_is_what_the_kernel_says(proc: Path, tmp_path: Path) -> None:
    limit(tmp_path / "cg" / "a" / "b", "max", 3 * GIB)
    assert available_bytes(proc, tmp_path / "cg") == 8 * GIB
    assert available_bytes(proc, tmp_path / "none") == 8 * GIB


def test_the_limit_of_the_cgroup_counts_without_cache_that_can_go(
    proc: Path, tmp_path: Path
) -> None:
    limit(tmp_path / "cg" / "a" / "b", str(4 * GIB), 3 * GIB, inactive_file=GIB)
    assert available_bytes(proc, tmp_path / "cg") == 2 * GIB


def test_a_limit_further_up_counts_too(proc: Path, tmp_path: Path) -> None:
    limit(tmp_path / "cg" / "a", str(GIB), 2 * GIB)
    limit(tmp_path / "cg" / "a" / "b", str(4 * GIB), 0)
    assert available_bytes(proc, tmp_path / "cg") == 0


def test_it_can_be_said_from_outside(proc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOIETY_HOST_MEMORY", "3GiB")
    assert available_bytes(proc) == 3 * GIB


def test_the_arena_takes_at_most_four_fifths_of_the_cgroups_limit(
    proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit(tmp_path / "cg" / "a" / "b", str(4 * GIB), 0)
    monkeypatch.setattr(options, "available_bytes", lambda: available_bytes(proc, tmp_path / "cg"))
    assert options.Options().arbiter_settings().arena_bytes <= 4 * GIB * 0.8
