"""In which container a process is."""

from __future__ import annotations

from pathlib import Path

import pytest

from moiety.agent.system.container_files import container_of

ID = "3f4e9a0c1b2d" + "a" * 52


def process(proc: Path, name: str, *, cgroup: str, namespace: str, mounts: str = "") -> None:
    """What the kernel says of a process."""
    folder = proc / name
    (folder / "ns").mkdir(parents=True)
    (folder / "cgroup").write_text(cgroup)
    (folder / "mountinfo").write_text(mounts)
    (folder / "ns" / "mnt").symlink_to(namespace)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    process(tmp_path, "self", cgroup="0::/\n", namespace="mnt:[1]")
    return tmp_path


def test_a_control_group_names_it(proc: Path) -> None:
    cgroup = f"0::/system.slice/docker-{ID}.scope\n"
    process(proc, "7", cgroup=cgroup, namespace="mnt:[2]")
    assert container_of(7, proc) == ID[:12]


@pytest.mark.parametrize(
    "source",
    [
        f"/home/alice/run/vfs-containers/{ID}/userdata/hostname",
        f"/user/1000/containers/overlay-containers/{ID}/userdata/hosts",
        f"/var/lib/docker/containers/{ID}/resolv.conf",
    ],
)
def test_without_a_group_of_its_own_its_mounts_do(proc: Path, source: str) -> None:
    line = f"912 900 254:0 {source} /etc/hostname rw,relatime - ext4 /dev/vda rw\n"
    process(proc, "7", cgroup="4:memory:/\n0::/\n", namespace="mnt:[2]", mounts=line)
    assert container_of(7, proc) == ID[:12]


def test_a_process_that_sees_such_mounts_from_outside_is_in_none(proc: Path) -> None:
    line = f"912 900 0:5 / /run/containers/{ID}/shm rw - tmpfs shm rw\n"
    process(proc, "7", cgroup="0::/\n", namespace="mnt:[1]", mounts=line)
    assert container_of(7, proc) == ""


def test_who_is_gone_is_in_none(proc: Path) -> None:
    assert container_of(8, proc) == ""
