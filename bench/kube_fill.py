"""How fast the stock scheduler fills a cluster with pods that each have half a GPU by claim.

The nodes are kwok's, which pretends that they are there and that their pods run; all that decides
and writes is real. MOIETY_BENCH_NODES has another number of them.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from typing import Any, Final

from bench.figure import Figure
from tests.kube.bed import Bed
from tests.kube.sharing import claim, claimant

NAMESPACE: Final = "default"
NODES: Final = int(os.environ.get("MOIETY_BENCH_NODES", "1000"))
GPUS: Final = 8
FILL: Final = NODES * GPUS // 2
FILL_S: Final = 600.0
MAKERS: Final = 16
"""Objects that are being made at a time."""
KEPT: Final = ("sleep", "100000")


def fake_node(name: str) -> list[dict[str, Any]]:
    """A node that kwok plays, and its GPUs as our driver publishes them."""
    from moiety.devices.gpu_models import Card
    from moiety.kube.client import SLICES
    from moiety.kube.resource_slices import NodeGpu, slices

    room = {"cpu": "64", "memory": "512Gi", "pods": "110"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {"bench": "fill"},
        },
        "status": {"allocatable": room, "capacity": room},
    }
    gpus = [
        NodeGpu(
            Card(
                index=number,
                uuid=f"GPU-{name}-{number}",
                name="A100 (simgpu)",
                total_bytes=80 << 30,
            ),
            80 << 30,
        )
        for number in range(GPUS)
    ]
    made = [
        {"apiVersion": SLICES.api_version, "kind": SLICES.kind, **each}
        for each in slices(name, gpus)
    ]
    return [node, *made]


async def make_nodes(bed: Bed) -> None:
    """All nodes with their slices; several at a time, since kubectl makes 50 objects a second."""
    from moiety.kube import access
    from moiety.kube.client import NODES as NODES_OF
    from moiety.kube.client import SLICES, ApiClient

    async with ApiClient(access.find(str(bed.kubeconfig))) as client:

        async def make(first: int) -> None:
            for number in range(first, NODES, MAKERS):
                node, *offered = fake_node(f"fake-{number}")
                await client.create(NODES_OF, node)
                for each in offered:
                    await client.create(SLICES, each)

        await asyncio.gather(*(make(first) for first in range(MAKERS)))


def template() -> dict[str, Any]:
    """Half a GPU, for as many pods as name it."""
    spec = claim("half", NAMESPACE, compute=50, memory="40Gi")["spec"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "half", "namespace": NAMESPACE},
        "spec": {"spec": spec},
    }


async def fill(bed: Bed, count: int, within_s: float) -> list[float]:
    """When each of `count` pods got its half: seconds from the first that was made, in order."""
    from moiety.kube import access
    from moiety.kube.client import PODS as PODS_OF
    from moiety.kube.client import ApiClient

    wanted = claimant("half", NAMESPACE, *KEPT)
    wanted["spec"] |= {
        "nodeSelector": {"bench": "fill"},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "half"}],
    }
    # Each event of a pod is all of it: who makes pods must not wait until all of them are read.
    async with ApiClient(access.find(str(bed.kubeconfig))) as client:
        placed: dict[str, float] = {}
        began_s = time.monotonic()

        async def watch() -> None:
            async for change in client.watch(PODS_OF, NAMESPACE, field_selector="spec.nodeName!="):
                if change.kind in ("ADDED", "MODIFIED"):
                    placed.setdefault(change.object["metadata"]["name"], time.monotonic())
                if len(placed) >= count:
                    return

        async def make(first: int) -> None:
            for number in range(first, count, MAKERS):
                metadata = {"name": f"half-{number}", "namespace": NAMESPACE}
                await client.create(PODS_OF, {**wanted, "metadata": metadata}, NAMESPACE)

        tasks = [asyncio.create_task(make(first)) for first in range(MAKERS)]
        tasks.append(asyncio.create_task(watch()))
        try:
            async with asyncio.timeout(within_s):
                await asyncio.gather(*tasks)
        except TimeoutError:
            pass  # what was placed until then counts
        finally:
            for task in tasks:
                task.cancel()
        return sorted(at_s - began_s for at_s in placed.values())


def rates(at_s: list[float], parts: int = 4) -> list[float]:
    """Pods a second in each of so many equal parts of all, in order."""
    size = len(at_s) // parts
    ends = [0.0, *(at_s[size * part - 1] for part in range(1, parts + 1))] if size else []
    return [size / max(1e-9, b - a) for a, b in itertools.pairwise(ends)]


def filling(bed: Bed) -> Figure:
    """`kube_fill_pods_per_s`."""
    # Nodes that send no signs of life are tainted after a minute, and their pods evicted.
    patient = [*bed.commands["kube-controller-manager"], "--node-monitor-grace-period=2h"]
    bed.kill("kube-controller-manager")
    bed.start("kube-controller-manager", patient)
    asyncio.run(make_nodes(bed))
    bed.start("kwok")
    ready = ("get", "nodes", "-l", "bench=fill", "-o",
             "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}")  # fmt: skip
    bed.until(lambda: bed.kubectl(*ready).split().count("True") == NODES, "all nodes are ready")
    bed.apply(template())
    at_s = asyncio.run(fill(bed, FILL, FILL_S))
    quarters = ", ".join(f"{rate:.1f}" for rate in rates(at_s))
    note = (
        f"{len(at_s)} pods of {FILL} within {FILL_S:.0f} s, each half a GPU by claim, {NODES} "
        f"nodes of {GPUS} (kwok); a quarter of them after the other: {quarters} pods/s"
    )
    rate = len(at_s) / at_s[-1] if at_s else 0.0
    return Figure("kube_fill_pods_per_s", rate, "/s", None, "higher", "kwok", len(at_s), note=note)
