"""Who uses a simulated GPU past the agent is found, named, warned and, if so configured, ended."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.agent.control.rows import ProcessRow
from moiety.agent.core.journal_events import Event
from moiety.agent.system.paths import Directory
from moiety.devices.native import simgpu_dir
from moiety.model import errors
from moiety.testing.node import Lines, Node, finish, kill
from moiety.testing.waiting import DEADLINE_S

MIB = 1 << 20
SMALL = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
OFTEN = ("--watch-every", "200ms")
MakeNode = Callable[[str], Node]


Answer = TypeVar("Answer", bound=protocol.Answer)


def ask(node: Node, request: protocol.ControlRequest, answer: type[Answer]) -> Answer:
    """As commands do, in this process: tests look often."""
    with Call(Directory(node.directory), DEADLINE_S) as call:
        return call.ask(request, answer)


def told(node: Node, *reasons: str) -> list[Event]:
    found = ask(node, protocol.Events(), protocol.Happened).events
    return [event for event in found if event.reason in reasons]


def seen(node: Node) -> protocol.Watched:
    return ask(node, protocol.WatchRequest(), protocol.Watched)


def rows(node: Node) -> list[ProcessRow]:
    return ask(node, protocol.Ps(), protocol.Processes).rows


Command = Callable[[int], list[object]]


@pytest.fixture
def watched(build: Callable[[str], Path], kernels: Path) -> Command:
    """A program that takes so many MiB of a GPU and then does what it is told."""
    return lambda mebibytes: [build("watched"), mebibytes * MIB, 80 * MIB, kernels]


def ready(process: subprocess.Popen[str]) -> subprocess.Popen[str]:
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(f"{line}\n")
    process.stdin.flush()


def stranger(node: Node, command: Command) -> subprocess.Popen[str]:
    """A program on the same GPU that does not come through moiety."""
    return ready(node.run_alone(command(20)))


def test_who_uses_a_gpu_without_moiety_is_named_and_by_default_let_live(
    make_node: MakeNode, watched: Command
) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN)
    shared = ready(node.run(watched(4), stdin=True))
    process = stranger(node, watched)
    node.until_told("Unregistered")
    (event,) = told(node, "Unregistered")
    assert (event.pid, event.program, event.gpu) == (process.pid, "watched", 0)
    assert "uses GPU 0 without moiety (22 MiB, 0% busy)" in event.message
    assert "user " in event.message
    shown = node.json("watch")
    (row,) = shown["strangers"]
    assert (row["pid"], row["used_bytes"]) == (process.pid, 22 * MIB)
    assert [(o["pid"], o["offence"], o["next"]) for o in shown["offences"]] == [
        (process.pid, "unregistered", "")
    ]
    assert f"watched (pid {process.pid}" in node.cli("status").stdout
    assert "uses GPU 0 without moiety" in node.cli("status").stdout
    assert process.poll() is None
    kill(process)
    node.until_told("OffenceOver")
    assert seen(node).strangers == []
    assert shared.poll() is None


def test_a_ladder_ends_it_and_nobody_else(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--watch-unregistered", "warn,event,400ms,kill")
    shared = ready(node.run(watched(4), stdin=True))
    process = stranger(node, watched)
    assert process.wait(DEADLINE_S) == -9
    found = told(node, "Unregistered", "Killed")
    assert [event.reason for event in found] == ["Unregistered", "Killed"]
    assert "it is ended in 400 ms unless that stops" in found[0].message
    assert found[1].pid == process.pid
    assert found[1].at_s - found[0].at_s >= 0.4
    assert shared.poll() is None


def test_a_dry_run_only_says_so(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--watch-unregistered", "event,0s,kill", "--watch-dry-run")
    process = stranger(node, watched)
    node.until_told("WouldAct", count=2)
    first, second = told(node, "WouldAct")
    assert first.message.startswith("would record an event: uses GPU 0 without moiety")
    assert second.message.startswith("would end it: uses GPU 0 without moiety")
    assert told(node, "Killed", "Unregistered") == []
    assert process.poll() is None


def test_a_policy_can_be_tried_before_it_is_set(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN)
    process = stranger(node, watched)
    node.until(lambda: bool(seen(node).strangers), "it is seen")
    tried = ("watch", "--dry-run", "--unregistered", "warn,1min,kill")
    planned = node.json(*tried)["planned"]
    assert [(p["after_s"], p["deed"]) for p in planned] == [(0.0, "warn"), (60.0, "kill")]
    assert f"(pid {process.pid}, " in planned[1]["who"]
    assert "1 min  kill" in node.cli(*tried).stdout
    assert node.json(*tried, "--exempt", "command:watch*")["planned"] == []
    assert seen(node).policy["unregistered"] == "warn,event"
    refused = node.cli("watch", "--dry-run", "--unregistered", "shoot")
    assert refused.returncode == errors.BadArgument.exit_code
    assert "'shoot' is no step" in refused.stderr
    assert node.cli("watch", "--unregistered", "warn").returncode == errors.BadArgument.exit_code


@pytest.mark.parametrize("exempt", ["command:watch*", "gpu:0"])
def test_who_is_let_off_is_seen_and_left_alone(
    make_node: MakeNode, watched: Command, exempt: str
) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--watch-unregistered", "0s,kill", "--watch-exempt", exempt)
    process = stranger(node, watched)
    node.until(lambda: bool(seen(node).strangers), "it is seen")
    (row,) = seen(node).strangers
    assert row.exempt == exempt
    node.until(lambda: seen(node).strangers[0].since_s > row.since_s + 1, "some looks pass")
    assert process.poll() is None
    assert seen(node).offences == []


def test_memory_above_the_limit_is_found_and_the_program_is_told(
    make_node: MakeNode, watched: Command
) -> None:
    node = make_node("A100-80:memory=192MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*OFTEN, "--watch-limit", "warn,event,1h,kill")
    process = ready(node.run(watched(4), "--memory-limit", "16MiB", stdin=True))
    assert told(node, "OverLimit") == []
    tell(process, "memory")
    node.until_told("OverLimit")
    (event,) = told(node, "OverLimit")
    assert event.pid == process.pid
    assert event.tenant is not None
    assert "has 86 MiB on GPU 0 as the driver counts; it may have 16 MiB" in event.message
    line = Lines(process.stderr).next()
    assert "moiety: this program has 86 MiB on GPU 0" in line
    assert "it is ended in 1 h unless that stops" in line
    tell(process, "end")
    assert finish(process)[0] == 0


def test_work_without_a_lease_is_found(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--idle-free", "1ms", "--quantum", "100ms")
    process = ready(node.run(watched(20), stdin=True))
    node.until(lambda: all(r.state == "holding" for r in rows(node)), "it holds")
    latency = ready(node.run(watched(20), "--latency", stdin=True))  # has the GPU to itself
    node.until(
        lambda: {r.state for r in rows(node) if r.pid == process.pid} <= {"idle"},
        "the lease was given back",
    )
    tell(process, "busy")
    node.until_told("WithoutLease")
    (event,) = told(node, "WithoutLease")
    assert event.pid == process.pid
    assert "works on GPU 0 without a lease" in event.message
    assert latency.poll() is None
    tell(process, "end")
    assert finish(process)[0] == 0


def test_an_idle_program_is_named_with_what_it_holds(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--watch-idle", "1s")
    process = ready(node.run(watched(20), "--memory", "10MiB", stdin=True))
    node.until_told("Idle")
    (event,) = told(node, "Idle")
    assert event.pid == process.pid
    assert "it holds 20 MiB of GPU 0" in event.message
    assert "10 MiB reserved for it" in event.message
    (row,) = node.json("ps", "--idle", "1s")
    assert row["pid"] == process.pid
    assert node.json("ps", "--idle") == []
    assert "20 MiB" in node.cli("ps", "--idle", "1s").stdout
    tell(process, "work")
    assert process.stdout is not None
    assert process.stdout.readline() == "worked\n"
    node.until_told("Idle", count=2)


def test_who_keeps_others_waiting_is_named_with_figures(
    make_node: MakeNode, watched: Command
) -> None:
    node = make_node("A100-80:memory=96MiB,link=8GB/s,residue=2MiB")
    node.start_agent(*OFTEN, "--watch-slow", "500ms", "--revoke-deadline", "1h")
    holder = ready(node.run(watched(60), stdin=True))
    holder.send_signal(signal.SIGSTOP)
    other = node.run(watched(60), stdin=True)
    node.until_told("SlowNeighbour")
    (event,) = told(node, "SlowNeighbour")
    assert event.pid == holder.pid
    assert event.message.startswith("cost 1 other ")
    assert "of waiting within the last minute: it gave the GPU back late once" in event.message
    row = next(row for row in rows(node) if row.pid == holder.pid)
    assert row.cost_s >= 0.5
    assert f"watched (pid {holder.pid}) cost 1 other " in node.cli("status").stdout
    holder.send_signal(signal.SIGCONT)
    ready(other)


def test_a_stranger_that_takes_gpu_time_from_those_who_share_is_named(
    make_node: MakeNode, watched: Command
) -> None:
    node = make_node(SMALL)
    node.start_agent(*OFTEN, "--watch-slow", "500ms")
    ready(node.run(watched(4), stdin=True))
    process = node.start(
        [str(part) for part in watched(4)],
        env={"LD_LIBRARY_PATH": str(simgpu_dir())},
        stdin=True,
    )
    ready(process)
    assert told(node, "SlowNeighbour") == []
    tell(process, "busy")
    node.until_told("SlowNeighbour")
    (event,) = told(node, "SlowNeighbour")
    assert (event.pid, event.gpu) == (process.pid, 0)
    assert "of GPU 0's time within the last minute, beside programs that share it" in (
        event.message
    )


def test_metrics_count_strangers_and_offences(make_node: MakeNode, watched: Command) -> None:
    node = make_node(SMALL)
    path = node.directory / "metrics.sock"
    node.start_agent(*OFTEN, "--metrics", str(path))
    stranger(node, watched)
    node.until(lambda: bool(seen(node).offences), "it is seen")
    found = scraped(path)
    uuid = node.json("status")["gpus"][0]["uuid"]
    assert found[f'moiety_gpu_unregistered_processes{{gpu="0",uuid="{uuid}"}}'] == 1
    assert found[f'moiety_gpu_unregistered_bytes{{gpu="0",uuid="{uuid}"}}'] == 22 * MIB
    assert found['moiety_watch_offences{offence="unregistered"}'] == 1
    assert found['moiety_watch_offences{offence="lease"}'] == 0
    assert found['moiety_events_total{reason="Unregistered",severity="warning"}'] == 1


def scraped(path: Path) -> dict[str, float]:
    """What Prometheus would read, by name and labels."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(60)
        connection.connect(str(path))
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        parts = []
        while part := connection.recv(1 << 16):
            parts.append(part)
    lines = b"".join(parts).decode().partition("\r\n\r\n")[2].splitlines()
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {name: float(value) for name, value in pairs}
