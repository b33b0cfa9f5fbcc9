"""The journal: events that an administrator asks about, in a ring in memory and in a file.

An event says which process was refused, evicted, overdue or ended, and why.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from moiety.agent.core.client import Client
from moiety.agent.core.event_file import EventFile, read
from moiety.agent.core.event_ring import EventRing
from moiety.agent.core.journal_events import REASONS, Event
from moiety.agent.system.event_loop import TimerLoop
from moiety.agent.system.processes import Peer
from moiety.agent.system.users import name_of
from moiety.model.format import format_bytes, plain

KEPT: Final = 1024
"""Events in memory; the files have some thousands more."""
MESSAGE_MAX: Final = 500
EVICTIONS_S: Final = 10.0
"""Shortest time between two events about evictions of one process."""
REPEATS_S: Final = 10.0
REPEATS_ALONE: Final = 3
"""Events of one reason and source that stand alone within REPEATS_S; the rest become one event."""
LIVES_ALONE: Final = 64
"""The same, for processes of one user that come, go, or lose their connection."""
SOURCES_MAX: Final = 256


@dataclass(slots=True)
class _Moved:
    """Evictions of one process that are not recorded yet."""

    client: Client
    gpu: int
    told_s: float = float("-inf")
    bytes: int = 0
    times: int = 0
    goes_on: bool = False
    """True while more of the same move is under way."""

    @property
    def is_told_next(self) -> bool:
        """True if the evictions are complete and can be recorded."""
        return self.bytes > 0 and not self.goes_on


@dataclass(slots=True)
class _Repeats:
    since_s: float
    told: int = 0
    merged: int = 0
    """Number of events that are not recorded yet; the fields below are of the last of them."""
    message: str = ""
    client: Client | None = None
    gpu: int | None = None
    pid: int | None = None
    program: str = ""
    uid: int | None = None
    pod: str = ""


class Journal:
    """The events of one node; `path` is where they outlive the agent (None: nowhere)."""

    def __init__(
        self,
        path: Path | None = None,
        *,
        wall_s: Callable[[], float] = time.time,
        kept: int = KEPT,
    ) -> None:
        """Begin with what earlier agents wrote down. Raises OSError if nothing can be written."""
        self.ring = EventRing(read(path) if path else (), kept)
        self.next = next((event.number for event in reversed(self.ring)), 0) + 1
        self.counts: dict[str, int] = dict.fromkeys(REASONS, 0)
        """Events of this agent, by reason."""
        self._file = EventFile(path) if path else None
        self._wall_s = self._now_s = wall_s
        self._loop: TimerLoop | None = None
        self._timer: Any = None
        self._timer_s = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._moved: dict[tuple[int, int], _Moved] = {}
        self._repeats: dict[tuple[str, int | str], _Repeats] = {}
        """By reason and source, the oldest first."""
        self.pods: dict[str, str] = {}
        """By UID: namespace/name of each pod whose name is known."""

    def timed_by(self, loop: TimerLoop) -> None:
        """Record merged events as soon as they are due, by this loop's clock.

        Without a loop they are recorded at the next event, or when a command reads the journal.
        """
        self._loop = loop
        self._now_s = loop.time

    def note(
        self,
        reason: str,
        message: str,
        client: Client | None = None,
        gpu: int | None = None,
        *,
        pid: int | None = None,
        program: str = "",
        uid: int | None = None,
        pod: str = "",
    ) -> None:
        """Record an event; the arguments after `gpu` name a process that is no client."""
        self._tell_due()
        self.counts[reason] += 1
        self._add(reason, message, client, gpu, pid, program, uid, pod)

    def _add(
        self,
        reason: str,
        message: str,
        client: Client | None,
        gpu: int | None,
        pid: int | None = None,
        program: str = "",
        uid: int | None = None,
        pod: str = "",
    ) -> None:
        event = Event(
            number=self.next,
            at_s=self._wall_s(),
            severity=REASONS[reason].severity,
            reason=reason,
            message=plain(message[:MESSAGE_MAX]),
            tenant=client.number if client else None,
            pid=client.pid if client else pid,
            program=plain(client.program if client else program),
            workload=client.workload if client else "",
            gpu=gpu,
            uid=client.uid if client else uid,
            labels=client.labels if client else self._labels(pod),
            pod=pod,
        )
        self.next += 1
        self.ring.append(event)
        if self._file:
            self._file.write(event)
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def _labels(self, pod: str) -> dict[str, str]:
        namespace, slash, name = self.pods.get(pod, "").partition("/")
        return {"namespace": namespace, "pod": name} if slash else {}

    def often(
        self,
        source: int | str,
        reason: str,
        message: str,
        client: Client | None = None,
        gpu: int | None = None,
        *,
        pid: int | None = None,
        program: str = "",
        uid: int | None = None,
        pod: str = "",
        alone: int = REPEATS_ALONE,
    ) -> bool:
        """Record an event that one process or workload can cause as often as it likes.

        The first `alone` within REPEATS_S are recorded, and it returns True for these; the
        others become one event.
        """
        self._tell_due()
        key = reason, source
        known = self._repeats.get(key)
        if known is None:
            if len(self._repeats) >= SOURCES_MAX:
                self._tell_merged(next(iter(self._repeats)))
            known = self._repeats[key] = _Repeats(self._now_s())
            self._wake_at(known.since_s + REPEATS_S)
        if known.told < alone:
            known.told += 1
            self.note(reason, message, client, gpu, pid=pid, program=program, uid=uid, pod=pod)
            return True
        self.counts[reason] += 1
        known.merged += 1
        known.message, known.client, known.gpu = message, client, gpu
        known.pid, known.program, known.uid, known.pod = pid, program, uid, pod
        return False

    def lives(self, reason: str, message: str, client: Client) -> None:
        """Record that a process came, went, or lost its connection; many at once become one."""
        self.often(f"user {client.uid}", reason, message, client, alone=LIVES_ALONE)

    def turned_away(self, peer: Peer, text: str, program: str = "") -> None:
        """Record what the agent refused to a user without a client, and why."""
        told = f"{text} (user {name_of(peer.uid)})"
        source = f"user {peer.uid}"
        self.often(source, "Refused", told, pid=peer.pid, program=program, uid=peer.uid)

    def _tell_due(self) -> None:
        """Record the merged events and the evictions that are due."""
        while self._repeats:
            key, oldest = next(iter(self._repeats.items()))
            if self._is_recent(oldest.since_s, REPEATS_S):
                break
            self._tell_merged(key)
        for moved in self._moved.values():
            if moved.is_told_next and not self._is_recent(moved.told_s, EVICTIONS_S):
                self._tell(moved)

    def _is_recent(self, when_s: float, within_s: float) -> bool:
        return when_s <= self._now_s() < when_s + within_s

    def _wake_at(self, when_s: float) -> None:
        """Record what is merged at this time, even if no other event happens."""
        if self._loop is None or (self._timer is not None and self._timer_s <= when_s):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_s = when_s
        self._timer = self._loop.call_at(when_s, self._ticked)

    def _ticked(self) -> None:
        self._timer = None
        self._tell_due()
        due_s = [each.since_s + REPEATS_S for each in itertools.islice(self._repeats.values(), 1)]
        due_s += [m.told_s + EVICTIONS_S for m in self._moved.values() if m.is_told_next]
        if due_s:
            self._wake_at(min(due_s))

    def _tell_merged(self, key: tuple[str, int | str]) -> None:
        known = self._repeats.pop(key)
        if known.merged:
            times = f" ({known.merged} times within {REPEATS_S:.0f} s)" if known.merged > 1 else ""
            text = known.message[: MESSAGE_MAX - len(times)] + times
            about = known.client, known.gpu, known.pid, known.program, known.uid, known.pod
            self._add(key[0], text, *about)

    def evicted(self, client: Client, gpu: int, amount: int, *, is_over: bool = True) -> None:
        """Memory of a process left a GPU: recorded when the move is over, a few times a minute.

        `is_over`: the process has moved all that it was told to move.
        """
        key = client.number, gpu
        moved = self._moved.get(key)
        if moved is None:
            if not amount:
                return
            moved = self._moved[key] = _Moved(client, gpu)
        if moved.goes_on or amount:
            moved.times += not moved.goes_on
            moved.bytes += amount
            moved.goes_on = not is_over
        if moved.is_told_next:
            if self._is_recent(moved.told_s, EVICTIONS_S):
                self._wake_at(moved.told_s + EVICTIONS_S)
            else:
                self._tell(moved)

    def forget(self, client: Client) -> None:
        """A process is gone: record its merged events and its evictions now."""
        for key in [key for key in self._moved if key[0] == client.number]:
            moved = self._moved.pop(key)
            if moved.bytes:
                self._tell(moved)
        for known in [key for key in self._repeats if key[1] == client.number]:
            self._tell_merged(known)

    def _tell(self, moved: _Moved) -> None:
        times = "" if moved.times == 1 else f" in {moved.times} moves"
        text = f"{format_bytes(moved.bytes)} moved out to the host{times}"
        moved.told_s, moved.bytes, moved.times = self._now_s(), 0, 0
        self.counts["Evicted"] += 1
        self._add("Evicted", text, moved.client, moved.gpu)

    def after(self, number: int, most: int) -> list[Event]:
        """Return the oldest kept events after this number; `most` limits how many."""
        self._tell_due()
        return self.ring.after(number, most)

    async def changed(self, timeout_s: float) -> None:
        """Return with the next event, or after `timeout_s`."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await asyncio.wait_for(waiting, timeout_s)
        except TimeoutError:
            pass
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)

    def close(self) -> None:
        """Record what is not recorded yet, and close the file."""
        if self._timer is not None:
            self._timer.cancel()
        for key in list(self._repeats):
            self._tell_merged(key)
        for moved in self._moved.values():
            if moved.bytes:
                self._tell(moved)
        if self._file:
            self._file.close()
            self._file = None
