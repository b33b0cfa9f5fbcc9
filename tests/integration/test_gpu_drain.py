"""`moiety gpu`: a drained GPU gets no new program, and those on it go on, also at a restart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Node, finish, kill

MakeNode = Callable[[str], Node]
GPU = "2xA100-80:memory=96MiB,link=8GB/s,residue=2MiB"
MIB = 1 << 20


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
