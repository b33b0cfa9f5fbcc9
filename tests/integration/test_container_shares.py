"""Shares for containers: there before any process, and after every agent."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moiety.cli.doctor import talk
from moiety.cli.doctor.container_shares import shares
from moiety.devices.interface import uuid_bytes
from moiety.model import errors
from moiety.testing.node import Node, kill
from moiety.testing.waiting import DEADLINE_S
from tests.support.wire_end import Hung
from tests.support.wire_fakes import Shim

JOIN = """
import sys
from tests.support.wire_fakes import Shim
shim = Shim(sys.argv[1])
shim.hello("worker")
print("joined", flush=True)
sys.stdin.read()
"""
ATTACH = """
import sys
from tests.support.wire_end import Hung
from tests.support.wire_fakes import Shim
shim = Shim(sys.argv[1])
shim.hello("worker")
try:
    shim.attach(bytes.fromhex(sys.argv[2]))
    print("attached", flush=True)
except Hung as error:
    print(error, flush=True)
sys.stdin.read()
"""
CONTEXTS_MAX = 40
GPU = "A100-80:memory=256MiB,link=4GB/s"


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Node:
    """One small GPU, with an agent."""
    found = make_node(GPU)
    found.start_agent()
    return found


def make(node: Node, *options: str, name: str = "train") -> dict[str, Any]:
    """Make a share; its row."""
    folder = node.directory / "cdi"
    done = node.cli("container", "spec", "--name", name, "--output", str(folder), *options)
    assert done.returncode == 0, done.stderr
    return row_of(node, name)


def row_of(node: Node, name: str = "train") -> dict[str, Any]:
    (found,) = [row for row in node.json("container", "ls") if row["name"] == name]
    return dict(found)


def join(node: Node, row: dict[str, Any]) -> subprocess.Popen[str]:
    """Another process that connects, and lives until it is killed."""
    socket = Path(row["folder"], "socket", "shim.sock")
    process = node.start([sys.executable, "-c", JOIN, str(socket)], stdin=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "joined\n"
    return process


def connect(row: dict[str, Any]) -> Shim:
    shim = Shim(Path(row["folder"], "socket", "shim.sock"))
    shim.hello("worker")
    return shim


def test_a_share_stays_while_processes_come_and_go(node: Node) -> None:
    row = make(node, "--gpu", "0.4", "--memory-limit", "100MiB")
    assert row["pids"] == []
    first, second = join(node, row), join(node, row)
    rows = node.json("ps")
    assert {each["workload"] for each in rows} == {"train"}
    assert {each["share"]["memory_limit_bytes"] for each in rows} == {100 << 20}
    assert row_of(node)["pids"] == sorted([first.pid, second.pid])
    for process in (first, second):
        kill(process)
    node.until(lambda: row_of(node)["pids"] == [], "both are gone")
    assert row_of(node)["share"]["gpu"] == pytest.approx(0.4)


def test_a_killed_agents_shares_are_there_again_where_they_were(node: Node) -> None:
    row = make(node, "--gpu", "0.4")
    assert node.agent is not None
    kill(node.agent)
    node.start_agent()
    assert row_of(node) == row
    connect(row).close()


def test_a_share_whose_files_are_damaged_keeps_no_agent_from_starting(node: Node) -> None:
    make(node)
    damaged = make(node, name="damaged")
    assert node.agent is not None
    kill(node.agent)
    shutil.rmtree(Path(damaged["folder"], "socket"))
    node.start_agent()
    assert [row["name"] for row in node.json("container", "ls")] == ["train"]
    assert make(node, name="damaged")["name"] == "damaged", "it can be made whole"


def test_a_share_that_is_used_is_removed_by_force_only(node: Node) -> None:
    row = make(node)
    shim = connect(row)
    refused = node.cli("container", "rm", "train")
    assert refused.returncode == errors.ContainerShareInUse.exit_code
    assert f"pid {os.getpid()}" in refused.stderr
    assert node.cli("container", "rm", "train", "--force").returncode == 0
    assert node.json("container", "ls") == []
    assert not Path(row["spec"]).exists()
    assert not Path(row["folder"]).exists()
    shim.attach(uuid_bytes(node.json("status")["gpus"][0]["uuid"]))  # it goes on
    assert [r["gpu"] for r in node.json("ps")] == [0]
    shim.close()
    gone = node.cli("container", "rm", "train")
    assert gone.returncode == errors.ContainerShareUnknown.exit_code
    assert "moiety container ls" in gone.stderr


def test_the_same_name_again_changes_what_runs(node: Node) -> None:
    row = make(node, "--gpu", "0.4")
    shim = connect(row)
    assert make(node, "--gpu", "0.3")["folder"] == row["folder"]
    assert [each["share"]["gpu"] for each in node.json("ps")] == [pytest.approx(0.3)]
    shim.close()


def test_a_process_above_the_new_limit_of_its_share_is_an_event(node: Node) -> None:
    shim = connect(make(node, "--memory-limit", "64MiB"))
    shim.attach(uuid_bytes(node.json("status")["gpus"][0]["uuid"]))
    shim.context(0)
    shim.allocated(0, 48 << 20)
    make(node, "--memory-limit", "16MiB")
    (event,) = node.until_told("AboveLimit")
    assert "32 MiB above its new limit" in event.message
    shim.close()


def test_what_shares_of_containers_promise_is_promised_to_nobody_else(node: Node) -> None:
    make(node, "--gpu", "0.8")
    folder = str(node.directory / "cdi")
    done = node.cli("container", "spec", "--name", "other", "--gpu", "0.8", "--output", folder)
    assert done.returncode == errors.ShareTaken.exit_code
    assert "--gpu 0.2 or less" in done.stderr
    assert not Path(folder, "moiety-other.json").exists()


def test_only_what_containers_see_may_be_entered_by_others(node: Node) -> None:
    folder = Path(make(node)["folder"])

    def mode(path: Path) -> int:
        return stat.S_IMODE(path.stat().st_mode)

    assert mode(folder) == 0o700
    assert mode(folder / "socket") == 0o755
    assert mode(folder / "socket" / "shim.sock") == 0o666
    assert sorted(path.name for path in (folder / "socket").iterdir()) == ["shim.sock"]


def test_a_file_of_somebody_else_is_not_written_over(node: Node) -> None:
    folder = node.directory / "cdi"
    folder.mkdir()
    (folder / "moiety-train.json").write_text('{"kind": "nvidia.com/gpu"}')
    done = node.cli("container", "spec", "--name", "train", "--output", str(folder))
    assert done.returncode == errors.FileExists.exit_code
    assert node.json("container", "ls") == []


def test_where_nothing_can_be_written_no_share_is_made(node: Node) -> None:
    folder = "/proc/nowhere"
    done = node.cli("container", "spec", "--name", "train", "--output", folder)
    assert done.returncode == errors.FileNotWritable.exit_code
    assert node.json("container", "ls") == []


def test_a_file_is_no_folder_for_specifications(node: Node) -> None:
    file = node.directory / "notes"
    file.touch()
    done = node.cli("container", "spec", "--name", "train", "--output", str(file))
    assert done.returncode == errors.FileNotWritable.exit_code
    assert f"{file}/moiety-train.json cannot be written" in done.stderr
    assert node.json("container", "ls") == []


def test_what_is_printed_can_be_typed_wherever_the_specification_lies(node: Node) -> None:
    folder = node.directory / "of two words"
    done = node.cli("container", "spec", "--name", "train", "--output", str(folder))
    podman, docker = done.stdout.splitlines()[2:4]
    typed = ["podman", "--cdi-spec-dir", str(folder), "run", "--device", "moiety.dev/gpu=train"]
    assert shlex.split(podman) == [*typed, "IMAGE"]
    assert f'"{folder}" among the daemon\'s cdi-spec-dirs' in docker


def test_a_printed_specification_leaves_the_written_one_known(node: Node) -> None:
    row = make(node)
    printed = node.cli("container", "spec", "--name", "train", "--output", "-").stdout
    assert json.loads(printed) == json.loads(Path(row["spec"]).read_text())
    assert row_of(node)["spec"] == row["spec"]


def test_set_finds_a_share_by_its_name(node: Node) -> None:
    make(node, "--gpu", "0.4")
    done = node.cli("set", "train", "--gpu", "0.3")
    assert done.stdout.startswith("train: 30 % of the GPU")
    assert row_of(node)["share"]["gpu"] == pytest.approx(0.3)


def run_hook(node: Node, root: Path, name: str, bundle: Path) -> subprocess.CompletedProcess[str]:
    """As a runtime runs it: with the environment of the specification, and nothing else."""
    text = node.cli("container", "spec", "--name", name, "--output", "-").stdout
    (hook,) = json.loads(text)["devices"][0]["containerEdits"]["hooks"]
    config = {"root": {"path": str(root)}, "process": {"args": ["/bin/sh"], "cwd": "/"}}
    (bundle / "config.json").write_text(json.dumps(config))
    return subprocess.run(
        hook["args"],
        executable=hook["path"],
        env=dict(each.split("=", 1) for each in hook["env"]),
        input=json.dumps({"ociVersion": "1.0.2", "id": "c", "pid": 1, "bundle": str(bundle)}),
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="no glibc here")
def test_the_hook_lets_what_can_be_shared_start(node: Node, tmp_path: Path) -> None:
    done = run_hook(node, Path("/"), "train", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_hook_says_why_an_image_cannot_be_shared(node: Node, tmp_path: Path) -> None:
    (tmp_path / "root" / "lib").mkdir(parents=True)
    (tmp_path / "root" / "lib" / "ld-musl-x86_64.so.1").touch()
    done = run_hook(node, tmp_path / "root", "train", tmp_path)
    assert done.returncode == errors.ImageUnfit.exit_code
    assert done.stderr.startswith("moiety: this image: its C library is musl")


@pytest.mark.skipif(not Path("/lib64/ld-linux-x86-64.so.2").exists(), reason="no glibc here")
def test_the_hook_says_what_to_do_where_the_agent_is_gone(node: Node, tmp_path: Path) -> None:
    assert run_hook(node, Path("/"), "train", tmp_path).returncode == 0
    hook = [sys.executable, "-m", "moiety", "container", "hook", "train"]
    state = json.dumps({"bundle": str(tmp_path)})
    assert node.cli("stop").returncode == 0
    assert node.agent is not None
    node.agent.wait()
    done = subprocess.run(
        hook, env=node.env, input=state, capture_output=True, text=True, check=False
    )
    assert done.returncode == errors.NoAgent.exit_code
    assert "moiety agent start" in done.stderr


def test_a_process_without_a_greeting_gets_nothing(node: Node) -> None:
    row = make(node)
    shim = Shim(Path(row["folder"], "socket", "shim.sock"))
    shim.want()
    assert shim.closed_by_agent()
    shim.close()


def test_doctor_knows_which_specifications_lead_nowhere(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MOIETY_DIR", "MOIETY_SIMGPU", "MOIETY_SIMGPU_STATE"):
        monkeypatch.setenv(name, node.env[name])
    monkeypatch.setattr(talk, "TIMEOUT_S", DEADLINE_S)  # a loaded machine is not what is asked
    folder = node.directory / "cdi"
    make(node, name="here")
    moved = Path(make(node, name="moved")["folder"])
    moved.rename(moved.with_name("elsewhere"))
    (folder / "moiety-other.json").write_text(
        (folder / "moiety-here.json").read_text().replace('"name": "here"', '"name": "other"')
    )
    (folder / "moiety-broken.json").write_text("{")
    found = [(each.level, each.text) for each in shares([folder])]
    assert found[-1] == ("ok", "2 shares of this agent can be had by containers")
    (gone, unknown) = found[:-1]
    assert gone[0] == "warn"
    assert gone[1].endswith("which does not exist")
    assert unknown == (
        "warn",
        f"{folder}/moiety-other.json names a share that this agent does not have",
    )
    assert node.cli("stop").returncode == 0
    (dead,) = list(shares([folder]))
    assert "do not start now: no agent runs" in dead.text
    assert "moiety agent start" in dead.hint


def test_memory_that_a_share_keeps_is_there_for_its_first_process(node: Node) -> None:
    """Others cannot allocate it before, and no number of contexts takes it."""
    gpu = node.json("status")["gpus"][0]
    uuid, capacity = uuid_bytes(gpu["uuid"]), int(gpu["capacity_bytes"])
    others = make(node, name="others")
    other = connect(others)
    other.attach(uuid)
    row = make(node, "--memory", "128MiB")
    with pytest.raises(Hung, match="kept for programs that will come"):
        other.allocated(0, capacity - (96 << 20))
    socket = Path(others["folder"], "socket", "shim.sock")
    said = ""
    for _ in range(CONTEXTS_MAX):
        command = [sys.executable, "-c", ATTACH, str(socket), uuid.hex()]
        process = node.start(command, stdin=True)
        assert process.stdout is not None
        said = process.stdout.readline()
        if said != "attached\n":
            break
    assert "kept for programs that will come" in said
    shim = connect(row)
    shim.attach(uuid)
    shim.allocated(0, 128 << 20)
    shim.close()
    other.close()
