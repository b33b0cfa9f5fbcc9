"""Programs in containers share the GPU as those outside do, and images that cannot are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.testing.node import Node, finish, kill
from tests.containers.conftest import Shares
from tests.containers.runtimes import Bundle, Podman

MIB = 1 << 20
LONG = 100_000
"""rounds: until it is told to stop"""
RIGHT = "0 words wrong\n"
Device = Callable[..., list[str]]


def work(
    mebibytes: int, rounds: int, *, program: str = "worker", seed: int = 7, gpu_ms: int = 20
) -> list[str]:
    """The worker's command line."""
    numbers = (mebibytes * MIB, rounds, gpu_ms, 5, seed)
    return [f"/app/{program}", "/app/kernels.elf", *map(str, numbers)]


def rows(node: Node) -> list[dict[str, Any]]:
    return [row for row in node.json("ps") if row["gpu"] is not None]


def evicted(node: Node) -> set[int]:
    """The processes that had to give way, by pid."""
    told = [json.loads(line) for line in node.cli("events", "-o", "json").stdout.splitlines()]
    return {each["pid"] for each in told if each["reason"] == "Evicted"}


def shared_out(node: Node) -> int:
    (gpu,) = node.json("status")["gpus"]
    return int(gpu["allocated_bytes"])


@pytest.mark.parametrize("program", ["worker", "worker-linked"])
@pytest.mark.parametrize("which", ["image", "old_image"])
def test_a_program_computes_right_under_any_glibc(
    node: Node,
    podman: Podman,
    device: Device,
    request: pytest.FixtureRequest,
    which: str,
    program: str,
) -> None:
    image = request.getfixturevalue(which)
    options = device("--gpu", "0.4", "--memory-limit", "100MiB")
    assert finish(podman.start(node, options, image, *work(64, 3, program=program))) == (
        0,
        RIGHT,
        "",
    )


def test_ps_names_the_container_and_its_processes_are_one_workload(
    node: Node, podman: Podman, shares: Shares, image: str
) -> None:
    name = shares.make("--memory-limit", "100MiB")
    command = " ".join(work(16, LONG))
    both = ["/bin/sh", "-c", f"{command} & {command} & wait"]
    started = podman.start(node, ["--device", f"moiety.dev/gpu={name}"], image, *both)
    node.until(lambda: len(rows(node)) == 2, "both processes are there")
    number = podman.must("ps", "--quiet", "--no-trunc")
    found = rows(node)
    assert {row["container"] for row in found} == {number[:12]}
    assert {row["workload"] for row in found} == {name}
    assert {row["program"] for row in found} == {"worker"}
    for row in found:  # its number on this machine, which is another one than in the container
        status = Path(f"/proc/{row['pid']}/status").read_text()
        inner = next(line.split() for line in status.splitlines() if line.startswith("NSpid:"))
        assert inner[1] == str(row["pid"])
        assert int(inner[2]) < row["pid"]
    (listed,) = node.json("container", "ls")
    assert listed["containers"] == [number[:12]]
    assert "CONTAINER" in node.cli("ps").stdout
    podman.must("kill", number)
    finish(started)


def test_more_than_the_limit_is_out_of_memory(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    options = device("--memory-limit", "100MiB")
    code, out, err = finish(podman.start(node, options, image, *work(160, 3)))
    assert (code, out) == (1, "")
    assert "cuMemAlloc_v2 failed with error 2" in err


def test_two_containers_that_do_not_fit_take_turns(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    (gpu,) = node.json("status")["gpus"]
    most = int(gpu["capacity_bytes"] * 0.8) // MIB
    started = [podman.start(node, device(), image, *work(most, LONG, seed=seed)) for seed in (7, 8)]
    # Neither can have the GPU without the other's room: each was moved out at least once.
    node.until(lambda: len(evicted(node)) == 2, "they have taken turns")
    podman.must("kill", "--signal", "USR1", "--all")  # no more rounds
    assert [finish(each) for each in started] == [(0, RIGHT, "")] * 2


def test_a_killed_containers_memory_is_free_at_once(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    started = podman.start(node, device(), image, *work(150, LONG))
    node.until(lambda: shared_out(node) >= 150 * MIB, "it has its memory")
    podman.must("kill", "--signal", "KILL", podman.must("ps", "--quiet"))
    assert finish(started)[0] == 137
    node.until(lambda: rows(node) == [] and shared_out(node) == 0, "all of it is back")
    assert finish(podman.start(node, device(), image, *work(150, 1))) == (0, RIGHT, "")


def test_a_container_outlives_the_agent(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    started = podman.start(node, device("--memory-limit", "100MiB"), image, *work(64, LONG))
    node.until(lambda: bool(rows(node)), "it computes")
    assert node.agent is not None
    kill(node.agent)
    node.start_agent()
    node.until(lambda: bool(rows(node)), "it is back")
    podman.must("kill", "--signal", "USR1", podman.must("ps", "--quiet"))  # no more rounds
    assert finish(started)[:2] == (0, RIGHT)


def test_musl_is_refused_with_the_reason(
    node: Node, podman: Podman, device: Device, musl_image: str
) -> None:
    code, out, err = finish(podman.start(node, device(), musl_image, "/app/worker"))
    assert (code, out) == (126, "")
    assert "its C library is musl, as in Alpine" in err
    assert "an image with glibc" in err
    assert "relocat" not in err


def test_a_dead_agents_share_says_what_to_do(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    options = device()
    assert node.agent is not None
    node.agent.terminate()
    node.agent.wait()
    code, _, err = finish(podman.start(node, options, image, *work(16, 1)))
    assert code == 126
    assert "no agent runs in" in err
    assert "moiety agent start" in err
    node.start_agent()
    assert finish(podman.start(node, options, image, *work(16, 1))) == (0, RIGHT, "")


def test_what_an_image_preloads_stays_and_does_not_push_the_share_out(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    own = ["--env", "LD_PRELOAD=libm.so.6"]
    command = " ".join(work(160, 1))
    script = f'echo "$LD_PRELOAD"; {command}'
    options = [*device("--memory-limit", "100MiB"), *own]
    code, out, err = finish(podman.start(node, options, image, "/bin/sh", "-c", script))
    assert (code, out) == (1, "libm.so.6\n")
    assert "failed with error 2" in err, "its limit holds"


def test_another_user_in_the_container_is_served(
    node: Node, podman: Podman, device: Device, image: str
) -> None:
    options = [*device("--memory-limit", "100MiB"), "--user", "1000:1000"]
    assert finish(podman.start(node, options, image, *work(64, 2))) == (0, RIGHT, "")


def test_without_membarrier_turns_are_taken_all_the_same(
    node: Node, podman: Podman, device: Device, image: str, tmp_path: Path
) -> None:
    rule = {"names": ["membarrier"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1}
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    forbidden = ["--security-opt", f"seccomp={profile}"]
    started = [
        podman.start(node, [*device(), *forbidden], image, *work(150, 8, seed=seed))
        for seed in (7, 8)
    ]
    assert [finish(each) for each in started] == [(0, RIGHT, "")] * 2


def test_the_options_by_hand_do_the_same(
    node: Node, podman: Podman, shares: Shares, image: str
) -> None:
    options = shares.by_hand(shares.make("--memory-limit", "100MiB"))
    assert finish(podman.start(node, options, image, *work(64, 2))) == (0, RIGHT, "")
    code, _, err = finish(podman.start(node, options, image, *work(160, 1)))
    assert code == 1
    assert "failed with error 2" in err


@pytest.mark.parametrize("first", [0, 100000], ids=["same users", "users of its own"])
def test_runc_alone_does_what_the_specification_says(
    node: Node, shares: Shares, rootfs: Path, tmp_path: Path, first: int
) -> None:
    name = shares.make("--memory-limit", "100MiB")
    tmp_path.chmod(0o711)
    bundle = Bundle(tmp_path / "bundle", rootfs, name)
    bundle.apply(shares.spec(name))
    if first:
        for folder in (tmp_path, *tmp_path.parents[:3]):
            folder.chmod(folder.stat().st_mode | 0o011)
        bundle.in_user_namespace(first)
    try:
        started = bundle.start(node, *work(64, LONG))
        node.until(lambda: bool(rows(node)) or started.poll() is not None, "it computes")
        assert [row["workload"] for row in rows(node)] == [name]
        bundle.signal("USR1")  # no more rounds
        assert finish(started) == (0, RIGHT, "")
    finally:
        bundle.close()
