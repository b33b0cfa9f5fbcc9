"""A node of Kubernetes for tests: an agent, `moiety kube node`, and stand-ins for the rest.

async with KubeNode(tmp_path, gpu="2xA100-80:memory=256MiB") as node:
await node.start()
claim = node.claim("train", {"gpu-0": 50})
answer = (await node.kubelet.prepare(node.key(claim)))[claim["metadata"]["uid"]]
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from moiety.kube.checkpoint import AssignmentStore
from moiety.kube.client import CLAIMS, CONFIG_MAPS, NODES, PODS, SLICES, Object
from moiety.kube.model import names
from moiety.kube.model.share_config import DRIVER
from moiety.testing.apiserver import ApiServer
from moiety.testing.kubelet import Kubelet
from moiety.testing.node import Node, kill
from moiety.testing.waiting import DEADLINE_S

NAME: Final = "node-a"
TEAM: Final = "team"


class KubeNode:
    """One machine with everything that `moiety kube node` speaks to."""

    def __init__(self, folder: Path, gpu: str, *, native: Path | None = None) -> None:
        self.machine = Node(folder, gpu, native=native)
        self.folder = self.machine.directory
        """A folder with a path short enough for sockets."""
        self.api = ApiServer()
        self.kubelet = Kubelet(self.folder / "k")
        self.cdi = self.folder / "cdi"
        self.state = self.folder / "s"
        self.process: subprocess.Popen[str] | None = None

    async def __aenter__(self) -> Self:
        self.machine.__enter__()
        await self.api.start()
        await self.kubelet.start()
        self.api.put(NODES, {"metadata": {"name": NAME}})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.api.stop()
        await self.kubelet.stop()
        self.machine.__exit__(kind, error, trace)

    async def start(self, *options: str) -> None:
        """Start an agent, if none runs, and the node's process; wait until it is registered."""
        if self.machine.agent is None or self.machine.agent.poll() is not None:
            self.machine.start_agent()  # the stand-in waits meanwhile; an agent needs none of it
        self.launch(*options)
        if "plugin" not in options:
            await self.kubelet.find_driver(self._ended)
            await self.until(lambda: bool(self.devices()), "slices are published")
        if "plugin" in options or "both" in options:
            await self.until(lambda: bool(self.kubelet.plugins), "the plugin has registered")

    def launch(self, *options: str) -> subprocess.Popen[str]:
        """Start `moiety kube node` alone; its log goes to node.log."""
        config = self.folder / "kubeconfig"
        config.write_text(json.dumps(kubeconfig(self.api.access.server)))
        command = [sys.executable, "-m", "moiety", "kube", "node", "--node", NAME]
        command += ["--kubeconfig", str(config), "--kubelet-dir", str(self.kubelet.folder)]
        command += ["--cdi-dir", str(self.cdi), "--state-dir", str(self.state), *options]
        with (self.folder / "node.log").open("a") as log:
            self.process = subprocess.Popen(
                command, env=self.machine.env, stdout=log, stderr=log, text=True
            )
        self.machine.started.append(self.process)
        return self.process

    async def stop(self, number: int = signal.SIGTERM) -> int:
        """End the node's process, and wait until it is gone; returns its exit code."""
        assert self.process is not None
        if number == signal.SIGKILL:
            kill(self.process)
        else:
            self.process.send_signal(number)
        return await asyncio.to_thread(self.process.wait, DEADLINE_S)

    def _ended(self) -> str:
        return self.log if self.process and self.process.poll() is not None else ""

    @property
    def log(self) -> str:
        """The log of the node's process so far."""
        return (self.folder / "node.log").read_text()

    def devices(self) -> dict[str, Object]:
        """The devices of the slices, by name."""
        found: dict[str, Object] = {}
        for each in self.api.all(SLICES):
            found |= {device["name"]: device for device in each["spec"]["devices"]}
        return found

    def claim(
        self,
        name: str,
        consumed: Mapping[str, int] | None = None,
        *,
        memory: str = "0",
        config: Mapping[str, Any] | None = None,
        requests: Mapping[str, Mapping[str, int]] | None = None,
        pod: str | None = None,
    ) -> Object:
        """A claim that the scheduler has given these percents of these devices, for a new pod."""
        parts = dict(requests or {"gpu": consumed or {}})
        pod = pod or f"{name}-pod"
        made = self.api.put(PODS, {"metadata": {"name": pod}, "spec": {"nodeName": NAME}}, TEAM)
        results = [
            {
                "request": request,
                "driver": DRIVER,
                "pool": NAME,
                "device": device,
                "shareID": f"00000000-0000-4000-8000-{number:012}",
                "consumedCapacity": {"compute": str(percent), "memory": memory},
            }
            for request, devices in parts.items()
            for number, (device, percent) in enumerate(devices.items())
        ]
        configs = [{"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": config}}]
        allocation = {"devices": {"results": results, "config": configs if config else []}}
        reserved = [{"resource": "pods", "name": pod, "uid": made["metadata"]["uid"]}]
        status = {"allocation": allocation, "reservedFor": reserved}
        metadata = {"name": name, "creationTimestamp": dt.datetime.now(dt.UTC).isoformat()}
        body = {"metadata": metadata, "spec": {"devices": {}}, "status": status}
        return self.api.put(CLAIMS, body, TEAM)

    def allow(self, text: str, namespace: str = TEAM) -> None:
        """Allow a namespace what an administrator's ConfigMap says: lines of WORD: VALUE."""
        metadata = {"name": names.NAMESPACES}
        body = {"metadata": metadata, "data": {namespace: text}}
        self.api.put(CONFIG_MAPS, body, names.NAMESPACE)

    @staticmethod
    def key(claim: Object) -> tuple[str, str, str]:
        """Namespace, name and UID of a claim, as the kubelet names it."""
        told = claim["metadata"]
        return told["namespace"], told["name"], told["uid"]

    async def prepare(self, claim: Object) -> Any:
        """Prepare one claim; returns the driver's answer."""
        return (await self.kubelet.prepare(self.key(claim)))[claim["metadata"]["uid"]]

    async def unprepare(self, claim: Object) -> Any:
        """Unprepare one claim; returns the driver's answer."""
        return (await self.kubelet.unprepare(self.key(claim)))[claim["metadata"]["uid"]]

    def shares(self) -> dict[str, Any]:
        """The agent's container shares, by name."""
        return {row["name"]: row for row in self.machine.json("container", "ls")}

    def specs(self) -> dict[str, Any]:
        """The CDI specifications, by the names of their devices."""
        found = {}
        for path in self.cdi.glob("*.json"):
            for device in json.loads(path.read_text())["devices"]:
                found[device["name"]] = device["containerEdits"]
        return found

    def written_down(self) -> set[str]:
        """The names of the shares in the checkpoint."""
        return set(AssignmentStore(self.state / "given.json").assignments)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until this holds; an AssertionError that names `what` and shows the log if not."""
        until_s = time.monotonic() + DEADLINE_S
        while not condition():
            assert not self._ended(), self._ended()
            assert time.monotonic() < until_s, f"waited in vain until {what}\n{self.log}"
            await asyncio.sleep(0.02)


def kubeconfig(server: str) -> dict[str, Any]:
    """A kubeconfig for a server without authentication."""
    return {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
    }
