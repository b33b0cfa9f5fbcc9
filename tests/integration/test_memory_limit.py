"""`--memory-limit`: what a program and the processes that it starts may allocate together."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Lines, Node, finish
from tests.integration.verified import RIGHT

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]
MIB = 1 << 20


def test_a_second_process_gets_what_the_first_has_left_of_the_limit(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node("A100-80:memory=256MiB")
    node.start_agent()

    def work(mib: int, rounds: int) -> str:
        return f"{programs / 'worker'} {kernels} {mib * MIB} {rounds} 1 0 1"

    script = f"{work(40, 1000000)} & read go; {work(40, 1)} >&2; echo $?; {work(10, 1)}; wait"
    shell = node.run(["/bin/sh", "-c", script], "--memory-limit", "60MiB", stdin=True)
    node.until(
        lambda: any(row["allocated_bytes"] >= 40 * MIB for row in node.json("ps")),
        "the first one has its memory",
    )
    (first,) = node.json("ps")
    assert first["limit_bytes"] == 60 * MIB
    try:
        assert shell.stdin
        shell.stdin.write("go\n")
        shell.stdin.flush()
        lines = Lines(shell.stdout)
        assert lines.next() == "1\n", "out of memory"
        assert lines.next() == "0 words wrong\n", "the third one fits beside the first"
        os.kill(first["pid"], signal.SIGUSR1)
        code, out, said = finish(shell)
        assert (code, bool(RIGHT.search(out))) == (0, True), said
        refused, *_ = node.until_told("Refused")
        assert "limit of 60 MiB" in refused.message
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(first["pid"], signal.SIGKILL)


def test_each_process_sees_what_all_have_left_of_the_limit(
    make_node: MakeNode, build: Build
) -> None:
    node = make_node("A100-80:memory=512MiB,residue=1MiB")
    node.start_agent()
    done = finish(node.run([build("limit_together")], "--memory-limit", "256MiB"))
    assert done == (0, "ok\n", ""), done[2]
