"""Lines on the terminal of an interactive program: why it waits, and what is being restored.

The program's shim says whether it is interactive, and writes the lines
(native/shim/agent/terminal_notice.c). They are few: the first one comes when a wait is long, the
next ones at growing intervals, also over many short turns.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from moiety.agent.core.client import Client
from moiety.agent.core.recovery import UNSETTLED, Recovery
from moiety.agent.core.runtime import LiveSettings, Runtime
from moiety.agent.system.event_loop import Timer
from moiety.arbiter.machine import Arbiter
from moiety.arbiter.snapshots import GpuView, TenantView
from moiety.model.format import format_bytes, format_duration, plain
from moiety.wire.messages import TerminalLineMessage

AFTER_S: Final = 3.0
SPACING_S: Final = 60.0
SPACING_MAX_S: Final = 3600.0
LOOK_S: Final = 0.5
RESTORED_MIN_BYTES: Final = 1 << 30
"""A smaller restore is over before a person notices it."""
ABOUT_TENANTS: Final = ("tenant", "others are ahead")
"""Beginnings of the arbiter's reasons that only name the holder's number."""


class Notice(NamedTuple):
    """One text, as a pattern, with what it means."""

    text: str
    meaning: str


WAITING: Final = Notice(
    "waiting for {gpus}, {time} so far", "the program is blocked until it gets the GPU"
)
HELD: Final = Notice("held by {programs}", "these programs have the GPU now, and for how long")
PLACE: Final = Notice(
    "place {place} of {length} in the queue", "other programs wait for the same GPU"
)
CONTINUES: Final = Notice("the program continues after {time}", "the program got the GPU")
RESTORING: Final = Notice(
    "restoring {size}, about {time}",
    "the program got the GPU; its memory is copied back from the host first",
)
MOVED: Final = Notice(
    "it gets GPU {now} instead of GPU {was}",
    "the agent chose again before the program looked at its GPUs",
)
SUSPENDED: Final = Notice(
    "suspended by {user}; `moiety resume {workload}` lets it go on",
    "the program gets no turns, and its memory leaves the GPU",
)
RESUMED: Final = Notice("resumed", "the program gets turns again")
NOTICES: Final = (WAITING, HELD, PLACE, CONTINUES, RESTORING, MOVED, SUSPENDED, RESUMED)
"""HELD and PLACE follow WAITING in the same line."""


@dataclass(slots=True)
class WaitRecord:
    """What one client was told, and when it gets the next line."""

    again_s: float = 0.0
    spacing_s: float = SPACING_S
    since_s: float | None = None
    """Since when it waits, if it got a line about this wait."""
    asked: tuple[int, float] = (0, 0.0)
    """Serial of its oldest unanswered request, and when that was first seen."""
    restored_again_s: float = 0.0


class WaitMessages:
    """Looks at waiting programs, as long as an interactive one waits."""

    def __init__(
        self,
        runtime: Runtime,
        clients: Mapping[int, Client],
        *,
        arbiter: Arbiter,
        recovery: Recovery,
        settings: LiveSettings,
        shared: bool = False,
        after_s: float = AFTER_S,
    ) -> None:
        """`shared`: programs of several users are here, who must not learn each other's names."""
        self.after_s = after_s
        """Seconds after which a waiting program is told why; 0: never."""
        self._runtime = runtime
        self._clients = clients
        self._arbiter = arbiter
        self._recovery = recovery
        self._settings = settings
        self._shared = shared
        self._told: dict[int, WaitRecord] = {}
        self._timer: Timer | None = None

    def may_wait(self) -> None:
        """An interactive program has sent a request, and may have to wait for the answer."""
        if self._timer is None and self.after_s > 0:
            self._arm()

    def left(self, client: Client) -> None:
        """A process is gone."""
        self._told.pop(client.number, None)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def restoring(self, client: Client, gpu: int, given_bytes: int) -> None:
        """A process got a restore budget: print a line if it still lacks many bytes."""
        told = self._of(client)
        now_s = self._runtime.now()
        if now_s < told.restored_again_s or self.after_s <= 0:
            return
        told.restored_again_s = now_s + LOOK_S  # room comes in many pieces, as others give it
        view = next((v for v in self._arbiter.tenants() if v.tenant == client.number), None)
        on = view.gpus.get(gpu) if view else None
        missing = on.allocated_bytes - on.resident_bytes + given_bytes if on else 0
        if missing < RESTORED_MIN_BYTES:
            return
        told.restored_again_s = now_s + SPACING_S
        speed = self._settings.now.link_bytes_per_s
        counters = client.counters()
        if counters.restored_ns:
            speed = counters.restored_bytes / (counters.restored_ns / 1e9) or speed
        text = RESTORING.text.format(size=format_bytes(missing), time=_about(missing / speed))
        self._say(client, text)

    def _of(self, client: Client) -> WaitRecord:
        return self._told.setdefault(client.number, WaitRecord())

    def _arm(self) -> None:
        when_s = self._runtime.now() + min(LOOK_S, self.after_s)
        self._timer = self._runtime.call_at(when_s, self._look)

    def _look(self) -> None:
        self._timer = None
        now_s = self._runtime.now()
        views = {view.tenant: view for view in self._arbiter.tenants()}
        waits = False
        for number, client in self._clients.items():
            if client.talks and (view := views.get(number)):
                waits = self._look_at(client, view, views, now_s) or waits
        if waits and self.after_s > 0:
            self._arm()

    def _look_at(
        self, client: Client, view: TenantView, views: dict[int, TenantView], now_s: float
    ) -> bool:
        """Send one client its line if one is due; returns whether it waits."""
        told = self._of(client)
        since_s = view.waiting_since_s
        if since_s is None:
            since_s = self._asks_since(client, told, now_s)
        if told.since_s is not None and since_s != told.since_s:
            if since_s is None:
                waited = _about(now_s - told.since_s)
                self._say(client, CONTINUES.text.format(time=waited))
            told.since_s = None
        if since_s is None:
            return False
        if now_s - since_s >= self.after_s and now_s >= told.again_s:
            told.since_s = since_s
            told.again_s = now_s + told.spacing_s
            told.spacing_s = min(SPACING_MAX_S, told.spacing_s * 2)
            self._say(client, self._waiting_text(view, views, now_s - since_s, now_s))
        return True

    def _asks_since(self, client: Client, told: WaitRecord, now_s: float) -> float | None:
        """Since when a holder waits for room; None: it does not."""
        serial = min([*client.allocating, *client.attaching], default=0)
        if serial != told.asked[0]:
            told.asked = (serial, now_s)
        return told.asked[1] if serial else None

    def _say(self, client: Client, text: str) -> None:
        client.connection.send(TerminalLineMessage(text=plain(text)).encode())

    def _waiting_text(
        self, view: TenantView, views: dict[int, TenantView], waited_s: float, now_s: float
    ) -> str:
        """How long a tenant has waited, for which holders, and its place in the queue."""
        gpus = [gpu for gpu in self._arbiter.gpus() if gpu.gpu in view.gpus]
        where = ", ".join(str(gpu.gpu) for gpu in gpus)
        where = f"GPU{'s' * (len(gpus) > 1)} {where}" if gpus else "a GPU"
        parts = [WAITING.text.format(gpus=where, time=_about(waited_s))]
        if holders := self._holders(view, views, gpus, now_s):
            parts.append(HELD.text.format(programs=holders))
        reason = view.reason if self._recovery.is_settled else UNSETTLED
        if reason and not reason.startswith(ABOUT_TENANTS):
            parts.append(reason)
        if place := self._place(view, views):
            parts.append(place)
        return "; ".join(parts)

    def _holders(
        self,
        view: TenantView,
        views: dict[int, TenantView],
        gpus: list[GpuView],
        now_s: float,
    ) -> str:
        found = []
        for number in sorted({n for gpu in gpus for n in gpu.holders if n != view.tenant}):
            holder, other = self._clients.get(number), views.get(number)
            if holder is not None and other is not None:
                viewer = self._clients.get(view.tenant)
                name = holder.name_for(viewer) if self._shared else str(holder)
                found.append(f"{name} for {_about(now_s - other.since_s)}")
        more = f" and {len(found) - 2} more" if len(found) > 2 else ""
        return " and ".join(found[:2]) + more if not more else ", ".join(found[:2]) + more

    def _place(self, view: TenantView, views: dict[int, TenantView]) -> str:
        """A tenant's place in the queue for one of its GPUs; empty if no other waits."""
        queue = [
            other
            for number in self._arbiter.queue()
            if (other := views.get(number)) and not view.gpus.keys().isdisjoint(other.gpus)
        ]
        queue.sort(key=lambda other: -other.share.rank)  # stable: first come, first served
        if view not in queue or len(queue) < 2:
            return ""
        return PLACE.text.format(place=queue.index(view) + 1, length=len(queue))


def _about(seconds: float) -> str:
    """A length of time as people say it."""
    if seconds < 1:
        return format_duration(max(0.1, round(seconds, 1)))
    return format_duration(float(round(seconds)))
