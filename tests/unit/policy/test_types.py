from __future__ import annotations

from typing import Any

import pytest

from moiety.model.errors import InvalidValue
from moiety.policy.model.cluster import GpuDevice, Node, gpus
from moiety.policy.model.queues import Amounts, Queue, QueueTree
from moiety.policy.model.snapshot import Snapshot
from moiety.policy.model.workloads import Shape, Subgroup, Workload, single


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"cpu_milli": -1}, "cpu_milli is negative: -1"),
        ({"gpus": 1, "gpu_milli": 1500}, "a GPU has 1000"),
        ({"gpus": 2}, "nothing of them"),
        ({"gpu_milli": 500}, "on no GPU"),
    ],
)
def test_a_shape_that_makes_no_sense_is_refused(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidValue, match=named):
        Shape(**wrong)


def test_memory_of_a_gpu_is_a_part_of_it() -> None:
    apart = Shape(gpus=1, gpu_milli=200, gpu_memory_mib=10000)
    assert apart.milli_on(40000) == apart.milli_on(10000) == 200
    assert apart.milli_on(9999) > 1000
    shape = Shape(gpus=1, gpu_memory_mib=10000)
    assert shape.milli_on(80000) == 125
    assert shape.milli_on(40000) == 250
    assert shape.milli_on(30000) == 334  # rounded up: never less than was asked for
    assert shape.milli_on(8000) > 1000
    assert shape.milli_on(0) > 1000


def test_a_shape_says_what_it_is() -> None:
    shape = Shape(2000, 512, 2, 1000, models=frozenset({"T4", "A10"}))
    assert str(shape) == "2 GPUs, of model A10 or T4, 2 CPUs, 512 MiB of memory"
    assert str(Shape(500, 1, 1, 250)) == "0.25 of 1 GPU, 0.5 CPUs, 1 MiB of memory"


def test_a_node_numbers_its_gpus_and_names_their_model() -> None:
    with pytest.raises(InvalidValue, match="not numbered"):
        Node("n", 1, 1, (GpuDevice(1),), "T4")
    with pytest.raises(InvalidValue, match="no model"):
        Node("n", 1, 1, gpus(1))
    with pytest.raises(InvalidValue, match="at most 63"):
        Node("n", 1, 1, gpus(64), "T4")


def test_queues_in_a_loop_are_refused() -> None:
    with pytest.raises(InvalidValue, match="loop: a below b below a"):
        QueueTree([Queue("a", "b"), Queue("b", "a")])


def test_a_queue_below_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidValue, match="no queue x above it"):
        QueueTree([Queue("a", "x")])


def test_quotas_beyond_the_parents_are_found() -> None:
    tree = QueueTree(
        [
            Queue("all", quota=Amounts(gpu_milli=8000)),
            Queue("a", "all", quota=Amounts(gpu_milli=5000)),
            Queue("b", "all", quota=Amounts(gpu_milli=4000)),
        ]
    )
    assert tree.above_parents() == [("all", "gpu_milli", 9000, 8000)]
    assert tree.path("b") == ("all", "b")


def test_a_quota_above_the_limit_is_refused() -> None:
    with pytest.raises(InvalidValue, match="above its limit"):
        Queue("a", quota=Amounts(gpu_milli=2000), limit=Amounts(gpu_milli=1000))


def test_names_are_unique_in_a_snapshot() -> None:
    node = Node("n", 1, 1)
    with pytest.raises(InvalidValue, match="two nodes of the name n"):
        Snapshot((node, node))
    job = single("j", Shape(1))
    with pytest.raises(InvalidValue, match="two workloads of the name j"):
        Snapshot((node,), (job, job))


def test_a_gang_says_how_many_of_its_tasks_must_run() -> None:
    workers = Subgroup("workers", Shape(gpus=1, gpu_milli=1000), tasks=4, tasks_min=2)
    assert Workload("train", (workers, Subgroup("head", Shape(1)))).tasks == 5
    with pytest.raises(InvalidValue, match="at least 5 of 4"):
        Subgroup("workers", Shape(1), tasks=4, tasks_min=5)
    with pytest.raises(InvalidValue, match="no tasks"):
        Workload("empty", ())
