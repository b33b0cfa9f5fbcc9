"""Programs that do not give the GPU back: they are let go on, waited beside, named or ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from moiety.testing.node import Node, finish
from moiety.wire.layout import HelloFlag, Type
from moiety.wire.messages import AttachMessage, DrainedMessage, LeaseNoteMessage
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

from .conftest import ROOT

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
LARGE, SMALL = 60 << 20, 16 << 20
"""what programs allocate: two large ones do not fit together, a small one fits beside each"""

MakeNode = Callable[[str], Node]


@pytest.fixture(scope="module")
def programs(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs."""
    folder = tmp_path_factory.mktemp("dependent")
    own = ROOT / "tests" / "native" / "programs"
    flags = (f"-I{ROOT / 'native'}", str(native / "simgpu" / "libcuda.so.1"), "-lpthread")
    for name in ("dependent", "collective"):
        compile_c([own / f"{name}.c"], folder / name, flags=flags)
    return folder


def begin(node: Node, programs: Path, kernels: Path, *arguments: object) -> subprocess.Popen[str]:
    """The program, once it has all its memory."""
    command = [programs / "dependent", *arguments]
    process = node.run(command, env={"KERNELS": str(kernels)})
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def row(node: Node, process: subprocess.Popen[str]) -> dict[str, Any]:
    """What `moiety ps` says of a program."""
    return next((r for r in node.json("ps") if r["pid"] == process.pid), {})


def close(agent: FakeAgent) -> None:
    """Take the lease, and wait for nothing."""
    assert agent.page is not None
    agent.page.close(agent.epoch)
    agent.send(LeaseNoteMessage(Type.REVOKE, 0, agent.epoch))


@pytest.mark.parametrize("word", ["callback", "older", "node", "lock", "calls", "value", "copy"])
def test_work_that_waits_for_a_thread_at_the_gate_shares_the_gpu(
    make_node: MakeNode, programs: Path, kernels: Path, word: str
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "20ms", "--turn-factor", "0")
    seconds = 2 if word in {"callback", "value", "copy"} else 1
    running = [begin(node, programs, kernels, word, LARGE, seconds)]
    plain = node.run(
        [programs / "dependent", "plain", str(LARGE), "1"], env={"KERNELS": str(kernels)}
    )
    for process in [*running, plain]:
        code, _, err = finish(process)
        assert code == 0, err


def drains(agent: FakeAgent, within_s: float = 0.1) -> bool:
    """Take the lease: whether the program drains, or waits for a thread at the gate."""
    agent.hear(0.01)
    close(agent)
    while (message := agent.hear(within_s)) is not None:
        if isinstance(message, DrainedMessage):
            assert message.epoch <= agent.epoch
            if message.epoch == agent.epoch:
                return True
    return False


def take_turn(agent: FakeAgent) -> None:
    """Give the lease for as long as a short turn lasts."""
    agent.grant()
    time.sleep(0.02)  # noqa: TID251 (how long this turn is: nothing is waited for)


def start_waiting(
    node: Node, programs: Path, kernels: Path, native: Path, path: Path
) -> subprocess.Popen[str]:
    """A program whose work waits for a thread of its own, for an agent that is played."""
    return node.start(
        [str(programs / "dependent"), "value", "4096", "100"],
        env={
            "KERNELS": str(kernels),
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": str(path),
        },
    )


def test_a_stream_may_wait_for_a_word_that_another_process_writes(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    """One of the two fits beside whoever holds, so it writes also while the other is drained."""
    node = make_node(GPU)
    node.start_agent("--turn-min", "20ms", "--turn-factor", "0")
    board = node.directory / "board"
    rounds = 300
    pair = [
        node.run(
            [programs / "collective", "values", board, rank, 2, rounds, 1, size],
            env={"KERNELS": str(kernels)},
        )
        for rank, size in enumerate((LARGE, SMALL))
    ]
    plain = node.run(
        [programs / "dependent", "plain", str(LARGE), "0.5"], env={"KERNELS": str(kernels)}
    )
    for process in [*pair, plain]:
        code, _, err = finish(process)
        assert code == 0, err


def test_a_lease_is_given_back_to_a_drain_that_waits(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> None:
    """The shim's half: it hears the agent while it waits for the GPU."""
    node = make_node(GPU)
    path = node.directory / "gate.sock"
    with FakeAgent(path, limit_bytes=1 << 27) as agent:
        process = start_waiting(node, programs, kernels, native, path)
        agent.accept()
        agent.until(Type.CONTEXT)
        answered = 0
        deadline_s = time.monotonic() + 60
        waited = 0
        while answered < 8:
            assert time.monotonic() < deadline_s
            while not drains(agent, within_s=0.03):
                waited += 1
                take_turn(agent)
            answered += 1
            agent.grant()
        assert waited, "no drain ever waited for a thread: nothing was tested"
        process.kill()


def test_a_drain_that_waits_goes_on_with_the_next_agent(
    make_node: MakeNode, programs: Path, kernels: Path, native: Path
) -> None:
    node = make_node(GPU)
    path = node.directory / "gate.sock"
    with FakeAgent(path, limit_bytes=1 << 27) as agent:
        process = start_waiting(node, programs, kernels, native, path)
        agent.accept()
        agent.until(Type.CONTEXT)
        while drains(agent):
            agent.grant()
    with FakeAgent(path, limit_bytes=1 << 27) as successor:
        hello = successor.accept()
        assert hello.flags == HelloFlag.RESUMED | HelloFlag.HOLDING
        state = successor.until(Type.ATTACH)
        assert isinstance(state, AttachMessage)
        assert state.resident_bytes == state.allocated_bytes > 0
        deadline_s = time.monotonic() + 60
        while not drains(successor, within_s=0.03):
            assert time.monotonic() < deadline_s
            take_turn(successor)
        process.kill()


def test_agents_that_are_killed_while_a_drain_waits_leave_nobody_behind(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    options = ("--turn-min", "20ms", "--turn-factor", "0")
    agent = node.start_agent(*options)
    running = [begin(node, programs, kernels, word, LARGE, 4) for word in ("value", "plain")]

    def handoffs() -> int:
        return sum(row["handoffs"] for row in node.json("ps"))

    def have_taken_turns(since: int) -> bool:
        return handoffs() >= since + 3 or any(p.poll() is not None for p in running)

    for _ in range(2):
        node.until(partial(have_taken_turns, handoffs()), "they took turns")
        agent.kill()
        agent.wait()
        agent = node.start_agent(*options)
    for process in running:
        code, _, err = finish(process)
        assert code == 0, err


def test_a_stopped_holder_is_named_and_goes_on_when_continued(
    make_node: MakeNode, programs: Path, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    holder = begin(node, programs, kernels, "plain", LARGE, 3)
    os.kill(holder.pid, signal.SIGSTOP)
    waiter = node.run(
        [programs / "dependent", "plain", str(LARGE), "0.2"], env={"KERNELS": str(kernels)}
    )
    node.until(lambda: row(node, holder).get("state") == "stopped", "it is seen to be stopped")
    small = begin(node, programs, kernels, "plain", SMALL, 0.2)
    assert finish(small)[0] == 0, "what fits beside it goes on"
    reason = f"waits for dependent (pid {holder.pid}), which is stopped"
    node.until(lambda: reason in row(node, waiter).get("reason", ""), "the waiter is told why")
    os.kill(holder.pid, signal.SIGCONT)
    assert finish(waiter)[0] == 0
    assert finish(holder)[0] == 0


@pytest.mark.parametrize("policy", ["report", "fence", "kill"])
def test_work_that_never_ends_is_named_and_by_policy_ended(
    make_node: MakeNode, programs: Path, kernels: Path, policy: str
) -> None:
    node = make_node(GPU)
    node.start_agent("--revoke-deadline", "500ms", "--overdue", policy)
    holder = begin(node, programs, kernels, "never", LARGE, 0)
    waiter = node.run(
        [programs / "dependent", "plain", str(LARGE), "0.2"], env={"KERNELS": str(kernels)}
    )
    if policy == "kill":
        assert finish(waiter)[0] == 0
        assert holder.wait(60) == -signal.SIGKILL
        return
    state = {"report": "overdue", "fence": "fenced"}[policy]
    node.until(lambda: row(node, holder).get("state") == state, "it is named")
    small = begin(node, programs, kernels, "plain", SMALL, 0.2)
    assert finish(small)[0] == 0, "what fits beside it goes on"
    reason = f"waits for dependent (pid {holder.pid})"
    node.until(lambda: reason in row(node, waiter).get("reason", ""), "the waiter is told why")
    assert holder.poll() is None, "and is not ended"
    holder.kill()
    assert finish(waiter)[0] == 0
