"""The record of each process on disk: which GPUs it has, and how much of them, for the next agent.

What a process has changes often, so it is written beside the loop's work, a moment later, in place:
that needs no new space on a full disk. A process that has grown since has its memory on the GPU,
where the driver counts it (core/proofs.py).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from typing import Final

from moiety.agent.control.records import FENCED, HELD, write_whole
from moiety.agent.core.client import Client
from moiety.agent.core.proofs import Held, Proofs
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.event_loop import Timer
from moiety.arbiter import events as ev
from moiety.arbiter.machine import Arbiter

LAG_S: Final = 0.1
"""Seconds after which a change of bytes is written down."""
WRITES: Final = 32
"""Records that are written at one time; the rest follows after AGAIN_S."""
AGAIN_S: Final = 0.01
WIDTH: Final = 20
"""Digits of a number of bytes, so that a record keeps its length."""
_MATTERS: Final = frozenset(
    {
        ev.Attach,
        ev.Free,
        ev.CreditUsed,
        ev.CreditReturned,
        ev.ChargeTransferred,
        ev.ChargeReleased,
        ev.PinRequest,
        ev.Unpin,
    }
)
"""Events after which a process may have other bytes; `grown` is called for the rest."""


class ClientRecords:
    """Writes the records of one agent's processes."""

    def __init__(
        self,
        runtime: Runtime,
        clients: Mapping[int, Client],
        arbiter: Arbiter,
        proofs: Proofs,
        path_of: Callable[[Client], str],
    ) -> None:
        """`path_of` returns the file of a process; empty: it has none."""
        self._runtime = runtime
        self._clients = clients
        self._arbiter = arbiter
        self._proofs = proofs
        self._path_of = path_of
        self._written: dict[int, str] = {}
        self._changed: dict[int, None] = {}
        self._timer: Timer | None = None
        runtime.on_fed.append(self._on_event)

    def write(self, client: Client) -> None:
        """Write the record of a process that uses other GPUs than before, or was fenced."""
        if not (path := self._path_of(client)):
            return
        text = self._text(client)
        try:
            write_whole(path, text.encode())
        except OSError as error:  # a full disk: only the next agent would have read it
            self._not_written(client, error)
        else:
            self._written[client.number] = text

    def remove(self, client: Client) -> None:
        """A process is gone."""
        self._written.pop(client.number, None)
        self._changed.pop(client.number, None)
        if not (path := self._path_of(client)):
            return
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        except OSError as error:
            self._runtime.log.warning(
                "client_record_not_removed", client=str(client), error=str(error)
            )

    def grown(self, client: Client) -> None:
        """A process has got memory."""
        self._changed[client.number] = None
        if self._timer is None:
            self._wake_in(LAG_S)

    def _on_event(self, event: ev.Event) -> None:
        if type(event) in _MATTERS and (client := self._clients.get(event.tenant)):  # type: ignore[union-attr]
            self.grown(client)

    def _wake_in(self, seconds: float) -> None:
        self._timer = self._runtime.call_at(self._runtime.now() + seconds, self._flush)

    def _flush(self) -> None:
        """Write what changed; those that changed first come first."""
        self._timer = None
        for number in list(self._changed)[:WRITES]:
            del self._changed[number]
            if client := self._clients.get(number):
                self._rewrite(client)
        if self._changed:
            self._wake_in(AGAIN_S)

    def _rewrite(self, client: Client) -> None:
        """Write the bytes of a process over the old ones, which take as many characters."""
        text, before = self._text(client), self._written.get(client.number)
        if text == before or not (path := self._path_of(client)):
            return
        if before is None or len(text) != len(before):
            self.write(client)
            return
        try:
            file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            self._not_written(client, error)
            return
        try:
            os.pwrite(file, text.encode(), 0)
            self._written[client.number] = text
        except OSError as error:
            self._not_written(client, error)
        finally:
            os.close(file)

    def _text(self, client: Client) -> str:
        gpus = sorted(client.gpus | client.unspoken)
        lines = [f"{client.started} {' '.join(map(str, gpus))}"]
        lines += [FENCED] * client.fenced
        for gpu in gpus:
            if (held := self._held(client, gpu)) is not None:
                lines.append(f"{HELD} {gpu} {held[0]:0{WIDTH}} {held[1]:0{WIDTH}}")
        return "\n".join(lines) + "\n"

    def _held(self, client: Client, gpu: int) -> Held | None:
        return self._proofs.beside(client, gpu, self._arbiter.has_bytes(client.number, gpu))

    def _not_written(self, client: Client, error: OSError) -> None:
        self._runtime.log.warning("client_record_not_written", client=str(client), error=str(error))
