"""The memory limits of control groups, from files as the kernel writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.agent.arena.cgroup_memory import MemoryLimit, memory_limits
from moiety.agent.arena.host_memory import available_bytes

GIB = 1 << 30
NONE_V1 = "9223372036854771712"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host with 8 GiB available."""
    monkeypatch.delenv("MOIETY_HOST_MEMORY", raising=False)
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "meminfo").write_text(f"MemAvailable:   {8 << 20} kB\n")
    return tmp_path


def belongs(root: Path, *lines: str) -> None:
    (root / "proc" / "self" / "cgroup").write_text("".join(f"{line}\n" for line in lines))


def v1(folder: Path, limit: str, used: int, cache: int = 0, above: str = NONE_V1) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(
        f"inactive_file 7\nhierarchical_memory_limit {above}\ntotal_inactive_file {cache}\n"
    )


def v2(folder: Path, limit: str, used: int, cache: int = 0, high: str = "max") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.high").write_text(f"{high}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {cache}\n")


def available(root: Path) -> int:
    return available_bytes(root / "proc", root / "cg")


def test_a_limit_of_version_1_counts_without_cache_that_can_go(root: Path) -> None:
    belongs(root, "4:memory:/jobs/one", "0::/")
    v1(root / "cg/memory/jobs/one", str(4 * GIB), 3 * GIB, cache=GIB)
    v1(root / "cg/memory", NONE_V1, 20 * GIB)
    assert available(root) == 2 * GIB


def test_a_limit_of_version_1_further_up_counts_too(root: Path) -> None:
    belongs(root, "9:cpu,memory:/jobs/one")
    v1(root / "cg/memory/jobs/one", str(6 * GIB), 0, above=str(3 * GIB))
    v1(root / "cg/memory/jobs", str(3 * GIB), 2 * GIB, above=str(3 * GIB))
    assert available(root) == GIB


def test_a_container_whose_group_is_the_mounted_one(root: Path) -> None:
    """Without a namespace of its own the path in /proc is the host's."""
    belongs(root, "4:memory:/docker/0123")
    v1(root / "cg/memory", str(2 * GIB), GIB)
    assert available(root) == GIB
    belongs(root, "0::/")
    v2(root / "cg", str(3 * GIB), GIB)
    assert available(root) == 2 * GIB


def test_version_1_tells_the_limit_of_parents_that_are_not_mounted_here(root: Path) -> None:
    belongs(root, "4:memory:/pods/pod1/0123")
    v1(root / "cg/memory", NONE_V1, GIB, above=str(5 * GIB))
    assert available(root) == 4 * GIB


def test_both_versions_at_once(root: Path) -> None:
    belongs(root, "4:memory:/a", "0::/a")
    v1(root / "cg/memory/a", str(4 * GIB), 0)
    v2(root / "cg/unified/a", str(3 * GIB), 0)
    assert available(root) == 3 * GIB


def test_the_lower_of_max_and_high(root: Path) -> None:
    belongs(root, "0::/a")
    v2(root / "cg/a", str(4 * GIB), GIB, high=str(3 * GIB))
    assert memory_limits(root / "proc", root / "cg") == [MemoryLimit(3 * GIB, GIB)]


@pytest.mark.parametrize("line", ["0::/../b", "0::/b (deleted)", "4:memory:/../b", "nonsense", ""])
def test_a_group_that_is_not_here_leads_to_no_other(root: Path, line: str) -> None:
    belongs(root, line)
    v2(root / "b", str(GIB), 0)
    v1(root / "cg/b", str(GIB), 0)
    assert available(root) == 8 * GIB


def test_no_limit_is_none(root: Path) -> None:
    belongs(root, "4:memory:/a", "0::/a")
    v1(root / "cg/memory/a", NONE_V1, GIB)
    v2(root / "cg/unified/a", "max", GIB)
    assert memory_limits(root / "proc", root / "cg") == []
    assert memory_limits(root / "none", root / "cg") == []


def test_the_groups_of_this_process_can_be_read() -> None:
    for limit in memory_limits(Path("/proc"), Path("/sys/fs/cgroup")):
        assert 0 <= limit.left_bytes <= limit.limit_bytes
