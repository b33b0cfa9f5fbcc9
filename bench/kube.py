"""On Kubernetes: how long a claim takes on its node, what a share adds to a pod's start, how fast
the stock scheduler fills a cluster with halves of GPUs, and what our processes on a node weigh.

A real API server, scheduler, kubelet and containerd, as tests/kube has them; the nodes to fill are
kwok's. `python bench/kube.py FILE` is what runs inside.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.figure import Figure
from moiety.devices.native import native_dir
from tests.kube import setup
from tests.kube.bed import Bed, found
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import DRIVER, Sharing, claim, claimant

ROOT: Final = Path(__file__).resolve().parents[1]
DEVICE: Final = "simgpu"
NAMESPACE: Final = "default"
PODS: Final = 50
ROUNDS: Final = 4
PAIRS: Final = 10
NODES: Final = int(os.environ.get("MOIETY_BENCH_NODES", "1000"))
GPUS: Final = 8
FILL: Final = NODES * GPUS // 2
FILL_S: Final = 600.0
SOCKET: Final = Path("/var/lib/kubelet/plugins") / DRIVER / "dra.sock"
KEPT: Final = ("sleep", "100000")


def p99(took_s: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return statistics.quantiles(took_s, n=100)[98] * 1e3


# What the node's process takes for a claim


def allocated(bed: Bed, name: str, number: int) -> tuple[str, str]:
    """A claim as a scheduler leaves it, for a pod that no kubelet starts; its name and UID."""
    wanted = claimant(name, NAMESPACE, *KEPT)
    wanted["spec"]["schedulerName"] = "nobody"
    bed.apply(claim(name, NAMESPACE, compute=1), wanted)
    pod = bed.get("pod", name, "-n", NAMESPACE)
    result = {
        "request": "gpu",
        "driver": DRIVER,
        "pool": NODE_NAME,
        "device": "gpu-0",
        "shareID": f"00000000-0000-4000-8000-{number:012}",
        "consumedCapacity": {"compute": "1", "memory": "0"},
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    patch = ("patch", "resourceclaim", name, "-n", NAMESPACE, "--subresource=status")
    bed.kubectl(*patch, "--type=merge", "-p", json.dumps({"status": status}))
    uid = bed.get("resourceclaim", name, "-n", NAMESPACE)["metadata"]["uid"]
    return name, str(uid)


async def prepared(
    claims: list[tuple[str, str]], weigh: Callable[[], float]
) -> tuple[list[float], list[float], float]:
    """Seconds that the driver took for each claim, one after another and all at once.

    And what `weigh` says while all pods have their shares.
    """
    from moiety.kube.dra import DRA
    from moiety.kube.protocol import dra_v1_pb2 as pb
    from moiety.kube.rpc import call, connected

    async def ask(channel: Any, method: str, kind: Any, name: str, uid: str) -> float:
        request = kind(claims=[pb.Claim(namespace=NAMESPACE, name=name, uid=uid)])
        began_s = time.monotonic()
        answer = await call(channel, DRA, method, request, 60.0)
        took_s = time.monotonic() - began_s
        if answer.claims[uid].error:
            raise RuntimeError(answer.claims[uid].error)
        return took_s

    def prepare(channel: Any, name: str, uid: str) -> Any:
        return ask(channel, "NodePrepareResources", pb.NodePrepareResourcesRequest, name, uid)

    def unprepare(channel: Any, name: str, uid: str) -> Any:
        return ask(channel, "NodeUnprepareResources", pb.NodeUnprepareResourcesRequest, name, uid)

    alone: list[float] = []
    at_once: list[float] = []
    async with connected(SOCKET) as channel:
        for each in claims:
            await prepare(channel, *each)
        for _ in range(ROUNDS):
            for each in claims:  # the other 49 have their shares meanwhile
                await unprepare(channel, *each)
                alone.append(await prepare(channel, *each))
        for _ in range(ROUNDS):
            for each in claims:
                await unprepare(channel, *each)
            at_once += await asyncio.gather(*(prepare(channel, *each) for each in claims))
        weight = weigh()
        for each in claims:
            await unprepare(channel, *each)
    return alone, at_once, weight


def rss_mib(pids: list[int]) -> float:
    """What these processes have in memory."""
    total = 0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text()
        total += next(int(x.split()[1]) for x in status.splitlines() if x.startswith("VmRSS:"))
    return total / 1024


def on_the_node(bed: Bed) -> list[Figure]:
    """`kube_prepare_p99_ms`, and `kube_daemon_rss_mib` while 50 pods have shares."""
    claims = [allocated(bed, f"c{number}", number) for number in range(PODS)]
    pids = [pid for name in ("agent", "node") if (pid := bed.pid(name))]
    alone, at_once, weight = asyncio.run(prepared(claims, lambda: rss_mib(pids)))
    names = [name for name, _ in claims]
    bed.kubectl("delete", "pod", *names, "-n", NAMESPACE, "--force", "--grace-period=0")
    bed.kubectl("delete", "resourceclaim", *names, "-n", NAMESPACE)
    note = f"{PODS} pods have shares; all {PODS} at once: {p99(at_once):.0f} ms"
    return [
        Figure("kube_prepare_p99_ms", p99(alone), "ms", 50, "lower", DEVICE, len(alone), note=note),
        Figure(
            "kube_daemon_rss_mib",
            weight,
            "MiB",
            150,
            "lower",
            DEVICE,
            len(pids),
            note=f"agent, and driver and plugin in one process, beside {PODS} pods",
        ),
    ]


# What a share adds to the start of a pod


def started_s(bed: Bed, *objects: dict[str, Any], name: str) -> float:
    """From the pod's creation to the moment at which its program has run."""
    watch = subprocess.Popen(
        ["kubectl", "get", "pod", "-n", NAMESPACE, "--watch", "-o",
         "jsonpath={.metadata.name} {.status.phase}{'\\n'}"],
        env=bed.env, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        began_s = time.monotonic()
        bed.apply(*objects)
        assert watch.stdout is not None
        for line in watch.stdout:
            if line.split() == [name, "Running"]:
                return time.monotonic() - began_s
    finally:
        watch.kill()
        watch.wait()
    raise RuntimeError(f"{name} never ran")


def starting(bed: Bed) -> Figure:
    """Pairs of the same pod, with a claim and without."""
    shared, plain = [], []
    for number in range(PAIRS):
        name = f"s{number}"
        with_share = [claim(name, NAMESPACE, compute=10), claimant(name, NAMESPACE, *KEPT)]
        shared.append(started_s(bed, *with_share, name=name))
        name = f"p{number}"
        without = claimant(name, NAMESPACE, *KEPT)
        del without["spec"]["resourceClaims"]
        del without["spec"]["containers"][0]["resources"]
        # Two objects, as the other has: what kubectl takes for them is in neither.
        other = claim(f"unused-{number}", NAMESPACE, compute=10)
        plain.append(started_s(bed, other, without, name=name))
        bed.kubectl("delete", "pod", f"s{number}", f"p{number}", "-n", NAMESPACE, "--now")
    bed.kubectl("delete", "resourceclaim", "--all", "-n", NAMESPACE)
    more = [(a - b) * 1e3 for a, b in zip(shared, plain, strict=True)]
    return Figure(
        "kube_pod_start_overhead_ms",
        statistics.median(more),
        "ms",
        300,
        "lower",
        DEVICE,
        PAIRS,
        note=f"a pod with a claim {statistics.median(shared) * 1e3:.0f} ms, "
        f"without {statistics.median(plain) * 1e3:.0f} ms",
    )


# How fast the stock scheduler fills a cluster


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


# All of it


def inside(out: Path) -> None:
    """Measure in a bed that is up."""
    bed, native = found(), native_dir()
    assert bed is not None
    assert native is not None
    sharing = Sharing(bed, native)
    sharing.import_worker()
    sharing.install("dra")
    sharing.start_agent()
    sharing.start_node()
    sharing.wait_until_published()
    steps: list[Callable[[], list[Figure]]] = [
        lambda: on_the_node(bed),
        lambda: [starting(bed)],
        lambda: [filling(bed)],
    ]
    figures: list[Figure] = []
    for step in steps:
        figures += step()
        out.write_text(json.dumps([asdict(figure) for figure in figures]))


def measure() -> list[Figure]:
    """All figures; none where the bed is not built or cannot be had."""
    lacking = setup.missing()
    if lacking or os.geteuid() != 0:
        print(f"bench: kube: left out: {', '.join(lacking) or 'only root can'} (make kube-bed)")
        return []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        own = [sys.executable, str(Path(__file__).resolve()), str(out)]
        bed = [sys.executable, str(ROOT / "tests" / "kube" / "bed.py"), "run"]
        done = subprocess.run([*bed, *own], check=False)
        if done.returncode and not out.exists():
            raise RuntimeError(f"measuring in the cluster ended with {done.returncode}")
        return [Figure(**each) for each in json.loads(out.read_text())]


if __name__ == "__main__":
    inside(Path(sys.argv[1]))
