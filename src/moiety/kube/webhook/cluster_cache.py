"""The webhook's view of its cluster: settings, sizes and GPUs, kept current by watches."""

from __future__ import annotations

import asyncio
import datetime as dt
import time
from collections.abc import Mapping
from typing import Any, Final

from moiety.kube import cluster_gpus
from moiety.kube.client import SLICES, ApiClient, ApiError, Object, Resource
from moiety.kube.model import names
from moiety.kube.model.share_config import DRIVER
from moiety.kube.webhook import webhook_config
from moiety.kube.webhook.admission import ClusterView

CONFIG_MAPS: Final = Resource("", "v1", "configmaps", "ConfigMap")
AGAIN_S: Final = 30.0


class ClusterCache:
    """The view of the cluster, current while `watch` runs."""

    def __init__(self, client: ApiClient, namespace: str, log: Any) -> None:
        self.client = client
        self.namespace = namespace
        self.log = log
        self.problems: tuple[str, ...] = ()
        self.changed = asyncio.Event()
        """Set when the settings have changed."""
        self._maps: dict[str, Mapping[str, str]] = {}
        self._slices: dict[str, Object] = {}
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
            )
            for problem in set(found.problems) - set(self.problems):
                self.log.warning("settings_invalid", problem=problem)
            self._cluster, self.problems = found.cluster, found.problems
        return self._cluster

    async def watch(self) -> None:
        """Watch ConfigMaps and slices, for ever."""
        await asyncio.gather(self._watch_maps(), self._watch_slices())

    async def _watch_maps(self) -> None:
        while True:
            try:
                async for change in self.client.watch(CONFIG_MAPS, self.namespace):
                    if change.kind == "SYNCED":
                        self._synced["maps"] = True
                        continue
                    name = change.object["metadata"]["name"]
                    if name not in (names.SETTINGS, names.SIZES):
                        continue
                    gone = change.kind == "DELETED"
                    self._maps[name] = {} if gone else change.object.get("data") or {}
                    self._cluster = None
                    self.changed.set()
            except ApiError as no:
                self.log.error("settings_unreadable", problem=no.what)
                await asyncio.sleep(AGAIN_S)

    async def _watch_slices(self) -> None:
        """Watch slices; without this API no GPUs are known, and pods get units."""
        selector = f"spec.driver={DRIVER}"
        while True:
            try:
                async for change in self.client.watch(SLICES, field_selector=selector):
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


def age_s(found: Object, now: float | None = None) -> float:
    """The age of an object in seconds, by its creation time."""
    text = found["metadata"].get("creationTimestamp")
    if not text:
        return 0.0
    made = dt.datetime.fromisoformat(text).timestamp()
    return (time.time() if now is None else now) - made
