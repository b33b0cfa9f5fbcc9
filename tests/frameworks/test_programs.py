"""What else programs do: graphs, workers, memory of other processes, training, running out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from moiety.testing.node import Node, finish
from tests.frameworks import setup
from tests.frameworks.conftest import Framework
from tests.frameworks.turns import end_well, wait_for_handoffs, wait_until_ready

GPU = "A100-80:memory=112MiB,link=16GB/s,residue=2MiB"
QUICK = ("--quantum", "10ms")

MakeNode = Callable[[str], Node]
pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_the_runtime_is_ours_and_of_the_version_that_was_asked_for(
    make_node: MakeNode, torch: Framework, native: Path
) -> None:
    node = make_node(GPU)
    node.start_agent()
    code, out, err = finish(node.run(torch.command("versions"), env=torch.env))
    runtime = native / "cudart" / f"libcudart.so.{setup.cuda()}"
    assert (code, out.splitlines()) == (0, [str(setup.cuda()), str(runtime)]), err


def test_a_graph_is_right_after_its_memory_went_and_came_back(
    make_node: MakeNode, torch: Framework
) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    programs = [
        node.run(torch.command("replayed", 60), env=torch.env),
        node.run(torch.command("moving", 44, 1), env=torch.env),
    ]
    wait_until_ready(programs)
    counts = wait_for_handoffs(node, programs, 40)
    assert all(row["evicted_bytes"] > 0 for row in node.json("ps"))
    end_well(programs)
    print(f"{sum(counts)} hand-offs")


def test_a_training_shares_with_numba(make_node: MakeNode, torch: Framework) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    programs = [
        node.run(torch.command("training", 768, 32), env=torch.env),
        node.run(torch.command("numba_arrays", 60), env=torch.env),
    ]
    wait_until_ready(programs)
    counts = wait_for_handoffs(node, programs, 40)
    rows = node.json("ps")
    # A training's weights are zeros here, since kernels compute nothing: they are not copied.
    assert all(row["evicted_bytes"] + row["zero_bytes"] > 0 for row in rows)
    assert not any(row["pinned"] for row in rows)
    end_well(programs)
    print(f"{sum(counts)} hand-offs")


def test_batches_of_forked_workers_arrive(make_node: MakeNode, torch: Framework) -> None:
    node = make_node(GPU)
    node.start_agent(*QUICK)
    other = node.run(torch.command("moving", 44, 1), env=torch.env)
    wait_until_ready([other])
    code, out, err = finish(node.run(torch.command("loaded", 24, 60), env=torch.env))
    assert (code, out) == (0, "0 words wrong in 24 batches of 2 workers\n"), err
    end_well([other])


def test_tensors_of_another_process_are_the_same_memory(
    make_node: MakeNode, torch: Framework
) -> None:
    # What one has at a time stays beside all that the other ever has: else the export is refused.
    node = make_node(GPU.replace("112MiB", "150MiB"))
    node.start_agent(*QUICK)
    other = node.run(torch.command("moving", 30, 1), env=torch.env)
    wait_until_ready([other])
    code, out, err = finish(node.run(torch.command("shared", 5, 24), env=torch.env))
    assert (code, out) == (0, "0 words wrong in 5 rounds, the other one ended with 0\n"), err
    end_well([other])


def test_a_limit_is_the_size_of_the_gpu_and_its_end_an_ordinary_error(
    make_node: MakeNode, torch: Framework
) -> None:
    node = make_node(GPU)
    node.start_agent()
    program = node.run(torch.command("limited"), "--memory-limit", "64MiB", env=torch.env)
    code, out, err = finish(program)
    expected = ["total 64, properties 64", "free 20 less", "refused", "0 words wrong"]
    assert (code, out.splitlines()) == (0, expected), err
