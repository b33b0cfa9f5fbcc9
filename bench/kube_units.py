"""How long the device plugin takes for the units of a container, at the kubelet's own socket.

Fifty pods have units meanwhile, given by the kubelet itself. What is measured is what a kubelet
asks on the way of one more container: which units are preferred, then these.
"""

from __future__ import annotations

import asyncio
import signal
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.figure import Figure
from tests.kube.bed import Bed
from tests.kube.objects import pod
from tests.kube.programs import NODE_NAME
from tests.kube.sharing import RESOURCE, Sharing

PODS: Final = 50
ROUNDS: Final = 4
SOCKET: Final = Path("/var/lib/kubelet/device-plugins/moiety-moiety-dev-gpu.sock")
TIMEOUT_S: Final = 60.0


def kept(name: str, namespace: str) -> dict[str, Any]:
    """A pod with one unit, for the kubelet alone: no scheduler has to come to it."""
    found = pod(name, "sleep", "100000", namespace=namespace, nodeName=NODE_NAME)
    found["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    return found


async def _all_units(channel: Any) -> list[str]:
    from moiety.kube.device_plugin import PLUGIN
    from moiety.kube.protocol import deviceplugin_v1beta1_pb2 as pb
    from moiety.kube.rpc import listen

    async for said in listen(channel, PLUGIN, "ListAndWatch", pb.Empty()):
        return [device.ID for device in said.devices]
    raise RuntimeError("the plugin lists nothing")


async def allocated(used: set[str]) -> tuple[list[float], list[float]]:
    """Seconds for each container: one after another, and all of a round at once."""
    from moiety.kube.device_plugin import PLUGIN
    from moiety.kube.protocol import deviceplugin_v1beta1_pb2 as pb
    from moiety.kube.rpc import call, connected

    async with connected(SOCKET) as channel:
        free = [name for name in await _all_units(channel) if name not in used]

        async def give(unit: str | None) -> float:
            """What a kubelet asks; None: whichever is preferred of those that are free."""
            began_s = time.monotonic()
            wanted = pb.ContainerPreferredAllocationRequest(
                available_deviceIDs=free if unit is None else [unit], allocation_size=1
            )
            request = pb.PreferredAllocationRequest(container_requests=[wanted])
            said = await call(channel, PLUGIN, "GetPreferredAllocation", request, TIMEOUT_S)
            (units,) = [list(each.deviceIDs) for each in said.container_responses]
            asked = pb.ContainerAllocateRequest(devices_ids=units)
            request = pb.AllocateRequest(container_requests=[asked])
            await call(channel, PLUGIN, "Allocate", request, TIMEOUT_S)
            took_s = time.monotonic() - began_s
            if unit is None:
                free.remove(units[0])
                given.append(units[0])
            return took_s

        given: list[str] = []
        alone: list[float] = []
        at_once: list[float] = []
        every = list(free)
        for _ in range(ROUNDS):
            free[:], given[:] = every, []
            alone += [await give(None) for _ in range(min(PODS, len(every)))]
        for _ in range(ROUNDS):
            at_once += await asyncio.gather(*(give(unit) for unit in given))
    return alone, at_once


def units_of_pods(kubelet_dir: Path) -> set[str]:
    """What the kubelet has given away."""
    from moiety.kube.podresources import held

    return {device for each in asyncio.run(held(kubelet_dir)) for device in each.devices}


def allocating(bed: Bed, sharing: Sharing, p99: Callable[[list[float]], float]) -> Figure:
    """`kube_allocate_p99_ms`; the node's process serves units when it is done."""
    namespace = "default"
    sharing.wait_until_nothing_is_left()  # of claims, which a plugin alone does not serve
    bed.kill("node", signal.SIGTERM)
    sharing.start_node("--mode", "plugin")
    # No webhook runs here, and pods that ask for units would be refused without it.
    hooks = "mutatingwebhookconfigurations,validatingwebhookconfigurations"
    bed.kubectl("delete", hooks, "--all")

    def offered() -> bool:
        sharing.bed.must_run("node")
        status = bed.get("node", NODE_NAME)["status"]
        return int(status.get("allocatable", {}).get(RESOURCE, 0)) == 100

    bed.until(offered, "the node offers units")
    names = [f"u{number}" for number in range(PODS)]
    bed.apply(*(kept(name, namespace) for name in names))
    phases = ("get", "pods", "-n", namespace, "-o", "jsonpath={.items[*].status.phase}")
    bed.until(
        lambda: bed.kubectl(*phases).split().count("Running") == PODS, "all pods with units run"
    )
    used = units_of_pods(Path("/var/lib/kubelet"))
    alone, at_once = asyncio.run(allocated(used))
    bed.kubectl("delete", "pod", *names, "-n", namespace, "--force", "--grace-period=0")
    note = (
        f"GetPreferredAllocation and Allocate, beside {len(used)} pods that have units; median "
        f"{statistics.median(alone) * 1e3:.0f} ms; all {len(at_once) // ROUNDS} at once: "
        f"{p99(at_once):.0f} ms"
    )
    return Figure(
        "kube_allocate_p99_ms", p99(alone), "ms", 50, "lower", "simgpu", len(alone), note=note
    )
