"""A machine with several cards: each program gets its own, and sees no other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Lines, Node, finish

MakeNode = Callable[[str], Node]
GPU = "8xA100-80:memory=96MiB,link=8GB/s,residue=2MiB"
MIB = 1 << 20
FOREVER = "1000000"
SEES = """
import ctypes
cuda, found = ctypes.CDLL("libcuda.so.1"), []
count, uuid = ctypes.c_int(), (ctypes.c_uint8 * 16)()
if cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0:
    for device in range(count.value):
        assert cuda.cuDeviceGetUuid(uuid, device) == 0
        found.append(bytes(uuid).hex())
print(",".join(found))
"""
"""Prints the UUIDs of the GPUs of the driver, in its order."""


def bare(uuid: str) -> str:
    return uuid.removeprefix("GPU-").replace("-", "")


def test_programs_with_a_guarantee_run_on_cards_of_their_own(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    work = [programs / "worker", kernels, str(8 * MIB), FOREVER, "0", "0"]
    running = [node.run([*work, str(seed)], "--gpu", "0.6") for seed in (1, 2)]

    def cards() -> list[int]:
        return sorted(row["gpu"] for row in node.json("ps") if row["gpu"] is not None)

    node.until(lambda: len(cards()) == 2, "both have a card")
    assert cards() == [0, 1]
    sees = node.cli("run", "--gpu", "0.6", "--", sys.executable, "-c", SEES)
    uuids = [gpu["uuid"] for gpu in node.json("status")["gpus"]]
    assert sees.stdout.strip() == bare(uuids[2])
    assert "moiety: it gets GPU 2 (" in sees.stderr

    both = node.cli(
        "run", "-q", "--gpus", "2", "--gpu-index", "0,1,7,6", "--gpu", "0.6", "--", "true"
    )
    assert (both.returncode, both.stderr) == (0, "")
    taken = node.cli("run", "--gpu-index", "1", "--gpu", "0.6", "--", "true")
    assert taken.returncode == 75
    assert "--gpu 0.4 fits on GPU 1" in taken.stderr
    for process in running:
        process.terminate()
        finish(process)


def test_the_variable_of_cuda_narrows_the_choice(make_node: MakeNode) -> None:
    node = make_node("4x" + GPU.removeprefix("8x"))
    node.start_agent()
    uuids = [gpu["uuid"] for gpu in node.json("status")["gpus"]]
    seen_as = [bare(uuid) for uuid in uuids]
    look = [sys.executable, "-c", SEES]
    for visible, options, seen in (
        ("3,2", (), f"{seen_as[3]},{seen_as[2]}"),
        ("2,3", (), f"{seen_as[2]},{seen_as[3]}"),
        (uuids[1], (), seen_as[1]),
        ("", (), ""),
        ("3", ("--gpu-index", "1"), seen_as[1]),
    ):
        process = node.run(look, *options, env={"CUDA_VISIBLE_DEVICES": visible})
        code, out, err = finish(process)
        assert (code, out) == (0, seen + "\n"), err


def test_a_share_for_containers_gets_gpus_that_are_chosen_for_it(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node("4x" + GPU.removeprefix("8x"))
    node.start_agent()
    for name, got in (("a", "GPUs 0, 1 ("), ("b", "GPUs 2, 3 (")):
        spec = ["container", "spec", "--name", name, "--gpu", "0.6", "--gpus", "2"]
        made = node.cli(*spec, "--output", str(tmp_path))
        assert (made.returncode, f"moiety: it gets {got}" in made.stderr) == (0, True), made.stderr
    uuids = [gpu["uuid"] for gpu in node.json("status")["gpus"]]
    rows = {row["name"]: row["gpus"] for row in node.json("container", "ls")}
    assert rows == {"a": uuids[:2], "b": uuids[2:]}
    assert node.cli("container", "spec", "--name", "all", "--output", str(tmp_path)).returncode == 0
    title, *lines = node.cli("container", "ls").stdout.splitlines()
    assert title.split()[:3] == ["NAME", "GPU", "SHARE"]
    assert [line.split()[:2] for line in lines] == [["a", "0,1"], ["all", "any"], ["b", "2,3"]]
    full = node.cli(
        "container", "spec", "--name", "c", "--gpu", "0.6", "--gpus", "1", "--output", "-"
    )
    assert (full.returncode, "no GPU can keep that" in full.stderr) == (75, True)


def test_two_gpus_for_one_program_are_nvlink_neighbours(make_node: MakeNode) -> None:
    node = make_node("4x" + GPU.removeprefix("8x") + ",nvlink=2,nvlinks=4")
    node.start_agent()
    first = node.run(["cat"], "--gpu-index", "0", stdin=True)
    assert "it gets GPU 0 " in Lines(first.stderr).next()
    pair = node.cli("run", "--gpus", "2", "--", "true")
    assert (pair.returncode, "it gets GPUs 2, 3 (" in pair.stderr) == (0, True), pair.stderr
    named = node.cli("run", "--gpus", "2", "--gpu-index", "0,1,2", "--", "true")
    assert "it gets GPUs 1, 2 (" in named.stderr, "GPU 1's neighbour is in use"
    assert first.stdin
    first.stdin.close()
    assert first.wait() == 0
