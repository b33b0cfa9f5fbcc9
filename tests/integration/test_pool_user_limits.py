"""The limits of users in the pool of a machine: their work waits, and is never refused its GPUs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from moiety.agent.control import protocol
from moiety.pool.model.states import WorkState
from tests.integration.test_pool_users import gate, submit
from tests.support.machine_pool import MachinePool, machine_pool
from tests.support.users import ALICE, BOB

pytestmark = [
    pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users"),
    pytest.mark.slow,
]

LIMITS = f"""
[users.{ALICE}]
workloads = 1
gpu = 0.5
priority = "low"
"""


@pytest.fixture
def pool(native: Path) -> Iterator[MachinePool]:
    with machine_pool(native, LIMITS) as made:
        yield made


def reason(pool: MachinePool, number: int) -> str:
    return pool.as_root("explain", str(number))


def test_work_beyond_what_its_user_may_have_waits_and_says_why(pool: MachinePool) -> None:
    script, opens = gate(pool)
    with pool.setting.user(ALICE) as alice, pool.setting.user(BOB) as bob:
        first = submit(pool, alice, script, "--gpu", "0.3")
        pool.until_state(first, "running")
        second = submit(pool, alice, script, "--gpu", "0.3")
        large = submit(pool, alice, script, "--gpu", "0.6")
        assert "has 1 workload with GPUs, and may have 1" in reason(pool, second)
        theirs = submit(pool, bob, script, "--gpu", "0.3")
        pool.until_state(theirs, "running")
        opens.touch()
        for number in (first, second, theirs):
            assert pool.ended(number).state is WorkState.DONE, pool.log()
        said = reason(pool, large)
        assert "may have 50 % of each GPU's time" in said
        assert "config.toml:" in said

        config = pool.setting.folder / "config.toml"
        config.write_text(config.read_text().replace("gpu = 0.5", "gpu = 0.6"))
        with pool.setting.agent.call() as call:
            call.ask(protocol.Reload(), protocol.Reloaded)
        assert pool.ended(large).state is WorkState.DONE, pool.log()
    assert pool.status().start_refused == 0


def test_a_part_of_each_gpu_is_counted_on_each_gpu(native: Path) -> None:
    gpus = "2xA100-80:memory=96MiB,link=8GB/s,residue=2MiB"
    with (
        machine_pool(native, f"[users.{ALICE}]\ngpu = 0.5\n", gpus) as pool,
        pool.setting.user(ALICE) as alice,
    ):
        script, opens = gate(pool)
        numbers = [submit(pool, alice, script, "--gpu", "0.4") for _ in range(3)]
        for number in numbers[:2]:
            pool.until_state(number, "running")
        found = [pool.row(number).cards for number in numbers]
        assert sorted(found[:2]) == [[0], [1]]
        said = reason(pool, numbers[2])
        assert "beside its other work that leaves 0 GPUs for this" in said
        opens.touch()
        for number in numbers:
            assert pool.ended(number).state is WorkState.DONE, pool.log()
        assert pool.status().start_refused == 0
