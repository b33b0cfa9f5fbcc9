"""Ten thousand submissions of one user keep another's one waiting for none of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from moiety.testing.waiting import until
from tests.integration.test_pool_users import gate, submit
from tests.support.machine_pool import MachinePool, machine_pool
from tests.support.users import ALICE, BOB

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can act as several users")

MANY: Final = 10_000
FLOOD: Final = """
import threading
from moiety.pool.client import PoolClient
from moiety.pool.model.records import Accepted, Submission
asked = Submission(program="/bin/true", argv=["true"], cwd="/", environment={{}}, gpus=1)
told = []
def flood():
    pool = PoolClient()
    while len(told) < {many}:
        told.append(pool.post("/workloads", Accepted, asked).id)
    pool.close()
senders = [threading.Thread(target=flood) for _ in range(4)]
for each in senders:
    each.start()
"""


@pytest.fixture
def pool(native: Path) -> Iterator[MachinePool]:
    with machine_pool(native, f"waiting = {2 * MANY}") as made:
        yield made


@pytest.mark.soak
def test_a_flood_of_one_user_is_no_matter_to_another(pool: MachinePool) -> None:
    wait, opens = gate(pool)
    with pool.setting.user(ALICE) as alice, pool.setting.user(BOB) as bob:
        first = submit(pool, alice, wait, "--gpu", "1")
        pool.until_state(first, "running")
        alice.do(FLOOD.format(many=MANY))
        until(lambda: alice.do("len(told)") > 100, "the flood has begun", 120)
        during = submit(pool, bob, "exit 3", "--gpu", "1")
        assert alice.do("len(told)") < MANY, "submitted while the flood goes on"
        until(lambda: alice.do("len(told)") >= MANY, "the flood is over", 600)
        after = submit(pool, bob, "exit 4", "--gpu", "1")
        assert sum(pool.status().counts.values()) >= MANY + 3, "nothing is lost"
        opens.touch()
        ended = [pool.ended(number) for number in (during, after)]
        assert [each.exit_code for each in ended] == [3, 4], pool.log()
        began = [pool.row(number).began_s for number in alice.do("sorted(told)[:100]")]
        last_s = max(each.began_s or 0.0 for each in ended)
        assert sum(1 for each in began if each and each < last_s) <= 5, "their turns alternate"
