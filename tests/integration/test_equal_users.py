"""Time is divided by user, then by `moiety run`, then by process, for real programs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench.latency import build
from moiety.agent.control import protocol
from moiety.agent.control.rows import ProcessRow
from moiety.testing.waiting import until
from tests.support.simgpu_times import CardTimes
from tests.support.users import ALICE, BOB, open_folder
from tests.support.users_programs import Setting

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

GPU = "A100-80:memory=96MiB,link=8GB/s,residue=2MiB"
SOME_US = 1_500_000
"""GPU time that is enough to tell a half from a quarter."""


class Machine:
    """An agent for all users, their busy programs, and what the GPU counts for them."""

    def __init__(self, setting: Setting, card: CardTimes) -> None:
        self.setting, self.card = setting, card
        self.command = [str(setting.folder / "busy"), setting.kernels, "1000", "20", "1000000"]

    def rows(self, count: int) -> list[ProcessRow]:
        """The programs, once there are so many, and all have their memory."""

        def found() -> list[ProcessRow]:
            rows = [row for row in self.setting.agent.ps() if row.allocated_bytes]
            return rows if len(rows) == count else []

        until(found, "they have their memory")
        return self.setting.agent.ps()

    def part_of(self, pids: set[int]) -> float:
        """The part of all received time that these received, over `SOME_US`."""
        before = self.card.read()[1]

        def since() -> dict[int, float]:
            after = self.card.read()[1]
            return {pid: us - before.get(pid, 0.0) for pid, us in after.items()}

        until(lambda: sum(since().values()) >= SOME_US, "the GPU worked")
        found = since()
        return sum(us for pid, us in found.items() if pid in pids) / sum(found.values())


@pytest.fixture
def machine(native: Path, tmp_path: Path) -> Iterator[Machine]:
    client = build(tmp_path, "busy")
    with open_folder() as folder, ExitStack() as stack:
        made = Setting(folder, native, [client], gpu=GPU, options=["--linger", "0"])
        (folder / "config.toml").touch()
        made.agent.environment["MOIETY_CONFIG"] = str(folder / "config.toml")
        stack.enter_context(made.agent)
        card = stack.enter_context(CardTimes(made.agent.environment, native / "simgpu"))
        yield Machine(made, card)
        for row in made.agent.ps():
            os.kill(row.pid, 9)


def test_a_user_with_three_programs_gets_no_more_than_one_with_one(machine: Machine) -> None:
    with machine.setting.user(ALICE) as alice, machine.setting.user(BOB) as bob:
        for _ in range(3):
            machine.setting.begin(alice, "run", *machine.command)
        machine.setting.begin(bob, "run", *machine.command)
        own = {row.pid for row in machine.rows(4) if row.uid == BOB}
        until(lambda: 0.42 <= machine.part_of(own) <= 0.58, "bob gets half of the time")


def test_children_of_one_run_get_no_more_than_another_run(machine: Machine) -> None:
    with machine.setting.user(ALICE) as alice:
        text = " ".join(machine.command)
        forks = f"{text} & {text} & exec {text}"
        machine.setting.begin(alice, "run", "--", "/bin/sh", "-c", forks)
        machine.setting.begin(alice, "run", *machine.command)
        rows = machine.rows(4)
        runs = [row.workload for row in rows]
        alone = {row.pid for row in rows if runs.count(row.workload) == 1}
        until(lambda: 0.42 <= machine.part_of(alone) <= 0.58, "the other run gets half of the time")


def test_a_guaranteed_user_gets_its_part_beside_more_programs_of_others(machine: Machine) -> None:
    rules = machine.setting.folder / "config.toml"
    rules.write_text(f"[users.{BOB}]\nguaranteed = 0.8\n")
    with machine.setting.agent.call() as call:
        call.ask(protocol.Reload(), protocol.Reloaded)
    with machine.setting.user(ALICE) as alice, machine.setting.user(BOB) as bob:
        for _ in range(2):
            machine.setting.begin(alice, "run", *machine.command)
        machine.setting.begin(bob, "run", *machine.command)
        own = {row.pid for row in machine.rows(3) if row.uid == BOB}
        until(lambda: 0.72 <= machine.part_of(own) <= 0.88, "bob gets what is guaranteed")
