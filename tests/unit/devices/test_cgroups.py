"""Which container, pod and unit a process is in, by control groups as runtimes really name them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moiety.devices.cgroups import CgroupPlacement, parse, placement

C = "3f4e9a0c1b2d5e6f7a8b9c0d1e2f3a4b5c6d7e8f9a0b1c2d3e4f5a6b7c8d9e0f"
D = "9" * 64
POD = "8d4f5a6b-1c2d-4e3f-9a0b-5c6d7e8f9a0b"
UNDER = POD.replace("-", "_")
STATIC = "0123456789abcdef0123456789abcdef"
USER = "/user.slice/user-1000.slice/user@1000.service"


@dataclass(frozen=True)
class Case:
    name: str
    path: str
    container: str = ""
    runtime: str = ""
    pod: str = ""
    unit: str = ""
    job: str = ""
    session_uid: int | None = None


CASES = [
    Case("docker, cgroupfs", f"/docker/{C}", C, "docker"),
    Case("docker, systemd", f"/system.slice/docker-{C}.scope", C, "docker"),
    Case(
        "docker, rootless",
        f"{USER}/user.slice/docker-{C}.scope",
        C,
        "docker",
        unit="user@1000.service",
        session_uid=1000,
    ),
    Case("docker, custom parent", f"/mine.slice/docker-{C}.scope", C, "docker"),
    Case("docker in docker", f"/docker/{D}/docker/{C}", C, "docker"),
    Case("docker seen from another namespace", f"/../../docker-{C}.scope", C, "docker"),
    Case("moby's containerd", f"/moby/{C}", C, "docker"),
    Case("ECS", f"/ecs/production/4f1e2d3c4b5a69788796a5b4c3d2e1f0/{C}", C, "docker"),
    Case("nerdctl", f"/system.slice/nerdctl-{C}.scope", C, "containerd"),
    Case("a number in a folder that says nothing", f"/tasks/{C}", C),
    Case("containerd by hand", f"/default/{C}", C, "containerd"),
    Case(
        "containerd in Kubernetes, systemd, burstable",
        "/kubepods.slice/kubepods-burstable.slice/"
        f"kubepods-burstable-pod{UNDER}.slice/cri-containerd-{C}.scope",
        C,
        "containerd",
        POD,
    ),
    Case(
        "containerd in Kubernetes, systemd, guaranteed",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/cri-containerd-{C}.scope",
        C,
        "containerd",
        POD,
    ),
    Case(
        "containerd in Kubernetes, cgroupfs, best effort",
        f"/kubepods/besteffort/pod{POD}/{C}",
        C,
        "",
        POD,
    ),
    Case("Kubernetes, cgroupfs, guaranteed", f"/kubepods/pod{POD}/{C}", C, "", POD),
    Case(
        "containerd whose systemd driver is half configured",
        f"/system.slice/containerd.service/kubepods-burstable-pod{UNDER}.slice:cri-containerd:{C}",
        C,
        "containerd",
        POD,
        unit="containerd.service",
    ),
    Case("a static pod", f"/kubepods/burstable/pod{STATIC}/{C}", C, "", STATIC),
    Case(
        "cri-o, systemd",
        f"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{UNDER}.slice/"
        f"crio-{C}.scope",
        C,
        "cri-o",
        POD,
    ),
    Case(
        "cri-o with a group of its own inside",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/crio-{C}.scope/container",
        C,
        "cri-o",
        POD,
    ),
    Case("cri-o, cgroupfs", f"/kubepods/burstable/pod{POD}/crio-{C}", C, "cri-o", POD),
    Case(
        "cri-o's watcher is in no container",
        f"/kubepods.slice/kubepods-pod{UNDER}.slice/crio-conmon-{C}.scope",
        pod=POD,
        unit=f"crio-conmon-{C}.scope",
    ),
    Case(
        "kind",
        f"/docker/{D}/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
        f"kubelet-kubepods-burstable-pod{UNDER}.slice/cri-containerd-{C}.scope",
        C,
        "containerd",
        POD,
    ),
    Case("kind, cgroupfs", f"/docker/{D}/kubelet/kubepods/pod{POD}/{C}", C, "", POD),
    Case("podman", f"/machine.slice/libpod-{C}.scope", C, "podman"),
    Case("podman, crun's group inside", f"/machine.slice/libpod-{C}.scope/container", C, "podman"),
    Case("podman, cgroupfs", f"/libpod_parent/libpod-{C}", C, "podman"),
    Case(
        "podman, a pod of its own",
        f"/machine.slice/machine-libpod_pod_{D}.slice/libpod-{C}.scope",
        C,
        "podman",
    ),
    Case(
        "podman, rootless",
        f"{USER}/user.slice/libpod-{C}.scope/container",
        C,
        "podman",
        unit="user@1000.service",
        session_uid=1000,
    ),
    Case(
        "podman's watcher is in no container",
        f"{USER}/user.slice/libpod-conmon-{C}.scope",
        unit=f"libpod-conmon-{C}.scope",
        session_uid=1000,
    ),
    Case("LXC", "/lxc.payload.trainer/init.scope", "trainer", "lxc", unit="init.scope"),
    Case("LXC, old", "/lxc/trainer", "trainer", "lxc"),
    Case("BuildKit", "/docker/buildkit/k3jx0v8u2m9q", "k3jx0v8u2m9q", "buildkit"),
    Case("a service", "/system.slice/nginx.service", unit="nginx.service"),
    Case(
        "a login session",
        "/user.slice/user-1000.slice/session-3.scope",
        unit="session-3.scope",
        session_uid=1000,
    ),
    Case(
        "a program on a desktop",
        f"{USER}/app.slice/app-org.gnome.Terminal.slice/vte-spawn-1b2c.scope",
        unit="vte-spawn-1b2c.scope",
        session_uid=1000,
    ),
    Case(
        "Slurm",
        "/system.slice/slurmstepd.scope/job_1234/step_0/user/task_0",
        unit="slurmstepd.scope",
        job="1234",
    ),
    Case("Slurm, version 1", "/slurm/uid_1000/job_77/step_batch", job="77"),
    Case("nothing", "/"),
    # An agent in a pod sees others' groups from its own, where containers have a namespace of them.
    Case(
        "systemd, from a pod of the same class",
        f"/../../kubepods-burstable-pod{UNDER}.slice/cri-containerd-{C}.scope",
        C,
        "containerd",
        POD,
    ),
    Case(
        "systemd, from a pod of another class",
        "/../../../kubepods-besteffort.slice/"
        f"kubepods-besteffort-pod{UNDER}.slice/cri-containerd-{C}.scope",
        C,
        "containerd",
        POD,
    ),
    Case("cgroupfs, from a pod of the same class", f"/../../pod{POD}/{C}", C, "", POD),
    Case("cgroupfs, from a pod of another class", f"/../../../besteffort/pod{POD}/{C}", C, "", POD),
    Case("a folder that only looks like a pod", "/kubepods/burstable/podcast"),
    Case("a number that is too short", f"/docker/{C[:-1]}"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_path_names_what_a_process_is_in(case: Case) -> None:
    wanted = CgroupPlacement(
        case.container, case.runtime, case.pod, case.unit, case.job, case.session_uid
    )
    assert placement(case.path) == wanted
    assert parse(f"0::{case.path}\n") == wanted  # version 2
    version_1 = f"12:pids:{case.path}\n5:cpu,cpuacct:{case.path}\n1:name=systemd:{case.path}\n"
    assert parse(version_1) == wanted


def test_the_hierarchy_that_knows_the_container_is_believed() -> None:
    both = f"7:memory:/docker/{C}\n1:name=systemd:/\n0::/system.slice/docker.service\n"
    assert parse(both) == CgroupPlacement(C, "docker", unit="docker.service")


def test_a_group_that_was_removed_still_names_its_container() -> None:
    assert parse(f"0::/system.slice/docker-{C}.scope (deleted)\n").container == C


def test_a_container_is_written_with_twelve_digits_and_a_name_in_full() -> None:
    assert CgroupPlacement(C, "docker").short == C[:12]
    assert CgroupPlacement("a-name-that-is-longer", "lxc").short == "a-name-that-is-longer"


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    assert isinstance(parse(text), CgroupPlacement)
