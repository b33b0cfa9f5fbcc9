"""`moiety run --wait`: a program begins once a GPU has room, in the order of the commands."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moiety.testing.node import Lines, Node, finish, kill

MakeNode = Callable[[str], Node]
CARDS = "2xA100-80:memory=96MiB"
Process = subprocess.Popen[str]


def begun(node: Node, *options: str) -> Process:
    """A program that has its GPUs, until its input ends."""
    program = node.run(["cat"], "--gpu", "0.6", *options, stdin=True)
    assert "moiety: it gets GPU" in Lines(program.stderr).next()
    return program


def waits(node: Node, *options: str) -> tuple[Process, str]:
    """A command that waits, and what it says."""
    program = node.run(["echo", "began"], "--gpu", "0.6", "--wait", *options)
    return program, Lines(program.stderr).next()


def end(program: Process) -> None:
    """A program reads its input to the end."""
    assert program.stdin
    program.stdin.close()
    program.wait()


def queue(node: Node) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.json("status")["queue"]
    return found


def test_commands_wait_their_turn_and_leave_when_they_end(make_node: MakeNode) -> None:
    node = make_node(CARDS)
    node.start_agent()
    running = [begun(node), begun(node)]
    first, said = waits(node, "--gpus", "2", "--name", "pair")
    assert "no GPU has room yet (place 1 of 1, Ctrl-C to give up): no GPU can keep that" in said
    second, said = waits(node)
    assert "(place 2 of 2" in said
    third, _ = waits(node)
    assert [row["place"] for row in queue(node)] == [1, 2, 3]
    shown = node.cli("ps").stdout
    assert f"waits for 2 GPUs, place 1: pair (pid {first.pid}" in " ".join(shown.split())
    assert "waits for 1 GPU, place 2" in " ".join(node.cli("status").stdout.split())

    busy = node.cli("agent", "stop")
    assert (busy.returncode, "pair (waits)" in busy.stderr) == (75, True), busy.stderr

    refused = node.cli("run", "--gpu", "0.3", "--", "true")
    assert refused.returncode == 0, "those who wait would still have room beside it"
    refused = node.cli("run", "--gpu", "0.41", "--", "true")
    assert (refused.returncode, "try: --wait waits for room; " in refused.stderr) == (75, True)

    third.send_signal(signal.SIGINT)
    assert finish(third)[0] == 130
    node.until(lambda: len(queue(node)) == 2, "one has left")
    end(running[0])
    node.until(lambda: len(queue(node)) == 2, "a GPU for one is none for both")
    kill(first)
    code, out, err = finish(second)
    assert (code, out) == (0, "began\n"), err
    assert "moiety: it gets GPU" in err
    assert queue(node) == []
    end(running[1])


def test_a_program_that_has_not_started_moves_by_itself(make_node: MakeNode) -> None:
    node = make_node(CARDS)
    node.start_agent()
    running = {}
    for name in ("a", "b", "c"):
        running[name] = node.run(["cat"], "--name", name, stdin=True)
        assert "moiety: it gets GPU" in Lines(running[name].stderr).next()

    def on() -> list[set[str]]:
        return [{user["program"] for user in gpu["users"]} for gpu in node.json("gpu", "ls")]

    (alone,) = next(names for names in on() if len(names) == 1)
    at = on().index({alone})
    end(running.pop(alone))
    (event,) = node.until_told("GpuMoved")
    assert event.gpu == at
    assert sorted(map(len, on())) == [1, 1]
    for program in running.values():
        end(program)


def test_a_command_waits_for_the_agent_that_follows_too(make_node: MakeNode) -> None:
    node = make_node("A100-80:memory=96MiB")
    agent = node.start_agent()
    running = node.run(["cat"], "--gpu", "0.6", stdin=True)
    node.until(lambda: node.json("gpu", "ls")[0]["promised_gpu"] == 0.6, "it has its share")
    command, _ = waits(node)
    kill(agent)
    node.start_agent()
    node.until(lambda: len(queue(node)) == 1, "it came back")
    end(running)
    code, out, err = finish(command)
    assert (code, out) == (0, "began\n"), err


def test_what_never_fits_is_refused_at_once(make_node: MakeNode) -> None:
    node = make_node(CARDS)
    node.start_agent()
    refused = node.cli("run", "--wait", "--memory", "2GiB", "--", "true")
    assert (refused.returncode, "more than any GPU here" in refused.stderr) == (64, True)
    assert "--wait" not in refused.stderr
    refused = node.cli("run", "--wait", "--gpus", "3", "--", "true")
    assert refused.returncode == 64


def test_a_share_for_containers_counts_in_the_order_as_a_program_does(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node("A100-80:memory=96MiB")
    node.start_agent()
    running = node.run(["cat"], "--gpu", "0.3", "--name", "old", stdin=True)
    node.until(lambda: node.json("gpu", "ls")[0]["promised_gpu"] == 0.3, "it has its share")
    command = node.run(["echo", "began"], "--gpu", "0.8", "--wait")
    assert "no GPU has room yet" in Lines(command.stderr).next()

    def share(name: str, part: str) -> subprocess.CompletedProcess[str]:
        folder = str(tmp_path / name)
        return node.cli("container", "spec", "--name", name, "--output", folder, "--gpu", part)

    done = share("first", "0.15")
    assert done.returncode == 0, done.stderr
    refused = share("second", "0.1")
    assert refused.returncode == 75
    assert "waited for longer" in refused.stderr
    assert "--gpu 0.05" in refused.stderr
    refused = node.cli("set", "first", "--gpu", "0.25")
    assert (refused.returncode, "waited for longer" in refused.stderr) == (75, True)
    assert node.cli("set", "first", "--gpu", "0.2").returncode == 0
    refused = node.cli("run", "--gpu", "0.05", "--", "true")
    assert (refused.returncode, "waited for longer" in refused.stderr) == (75, True)

    end(running)
    code, out, err = finish(command)
    assert (code, out) == (0, "began\n"), err
