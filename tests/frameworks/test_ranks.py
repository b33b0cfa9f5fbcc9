"""Processes of one workload find each other, by PyTorch's rendezvous."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moiety.pool.model.states import WorkState
from moiety.testing.node import Node
from tests.frameworks.conftest import Framework
from tests.support.pool_node import PoolNode

TWO = "2xA100-80:memory=112MiB"

MakeNode = Callable[[str], Node]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_ranks_of_a_workload_meet_as_torchrun_has_them(
    make_node: MakeNode, torch: Framework
) -> None:
    pool = PoolNode(make_node(TWO))
    try:
        pool.up()
        command = torch.command("ranks")
        number = pool.submit(
            "", program=command[0], argv=command, tasks=2, gpus=2, gpus_per_task=1,
            environment=pool.node.env | torch.env,
        )  # fmt: skip
        row = pool.ended(number)
        assert row.state is WorkState.DONE, pool.output(number)
        assert "2 ranks met" in pool.output(number)
    finally:
        pool.close()
