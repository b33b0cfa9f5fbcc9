"""The gate against a race: four threads submit while the lease is taken away, again and again."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Node
from moiety.wire.layout import Type
from tests.support.wire_fakes import FakeAgent

ROUNDS = 150


def test_no_launch_reaches_the_driver_after_a_revoke_was_answered(
    make_node: Callable[[str], Node], programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node("A100-80:memory=64MiB")
    path = node.directory / "gate.sock"
    with FakeAgent(path) as agent:
        process = node.start(
            [str(programs / "four_threads"), str(kernels)],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(path),
            },
        )
        assert process.stdin is not None
        assert process.stdout is not None

        def launches() -> tuple[int, int]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            count, last_ns = process.stdout.readline().split()
            return int(count), int(last_ns)

        agent.accept()
        agent.until(Type.CONTEXT)
        total, _ = launches()  # it answers once its threads run: what comes before is gated, too
        for _ in range(ROUNDS):
            agent.revoke()
            answered_ns = time.monotonic_ns()
            count, last_ns = launches()
            assert last_ns < answered_ns
            again, _ = launches()
            assert again == count, "a launch went through a closed gate"
            agent.grant()
            node.until(lambda count=count: launches()[0] > count, "work goes on")  # type: ignore[misc]
            total = count
        assert total > ROUNDS
        process.stdin.close()
        assert process.wait(60) == 0
