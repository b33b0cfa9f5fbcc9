"""What a program calls that the tables do not know: it passes the gate, pins, and is named."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.testing.node import Node
from moiety.wire.layout import Type
from moiety.wire.message import Message
from moiety.wire.messages import PinnedMessage, UnknownMessage
from tests.support.native import compile_c
from tests.support.wire_fakes import FakeAgent

ROOT = Path(__file__).resolve().parents[2]
GPU = "A100-80:memory=64MiB"


@pytest.fixture(scope="module")
def program(native: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "native" / "programs" / "unknown_calls.c"
    driver = str(native / "simgpu" / "libcuda.so.1")
    flags = [f"-I{ROOT / 'native'}", driver, "-ldl", "-lpthread"]
    return compile_c([source], tmp_path_factory.mktemp("unknown") / "unknown_calls", flags=flags)


class Play:
    """The program, and an agent that the test plays."""

    def __init__(self, agent: FakeAgent, process: subprocess.Popen[str]) -> None:
        self.agent = agent
        self.process = process

    def hears(self, word: str) -> None:
        """It says this word next."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == f"{word}\n", (line, self.process.stderr and self.process.stderr.read())

    def go_on(self) -> None:
        """Let it pass the point at which it waits."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def said(self, *kinds: type[Message]) -> list[Message]:
        """What it told the agent of such a kind, up to now."""
        while self.agent.hear(0.05) is not None:
            pass
        return [message for message in self.agent.heard if isinstance(message, kinds)]


@pytest.fixture
def play(
    make_node: Callable[[str], Node], program: Path, native: Path
) -> Iterator[Callable[..., Play]]:
    agents: list[FakeAgent] = []

    def make(*arguments: str) -> Play:
        node = make_node(GPU)
        path = node.directory / "played.sock"
        agents.append(FakeAgent(path))
        environment = {
            "LD_LIBRARY_PATH": str(native / "simgpu"),
            "LD_PRELOAD": str(native / "libmoiety.so"),
            "MOIETY_SOCKET": str(path),
        }
        process = node.start([str(program), *arguments], stdin=True, env=environment)
        agents[-1].accept()
        agents[-1].until(Type.CONTEXT)
        return Play(agents[-1], process)

    yield make
    for agent in agents:
        agent.__exit__(None, None, None)


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "under the shim"])
def test_arguments_results_and_stacks_are_the_drivers(
    shared: bool, make_node: Callable[[str], Node], program: Path, native: Path
) -> None:
    environment = {"LD_LIBRARY_PATH": str(native / "simgpu")}
    if shared:
        environment["LD_PRELOAD"] = str(native / "libmoiety.so")
    process = make_node(GPU).start([str(program)], env=environment)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "ok\n"), error


def test_the_first_call_waits_for_the_lease_and_pins_before_it_goes_on(
    play: Callable[..., Play],
) -> None:
    it = play("wait")
    it.hears("ready")
    it.agent.revoke()
    it.go_on()
    it.agent.until(Type.LEASE_REQUEST)
    assert it.said(PinnedMessage, UnknownMessage) == []
    it.agent.grant()
    it.hears("done")
    told = it.said(PinnedMessage, UnknownMessage)
    assert UnknownMessage(calls=1, name="cuSimgpuSum") in told
    assert [m.reason for m in told if isinstance(m, PinnedMessage)] == ["cuSimgpuSum"]


def test_a_lookup_alone_means_nothing(play: Callable[..., Play]) -> None:
    it = play("lookup")
    it.hears("ready")
    it.agent.revoke()
    it.agent.grant()
    assert it.said(PinnedMessage, UnknownMessage) == []


def test_an_export_table_that_nobody_knows_pins_and_is_named(play: Callable[..., Play]) -> None:
    it = play("table")
    it.hears("ready")
    assert it.said(PinnedMessage, UnknownMessage) == []
    it.go_on()
    it.hears("done")
    name = "export table 6d6f696574790001020304050607ffff"
    told = it.said(PinnedMessage, UnknownMessage)
    assert UnknownMessage(calls=1, name=name) in told
    assert [m.reason for m in told if isinstance(m, PinnedMessage)] == [name]


def test_ps_and_doctor_name_them(make_node: Callable[[str], Node], program: Path) -> None:
    node = make_node(GPU)
    node.start_agent()
    process = node.run([program, "wait"], stdin=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "ready\n"
    assert "every call" in node.cli("doctor").stdout
    process.stdin.write("\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"
    node.until(lambda: bool(node.json("ps")[0]["unknown"]), "the agent has heard of it")
    rows = json.loads(node.cli("ps", "-o", "json").stdout)
    assert rows[0]["unknown"] == {"cuSimgpuSum": 1}
    assert (rows[0]["unknown_calls"], rows[0]["pinned"]) == (1, "cuSimgpuSum")
    assert "cuSimgpuSum (1 call)" in node.cli("ps", "-o", "wide").stdout
    said = node.cli("doctor").stdout
    assert f"unknown_calls (pid {rows[0]['pid']}) used unknown functions" in said
    assert "cuSimgpuSum" in said
    assert "proof that it is NVIDIA's" in said
