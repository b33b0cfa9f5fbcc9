"""The webhook's view of what nodes offer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, cast

import structlog

from moiety.kube.changes import WatchEvent
from moiety.kube.client import CONFIG_MAPS, NODES, SLICES, ApiClient, Resource
from moiety.kube.model import names
from moiety.kube.webhook.cluster_cache import ClusterCache

LOG = structlog.wrap_logger(structlog.ReturnLogger())


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 60))


class Told:
    """A client whose watches tell what the test says, and then nothing more."""

    def __init__(self, settings: dict[str, str], *nodes: WatchEvent) -> None:
        made = {"metadata": {"name": names.SETTINGS}, "data": settings}
        self.events = {
            CONFIG_MAPS: [WatchEvent("ADDED", made), WatchEvent("SYNCED", {})],
            NODES: list(nodes),
        }
        self.watched: list[Resource] = []
        self.nodes_told = asyncio.Event()
        self.slices_told = asyncio.Event()

    async def watch(
        self, resource: Resource, namespace: str | None = None, **selectors: str
    ) -> AsyncIterator[WatchEvent]:
        del namespace, selectors
        self.watched.append(resource)
        for each in self.events.get(resource, []):
            yield each
        {NODES: self.nodes_told, SLICES: self.slices_told}.get(resource, asyncio.Event()).set()
        await asyncio.Event().wait()


def node(kind: str, name: str, **capacity: str) -> WatchEvent:
    has = {f"moiety.dev/{key}-percent": number for key, number in capacity.items()}
    return WatchEvent(kind, {"metadata": {"name": name}, "status": {"capacity": has}})


async def offered_after(*nodes: WatchEvent) -> dict[str, int]:
    client = Told({"shares": "units"}, *nodes)
    view = ClusterCache(cast("ApiClient", client), names.NAMESPACE, LOG)
    watching = asyncio.create_task(view.watch())
    await client.nodes_told.wait()
    watching.cancel()
    return dict(view.cluster.nodes.offered)


def test_what_the_largest_node_offers_is_known_where_pods_get_units() -> None:
    async def body() -> None:
        nodes = [node("ADDED", "a", gpu="200"), node("ADDED", "b"), node("ADDED", "c", gpu="400")]
        assert await offered_after() == {}
        assert await offered_after(*nodes[:2]) == {"moiety.dev/gpu-percent": 200}
        assert await offered_after(*nodes) == {"moiety.dev/gpu-percent": 400}
        gone = node("DELETED", "c", gpu="400")
        assert await offered_after(*nodes, gone) == {"moiety.dev/gpu-percent": 200}
        away = node("MODIFIED", "c", gpu="0")  # its plugin is started again
        assert await offered_after(*nodes, away) == {"moiety.dev/gpu-percent": 400}

    run(body)


def test_nodes_are_not_watched_where_pods_get_claims() -> None:
    async def body() -> None:
        client = Told({"shares": "claims"})
        view = ClusterCache(cast("ApiClient", client), names.NAMESPACE, LOG)
        watching = asyncio.create_task(view.watch())
        await client.slices_told.wait()
        watching.cancel()
        assert set(client.watched) == {CONFIG_MAPS, SLICES}

    run(body)
