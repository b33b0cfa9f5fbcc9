"""`moiety agent restart`: another agent in the place of one that runs, while programs work."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.restart import arguments_of, restart
from moiety.agent.system.file_lock import is_held
from moiety.agent.system.paths import Directory
from moiety.model import errors
from moiety.testing.node import Node, finish
from moiety.wire.layout import VERSION
from tests.support.versions import other_version

MakeNode = Callable[[str], Node]
GPU = "A100-80:memory=320MiB"
OPTIONS = ["--turn-min", "5ms", "--idle-exit", "0"]
MIB = 1 << 20
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture
def node(make_node: MakeNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """A node whose agent runs in the background; it is gone after the test."""
    node = make_node(GPU)
    for name, value in node.env.items():
        if name.startswith("MOIETY_"):
            monkeypatch.setenv(name, value)
    directory = Directory(node.directory)
    yield node

    def gone() -> bool:
        with contextlib.suppress(errors.AgentError), Call(directory) as call:
            call.ask(protocol.Stop(force=True), protocol.Done)
        return not is_held(directory.supervisor_lock)

    node.until(gone, "the end of both")


def start(node: Node, path: str | None = None) -> None:
    """An agent in the background, of this version or of that in a PYTHONPATH."""
    env = {**node.env, **({"PYTHONPATH": path} if path else {})}
    command = [sys.executable, "-m", "moiety", "agent", "start", *OPTIONS]
    subprocess.run(command, env=env, check=True, timeout=60, capture_output=True)


def turns(node: Node) -> int:
    """How often programs have given the GPU away."""
    return sum(row["handoffs"] for row in node.json("ps"))


def at_work(node: Node, programs: Path, kernels: Path, count: int) -> list[subprocess.Popen[str]]:
    """Programs that do not fit beside each other, once they have taken turns."""
    command = [programs / "worker", kernels, 60 * MIB, 1000000, 3, 0, 7, 50]
    running = [node.run(command) for _ in range(count)]
    node.until(lambda: len(node.json("ps")) == count, "all are there")
    node.until(lambda: turns(node) > count, "they take turns")
    return running


def must_be_right(running: list[subprocess.Popen[str]]) -> None:
    for each in running:
        each.send_signal(signal.SIGUSR1)
    for each in running:
        code, out, said = finish(each)
        assert (code, out) == (0, "0 words wrong\n"), said


@pytest.mark.parametrize("count", [5, pytest.param(20, marks=pytest.mark.soak)])
def test_tenants_at_work_lose_no_byte(
    node: Node, programs: Path, kernels: Path, tmp_path: Path, count: int
) -> None:
    path = other_version(tmp_path, "0.1.9", protocol=VERSION)
    start(node, path)
    running = at_work(node, programs, kernels, count)
    done = json.loads(node.cli("agent", "restart", "-o", "json").stdout)
    assert done["before"] == "0.1.9"
    assert done["version"] != "0.1.9"
    before = turns(node)
    node.until(lambda: turns(node) > before + count, "they go on taking turns")
    assert len(node.json("ps")) == count
    must_be_right(running)


def test_options_and_what_was_set_stay(node: Node) -> None:
    start(node)
    assert node.cli("set", "--agent", "--turn-min", "7ms").returncode == 0
    directory = Directory(node.directory)
    first = restart(directory)
    with Call(directory) as call:
        status = call.ask(protocol.Status(), protocol.NodeStatus)
    assert status.pid == first.pid
    assert status.settings["turn_min_s"] == 0.007
    assert sorted(arguments_of(first.pid) or ()) == sorted(OPTIONS)
    assert restart(directory).pid != first.pid


def test_an_agent_that_does_not_understand_the_command_is_replaced_too(
    node: Node, tmp_path: Path
) -> None:
    start(node, other_version(tmp_path, "9.9.9", protocol=VERSION + 2))
    directory = Directory(node.directory)
    with pytest.raises(errors.AgentVersion, match="moiety 9"):
        Call(directory)
    assert restart(directory).before == ""
    Call(directory).close()


def test_an_agent_of_a_service_is_left_to_it(node: Node) -> None:
    agent = node.start_agent()
    with pytest.raises(errors.NotAllowed, match="started by something else"):
        restart(Directory(node.directory))
    assert agent.poll() is None
    agent.terminate()
    agent.wait()


def test_without_an_agent_there_is_nothing_to_restart(node: Node) -> None:
    assert node.cli("agent", "restart").returncode == errors.NoAgent.exit_code
