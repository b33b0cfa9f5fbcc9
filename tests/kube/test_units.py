"""Pods with units of a device plugin, for clusters without claims."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.bed import Bed
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import LONG, RESOURCE, RIGHT, Sharing, asking, work


@pytest.fixture(scope="module")
def sharing(bed: Bed, native: Path) -> Iterator[Sharing]:
    """Agent, plugin and webhook for all tests of this file."""
    found = Sharing(bed, native)
    found.import_worker()
    found.install("plugin")
    found.start_agent()
    found.start_node("--mode", "plugin")
    bed.until(lambda: offered(bed) == 100, "the node offers units")
    found.start_webhook()
    yield found
    # Nobody tells a plugin that a pod has ended: it finds out, within a minute.
    found.wait_until_nothing_is_left()
    found.uninstall()


@pytest.fixture(autouse=True)
def _no_pods_stay(bed: Bed, namespace: str) -> Iterator[None]:
    """The next test has all units."""
    yield
    bed.kubectl("delete", "pods", "--all", "-n", namespace, "--wait=true")


def offered(bed: Bed) -> int:
    """Units of the node."""
    status = bed.get("node", NODE_NAME)["status"]
    return int(status.get("allocatable", {}).get(RESOURCE, 0))


@pytest.mark.parametrize(
    "asked",
    [
        {"limits": {RESOURCE: "50"}},
        pytest.param({"annotations": {"moiety.dev/gpu": "0.5"}}, marks=pytest.mark.slow),
    ],
    ids=["units", "annotation"],
)
def test_two_pods_that_each_allocate_four_fifths_of_a_gpu_compute_right(
    bed: Bed, sharing: Sharing, namespace: str, asked: dict[str, Any]
) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        bed.apply(asking(name, namespace, *work(103, LONG, seed=seed), **asked))
    for name in ("one", "two"):
        sharing.until_phase(namespace, name, "Running")
    bed.until(lambda: len(sharing.evicted()) == 2, "both had to give way")

    assert {row["share"]["gpu"] for row in sharing.shares().values()} >= {0.5}
    for name in ("one", "two"):
        sharing.finish(namespace, name)


def test_whole_gpus_are_units_of_all_of_one_and_more_than_a_node_has_are_refused(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(asking("whole", namespace, *work(16, LONG), limits={"moiety.dev/gpu": "1"}))
    sharing.until_phase(namespace, "whole", "Running")

    assert [row["share"]["gpu"] for row in sharing.shares().values()] == [1.0]
    sharing.finish(namespace, "whole")
    refused = sharing.refusal(asking("two", namespace, "true", limits={"moiety.dev/gpu": "2"}))
    assert "2 GPUs of one node, and no node has more than 1" in refused


@pytest.mark.slow
def test_units_outlive_plugin_kubelet_and_agent(bed: Bed, sharing: Sharing, namespace: str) -> None:
    bed.apply(asking("stays", namespace, *work(16, LONG), limits={RESOURCE: "60"}))
    sharing.until_phase(namespace, "stays", "Running")
    bed.until(lambda: len(sharing.tenants()) == 1, "it is on the GPU")

    def shares() -> list[float]:
        return [row["share"]["gpu"] for row in sharing.shares().values()]

    # Nobody tells a plugin that a pod has ended: those of tests before this one take a minute.
    bed.until(lambda: shares() == [0.6], "only its own share is there")

    sharing.restart("node")
    sharing.restart("agent")
    bed.restart("kubelet")
    bed.wait_for_node()
    bed.until(lambda: offered(bed) == 100, "the node offers units again")

    assert shares() == [0.6]
    bed.until(lambda: len(sharing.tenants()) == 1, "it is back with the new agent")
    bed.apply(asking("late", namespace, *work(8, 2), limits={RESOURCE: "40"}))
    assert sharing.ended(namespace, "late") == (RIGHT, 0)
    sharing.finish(namespace, "stays")


@pytest.mark.slow
def test_a_pod_that_asks_for_more_than_is_left_waits(
    bed: Bed, sharing: Sharing, namespace: str
) -> None:
    bed.apply(asking("big", namespace, *work(8, LONG), limits={RESOURCE: "80"}))
    sharing.until_phase(namespace, "big", "Running")
    bed.apply(asking("next", namespace, *work(8, 2), limits={RESOURCE: "30"}))

    def reason() -> str:
        conditions = bed.get("pod", "next", "-n", namespace)["status"].get("conditions", [])
        return "".join(c.get("message", "") for c in conditions if c["type"] == "PodScheduled")

    bed.until(lambda: f"Insufficient {RESOURCE}" in reason(), "it says why it waits")
    explained = sharing.kubectl_moiety("explain", "-n", namespace, "next").stdout
    wanted = (
        f"30 of {RESOURCE} are wanted, and of 1 node(s) the roomiest, {NODE_NAME}, has 20 of 100"
    )
    assert wanted in " ".join(explained.split()), explained
    bed.kubectl("exec", "big", "-n", namespace, "--", "kill", "-USR1", "1")
    assert sharing.ended(namespace, "next") == (RIGHT, 0)


@pytest.mark.slow
def test_a_plugin_that_ends_takes_its_units_along_and_brings_them_back(
    bed: Bed, sharing: Sharing
) -> None:
    bed.kill("node", signal.SIGTERM)
    bed.until(lambda: offered(bed) == 0, "the node offers none")

    sharing.start_node()

    bed.until(lambda: offered(bed) == 100, "the node offers them again")
