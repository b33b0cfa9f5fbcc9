"""What the doctor says of machines that a test made up: limits, containers, other agents."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from moiety.agent.system import processes
from moiety.cli.doctor import agents, checks, host
from moiety.cli.doctor.finding import Finding

GIB = 1 << 30
C = "c" * 64


def levels(found: list[Finding]) -> dict[str, str]:
    return {finding.about: finding.level for finding in found}


def put(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.fixture(autouse=True)
def _nobody_answers(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path_factory.mktemp("own") / "d"))
    monkeypatch.delenv("MOIETY_SIMGPU", raising=False)


MEMINFO = f"MemTotal: {64 * GIB // 1024} kB\nMemAvailable: {32 * GIB // 1024} kB\n"


@pytest.mark.parametrize(
    ("files", "limit"),
    [
        ({"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/memory.max": f"{8 * GIB}\n",
          "sys/fs/cgroup/a/b/memory.max": "max\n"}, 8 * GIB),
        ({"proc/self/cgroup": "5:cpu,memory:/a\n",
          "sys/fs/cgroup/memory/a/memory.limit_in_bytes": f"{4 * GIB}\n",
          "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 4 * GIB),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_least_limit_of_the_control_groups(
    tmp_path: Path, files: dict[str, str], limit: int | None
) -> None:
    assert host.least_limit(put(tmp_path, files)) == limit


def test_a_small_control_group_is_a_warning_that_says_what_to_do(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a\n",
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/a/memory.max": f"{8 * GIB}\n",
        },
    )
    found = {f.about: f for f in host.host_memory(root)}
    assert found["memory limit"].level == "warn"
    assert "8 GiB of 64 GiB" in found["memory limit"].text
    assert "moiety agent unit" in found["memory limit"].hint


def test_strict_overcommit_and_few_mappings_are_found(tmp_path: Path) -> None:
    root = put(
        tmp_path,
        {"proc/sys/vm/overcommit_memory": "2\n", "proc/sys/vm/max_map_count": "1000\n"},
    )
    found = list(host.host_memory(root))
    texts = " ".join(finding.text for finding in found if finding.level == "warn")
    assert "vm.overcommit_memory = 2" in texts
    assert "only 1000 mappings" in texts


def test_what_another_process_may_lock(tmp_path: Path) -> None:
    text = (
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max cpu time              unlimited            unlimited            seconds   \n"
        "Max locked memory         8388608              unlimited            bytes     \n"
    )
    put(tmp_path, {"proc/7/limits": text})
    assert host.locked_limit(tmp_path, 7) == 8 << 20
    put(tmp_path, {"proc/7/limits": text.replace("8388608  ", "unlimited")})
    assert host.locked_limit(tmp_path, 7) is None
    assert host.locked_limit(tmp_path, 8) is None


def test_a_container_with_processes_of_its_own_is_a_warning(tmp_path: Path) -> None:
    (found,) = host.container(put(tmp_path, {"proc/self/cgroup": "0::/\n"}))
    assert (found.level, found.text) == ("ok", "this is no container")
    root = put(
        tmp_path,
        {"proc/self/cgroup": f"0::/system.slice/docker-{C}.scope\n", "proc/self/ns/pid": ""},
    )
    (found,) = host.container(root)
    assert found.level == "warn"
    assert found.text == "this is a container (docker cccccccccccc) with a PID namespace of its own"
    assert "--pid=host" in found.hint


@pytest.mark.parametrize(
    ("programs", "files", "level", "says"),
    [
        ([], {}, "ok", "no container runtime"),
        (["docker"], {}, "warn", "nvidia-container-toolkit is not"),
        (["docker", "nvidia-ctk"], {}, "warn", "does not know of NVIDIA's runtime"),
        (
            ["docker", "nvidia-ctk"],
            {"etc/docker/daemon.json": json.dumps({"runtimes": {"nvidia": {}}})},
            "ok",
            "docker, nvidia-ctk",
        ),
        (["docker", "nvidia-ctk"], {"etc/docker/daemon.json": "{"}, "warn", "does not know"),
        (["podman"], {"etc/cdi/nvidia.yaml": ""}, "ok", "CDI specification /etc/cdi/nvidia.yaml"),
        (["podman"], {"var/run/cdi/nvidia.json": ""}, "ok", "/var/run/cdi/nvidia.json"),
    ],
)
def test_containers_and_what_gives_them_gpus(
    tmp_path: Path, programs: list[str], files: dict[str, str], level: str, says: str
) -> None:
    for name in programs:
        (put(tmp_path, {f"bin/{name}": "#!/bin/sh\n"}) / f"bin/{name}").chmod(0o755)
    (found,) = host.toolkit(put(tmp_path, files), path=str(tmp_path / "bin"))
    assert found.level == level
    assert says in found.text
    assert bool(found.hint) == (level == "warn")


def test_a_directory_of_an_agent_that_was_killed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "tmp" / "moiety-7"
    put(folder, {"agent.lock": "pid 7"})
    with socket.socket(socket.AF_UNIX) as listener:
        monkeypatch.chdir(folder)  # a socket's path is short
        listener.bind("control.sock")
    (found,) = agents.agents(tmp_path)
    assert found.level == "warn"
    assert found.text == (f"{folder} is of an agent that was killed: control.sock, agent.lock")
    assert found.hint == f"rm -r {folder}"


def test_nothing_is_said_of_a_machine_without_other_agents(tmp_path: Path) -> None:
    (found,) = agents.agents(tmp_path)
    assert (found.level, found.text) == ("ok", "none")


def test_programs_that_outlived_their_agent_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_DIR", str(tmp_path))
    own = f"{processes.start_time(os.getpid())} 0\n"
    put(tmp_path, {f"w/aaaa/clients/{os.getpid()}": own, "w/bbbb/clients/1": "1 0\n"})
    (tmp_path / "w/cccc").mkdir()
    found = list(agents.residue(tmp_path / "shm"))
    assert [finding.level for finding in found] == ["warn", "warn"]
    assert found[0].text.startswith("1 program of an agent that is gone")
    assert found[0].hint == "moiety agent start"
    assert "2 workloads of programs that are gone" in found[1].text


def test_simulated_gpus_that_nobody_uses_are_found(tmp_path: Path) -> None:
    put(tmp_path, {"moiety-simgpu-4711/gpus": "x" * 8192})
    (found,) = agents.residue(tmp_path)
    assert found.level == "warn"
    assert "8 KiB of simulated GPUs that no process uses" in found.text


def test_the_directory_of_all_users_need_not_be_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOIETY_AGENT", "system")
    monkeypatch.setenv("MOIETY_SYSTEM_DIR", str(tmp_path))
    found = {finding.about: finding for finding in checks.agent()}
    assert found["directory"].level == "ok"
    assert found["directory"].text.startswith(f"{tmp_path}, for all users, of ")
    assert found["agent"].level == "ok"
