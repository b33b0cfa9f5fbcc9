"""Real programs and a real agent whose native thread hands leases over."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish

MIB = 1 << 20
GPU = "A100-80:memory=192MiB,link=4GB/s,residue=2MiB"
SHORT_TURNS = ("--turn-min", "5ms")
SHARES = (("--gpu", "0.5"), ("--gpu", "0.2", "--latency"), ())


@pytest.fixture
def node(make_node: Callable[[str], Node]) -> Iterator[Node]:
    with make_node(GPU) as made:
        yield made


def at_work(node: Node, programs: Path, kernels: Path) -> list[subprocess.Popen[str]]:
    """Three programs that verify their memory, and pause: a plain one and two with shares."""
    running = []
    for share in SHARES:
        command = [programs / "worker", kernels, 16 * MIB, 1000000, 3, 0, 7, 50]
        running.append(node.run(command, *share))
    node.until(lambda: len(node.json("ps")) == len(running), "all are there")
    return running


def turns(node: Node) -> int:
    return sum(tenant["handoffs"] for tenant in node.json("ps"))


def must_be_right(running: list[subprocess.Popen[str]]) -> None:
    for each in running:
        each.send_signal(signal.SIGUSR1)
    for each in running:
        code, out, said = finish(each)
        assert (code, out) == (0, "0 words wrong\n"), said


@pytest.mark.parametrize("options", [(), ("--fast-handoff=false",)], ids=["thread", "python"])
def test_no_byte_is_lost_though_the_agent_is_killed_again_and_again(
    node: Node, programs: Path, kernels: Path, options: tuple[str, ...]
) -> None:
    node.start_agent(*SHORT_TURNS, *options)
    running = at_work(node, programs, kernels)
    for _ in range(4):
        before = turns(node)
        node.until(lambda: turns(node) > before + 10, "they take turns")  # noqa: B023
        assert node.agent is not None
        node.agent.kill()
        node.agent.wait()
        node.start_agent(*SHORT_TURNS)
        node.until(lambda: len(node.json("ps")) == len(running), "all are back")
    must_be_right(running)


def test_the_agent_says_how_often_and_starts_no_process(
    node: Node, programs: Path, kernels: Path
) -> None:
    agent = node.start_agent(*SHORT_TURNS)
    running = at_work(node, programs, kernels)
    before = turns(node)
    node.until(lambda: turns(node) > before + 50, "they take turns")
    tasks = Path(f"/proc/{agent.pid}/task")
    assert not any((tasks / each / "children").read_text() for each in os.listdir(tasks))
    must_be_right(running)
    agent.send_signal(signal.SIGTERM)
    agent.wait()
    logs = "".join(path.read_text() for path in node.folder.glob("agent-*.log"))
    logs += "".join(path.read_text() for path in node.directory.rglob("*.log"))
    found = re.findall(r"fired=(\d+)", logs)
    assert found, logs
    assert int(found[-1]) > 0
    assert "armed_in_vain" not in logs


def test_without_the_library_the_agent_says_so(node: Node, tmp_path: Path, native: Path) -> None:
    folder = tmp_path / "native"
    folder.mkdir()
    for each in native.iterdir():
        if each.name != "libmoiety-agent.so":
            (folder / each.name).symlink_to(each)
    node.env["MOIETY_NATIVE"] = str(folder)
    assert node.cli("agent", "start").returncode == 0
    assert node.cli("agent", "stop").returncode == 0
    said = "".join(each.read_text() for each in node.directory.rglob("*.log"))
    assert "fast_handoff_unavailable" in said
    assert "libmoiety-agent.so is not where moiety was installed" in said
