"""Processes that compute together share a GPU with others: their kernels spin for each other's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from moiety.model import errors
from moiety.testing.node import Node, finish
from tests.support.native import compile_c

from .conftest import ROOT

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
LARGE, MEMBER, SMALL = 60 << 20, 20 << 20, 8 << 20
"""a large one does not fit beside two members, a small one does"""

MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("together")
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")
    for name in ("collective", "dependent"):
        own = ROOT / "tests" / "native" / "programs" / f"{name}.c"
        compile_c([own], folder / name, flags=flags)
    return folder


class Together:
    """Processes that compute together, under one node; `options` are those of `moiety run`."""

    def __init__(
        self,
        node: Node,
        programs: Path,
        kernels: Path,
        *,
        how: str = "host",
        rounds: int = 2000,
        ahead: int = 1,
        ranks: int = 2,
        options: Sequence[str] = ("--gang", "ring", "--gang-size", "2"),
        gpus: Sequence[str] = ("0", "0"),
    ) -> None:
        board = node.directory / "board"
        self.running = [
            node.run(
                [programs / "collective", how, board, rank, ranks, rounds, ahead, MEMBER],
                *options,
                env={"KERNELS": str(kernels), "CUDA_VISIBLE_DEVICES": gpus[rank]},
            )
            for rank in range(ranks)
        ]

    def check(self) -> None:
        """All ended right."""
        for process in self.running:
            code, out, err = finish(process)
            assert (code, out) == (0, "ready\ndone\n"), err


def other(node: Node, programs: Path, kernels: Path, *arguments: object) -> subprocess.Popen[str]:
    """A program that computes for itself."""
    return node.run([programs / "dependent", *arguments], env={"KERNELS": str(kernels)})


def rows(node: Node, program: str) -> list[dict[str, Any]]:
    """What `moiety ps` says of the processes of a program."""
    return [row for row in node.json("ps") if row["program"] == program]


@pytest.mark.parametrize("how", ["host", "values"])
@pytest.mark.parametrize("ahead", [1, 8])
def test_a_gang_takes_turns_with_a_program_that_does_not_fit_beside_it(
    make_node: MakeNode, programs: Path, kernels: Path, how: str, ahead: int
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "10ms", "--turn-factor", "0")
    plain = other(node, programs, kernels, "plain", LARGE, 3)
    together = Together(node, programs, kernels, how=how, ahead=ahead, rounds=1600)
    together.check()
    code, _, err = finish(plain)
    assert code == 0, err


def test_a_gang_over_two_gpus_takes_turns_with_one_program_on_each(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node("2x" + GPU)
    node.start_agent("--turn-min", "10ms", "--turn-factor", "0")
    plain = [
        node.run(
            [programs / "dependent", "plain", str(68 << 20), "2"],
            env={"KERNELS": str(kernels), "CUDA_VISIBLE_DEVICES": gpu},
        )
        for gpu in "01"
    ]
    Together(node, programs, kernels, gpus="01", rounds=1000).check()
    for process in plain:
        code, _, err = finish(process)
        assert code == 0, err


def test_a_gang_waits_for_all_of_its_members_and_says_so(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    together = Together(node, programs, kernels, ranks=1, rounds=100)
    reason = "its gang ring waits for 1 of 2 members, that have not started"
    node.until(lambda: [r["reason"] for r in rows(node, "collective")] == [reason], "it says so")
    assert finish(other(node, programs, kernels, "plain", LARGE, 0.1))[0] == 0
    wide = node.cli("ps", "-o", "wide").stdout.splitlines()
    assert wide[1].split()[-13] == "ring" or " ring " in wide[1]
    second = other(node, programs, kernels, "plain", SMALL, 0.1)
    assert finish(second)[0] == 0
    told = together.running[0].stderr
    assert told is not None
    assert "before its gang ring is whole: 1 more must start" in told.readline()
    joining = node.run(
        [programs / "dependent", "plain", SMALL, 0.2],
        *("--gang", "ring"),
        env={"KERNELS": str(kernels)},
    )
    assert finish(joining)[0] == 0
    together.check()


def test_a_gang_of_another_size_is_refused(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    Together(node, programs, kernels, ranks=1)
    pair = ("--gang", "pair", "--gang-size", "1")
    Together(node, programs, kernels, ranks=1, rounds=1 << 17, options=pair)
    node.until(lambda: len(rows(node, "collective")) == 2, "the gangs are known")
    for options, text in (
        (("--gang", "ring", "--gang-size", "3"), "gang ring has 2 members, not 3"),
        (("--gang", "pair"), "gang pair has 1 members already, and 1 are all"),
        (("--gang-size", "3"), "and not of which gang"),
        (("--gang", "a b"), "'a b' is no name of a gang"),
        (("--gang", "ring", "--gang-size", "0"), "0 is no size of a gang"),
    ):
        done = finish(node.run([programs / "dependent", "plain", SMALL, 0], *options))
        assert done[0] == errors.InvalidGang.exit_code
        assert text in done[2]


@pytest.mark.parametrize("how", ["device", "pool"])
def test_those_of_a_program_that_share_gpu_memory_become_a_gang(
    make_node: MakeNode, programs: Path, kernels: Path, how: str
) -> None:
    node = make_node(GPU)
    node.start_agent()
    board = node.directory / "board"
    script = " ".join(
        f"{programs / 'collective'} {how} {board} {rank} 2 3000 1 {MEMBER} &" for rank in range(2)
    )
    shell = node.run(["bash", "-c", f"{script} wait"], env={"KERNELS": str(kernels)})
    until_one_gang(node)
    code, out, err = finish(shell)
    assert (code, sorted(out.split())) == (0, ["done", "done", "ready", "ready"]), err


def test_whoever_opens_memory_of_another_becomes_a_gang_with_it(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "10ms", "--turn-factor", "0")
    together = Together(node, programs, kernels, how="ipc", rounds=3000, options=())
    until_one_gang(node)
    plain = other(node, programs, kernels, "plain", 48 << 20, 1)
    together.check()
    code, _, err = finish(plain)
    assert code == 0, err


def until_one_gang(node: Node) -> None:
    """Until both processes that compute together are in the same gang."""

    def are_in_one() -> bool:
        found = rows(node, "collective")
        return len(found) == 2 and len({row["gang"] for row in found} - {""}) == 1

    node.until(are_in_one, "both are in one gang")


def test_what_a_gang_could_not_have_together_is_refused_with_a_reason(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    options = ("--gang", "wide", "--gang-size", "2")
    env = {"KERNELS": str(kernels)}
    both = [
        node.run([programs / "dependent", "plain", LARGE, 0.2], *options, env=env) for _ in range(2)
    ]
    ends = sorted(finish(process) for process in both)
    assert [code for code, _, _ in ends] == [0, 1]
    assert "beside what its gang wide has there, since all of that is held together" in ends[1][2]


def test_when_a_member_dies_the_rest_is_named_and_does_not_hang_the_gpu(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent("--revoke-deadline", "500ms", "--overdue", "kill")
    together = Together(node, programs, kernels, rounds=1 << 17)
    node.until(
        lambda: [r["state"] for r in rows(node, "collective")] == ["holding"] * 2, "both hold"
    )
    together.running[0].kill()
    plain = other(node, programs, kernels, "plain", LARGE, 0.2)
    assert finish(plain)[0] == 0, "the rest waits for the dead one in vain, and is ended"
    assert together.running[1].wait(60) != 0


def test_processes_that_nobody_called_a_gang_end_right_or_are_named(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "20ms", "--turn-factor", "0", "--revoke-deadline", "300ms")
    plain = other(node, programs, kernels, "plain", LARGE, 1)
    Together(node, programs, kernels, options=(), rounds=100).check()
    code, _, err = finish(plain)
    assert code == 0, err
