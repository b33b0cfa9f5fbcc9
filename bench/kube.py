"""On Kubernetes: how long claims and units take on their node, what a share adds to a pod's start,
what our processes on a node weigh, and how fast the stock scheduler fills a cluster.

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

from bench import kube_floor
from bench.figure import Figure
from bench.kube_fill import filling
from bench.kube_units import allocating
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
    """The same pod without a claim, with one of a driver that does nothing, and with a share."""
    bed.apply(*kube_floor.objects(NODE_NAME))
    floor = [sys.executable, str(Path(kube_floor.__file__)), NODE_NAME]
    bed.start("floor", floor)
    socket = kube_floor.KUBELET / "plugins_registry" / f"{kube_floor.NAME}-reg.sock"
    bed.until(socket.exists, "the driver that does nothing is there")
    took: dict[str, list[float]] = {"plain": [], "floor": [], "shared": []}
    for number in range(PAIRS):
        without = claimant(f"plain-{number}", NAMESPACE, *KEPT)
        del without["spec"]["resourceClaims"]
        del without["spec"]["containers"][0]["resources"]
        pods = {
            # Two objects, as the others have: what kubectl takes for them is in none.
            "plain": [kube_floor.claim(f"plain-{number}", NAMESPACE), without],
            "floor": [
                kube_floor.claim(f"floor-{number}", NAMESPACE),
                claimant(f"floor-{number}", NAMESPACE, *KEPT),
            ],
            "shared": [
                claim(f"shared-{number}", NAMESPACE, compute=10),
                claimant(f"shared-{number}", NAMESPACE, *KEPT),
            ],
        }
        for kind, objects in pods.items():
            took[kind].append(started_s(bed, *objects, name=f"{kind}-{number}"))
        names = [f"{kind}-{number}" for kind in pods]
        bed.kubectl("delete", "pod", *names, "-n", NAMESPACE, "--now")
    bed.kubectl("delete", "resourceclaim", "--all", "-n", NAMESPACE)
    bed.kill("floor")
    bed.kubectl("delete", "resourceslice", "floor")

    def more_ms(kind: str) -> float:
        pairs = zip(took[kind], took["plain"], strict=True)
        return statistics.median((a - b) * 1e3 for a, b in pairs)

    return Figure(
        "kube_pod_start_overhead_ms",
        more_ms("shared"),
        "ms",
        300,
        "lower",
        DEVICE,
        PAIRS,
        note=f"a pod without a claim takes {statistics.median(took['plain']) * 1e3:.0f} ms; the "
        f"claim of a driver that does nothing adds {more_ms('floor'):.0f} ms",
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
        lambda: [allocating(bed, sharing, p99)],
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
