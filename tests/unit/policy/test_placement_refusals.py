from __future__ import annotations

import numpy as np

from moiety.policy.model.cluster import Node, gpus
from moiety.policy.model.decisions import Reason
from moiety.policy.model.snapshot import Task
from moiety.policy.model.workloads import Shape
from moiety.policy.place.arrays import Mask, NodeArrays, Seat
from moiety.policy.place.placement_refusals import refuse

TASK = Task("train", "main", 0)
WHOLE = Shape(4000, 1024, 1, 1000)


def cluster() -> NodeArrays:
    return NodeArrays(
        [
            Node("a", 8000, 65536, gpus(2), "T4", gpu_memory_mib=16000),
            Node("b", 8000, 65536, gpus(2), "A100", gpu_memory_mib=80000),
            Node("c", 64000, 65536),
        ]
    )


def test_what_can_never_run_is_said_to_be_so() -> None:
    refusal = refuse(cluster(), Shape(1000, 1, 4, 1000), TASK)
    assert refusal.is_final
    assert refusal.reason is Reason.NODE_SIZE
    assert "and would not if nothing ran there" in refusal.text
    assert "2 are too small even when empty" in refusal.text
    assert "1 have GPUs of other models or none" in refusal.text


def test_a_model_that_nobody_has_is_named() -> None:
    refusal = refuse(cluster(), Shape(0, 0, 1, 1000, models=frozenset({"H100"})), TASK)
    assert (refusal.reason, refusal.is_final) == (Reason.MODEL, True)
    assert refusal.numbers["model"] == 3


def test_a_gpu_with_too_little_memory_is_named() -> None:
    refusal = refuse(cluster(), Shape(0, 0, 1, 0, gpu_memory_mib=90000), TASK)
    assert (refusal.reason, refusal.is_final) == (Reason.GPU_SIZE, True)


def test_numbers_say_what_is_left_and_where_it_is_full() -> None:
    one = cluster()
    one.take(Shape(1000, 0, 2, 600), Seat(0, (0, 1), 600))
    one.take(Shape(5000, 0, 1, 1000), Seat(1, (0,), 1000))
    refusal = refuse(one, WHOLE, TASK)
    assert not refusal.is_final
    assert refusal.numbers == {
        "model": 1,
        "gpus-full": 1,
        "cpu-full": 1,
        "most_free_cpu_milli": 7000,
        "most_free_memory_mib": 65536,
        "most_free_gpu_milli": 1000,
        "most_gpus_with_enough_left": 1,
    }
    assert refusal.text.startswith(
        "none of 3 nodes can take 1 GPU, 4 CPUs, 1024 MiB of memory now: "
    )


def test_nodes_that_may_not_be_used_are_not_called_full() -> None:
    refusal = refuse(cluster(), WHOLE, TASK, Mask(np.zeros(3, np.bool_)))
    assert (refusal.reason, refusal.is_final) == (Reason.NOT_ALLOWED, False)
    assert refusal.numbers["not-allowed"] == 2


def test_a_pool_without_nodes_says_so() -> None:
    refusal = refuse(NodeArrays([]), WHOLE, TASK)
    assert (refusal.reason, refusal.text) == (Reason.NO_NODES, "the pool has no nodes")


def test_what_can_never_run_is_told_what_there_is() -> None:
    never = refuse(cluster(), Shape(9000, 1, 4, 1000), TASK)
    assert never.text.endswith(
        "the most that one of them has is 2 GPUs, 64 CPUs, 65536 MiB of memory"
    )
    other = refuse(cluster(), Shape(0, 0, 1, 1000, models=frozenset({"H100"})), TASK)
    assert other.text.endswith("2 GPUs (A100, T4)")
    alone = NodeArrays([Node("a", 8000, 65536, gpus(2), "T4", gpu_memory_mib=16000)])
    large = refuse(alone, Shape(0, 0, 1, 0, gpu_memory_mib=20000), TASK)
    assert large.text == (
        "the only node can never take a part of 1 GPU, 20000 MiB of GPU memory each: it has GPUs "
        "with too little memory; it has 2 GPUs, 16000 MiB of memory on a GPU"
    )
