"""What a node's process does alone: its sockets, and claims that the kubelet forgot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
import structlog

from moiety.kube import node as node_module
from moiety.kube.checkpoint import CLAIM, Assignment, Slot
from moiety.kube.client import CLAIMS, ApiClient
from moiety.kube.device_plugin import FOLDER, KUBELET
from moiety.kube.model.share_config import DRIVER
from moiety.kube.node import NodeDriver
from moiety.kube.options import DriverOptions
from moiety.model.share import Share
from moiety.testing.apiserver import ApiServer
from moiety.testing.waiting import Changes
from tests.support.kube_shares import UUIDS, manager


class Socket:
    """A server whose socket is gone until it was started again; its end waits for the test."""

    def __init__(self, let: asyncio.Event, *, made: list[Socket]) -> None:
        self.path = Path("moiety.sock")
        self.is_there = False
        self._let = let
        self._made = made
        self.stops = Changes()
        self.stopped = 0

    def again(self) -> Socket:
        self._made.append(Socket(self._let, made=self._made))
        return self._made[-1]

    async def start(self) -> None:
        self.is_there = True

    async def stop(self) -> None:
        self.stopped += 1
        self.stops.tell()
        await self._let.wait()


class Plugin:
    """Counts its registrations."""

    registered = 0

    async def register(self, folder: Path) -> None:
        del folder
        self.registered += 1


def test_a_socket_is_made_again_once_and_before_its_plugin_is_registered(tmp_path: Path) -> None:
    async def story() -> None:
        made: list[Socket] = []
        let = asyncio.Event()
        (tmp_path / FOLDER).mkdir()
        (tmp_path / FOLDER / KUBELET).touch()
        node = NodeDriver.__new__(NodeDriver)
        node.options = DriverOptions(kubelet_dir=tmp_path)
        node.log = structlog.get_logger()
        gone, plugin = Socket(let, made=made), Plugin()
        node._servers, node.plugins = [cast("Any", gone)], [cast("Any", plugin)]
        node._kubelet_inode = 0
        keeping = asyncio.create_task(node._keep_sockets())
        await gone.stops.until(lambda: gone.stopped == 1)
        registering = asyncio.create_task(node._keep_registered())
        registering.add_done_callback(lambda _: gone.stops.tell())
        await gone.stops.until(lambda: gone.stopped == 2 or registering.done())
        assert plugin.registered == 0
        let.set()
        await asyncio.gather(keeping, registering)
        assert len(made) == 1
        await node._keep_registered()
        assert plugin.registered == 1

    asyncio.run(asyncio.wait_for(story(), 20))


def test_a_claim_that_is_allocated_elsewhere_by_now_keeps_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_module, "ORPHANS_S", 0.0)

    def claim(name: str, pool: str) -> dict[str, Any]:
        result = {"driver": DRIVER, "pool": pool, "device": "gpu-0", "request": "gpu"}
        allocation = {"devices": {"results": [result]}}
        return {"metadata": {"name": name, "uid": name}, "status": {"allocation": allocation}}

    def share(name: str) -> Assignment:
        slots = [Slot("gpu-0", UUIDS[0], 10.0)]
        made = Share(gpu=0.1)
        return Assignment(f"k8s-{name}", CLAIM, name, slots, made, namespace="team", claim=name)

    async def story() -> None:
        node = NodeDriver.__new__(NodeDriver)
        node.options = DriverOptions(node="here")
        node.log = structlog.get_logger()
        node.shares, agent = manager(tmp_path)
        node._suspects = {}
        await node.shares.give([share(each) for each in ("stays", "moved", "free", "deleted")])
        async with ApiServer() as server, ApiClient(server.access) as node.client:
            server.put(CLAIMS, claim("stays", "here"), "team")
            server.put(CLAIMS, claim("moved", "elsewhere"), "team")
            server.put(CLAIMS, {"metadata": {"name": "free", "uid": "free"}}, "team")
            await node._sweep()
        assert set(agent.rows) == {"k8s-stays"}

    asyncio.run(asyncio.wait_for(story(), 20))
