"""The sockets of a node's process after the kubelet's folder was emptied."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import structlog

from moiety.kube.device_plugin import FOLDER, KUBELET
from moiety.kube.node import NodeDriver
from moiety.kube.options import DriverOptions


class Socket:
    """A server whose socket is gone until it was started again; its end waits for the test."""

    def __init__(self, let: asyncio.Event, *, made: list[Socket]) -> None:
        self.path = Path("moiety.sock")
        self.is_there = False
        self._let = let
        self._made = made
        self.stopping = asyncio.Event()

    def again(self) -> Socket:
        self._made.append(Socket(self._let, made=self._made))
        return self._made[-1]

    async def start(self) -> None:
        self.is_there = True

    async def stop(self) -> None:
        self.stopping.set()
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
        await gone.stopping.wait()
        registering = asyncio.create_task(node._keep_registered())
        await asyncio.sleep(0)  # it comes as far as it can
        assert plugin.registered == 0
        let.set()
        await asyncio.gather(keeping, registering)
        assert len(made) == 1
        await node._keep_registered()
        assert plugin.registered == 1

    asyncio.run(asyncio.wait_for(story(), 20))
