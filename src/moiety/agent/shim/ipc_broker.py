"""Memory that one process exports and others open: which processes may, and which is charged.

An exporter names its memory by a token. An importer that sends the token gets the memory's
descriptors, which pass through the agent from the exporter to this importer only. An importer must
be of the exporter's user, and the exporter must be connected. Exported memory is charged to the
exporter while it has the memory, then to one of the importers.
"""

from __future__ import annotations

import itertools
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from moiety.agent.core.client import REQUESTS_MAX, Client
from moiety.agent.core.recovery import Recovery
from moiety.agent.core.runtime import Runtime
from moiety.arbiter import events as ev
from moiety.model.errors import ProtocolError
from moiety.wire.layout import PIECES_MAX, Refusal, ShareFlag, Type
from moiety.wire.messages import RefusedMessage, ShareMessage

TOKENS_MAX: Final = 65536
"""Most exports of one process; a program exports a few hundred allocations."""
USER_TOKENS_MAX: Final = 2 * TOKENS_MAX
"""Exports of all processes of one user, and so for imports: some 50 MiB of the agent each."""
USER_REQUESTS_MAX: Final = 16 * REQUESTS_MAX
"""Open questions of all processes of one user."""


@dataclass(slots=True, eq=False)
class Export:
    """One exported allocation."""

    token: bytes
    gpu: int
    bytes: int
    exporter: Client | None
    """None: it is gone, or exports the memory no more."""
    importers: dict[int, int] = field(default_factory=dict)
    """By tenant, in order of arrival: how often each has it open."""
    is_certain: bool = True
    """False: a process may have it open that this agent does not know of."""
    payer: int | None = None
    """The importer that is charged with it, once there is no exporter."""
    relays: dict[int, Relay] = field(default_factory=dict)
    """By serial of the agent's question to the exporter: the importer that waits for pieces."""


@dataclass(frozen=True, slots=True)
class Relay:
    """An importer waits for an exporter's pieces."""

    export: Export
    importer: Client
    serial: int
    """Serial of the importer's question."""


Opened = Callable[[Client, Client], None]
"""Receives (exporter, importer): the second can see memory of the first from now on."""


class IpcBroker:
    """Every export of one node.

    `on_opened` is called for each process that opens another's memory: such two wait for each
    other.
    """

    def __init__(self, runtime: Runtime, clients: Mapping[int, Client], recovery: Recovery) -> None:
        self._runtime = runtime
        self._clients = clients
        self._recovery = recovery
        self._by_token: dict[bytes, Export] = {}
        self._own: dict[int, dict[Export, None]] = {}
        """By tenant: what it exports."""
        self._by_user: Counter[int] = Counter()
        """How many exports the processes of each user have."""
        self._open_by_user: Counter[int] = Counter()
        """How many imports, each of a process once."""
        self._asking_by_user: Counter[int] = Counter()
        """How many open questions."""
        self._accounts: dict[int, int] = {}
        """By tenant with imports: the user whose limits count it."""
        self._open: dict[int, dict[Export, None]] = {}
        """By tenant: what it has open from other processes."""
        self._held: dict[bytes, Export] = {}
        """By token: what resumed processes have open and no exporter has claimed yet."""
        self._relays: dict[int, Relay] = {}
        """By serial of the agent's question to the exporter."""
        self._asking: dict[int, set[int]] = {}
        """By tenant that asks: the serials of its relays."""
        self._serials = itertools.count(1)
        self.on_opened: list[Opened] = []

    def exported(self, client: Client, message: ShareMessage) -> None:
        """A process lets others open some of its memory."""
        if message.gpu not in client.gpus:
            raise ProtocolError(f"GPU {message.gpu} is not attached")
        known = self._by_token.get(message.token)
        is_late = known is not None and known.exporter is None and client.resumed
        if known is not None and known.exporter is not client and not is_late:
            raise ProtocolError("this token is another's")
        if len(self._own.get(client.number, ())) >= TOKENS_MAX:
            raise ProtocolError(f"more than {TOKENS_MAX} exports")
        if self._by_user[client.account] >= USER_TOKENS_MAX:
            raise ProtocolError(f"this user's programs have more than {USER_TOKENS_MAX} exports")
        if known is None or is_late:
            found = known or self._held.pop(message.token, None)
            export = found or Export(message.token, message.gpu, message.bytes, None)
            export.is_certain = export.is_certain and not client.resumed
            self._belongs(export, client)
        client.connection.expect_fds()
        if message.serial:
            client.connection.send(message.encode())

    def _belongs(self, export: Export, exporter: Client) -> None:
        """Give an export its exporter; importers may have it open since before this agent."""
        self._by_token[export.token] = export
        export.exporter = exporter
        self._own.setdefault(exporter.number, {})[export] = None
        self._by_user[exporter.account] += 1
        if export.payer is not None:
            self._runtime.feed(ev.ChargeReleased(export.payer, export.gpu, export.bytes))
            export.payer = None
        for number in list(export.importers):
            self._tell(exporter, self._clients[number])

    def settled(self) -> None:
        """The recovery has ended: charge exports that no exporter claimed to an importer."""
        for token, export in self._held.items():
            self._by_token[token] = export
            self._charge(export)
        self._held.clear()

    def wanted(self, client: Client, message: ShareMessage) -> None:
        """A process wants to open what is behind a token, or sends pieces of what it exported."""
        if message.flags & ShareFlag.ASKED:
            self._ask(client, message)
        elif message.flags & ShareFlag.HELD:
            self._hold(client, message)
        else:
            self._pass_on(client, message)

    def ended(self, client: Client, message: ShareMessage) -> None:
        """An exporter withdraws a token, or an importer has closed the memory."""
        export = self._by_token.get(message.token)
        if export is None:
            return
        if export.exporter is client:
            self._give_up(export, gone=bool(message.flags & ShareFlag.GONE))
        elif client.number in export.importers:
            export.importers[client.number] -= 1
            if not export.importers[client.number]:
                self._close(export, client.number)
                self._unused(export)

    def _unused(self, export: Export) -> None:
        """Tell an exporter that its memory can leave, if no process has it open any more."""
        exporter = export.exporter
        is_open = export.importers or export.relays or not export.is_certain
        if exporter is not None and not is_open and self._by_token.get(export.token) is export:
            closed = ShareMessage(Type.UNSHARE, 0, export.token, gpu=export.gpu)
            exporter.connection.send(closed.encode())

    def _ask(self, client: Client, message: ShareMessage) -> None:
        export = self._by_token.get(message.token)
        exporter = export.exporter if export else None
        if export is None or exporter is None or not _may_open(client, exporter):
            self._refuse(client, message.serial)
            return
        if len(self._asking.get(client.number, ())) >= REQUESTS_MAX:
            raise ProtocolError(f"more than {REQUESTS_MAX} requests wait for an answer")
        if self._asking_by_user[client.account] >= USER_REQUESTS_MAX:
            raise ProtocolError(
                f"more than {USER_REQUESTS_MAX} requests of this user's programs wait for an answer"
            )
        self._must_be_few(client)
        serial = next(self._serials)
        relay = Relay(export, client, message.serial)
        self._relays[serial] = export.relays[serial] = relay
        self._asking.setdefault(client.number, set()).add(serial)
        self._asking_by_user[client.account] += 1
        asked = ShareMessage(Type.EXPORT, serial, export.token, flags=int(ShareFlag.ASKED))
        exporter.connection.send(asked.encode())

    def _hold(self, client: Client, message: ShareMessage) -> None:
        if not client.resumed:
            raise ProtocolError("a new process cannot have memory of another open")
        self._must_be_few(client)
        export = self._by_token.get(message.token)
        if export is None:
            unclaimed = Export(message.token, message.gpu, message.bytes, None)
            export = self._held.setdefault(message.token, unclaimed)
        self._opens(export, client)
        if export.exporter:
            self._tell(export.exporter, client)
        elif self._recovery.is_settled and export.payer is None:  # the exporter is gone for good
            self._held.pop(message.token, None)
            self._by_token[message.token] = export
            self._charge(export)

    def _must_be_few(self, client: Client) -> None:
        """Raise ProtocolError for a process that may import no more, by itself or by its user."""
        if len(self._open.get(client.number, ())) >= TOKENS_MAX:
            raise ProtocolError(f"more than {TOKENS_MAX} imports")
        if self._open_by_user[client.account] >= USER_TOKENS_MAX:
            raise ProtocolError(f"this user's programs have more than {USER_TOKENS_MAX} imports")

    def _pass_on(self, client: Client, message: ShareMessage) -> None:
        fds = client.connection.take_fds()
        try:
            relay = self._relays.get(message.serial)
            if relay is None or relay.export.exporter is not client:
                return  # the importer is gone
            if message.pieces != len(fds) or message.pieces > PIECES_MAX:
                raise ProtocolError(f"{message.pieces} pieces with {len(fds)} descriptors")
            if not message.pieces or self._clients.get(relay.importer.number) is None:
                self._forget(message.serial)
                self._refuse(relay.importer, relay.serial)
                return
            on = ShareMessage(
                Type.IMPORT,
                relay.serial,
                message.token,
                gpu=message.gpu,
                bytes=message.bytes,
                piece_bytes=message.piece_bytes,
                offset=message.offset,
                first=message.first,
                pieces=message.pieces,
            )
            relay.importer.connection.send(on.encode(), *fds)
            if (message.first + message.pieces) * message.piece_bytes >= message.bytes:
                self._forget(message.serial)
                self._opened(relay)
        finally:
            for fd in fds:
                os.close(fd)

    def _forget(self, serial: int) -> Relay:
        """Drop the relay of an importer that waits no more."""
        relay = self._relays.pop(serial)
        del relay.export.relays[serial]
        _count_down(self._asking_by_user, relay.importer.account)
        asking = self._asking[relay.importer.number]
        asking.discard(serial)
        if not asking:
            del self._asking[relay.importer.number]
        return relay

    def _opens(self, export: Export, client: Client) -> None:
        number = client.number
        if number not in export.importers:
            self._accounts[number] = client.account
            self._open_by_user[client.account] += 1
        export.importers[number] = export.importers.get(number, 0) + 1
        self._open.setdefault(number, {})[export] = None

    def _closes(self, export: Export, number: int) -> None:
        """Strike an export from what a process has open."""
        _strike(self._open, number, export)
        _count_down(self._open_by_user, self._accounts[number])
        if number not in self._open:
            del self._accounts[number]

    def _opened(self, relay: Relay) -> None:
        export, importer = relay.export, relay.importer
        self._opens(export, importer)
        if export.exporter is not None:
            self._runtime.log.info(
                "imported", client=str(importer), of=str(export.exporter), bytes=export.bytes
            )
            self._tell(export.exporter, importer)

    def _tell(self, exporter: Client, importer: Client) -> None:
        if exporter.uid == importer.uid:
            for call in self.on_opened:
                call(exporter, importer)

    def _refuse(self, client: Client, serial: int) -> None:
        text = "no process here exports such memory to this one"
        refused = RefusedMessage(serial=serial, code=Refusal.GPU, text=text)
        client.connection.send(refused.encode())

    def _give_up(self, export: Export, *, gone: bool) -> None:
        """Let no process open an export any more; charge an importer if the memory is `gone`."""
        if export.exporter is not None:
            _strike(self._own, export.exporter.number, export)
            _count_down(self._by_user, export.exporter.account)
        export.exporter = None
        for serial in list(export.relays):
            relay = self._forget(serial)
            self._refuse(relay.importer, relay.serial)
        if gone and export.importers:
            self._charge(export)
        else:
            del self._by_token[export.token]
            for number in export.importers:
                self._closes(export, number)

    def _charge(self, export: Export) -> None:
        export.payer = next(iter(export.importers))
        self._runtime.feed(ev.ChargeTransferred(export.payer, export.gpu, export.bytes))

    def _close(self, export: Export, number: int) -> None:
        del export.importers[number]
        self._closes(export, number)
        if export.exporter is not None:
            return
        if export.payer == number:
            self._runtime.feed(ev.ChargeReleased(number, export.gpu, export.bytes))
            if export.importers:
                self._charge(export)
        if not export.importers:
            del self._by_token[export.token]

    def left(self, client: Client) -> None:
        """A process is gone, and the arbiter knows: what it had open closes.

        A process that has connected again has still open what it had.
        """
        came_back = any(other.pid == client.pid for other in self._clients.values())
        for export in list(self._open.get(client.number, ())):
            if self._by_token.get(export.token) is export:
                export.is_certain = export.is_certain and not came_back
                self._close(export, client.number)
                self._unused(export)
            else:  # no exporter has claimed it yet
                del export.importers[client.number]
                self._closes(export, client.number)
                if not export.importers:
                    self._held.pop(export.token, None)
        for export in list(self._own.get(client.number, ())):
            self._give_up(export, gone=True)
        for serial in list(self._asking.get(client.number, ())):
            self._unused(self._forget(serial).export)


def _count_down(counts: Counter[int], account: int) -> None:
    """Count one less of a user, and drop a user without any."""
    counts[account] -= 1
    if not counts[account]:
        del counts[account]


def _strike(known: dict[int, dict[Export, None]], number: int, export: Export) -> None:
    """Remove an export from a process' list, and the list once it is empty."""
    own = known.get(number)
    if own is not None and export in own:
        del own[export]
        if not own:
            del known[number]


def _may_open(importer: Client, exporter: Client) -> bool:
    return (
        importer is not exporter and importer.uid == exporter.uid and not exporter.connection.closed
    )
