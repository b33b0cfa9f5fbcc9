"""Where workloads get their cgroups: as version 2, version 1 and both are mounted."""

from __future__ import annotations

from pathlib import Path

from moiety.pool.machine.cgroups import LEAF, Hierarchy, described, folder_of, hierarchies, make

HYBRID = """\
22 21 0:20 / /sys/fs/cgroup rw - tmpfs tmpfs rw
23 22 0:21 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
24 22 0:22 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
25 22 0:23 /inside /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
26 22 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
NONE: frozenset[str] = frozenset()
NAME = folder_of("/var/lib/moiety/pool/workloads")


def test_version_2_comes_first_and_limits_of_version_1_lie_below_ones_own() -> None:
    membership = "4:cpu:/\n3:memory:/box/a\n2:pids:/inside/b\n0::/\n"
    assert list(hierarchies(HYBRID, membership)) == [
        Hierarchy(Path("/sys/fs/cgroup/unified"), NONE, is_version_2=True),
        Hierarchy(Path("/sys/fs/cgroup/memory/box/a"), frozenset({"memory"}), is_version_2=False),
        Hierarchy(Path("/sys/fs/cgroup/pids/b"), frozenset({"pids"}), is_version_2=False),
    ]


def test_a_machine_without_cgroups_has_none() -> None:
    assert list(hierarchies("22 21 0:20 / / rw - ext4 /dev/sda rw\n", "")) == []


def fake(folder: Path, *controllers: str) -> Hierarchy:
    """What looks like a cgroup of version 2, but does nothing by itself."""
    folder.mkdir()
    (folder / "cgroup.controllers").write_text(" ".join(controllers))
    (folder / "cgroup.subtree_control").write_text("")
    (folder / "cgroup.type").write_text("domain")
    return Hierarchy(folder, NONE, is_version_2=True)


def test_a_delegated_cgroup_gives_its_controllers_on_and_is_left(tmp_path: Path) -> None:
    tree = fake(tmp_path / "unit", "cpu", "memory", "pids")
    (tree.own / NAME).mkdir()
    (tree.own / NAME / "cgroup.controllers").write_text("")
    (tree.own / LEAF).mkdir()
    (tree.own / LEAF / "cgroup.procs").write_text("")
    assert make(iter([tree]), NAME) == [tree.own / NAME]
    assert (tree.own / LEAF / "cgroup.procs").read_text(), "this process went into a leaf"
    assert (tree.own / "cgroup.subtree_control").read_text() == "+pids", "the last word of two"


def test_the_next_starter_finds_the_folder_of_the_last(tmp_path: Path) -> None:
    tree = fake(tmp_path / "unit")
    leaf = fake(tree.own / LEAF)
    assert make(iter([leaf]), NAME) == [tree.own / NAME]


def test_what_cannot_be_made_is_left_out(tmp_path: Path) -> None:
    assert make(iter([Hierarchy(tmp_path / "not-there", NONE, is_version_2=True)]), NAME) == []


def test_it_says_what_workloads_have(tmp_path: Path) -> None:
    assert described([]) == "process groups, no limits of memory or processes"
    new, old = tmp_path / "new", tmp_path / "old"
    for folder in (new, old):
        folder.mkdir()
    (new / "cgroup.kill").touch()
    (new / "cgroup.controllers").touch()
    (old / "memory.limit_in_bytes").touch()
    assert described([new, old]) == "cgroup.kill and cgroup.freeze, limits of memory"
    (new / "cgroup.subtree_control").write_text("memory pids")
    assert described([new]) == "cgroup.kill and cgroup.freeze, limits of memory and processes"


def test_two_pools_below_one_cgroup_have_nothing_in_common(tmp_path: Path) -> None:
    tree = fake(tmp_path / "unit")
    names = [folder_of(f"/var/lib/{each}/pool/workloads") for each in ("moiety", "other")]
    first, second = (make(iter([tree]), name) for name in names)
    assert first != second
    assert make(iter([tree]), names[0]) == first, "the next starter of a pool finds its folder"
