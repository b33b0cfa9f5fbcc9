"""How fast the stock scheduler fills a cluster with pods that each have half a GPU by claim.

The nodes are kwok's, which pretends that they are there and that their pods run; all that decides
and writes is real. MOIETY_BENCH_NODES has another number of them.
"""

from __future__ import annotations

import asyncio
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
KEPT: Final = ("sleep", "100000")


def fake_node(name: str) -> list[dict[str, Any]]:
    """A node that kwok plays, and its GPUs as our driver publishes them."""
    from moiety.devices.cards import Card
    from moiety.kube.client import SLICES
    from moiety.kube.slices import Gpu, slices

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
        Gpu(
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


def template() -> dict[str, Any]:
    """Half a GPU, for as many pods as name it."""
    spec = claim("half", NAMESPACE, compute=50, memory="40Gi")["spec"]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "half", "namespace": NAMESPACE},
        "spec": {"spec": spec},
    }


async def fill(bed: Bed, count: int) -> tuple[int, float]:
    """How many pods got their halves, of `count`, and seconds from the first that was made."""
    from moiety.kube import access
    from moiety.kube.client import PODS as PODS_OF
    from moiety.kube.client import Client

    wanted = claimant("half", NAMESPACE, *KEPT)
    wanted["spec"] |= {
        "nodeSelector": {"bench": "fill"},
        "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "half"}],
    }

    async with Client(access.find(str(bed.kubeconfig))) as client:
        placed: set[str] = set()
        last_s = began_s = time.monotonic()

        async def watch() -> None:
            nonlocal last_s
            async for change in client.watch(PODS_OF, NAMESPACE):
                if change.object.get("spec", {}).get("nodeName"):
                    placed.add(change.object["metadata"]["name"])
                    last_s = time.monotonic()
                if len(placed) >= count:
                    return

        async def make(first: int) -> None:
            for number in range(first, count, 16):
                metadata = {"name": f"half-{number}", "namespace": NAMESPACE}
                await client.create(PODS_OF, {**wanted, "metadata": metadata}, NAMESPACE)

        watching = asyncio.create_task(watch())
        await asyncio.gather(*(make(first) for first in range(16)))
        await asyncio.wait([watching], timeout=FILL_S)
        watching.cancel()
        return len(placed), last_s - began_s


def filling(bed: Bed) -> Figure:
    """`kube_fill_pods_per_s`."""
    nodes = [fake_node(f"fake-{number}") for number in range(NODES)]
    for first in range(0, NODES, 100):
        bed.apply(*(each for node in nodes[first : first + 100] for each in node))
    bed.start("kwok")
    ready = ("get", "nodes", "-l", "bench=fill", "-o",
             "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}")  # fmt: skip
    bed.until(lambda: bed.kubectl(*ready).split().count("True") == NODES, "all nodes are ready")
    bed.apply(template())
    placed, took_s = asyncio.run(fill(bed, FILL))
    note = f"{placed} pods of {FILL}, each half a GPU by claim, {NODES} nodes of {GPUS} (kwok)"
    return Figure(
        "kube_fill_pods_per_s", placed / took_s, "/s", None, "higher", "kwok", placed, note=note
    )
