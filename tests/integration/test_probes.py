"""A program whose memory was evicted stays so while it only asks whether its GPU is alive."""

from __future__ import annotations

import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from moiety.testing.node import Lines, Node, finish
from moiety.wire.layout import Type
from moiety.wire.messages import AmountMessage, IdleTimeoutMessage
from tests.support.wire_fakes import FakeAgent

MIB = 1 << 20
ALL = 1 << 40
DEADLINE_S = 60.0
GPU = "A100-80:memory=256MiB,residue=1MiB"

MakeNode = Callable[[str], Node]
Build = Callable[[str], Path]


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


def said(agent: FakeAgent, process: subprocess.Popen[str]) -> str:
    """The program's next line, while the agent answers it."""
    assert process.stdout is not None
    deadline_s = time.monotonic() + DEADLINE_S
    while not select.select([process.stdout], [], [], 0)[0]:
        asked = [message.type for message in agent.heard]
        if time.monotonic() > deadline_s or Type.LEASE_REQUEST in asked:
            process.kill()
            raise AssertionError(f"it waits for a lease: {process.communicate()[1]}")
        agent.hear(0.01)
    return process.stdout.readline().strip()


def test_probes_need_no_lease_and_no_memory_on_the_gpu(
    make_node: MakeNode, build: Build, native: Path
) -> None:
    node = make_node(GPU)
    with FakeAgent(node.directory / "shim.sock") as agent:
        process = node.start(
            [str(build("probes"))],
            stdin=True,
            env={
                "LD_LIBRARY_PATH": str(native / "simgpu"),
                "LD_PRELOAD": str(native / "libmoiety.so"),
                "MOIETY_SOCKET": str(agent.path),
                "MOIETY_SIMGPU_POISON": "1",
            },
        )
        agent.accept()
        assert said(agent, process) == "ready"
        agent.revoke()
        agent.send(AmountMessage(Type.EVICT, 0, 0, ALL))
        agent.until(Type.EVICTED)
        agent.heard.clear()
        for _ in range(3):
            tell(process, "probe")
            assert said(agent, process) == "probed"
        tell(process, "use")
        agent.until(Type.LEASE_REQUEST)
        agent.heard.clear()
        agent.send(AmountMessage(Type.RESTORE_BUDGET, 0, 0, ALL))
        agent.until(Type.RESTORED)
        agent.grant()
        assert said(agent, process) == "used"
        agent.heard.clear()
        agent.send(IdleTimeoutMessage(idle_us=20_000))
        tell(process, "poll 60000")
        agent.until(Type.IDLE)  # work that is done is asked for all the while
        process.kill()


def test_a_server_that_is_probed_stays_evicted_and_wakes_at_the_first_use(
    make_node: MakeNode, build: Build, programs: Path, kernels: Path
) -> None:
    node = make_node("A100-80:memory=64MiB,residue=1MiB,link=8GB/s")
    node.start_agent("--quantum", "20ms", "--idle-min", "2ms", "--idle-free", "1ms")
    server = node.run([build("probes")], stdin=True)
    lines = Lines(server.stdout)
    assert lines.next() == "ready\n"
    large = [programs / "worker", kernels, str(50 * MIB), "1000000", "0", "0", "1"]
    worker = node.run(large)

    def row() -> dict[str, int]:
        (found,) = (one for one in node.json("ps") if one["pid"] == server.pid)
        return dict(found)

    node.until(lambda: row()["resident_bytes"] == 0, "the server's memory left")
    handoffs = row()["handoffs"]
    for _ in range(20):
        for line in ("probe", "nvml"):
            tell(server, line)
            assert lines.next() == "probed\n"
    assert (row()["resident_bytes"], row()["handoffs"]) == (0, handoffs)
    tell(server, "use")
    assert lines.next() == "used\n"
    assert row()["handoffs"] > handoffs
    worker.kill()
    worker.wait()
    assert server.stdin is not None
    server.stdin.close()
    server.stdin = None
    code, _, err = finish(server)
    assert code == 0, err
