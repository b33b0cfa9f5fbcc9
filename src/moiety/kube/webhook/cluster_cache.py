"""The webhook's view of its cluster: settings, sizes and GPUs, kept current by watches."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from moiety.kube import cluster_gpus
from moiety.kube.client import CONFIG_MAPS, NODES, SLICES, ApiClient, ApiError, Object, Resource
from moiety.kube.model import names
from moiety.kube.model.share_config import DRIVER
from moiety.kube.namespace_limits import NamespaceLimits
from moiety.kube.webhook import webhook_config
from moiety.kube.webhook.admission import AllocationMethod, ClusterView

AGAIN_S: Final = 30.0


class ClusterCache:
    """The view of the cluster, current while `watch` runs."""

    def __init__(self, client: ApiClient, namespace: str, log: Any) -> None:
        self.client = client
        self.namespace = namespace
        self.log = log
        self.problems: tuple[str, ...] = ()
        self.limits = NamespaceLimits()
        """What each namespace may have."""
        self.changed = asyncio.Event()
        """Set when the settings have changed."""
        self._maps: dict[str, Mapping[str, str]] = {}
        self._slices: dict[str, Object] = {}
        self._watched: dict[Resource, dict[str, Object]] = {CONFIG_MAPS: {}, SLICES: {}, NODES: {}}
        """What each watch has told: one that begins again tells what is gone by then."""
        self._offered: dict[str, dict[str, int]] = {}
        """By node, the most that it has had of each of moiety's resources."""
        self._gives_units = asyncio.Event()
        self._cluster: ClusterView | None = None
        self._synced = {"maps": False, "slices": False}

    @property
    def is_known(self) -> bool:
        """Whether all watched objects were read once."""
        return all(self._synced.values())

    @property
    def cluster(self) -> ClusterView:
        """The present view."""
        if self._cluster is None:
            found = webhook_config.read(
                self._maps.get(names.SETTINGS, {}),
                self._maps.get(names.SIZES, {}),
                cluster_gpus.of(self._slices.values()),
                largest(self._offered.values()),
            )
            for problem in set(found.problems) - set(self.problems):
                self.log.warning("settings_invalid", problem=problem)
            self._cluster, self.problems = found.cluster, found.problems
        return self._cluster

    async def watch(self) -> None:
        """Watch ConfigMaps and slices, and nodes where they have units, for ever."""
        await asyncio.gather(self._watch_maps(), self._watch_slices(), self._watch_nodes())

    async def _watch_maps(self) -> None:
        while True:
            try:
                known = self._watched[CONFIG_MAPS]
                async for change in self.client.watch(CONFIG_MAPS, self.namespace, known=known):
                    if change.kind == "SYNCED":
                        self._synced["maps"] = True
                        continue
                    name = change.object["metadata"]["name"]
                    if name not in (names.SETTINGS, names.SIZES, names.NAMESPACES):
                        continue
                    gone = change.kind == "DELETED"
                    data = {} if gone else change.object.get("data") or {}
                    if name == names.NAMESPACES:
                        self._limit(data)
                    else:
                        self._maps[name] = data
                        self._cluster = None
                    self.changed.set()
                    if self.cluster.by is AllocationMethod.UNITS:
                        self._gives_units.set()
            except ApiError as no:
                self.log.error("settings_unreadable", problem=no.what)
                await asyncio.sleep(AGAIN_S)

    def _limit(self, texts: Mapping[str, str]) -> None:
        self.limits = NamespaceLimits(texts)
        for problem in self.limits.problems:
            self.log.warning("settings_invalid", problem=problem)

    async def _watch_slices(self) -> None:
        """Watch slices; without this API no GPUs are known, and pods get units."""
        selector = f"spec.driver={DRIVER}"
        while True:
            try:
                known = self._watched[SLICES]
                async for change in self.client.watch(SLICES, known=known, field_selector=selector):
                    if change.kind == "SYNCED":
                        self._synced["slices"] = True
                        continue
                    name = change.object["metadata"]["name"]
                    if change.kind == "DELETED":
                        self._slices.pop(name, None)
                    else:
                        self._slices[name] = change.object
                    self._cluster = None
            except ApiError as no:
                self._synced["slices"] = True
                self.log.warning("gpus_unknown", problem=no.what)
                await asyncio.sleep(AGAIN_S)

    async def _watch_nodes(self) -> None:
        """Watch what nodes offer: units are in no slice. Without that right it is unknown."""
        await self._gives_units.wait()
        while True:
            try:
                async for change in self.client.watch(NODES, known=self._watched[NODES]):
                    if change.kind != "SYNCED":
                        self._see_node(change.object, is_gone=change.kind == "DELETED")
            except ApiError as no:
                self.log.warning("nodes_unknown", problem=no.what)
                await asyncio.sleep(AGAIN_S)

    def _see_node(self, node: Object, *, is_gone: bool) -> None:
        """A node's plugin may be away for a while, so what it had before counts as well."""
        name = node["metadata"]["name"]
        before = self._offered.pop(name, {})
        if not is_gone:
            found = largest([before, offered(node)])
            if found:
                self._offered[name] = found
        if self._offered.get(name, {}) != before:
            self._cluster = None


def offered(node: Object) -> dict[str, int]:
    """How much a node has of each of moiety's resources."""
    capacity = (node.get("status") or {}).get("capacity") or {}
    return {
        key: int(text)
        for key, text in capacity.items()
        if key.startswith(names.PREFIX) and str(text).isdecimal() and int(text)
    }


def largest(nodes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """The largest amount of each resource that one of the nodes has."""
    found: dict[str, int] = {}
    for node in nodes:
        for key, number in node.items():
            found[key] = max(number, found.get(key, 0))
    return found


def age_s(found: Object, now: float | None = None) -> float:
    """The age of an object in seconds, by its creation time."""
    text = found["metadata"].get("creationTimestamp")
    if not text:
        return 0.0
    made = dt.datetime.fromisoformat(text).timestamp()
    return (time.time() if now is None else now) - made
