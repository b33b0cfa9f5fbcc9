"""`moiety gpu`: a drained GPU gets no new program, and those on it go on, also at a restart."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Lines, Node, finish, kill

MakeNode = Callable[[str], Node]
GPU = "2xA100-80:memory=96MiB,link=8GB/s,residue=2MiB"
MIB = 1 << 20
SEES = """
import ctypes
cuda, uuid = ctypes.CDLL("libcuda.so.1"), (ctypes.c_uint8 * 16)()
assert cuda.cuInit(0) == 0 and cuda.cuDeviceGetUuid(uuid, 0) == 0
print(bytes(uuid).hex())
"""
"""Prints the UUID of the first GPU that it sees."""


def test_a_drained_gpu_is_left_to_the_programs_on_it(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    assert "no agent is running" in node.cli("gpu", "ls").stdout
    agent = node.start_agent()
    work = [programs / "worker", kernels, str(8 * MIB), "1000000", "0", "0", "1"]
    running = node.run(work, "--gpu", "0.5", "--gpu-index", "1", "--name", "first")

    def on(gpu: int) -> list[int]:
        users = node.json("gpu", "ls")[gpu]["users"]
        return [pid for user in users for pid in user["pids"]]

    node.until(lambda: on(1) == [running.pid], "it is on the second GPU")
    drained = node.cli("gpu", "drain", "1")
    assert drained.stdout == "GPU 1 is drained: it gets no new programs, and has 1 program\n"
    kill(agent)
    node.start_agent()
    assert [gpu["drained"] for gpu in node.json("status")["gpus"]] == [False, True]
    assert "without new programs: GPU 1" in node.cli("status").stdout
    node.until(lambda: on(1) == [running.pid], "it goes on")
    listed = node.cli("gpu", "ls").stdout.splitlines()
    assert "drained" in listed[2]
    assert "first (" in listed[2]

    refused = node.cli("run", "--gpu-index", "1", "--", "true")
    assert refused.returncode == 75
    assert "moiety gpu resume 1" in refused.stderr
    other = node.cli("run", "--gpu", "0.9", "--", "true")
    assert "it gets GPU 0 (" in other.stderr
    assert node.cli("gpu", "drain", "7").returncode == 64
    assert node.cli("gpu", "resume", "1").stdout == "GPU 1 gets new programs again\n"
    assert node.cli("run", "--gpu-index", "1", "--", "true").returncode == 0
    running.terminate()
    finish(running)


def test_a_program_that_has_not_looked_at_its_gpu_moves_off_a_drained_one(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.1; done; exec {sys.executable} -c '{SEES}'"
    process = node.run(["/bin/sh", "-c", waits])
    node.until(lambda: bool(node.json("gpu", "ls")[0]["users"]), "GPU 0 is kept for it")
    assert node.cli("gpu", "drain", "0").returncode == 0
    go.touch()
    code, out, err = finish(process)
    uuid = node.json("status")["gpus"][1]["uuid"]
    assert (code, out) == (0, uuid.removeprefix("GPU-").replace("-", "") + "\n"), err


def test_a_person_reads_that_a_program_gets_another_gpu_than_was_said(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    go, uses = tmp_path / "go", "context = ctypes.c_void_p()\nimport sys\n"
    uses += "assert cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0) == 0\nsys.stdin.read()"
    waits = f"while [ ! -e {go} ]; do sleep 0.1; done; exec {sys.executable} -c '{SEES}{uses}'"
    process = node.run(["/bin/sh", "-c", waits], "--say", "always", stdin=True)
    said = Lines(process.stderr)
    assert said.next().startswith("moiety: it gets GPU 0 (")
    assert node.cli("gpu", "drain", "0").returncode == 0
    go.touch()
    assert said.next() == "moiety: it gets GPU 1 instead of GPU 0\n"
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait() == 0


def test_a_program_that_began_while_a_gpu_was_drained_moves_to_it_when_it_is_resumed(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    assert node.cli("gpu", "drain", "1").returncode == 0
    go = tmp_path / "go"
    waits = f"while [ ! -e {go} ]; do sleep 0.1; done; exec {sys.executable} -c '{SEES}'"
    processes = [node.run(["/bin/sh", "-c", waits]) for _ in range(2)]
    node.until(lambda: len(node.json("gpu", "ls")[0]["users"]) == 2, "GPU 0 is kept for both")
    assert node.cli("gpu", "resume", "1").returncode == 0
    node.until_told("GpuMoved")
    go.touch()
    found = sorted(finish(process)[1].strip() for process in processes)
    uuids = [gpu["uuid"] for gpu in node.json("status")["gpus"]]
    assert found == sorted(uuid.removeprefix("GPU-").replace("-", "") for uuid in uuids)
