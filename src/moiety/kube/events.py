"""Writes entries of the agent's journal as Events of Kubernetes, on their pod or on the node.

Repeated entries, such as evictions of pods that take turns, are one Event with a count. The number
of the last written journal entry is saved: the next process goes on after it. An Event that the API
server does not take in time is lost, and the log says so.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from moiety.agent.control import protocol
from moiety.agent.core.journal_events import Event
from moiety.kube.agent_client import AgentClient
from moiety.kube.client import EVENTS, ApiClient, ApiError
from moiety.kube.pods import Pod, Pods, reference
from moiety.model.errors import MoietyError

CONTROLLER: Final = "moiety.dev/node"
TOLD: Final = frozenset({"Evicted", "Idle", "ShareChanged", "OffenceOver"})
"""Reasons that become Events although they are no warnings."""
LEFT_OUT: Final = frozenset({"Missing", "ConnectionLost"})
"""Warnings that are of no use to the owner of a pod."""
OF_NODE: Final = frozenset({"GpuError", "GpuUnreadable", "Unregistered"})
"""Reasons that become Events on the node if they are about no pod."""
SERIES: Final = frozenset({"Evicted"})
"""Reasons whose repeated entries are one Event with a count."""
SERIES_S: Final = 360.0
"""A series ends after this time without an entry: the next one is a new Event."""
COUNT_S: Final = 30.0
"""The count is written at most once in this time."""
NOTE_MOST: Final = 1000
"""Bytes of a note: Kubernetes refuses an Event with more than 1024."""
A_MINUTE: Final = 30
"""The most events of one reason about one pod; the log says that more are left out."""
WAIT_S: Final = 5.0
AGAIN_S: Final = 1.0


@dataclass(slots=True)
class _Series:
    name: str
    """The name of the Event."""
    seen_s: float
    told_s: float
    count: int = 1


class EventRecorder:
    """Writes Events of one node."""

    def __init__(
        self,
        client: ApiClient,
        line: AgentClient,
        pods: Pods,
        node: str,
        cursor: Path,
        log: Any,
    ) -> None:
        """`line` is not shared: this object waits on it. `cursor` is the file with the number."""
        self._client = client
        self._line = line
        self._pods = pods
        self._node = node
        self._cursor = cursor
        self._log = log
        self._lately: dict[tuple[str, str], deque[float]] = {}
        """The times of recent events by pod and reason: each reason has its own limit."""
        self._series: dict[tuple[str, str, int | None], _Series] = {}
        """Series by pod, reason and GPU."""

    async def follow(self) -> None:
        """Write an Event for each further entry of the journal, for ever."""
        after = await self._begin()
        while True:
            try:
                asked = protocol.Events(after=after, wait_s=WAIT_S)
                page = await self._line.ask(asked, protocol.Happened)
                is_quiet = not page.events and page.read_to <= after
                counts_anew = is_quiet and await self._last() < after
            except MoietyError:
                await asyncio.sleep(AGAIN_S)
                continue
            for event in page.events:
                await self._tell(event)
            if page.read_to > after:
                after = page.read_to
                self._write(after)
            elif counts_anew:
                after = 0  # the agent counts from 1 again: its folder was emptied

    async def tell(
        self, about: Pod | None, reason: str, note: str, *, warning: bool, gpu: int | None = None
    ) -> str:
        """Write an Event; returns its name, or an empty one if it failed, which is logged."""
        key = about.uid if about else "", reason
        lately = self._lately.setdefault(key, deque(maxlen=A_MINUTE))
        now_s = time.monotonic()
        if len(lately) == A_MINUTE and now_s - lately[0] < 60:
            self._log.info("event_left_out", reason=reason, note=note)
            return ""
        lately.append(now_s)
        self._forget()
        name = about.name if about else self._node
        namespace = about.namespace if about else "default"
        where = f" (GPU {gpu})" if gpu is not None else ""
        node = {"apiVersion": "v1", "kind": "Node", "name": self._node}
        own = f"{name[:230]}.{secrets.token_hex(8)}"
        body = {
            "metadata": {"name": own, "namespace": namespace},
            "eventTime": _now(),
            "reportingController": CONTROLLER,
            "reportingInstance": self._node[:128],
            "action": "Sharing",
            "reason": reason,
            "regarding": reference(about) if about else node,
            "note": (note + where).encode()[:NOTE_MOST].decode(errors="ignore"),
            "type": "Warning" if warning else "Normal",
        }
        try:
            await self._client.create(EVENTS, body, namespace)
        except ApiError as no:
            self._log.warning("event_refused", reason=reason, note=note, problem=no.what)
            return ""
        return own

    async def _tell_again(self, pod: Pod, reason: str, gpu: int | None) -> bool:
        """Count one more entry of a running series; False if no series runs."""
        known = self._series.get((pod.uid, reason, gpu))
        now_s = time.monotonic()
        if known is None or now_s - known.seen_s > SERIES_S:
            return False
        known.seen_s = now_s
        known.count += 1
        if now_s - known.told_s < COUNT_S:
            return True
        known.told_s = now_s
        change = {"series": {"count": known.count, "lastObservedTime": _now()}}
        try:
            await self._client.patch(EVENTS, known.name, change, pod.namespace)
        except ApiError as no:
            self._log.warning("event_not_counted", reason=reason, problem=no.what)
            return not no.is_missing  # Kubernetes keeps them for an hour, usually
        return True

    def _forget(self) -> None:
        """Forget pods that are gone."""
        there = self._pods.by_uid
        if len(self._lately) + len(self._series) > 8 * A_MINUTE + 8 * len(there):
            self._lately = {k: v for k, v in self._lately.items() if k[0] in there}
            self._series = {k: v for k, v in self._series.items() if k[0] in there}

    async def _tell(self, event: Event) -> None:
        warning = event.severity == "warning"
        if event.reason in LEFT_OUT or not (warning or event.reason in TOLD):
            return
        pod = self._pod(event)
        if pod is None and event.reason not in OF_NODE:
            return
        who = f"{event.program} (pid {event.pid}): " if event.pid is not None else ""
        goes_on = event.reason in SERIES and pod is not None
        if goes_on and pod and await self._tell_again(pod, event.reason, event.gpu):
            return
        note = who + event.message
        name = await self.tell(pod, event.reason, note, warning=warning, gpu=event.gpu)
        if goes_on and pod and name:
            now_s = time.monotonic()
            self._series[pod.uid, event.reason, event.gpu] = _Series(name, now_s, now_s)

    def _pod(self, event: Event) -> Pod | None:
        if found := self._pods.by_uid.get(event.pod):
            return found
        labels = event.labels
        if "pod" in labels:
            return self._pods.named(labels.get("namespace", ""), labels["pod"])
        return None

    async def _begin(self) -> int:
        """The number to go on after: the saved one, or that of the newest event."""
        while True:
            try:
                last = await self._last()
                break
            except MoietyError:
                await asyncio.sleep(AGAIN_S)
        try:
            return min(int(self._cursor.read_text()), last)
        except (OSError, ValueError):
            return last

    async def _last(self) -> int:
        """The number of the agent's newest event."""
        after = 0
        while True:
            page = await self._line.ask(protocol.Events(after=after), protocol.Happened)
            after = max(after, page.read_to)
            if not page.more:
                return after

    def _write(self, after: int) -> None:
        with contextlib.suppress(OSError):  # some Events are then written twice
            self._cursor.write_text(f"{after}\n")


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
