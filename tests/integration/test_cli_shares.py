"""Shares on the command line: asked for, shown, changed live, and refused with a sentence."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moiety.agent.control import protocol
from moiety.model import errors
from moiety.testing.waiting import DEADLINE_S, until
from moiety.wire.layout import Refusal, Type
from moiety.wire.messages import AmountMessage
from tests.support.foreground import AgentProcess, uuid_of
from tests.support.wire_fakes import Shim

GIB = 1 << 30
SHARER = """
import os, sys
from tests.support.wire_fakes import Shim
from tests.support.foreground import uuid_of
shim = Shim(os.environ["MOIETY_SOCKET"])
shim.hello("train.py")
shim.attach(uuid_of(0))
if size := int(sys.argv[1]):
    shim.allocated(0, size)
print("up", flush=True)
sys.stdin.read()
"""
Cli = Callable[..., "subprocess.CompletedProcess[str]"]
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def agent(tmp_path: Path, pretended: Path) -> Iterator[AgentProcess]:
    with AgentProcess(tmp_path / "a", pretended, ["--linger", "0"]) as running:
        yield running


@pytest.fixture
def cli(agent: AgentProcess) -> Cli:
    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "moiety", *arguments],
            env=agent.environment | {"NO_COLOR": "1"} | environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )

    return run


@pytest.fixture
def start(agent: AgentProcess) -> Iterator[Start]:
    made = []

    def run(*options: str, size: int = 3 * GIB) -> subprocess.Popen[str]:
        program = [sys.executable, "-c", SHARER, str(size)]
        running = subprocess.Popen(
            [sys.executable, "-m", "moiety", "run", *options, "--", *program],
            env=agent.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        made.append(running)
        assert running.stdout
        assert running.stdout.readline() == "up\n"
        return running

    yield run
    for running in made:
        running.communicate("")


def rows(cli: Cli) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("ps", "-o", "json").stdout)
    return found


def test_what_was_asked_and_received_is_shown(cli: Cli, start: Start) -> None:
    start("--gpu", "0.3", "--gpu-limit", "0.5", "--memory", "1GiB", "--priority", "high")
    (row,) = rows(cli)
    assert row["share"]["gpu"] == 0.3
    assert row["share"]["gpu_limit"] == 0.5
    assert row["share"]["memory_bytes"] == GIB
    assert row["priority"] == "high"
    assert 0 < row["received"] <= 1
    assert row["received_s"] > 0
    assert {"evicted_bytes", "handoffs", "handoffs_s", "waited_s"} <= row.keys()

    titles, line = cli("ps").stdout.splitlines()
    assert {"SHARE", "RECEIVED", "RESIDENT", "EVICTED", "HAND-OFFS", "WAITED"} <= {*titles.split()}
    assert titles.index("SHARE") + len("SHARE") == line.index("30 %, <= 50 %") + 13
    titles, line = cli("ps", "-o", "wide").stdout.splitlines()
    for title in ("CLASS", "KEPT", "HANDING-OFF", "GPU-TIME", "WORKLOAD"):
        assert title in titles
    assert "high" in line
    assert titles.split()[-1] == "REASON"


def test_the_most_that_was_there_is_kept(cli: Cli, start: Start) -> None:
    start("--memory-limit", "12GiB", size=6 * GIB)
    assert rows(cli)[0]["peak_bytes"] == 6 * GIB
    assert "PEAK" in cli("ps", "-o", "wide").stdout


def test_a_limit_holds_for_one_alone(cli: Cli, start: Start) -> None:
    start("--gpu-limit", "0.2")
    until(lambda: rows(cli)[0]["paused"], "a pause")
    assert rows(cli)[0]["state"] != "holding"


def test_everything_is_changed_live(cli: Cli, start: Start) -> None:
    running = start("--name", "train")
    tenant = str(rows(cli)[0]["tenant"])
    for whom, options, says in (
        (tenant, ["--gpu", "0.3"], "30 % of the GPU, priority normal"),
        (str(running.pid), ["--gpu-limit", "60%"], "30 % of the GPU, at most 60 %"),
        ("train", ["--memory", "2GiB", "--memory-limit", "4GiB"], "2 GiB kept, at most 4 GiB"),
        ("train", ["--priority", "low"], "priority low"),
        ("train", ["--latency"], "latency"),
        ("train", ["--quantum", "200ms"], "turns of 200 ms, latency"),
        ("train", ["--quantum", "none"], "at most 4 GiB, latency"),
        ("train", ["--no-latency", "--gpu", "none"], "at most 60 %, 2 GiB kept"),
        ("train", ["--gpu-limit", "none", "--memory", "none"], ": at most 4 GiB, priority low"),
    ):
        found = cli("set", whom, *options)
        assert (found.returncode, found.stderr) == (0, "")
        assert f"train (pid {running.pid}): " in found.stdout
        assert says in found.stdout
    (row,) = rows(cli)
    assert row["share"]["gpu"] is None
    assert row["limit_bytes"] == 4 * GIB


def test_the_settings_of_the_agent_are_changed_live(cli: Cli, agent: AgentProcess) -> None:
    found = cli("set", "--agent", "--turn-min", "250ms", "--turn-factor", "4", "--overdue", "kill")
    assert (found.returncode, found.stderr) == (0, "")
    assert "agent.turn-min is 250ms from now on\n" in found.stdout
    assert "250ms" in agent.directory.log.read_text()
    shown = cli("config", "show", "--origin", "--changed", "agent").stdout
    assert ["agent.turn-factor", "4", "moiety", "set", "--agent"] in map(
        str.split, shown.splitlines()
    )
    assert (
        cli("set", "--agent", "--defaults").stdout == "the agent forgot what was changed before\n"
    )
    assert "set --agent" not in cli("config", "show", "--origin").stdout


def started(agent: AgentProcess, *arguments: str) -> dict[str, Any]:
    """The settings of an agent with these arguments that follows another."""
    agent.arguments = ["--linger", "0", *arguments]
    agent.start()
    with agent.call() as call:
        found: dict[str, Any] = call.ask(protocol.Status(), protocol.NodeStatus).settings
    return found


def test_what_was_set_outlives_the_agent(cli: Cli, agent: AgentProcess) -> None:
    cli("set", "--agent", "--turn-min", "250ms", "--quantum", "200ms", "--overdue", "kill")
    cli("set", "--agent", "--turn-factor", "4")
    agent.kill()
    found = started(agent)
    changed = ("turn_min_s", "quantum_s", "turn_factor", "overdue")
    assert [found[name] for name in changed] == [0.25, 0.2, 4, "kill"]

    agent.signal(signal.SIGTERM)
    found = started(agent, "--turn-min", "1s")  # what the command line says is newer
    assert [found[name] for name in changed] == [1, 0.2, 4, "kill"]
    cli("set", "--agent", "--turn-min", "2s")
    agent.kill()
    assert started(agent, "--turn-min", "1s")["turn_min_s"] == 2  # and older than this

    assert cli("set", "--agent", "--defaults").returncode == 0
    assert not agent.directory.settings.exists()
    agent.kill()
    found = started(agent)
    assert [found[name] for name in changed] == [0.1, 0, 9, "report"]


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"settings": {"turn_min_s": 1}}', b"[1]"])
def test_settings_that_are_damaged_are_set_aside(agent: AgentProcess, damaged: bytes) -> None:
    agent.kill()
    agent.directory.settings.write_bytes(damaged)
    assert started(agent)["turn_min_s"] == 0.1
    assert "settings_invalid" in agent.log()
    assert Path(f"{agent.directory.settings}.damaged").read_bytes() == damaged


def test_a_changed_share_outlives_the_agent(agent: AgentProcess, cli: Cli) -> None:
    shim = Shim(agent.workload())
    shim.hello("train.py")
    shim.attach(uuid_of(0))
    shim.allocated(0, 3 * GIB)
    shim.expect(Type.GRANT)
    changes = ["--gpu", "0.3", "--memory-limit", "4GiB", "--priority", "high", "--quantum", "50ms"]
    assert cli("set", "train.py", *changes).returncode == 0
    told = shim.expect(Type.LIMIT)
    assert isinstance(told, AmountMessage)
    assert told.bytes == 4 * GIB
    (before,) = rows(cli)
    agent.kill()
    agent.start()
    shim.resume(holding=True)
    attached = shim.attach(uuid_of(0), allocated=3 * GIB, resident=3 * GIB)
    assert attached.limit_bytes == 4 * GIB
    (after,) = rows(cli)
    assert after["share"] == before["share"]
    assert after["share"]["quantum_s"] == 0.05
    assert after["limit_bytes"] == 4 * GIB
    shim.close()


def test_a_limit_below_what_is_there_holds_for_what_comes(agent: AgentProcess, cli: Cli) -> None:
    shim = Shim(agent.workload())
    shim.hello("train.py")
    shim.attach(uuid_of(0))
    shim.allocated(0, 3 * GIB)
    found = cli("set", "train.py", "--memory-limit", "1GiB")
    assert found.returncode == 0
    assert "2 GiB more than that" in found.stderr
    shim.alloc(0, 1 << 20)
    assert "limit of 1 GiB (3 GiB in use)" in shim.refused(Refusal.LIMIT).text
    assert cli("set", "train.py", "--memory-limit", "none").stderr == ""
    shim.allocated(0, 1 << 20)
    limits = [shim.expect(Type.LIMIT) for _ in range(2)]
    assert [m.bytes >> 30 for m in limits if isinstance(m, AmountMessage)] == [1, 13]
    shim.close()


BAD_SETS: list[tuple[str, list[str], type[errors.MoietyError], str]] = [
    (
        "a program that is not there",
        ["nobody", "--gpu", "0.5"],
        errors.WorkloadUnknown,
        "moiety ps",
    ),
    ("a number that is not there", ["987654", "--gpu", "0.5"], errors.WorkloadUnknown, "'987654'"),
    ("too much", ["train", "--gpu", "1.7"], errors.InvalidFraction, "more than a whole GPU"),
    ("nothing", ["train", "--gpu", "0"], errors.InvalidFraction, "is nothing"),
    (
        "a limit below the request",
        ["train", "--gpu-limit", "0.2"],
        errors.RequestAboveLimit,
        "at most 20 %",
    ),
    (
        "memory above the limit",
        ["train", "--memory-limit", "1GiB"],
        errors.MemoryAboveLimit,
        "at most 1 GiB",
    ),
    (
        "a limit below anything",
        ["train", "--memory-limit", "1"],
        errors.MemoryAboveLimit,
        "at most 1 B",
    ),
    (
        "a turn that is too short",
        ["train", "--quantum", "1us"],
        errors.InvalidDuration,
        "1 ms to 1 h",
    ),
    (
        "a turn that is no time",
        ["train", "--quantum", "0"],
        errors.InvalidDuration,
        "no time at all",
    ),
    ("turns that are too long", ["--agent", "--quantum", "2h"], errors.BadArgument, "1 ms to 1 h"),
    (
        "a limit above any GPU",
        ["train", "--memory-limit", "1TiB"],
        errors.LimitAboveCapacity,
        "13.75 GiB",
    ),
    (
        "what others were promised",
        ["train", "--gpu", "0.8"],
        errors.ShareTaken,
        "--gpu 0.7 or less",
    ),
    (
        "memory that is not there",
        ["train", "--memory", "14GiB"],
        errors.MemoryAboveGpu,
        "any GPU here can give, which is 13.75 GiB",
    ),
    (
        "a class that is none",
        ["train", "--priority", "urgent"],
        errors.InvalidPriority,
        "low, normal, high",
    ),
    ("several of a name", ["train.py", "--gpu", "0.1"], errors.WorkloadAmbiguous, "3 programs"),
    ("no change", ["train"], errors.BadArgument, "--gpu"),
    ("nobody", ["--gpu", "0.1"], errors.BadArgument, "--agent"),
    ("forgetting for one", ["train", "--defaults"], errors.BadArgument, "--gpu"),
    ("both", ["train", "--agent", "--turn-min", "1s"], errors.BadArgument, "--agent"),
    ("a setting of the agent", ["train", "--turn-min", "1s"], errors.BadArgument, "--gpu"),
    ("a share of the agent", ["--agent", "--gpu", "0.1"], errors.BadArgument, "--agent takes"),
    ("no setting", ["--agent"], errors.BadArgument, "--turn-min"),
    ("a time that is none", ["--agent", "--turn-min", "soon"], errors.BadArgument, "'soon'"),
]


def test_bad_changes_are_refused_and_disturb_nobody(cli: Cli, start: Start) -> None:
    start("--name", "train", "--gpu", "0.3", "--memory", "2GiB")
    for options in (["--gpu", "0.2"], ["--gpu", "0.1"], []):
        start(*options, size=0)
    before = {row["pid"]: (row["share"], row["limit_bytes"]) for row in rows(cli)}
    for what, arguments, error, says in BAD_SETS:
        found = cli("set", *arguments, MOIETY_ERRORS="json")
        told = json.loads(found.stderr)
        assert (found.returncode, told["error"]) == (error.exit_code, error.__name__), (what, told)
        assert says in told["what"] + told["try"], what
        assert told["try"], what
        assert found.stdout == ""
    for options, says in (
        (["--gpu", "0.5"], "--gpu 0.4 or less"),
        (["--memory", "12GiB"], "--memory"),
    ):
        found = cli("run", *options, "--", "true")
        assert found.returncode == errors.ShareTaken.exit_code
        assert says in found.stderr
    found = cli("run", "--memory-limit", "1", "--", "true")
    assert found.returncode == errors.LimitTooSmall.exit_code
    assert "--memory-limit 2MiB or more" in found.stderr
    found = cli("run", "--gpu", "0", "--", "true")
    assert found.returncode == errors.InvalidFraction.exit_code
    found = cli("run", "--quantum", "1us", "--", "true")
    assert found.returncode == errors.InvalidDuration.exit_code
    assert "Traceback" not in found.stderr
    assert {row["pid"]: (row["share"], row["limit_bytes"]) for row in rows(cli)} == before


def test_a_program_that_uses_no_gpu_yet_has_its_promise(cli: Cli, agent: AgentProcess) -> None:
    command = [sys.executable, "-m", "moiety", "run", "--gpu", "0.8", "--", "cat"]
    waiting = subprocess.Popen(
        command, env=agent.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    until(lambda: agent.status().workloads, "its promise")
    found = cli("run", "--gpu", "0.5", "--", "true")
    assert found.returncode == errors.ShareTaken.exit_code
    assert "--gpu 0.2 or less" in found.stderr
    assert cli("set", str(waiting.pid), "--gpu", "0.5").returncode == 0
    assert cli("run", "--gpu", "0.5", "--", "true").returncode == 0
    waiting.communicate("")


def test_memory_is_kept_for_a_program_until_it_ends(
    cli: Cli, start: Start, agent: AgentProcess
) -> None:
    """It has called no CUDA yet; what is kept for it, others do not get."""
    other = start(size=0)
    status = json.loads(cli("status", "-o", "json").stdout)
    capacity = int(status["gpus"][0]["capacity_bytes"])
    command = [sys.executable, "-m", "moiety", "run", "--memory", "2GiB", "--", "cat"]
    waiting = subprocess.Popen(command, env=agent.environment, stdin=subprocess.PIPE, text=True)
    until(lambda: agent.status().workloads == 2, "its promise")
    program = [sys.executable, "-c", SHARER, str(capacity - GIB)]
    run = [sys.executable, "-m", "moiety", "run", "--", *program]
    refused = subprocess.run(run, env=agent.environment, capture_output=True, text=True, input="")
    assert "2 GiB of them are kept for programs that will come" in refused.stderr
    waiting.communicate("")
    until(lambda: agent.status().workloads == 1, "its end")
    done = subprocess.run(run, env=agent.environment, capture_output=True, text=True, input="")
    assert done.stdout == "up\n", done.stderr
    assert other.poll() is None


def test_without_an_agent_there_is_nothing_to_set(cli: Cli, agent: AgentProcess) -> None:
    agent.kill()
    assert cli("set", "1", "--gpu", "0.5").returncode == errors.NoAgent.exit_code
