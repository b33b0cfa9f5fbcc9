"""`moiety top` without a terminal: one look as plain text."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.model import errors
from tests.support.foreground import AgentProcess, uuid_of
from tests.support.wire_fakes import Shim

GIB = 1 << 30


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ["--linger", "0", "--arena", "64GiB"]) as running:
        yield running


def top(agent: AgentProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "moiety", "top", *arguments],
        env=agent.environment | {"PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize("arguments", [(), ("--once",)])
def test_one_look_is_printed(agent: AgentProcess, arguments: tuple[str, ...]) -> None:
    shim = Shim(agent.workload())
    shim.hello("train")
    shim.attach(uuid_of(0))
    shim.allocated(0, 8 * GIB)
    done = top(agent, *arguments)
    shim.close()
    assert (done.returncode, done.stderr) == (0, "")
    head, gpu, titles, tenant = done.stdout.splitlines()
    assert head.startswith("agent ")
    assert "[11111111" in gpu
    assert gpu.rstrip().endswith("GiB")
    assert titles.startswith("TENANT")
    assert tenant.split()[2] == "train"
    assert tenant.split()[4:6] == ["0", "holding"]


def test_without_an_agent_it_says_so(agent: AgentProcess) -> None:
    agent.kill()
    agent.wait()
    done = top(agent)
    assert done.returncode == 0
    assert done.stdout == "no agent is running, so no GPU is shared\n"


def test_it_needs_textual_only_for_the_screen(agent: AgentProcess) -> None:
    code = "import sys, moiety.cli.top; sys.exit('textual' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=agent.environment).returncode == 0


def test_an_interval_nobody_can_read_is_refused(agent: AgentProcess) -> None:
    assert top(agent, "--interval", "1ms").returncode == errors.BadArgument.exit_code
