"""Programs that fork, replace themselves, end threads, or end in the middle of something.

A neighbour that does not fit beside them computes meanwhile: it goes on, and is right to the last
word. What else of this kind is tried elsewhere: docs/faults.md.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moiety.agent import requests
from moiety.agent.caller import Call
from moiety.testing.node import Node, finish
from moiety.testing.ordeal import GPU, Ordeal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
Build = Callable[[str], Path]
LEFT = {
    "early": 2,
    "late": 1,
    "exec": 2,
    "replace": 2,
    "threads": 1,
    "leave": 1,
    "capture": 1,
}
"""how many tenants a program has been by its end: each that leaves is told of"""


@pytest.fixture
def ordeal(tmp_path: Path, native: Path, programs: Path) -> Iterator[Ordeal]:
    with Ordeal(tmp_path, native, programs / "worker") as made:
        yield made


def events(ordeal: Ordeal, reason: str) -> list[requests.Event]:
    with Call(ordeal.directory) as call:
        happened = call.ask(requests.Events(0), requests.Happened).events
    return [event for event in happened if event.reason == reason]


@pytest.mark.parametrize("how", LEFT)
def test_a_life_beside_a_neighbour(ordeal: Ordeal, build: Build, how: str) -> None:
    neighbour = ordeal.start_worker(100_000)
    ordeal.until(lambda: ordeal.tenants() == 1, "the neighbour is there")
    code, _, said = finish(ordeal.start([str(build("lives")), how]))
    assert (code, said) == (0, ""), said
    ordeal.until(lambda: len(events(ordeal, "Left")) == LEFT[how], "who is told of")
    turns = ordeal.turns()
    ordeal.finish([neighbour])
    assert turns > 1


def test_who_dies_leaves_nothing_although_its_child_lives(ordeal: Ordeal, build: Build) -> None:
    neighbour = ordeal.start_worker(100_000)
    parent = ordeal.start([str(build("lives")), "orphan"])
    code, said, _ = finish(parent)
    child = int(said)
    try:
        assert code == 0
        ordeal.until(lambda: ordeal.tenants() == 1, "only the neighbour is there")
        os.kill(child, 0)  # while the child lives
        ordeal.finish([neighbour])
    finally:
        os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("policy", ["fence", "kill"])
def test_a_kernel_that_hangs(
    make_node: Callable[[str], Node], build: Build, kernels: Path, policy: str
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "5ms", "--revoke-deadline", "500ms", "--overdue", policy)
    env = {"KERNELS": str(kernels)}
    hung = node.run([build("lives"), "hang"], env=env)
    assert hung.stdout is not None
    assert hung.stdout.readline() == "ready\n"
    neighbour = node.run([build("lives"), "plain"], env=env)
    if policy == "kill":
        assert finish(neighbour)[0] == 0
        assert hung.wait(60) == -signal.SIGKILL
    else:

        def is_told() -> bool:
            return str(hung.pid) in node.cli("events", "--reason", "Fenced").stdout

        node.until(is_told, "it is told of")
        assert (hung.poll(), neighbour.poll()) == (None, None), "nobody dies"
        hung.kill()
        assert finish(neighbour)[0] == 0
    reason = {"kill": "Killed", "fence": "Fenced"}[policy]
    assert str(hung.pid) in node.cli("events", "--reason", reason).stdout
    node.until(lambda: node.json("ps") == [], "the ledger is empty")


def test_no_host_memory_to_evict_to(
    make_node: Callable[[str], Node], build: Build, kernels: Path
) -> None:
    node = make_node(GPU)
    node.start_agent("--turn-min", "5ms", "--revoke-deadline", "500ms", "--arena", "8MiB")
    env = {"KERNELS": str(kernels)}
    hung = node.run([build("lives"), "hang"], env=env)
    assert hung.stdout is not None
    assert hung.stdout.readline() == "ready\n"
    late = node.run([build("lives"), "plain"], env=env)
    code, _, said = finish(late)
    assert code == 1, "it is refused, and does not wait in vain"
    assert "host memory for evicted data (0 B) are full" in said
    assert str(late.pid) in node.cli("events", "--reason", "Refused").stdout
    assert hung.poll() is None
    hung.kill()
    assert finish(node.run([build("lives"), "plain"], env=env))[0] == 0
