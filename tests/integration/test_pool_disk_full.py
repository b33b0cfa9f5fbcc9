"""A pool whose disk is full: what runs goes on, and nothing that was accepted or ended is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent.system.processes import is_alive
from moiety.model.errors import MoietyError
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import Started, read_started
from moiety.testing.node import Node
from moiety.testing.waiting import until
from tests.support.pool_node import PoolNode

GPU = "A100-80:memory=96MiB"


@pytest.fixture
def pool(make_node: Callable[[str], Node]) -> Iterator[PoolNode]:
    """A pool with a file system of its own, where this process may mount one."""
    node = make_node(GPU)
    node.start_agent()
    found = PoolNode(node)
    folder = found.paths.folder
    folder.mkdir(mode=0o700, parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16m,mode=0700", "none", str(folder)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted: {mounted.stderr}")
    found.up()
    yield found
    found.close()
    subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no free byte; returns the file that takes them."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), open(ballast, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    with pytest.raises(OSError, match=os.strerror(errno.ENOSPC)):
        (folder / "one-more").write_bytes(bytes(4096))
    return ballast


def submit_until_refused(pool: PoolNode) -> tuple[list[int], str]:
    """Fill what is left of the log of the store: the numbers that were accepted, and the error."""
    accepted: list[int] = []
    for _ in range(10_000):
        try:
            number = pool.submit("exit 0", hold=True, environment={"X": "x" * 4096})
        except MoietyError as error:
            return accepted, str(error)
        accepted.append(number)
    raise AssertionError("nothing was refused")


def child_of(pool: PoolNode, number: int) -> tuple[int, int]:
    """The program of a workload that runs: pid and start time."""
    started = read_started(pool.paths.of_workload(number))
    assert isinstance(started, Started)
    return started.child.pid, started.child.start_ticks


def test_what_ends_meanwhile_is_written_down_later(pool: PoolNode) -> None:
    script, gate = pool.gate("gate")
    number = pool.submit(script, stdout=str(pool.node.folder / "out"))
    pool.until_state(number, "running")
    waits = pool.submit("exit 0", gpus=1, stdout=str(pool.node.folder / "out2"))
    ballast = fill(pool.paths.folder)
    _, problem = submit_until_refused(pool)
    assert "disk" in problem
    program = child_of(pool, number)
    gate.touch()
    until(lambda: not is_alive(*program), "its program has ended")
    assert pool.row(number).state is WorkState.RUNNING, "nothing can be written down"
    ballast.unlink()
    assert pool.ended(number).state is WorkState.DONE
    assert pool.ended(waits).state is WorkState.DONE


def test_a_server_that_is_killed_then_comes_back_with_all_that_it_accepted(pool: PoolNode) -> None:
    script, gate = pool.gate("gate")
    number = pool.submit(script, stdout=str(pool.node.folder / "out"))
    pool.until_state(number, "running")
    ballast = fill(pool.paths.folder)
    accepted, _ = submit_until_refused(pool)
    pool.kill()
    said = pool.node.cli("up")
    if said.returncode:
        assert "space" in said.stderr or "full" in said.stderr, said.stderr
    ballast.unlink()
    pool.up()
    gate.touch()
    assert pool.ended(number).state is WorkState.DONE
    assert [pool.row(each).state for each in accepted] == [WorkState.HELD] * len(accepted)
