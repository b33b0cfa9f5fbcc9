"""A pool whose disk is full: what runs goes on, and nothing that was accepted or ended is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moiety.agent.system.processes import is_alive
from moiety.model.errors import MoietyError
from moiety.pool.model.states import WorkState
from moiety.pool.starter.records import Started, read_started
from moiety.testing.node import Node
from moiety.testing.waiting import until
from tests.support.pool_node import PoolNode
from tests.support.small_disk import fill, small_disk

GPU = "A100-80:memory=96MiB"


@pytest.fixture
def pool(make_node: Callable[[str], Node]) -> Iterator[PoolNode]:
    """A pool with a file system of its own, where this process may mount one."""
    node = make_node(GPU)
    node.start_agent()
    found = PoolNode(node)
    folder = found.paths.folder
    folder.mkdir(mode=0o700, parents=True)
    with small_disk(folder, "size=16m,mode=0700"):
        try:
            found.up()
            yield found
        finally:
            found.close()


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


def test_each_refusal_says_why_also_where_the_log_of_the_server_is_full(pool: PoolNode) -> None:
    script, gate = pool.gate("gate")
    number = pool.submit(script, stdout=str(pool.node.folder / "out"))
    pool.until_state(number, "running")
    ballast = fill(pool.paths.folder)
    for _ in range(8):  # each is told in the log at some length
        _, problem = submit_until_refused(pool)
        assert problem == "the system refuses: database or disk is full"
    gate.touch()
    ballast.unlink()
    assert pool.ended(number).state is WorkState.DONE


def test_a_server_that_is_killed_then_comes_back_with_all_that_it_accepted(pool: PoolNode) -> None:
    script, gate = pool.gate("gate")
    number = pool.submit(script, stdout=str(pool.node.folder / "out"))
    pool.until_state(number, "running")
    ballast = fill(pool.paths.folder)
    accepted, _ = submit_until_refused(pool)
    pool.kill()
    assert "1 running" in pool.up(), "it needs no room for that"
    ballast.unlink()
    gate.touch()
    assert pool.ended(number).state is WorkState.DONE
    assert [pool.row(each).state for each in accepted] == [WorkState.HELD] * len(accepted)
