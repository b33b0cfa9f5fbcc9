"""`moiety run --wait` where the agent or the command is killed, or the disk is full."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest

from moiety.testing.node import Lines, Node, finish, kill
from tests.support.small_disk import small_disk

MakeNode = Callable[[str], Node]
Process = subprocess.Popen[str]
CARD = "A100-80:memory=96MiB"


@pytest.fixture
def node(make_node: MakeNode) -> Node:
    return make_node(CARD)


def holds(node: Node, *options: str) -> Process:
    """A program with a share, until its input ends."""
    program = node.run(["cat"], "--gpu", "0.6", *options, stdin=True)
    node.until(lambda: promised(node) == 0.6, "it has its share")
    return program


def waits(node: Node, *command: str) -> Process:
    """A command that waits."""
    program = node.run(command or ["echo", "began"], "--gpu", "0.6", "--wait")
    assert "no GPU has room yet" in Lines(program.stderr).next()
    return program


def end(program: Process) -> None:
    assert program.stdin
    program.stdin.close()
    program.wait()


def promised(node: Node) -> float:
    found: float = node.json("gpu", "ls")[0]["promised_gpu"]
    return found


def queue(node: Node) -> list[int]:
    """The pids of the commands that wait, in order."""
    return [row["pid"] for row in node.json("status")["queue"]]


def stop(program: Process) -> None:
    """The command hears its answer only after SIGCONT."""
    program.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, program.pid, os.WSTOPPED | os.WNOWAIT)


# kill -9


def test_a_command_that_is_killed_as_its_turn_comes_keeps_nothing(node: Node) -> None:
    node.start_agent()
    running = holds(node)
    first, second = waits(node), waits(node)
    stop(first)
    end(running)
    node.until(lambda: queue(node) == [second.pid], "it has its share, and has not heard of it")
    assert promised(node) == 0.6
    kill(first)
    code, out, err = finish(second)
    assert (code, out) == (0, "began\n"), err
    node.until(lambda: promised(node) == 0, "nothing is kept for the dead")
    assert not list(node.directory.glob("workloads/*"))


def test_a_program_begins_whose_agent_was_killed_as_it_answered(node: Node) -> None:
    agent = node.start_agent()
    running = holds(node)
    first = waits(node)
    stop(first)
    end(running)
    node.until(lambda: promised(node) == 0.6 and not queue(node), "it has its share")
    kill(agent)
    node.start_agent()
    second = waits(node)
    assert promised(node) == 0.6, "the next agent knows of it"
    first.send_signal(signal.SIGCONT)
    code, out, err = finish(first)
    assert (code, out) == (0, "began\n"), err
    code, out, err = finish(second)
    assert (code, out) == (0, "began\n"), err


def test_commands_and_agent_are_killed_together(node: Node) -> None:
    agent = node.start_agent()
    running = holds(node)
    commands = [waits(node) for _ in range(3)]
    for command in commands:
        stop(command)  # else one of them starts the next agent
    kill(agent)
    kill(commands[0])
    node.start_agent()
    for command in commands[1:]:
        command.send_signal(signal.SIGCONT)
    node.until(lambda: set(queue(node)) == {c.pid for c in commands[1:]}, "the others came back")
    end(running)
    for command in commands[1:]:
        code, out, err = finish(command)
        assert (code, out) == (0, "began\n"), err
    assert queue(node) == []
    node.until(lambda: promised(node) == 0, "nothing is kept for the dead")


# A full disk


@pytest.fixture
def small(node: Node) -> Iterator[Node]:
    """Has the agent's files on a file system of its own, where one may be mounted."""
    with small_disk(node.directory, "size=512k,nr_inodes=96,mode=700"):
        yield node


def fill(node: Node) -> None:
    """Leave no free inode, so that no workload can be made."""
    (node.directory / "ballast").mkdir()
    with contextlib.suppress(OSError):
        for number in range(1000):
            (node.directory / "ballast" / str(number)).touch()
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (node.directory / "one-more").touch()


def test_a_full_disk_ends_the_wait_with_its_reason_and_keeps_nothing(small: Node) -> None:
    node = small
    node.env["MOIETY_SIMGPU_STATE"] = str(node.folder / "gpu")
    node.start_agent()
    running = holds(node)
    first = waits(node)
    fill(node)
    end(running)
    code, out, err = finish(first)
    assert (code, out) == (74, ""), err
    assert os.strerror(errno.ENOSPC) in err
    assert queue(node) == []
    assert promised(node) == 0, "nothing is kept for it"
    shutil.rmtree(node.directory / "ballast")
    code, out, err = finish(node.run(["echo", "began"], "--gpu", "0.6", "--wait"))
    assert (code, out) == (0, "began\n"), err
