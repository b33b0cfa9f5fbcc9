"""Carries out what the escalation of an offence decides: a warning, an event, the end of a process.

A process is ended through a pidfd, after its start time was compared: so another process that has
got the same pid is never ended.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

from moiety.agent.core.client import Client
from moiety.agent.core.journal import Journal
from moiety.agent.core.runtime import Runtime
from moiety.agent.system import processes
from moiety.enforcement.escalation import Action, ActionKind
from moiety.enforcement.policy import Offence
from moiety.wire.messages import WarningMessage

REASONS: Final = {
    Offence.UNREGISTERED: "Unregistered",
    Offence.LIMIT: "OverLimit",
    Offence.LEASE: "WithoutLease",
}
"""The journal's reason for each offence."""
_WOULD: Final = {
    ActionKind.WARN: "warn it",
    ActionKind.EVENT: "record an event",
    ActionKind.KILL: "end it",
}


class Enforcer:
    """Acts on offences, and records each act."""

    def __init__(self, runtime: Runtime, clients: Mapping[int, Client], journal: Journal) -> None:
        self._runtime = runtime
        self._clients = clients
        self._journal = journal

    def act(self, action: Action) -> None:
        """Carry out one step, or (`dry_run`) record what would be done."""
        use = action.use
        client = self._clients.get(use.tenant) if use.tenant is not None else None
        text = action.text + f"; {action.threat}" * bool(action.threat)
        self._runtime.log.warning(
            "escalation",
            deed=action.deed.value,
            offence=action.offence.value,
            who=str(use.who),
            uid=use.who.uid,
            gpu=use.gpu,
            text=text,
            dry_run=action.dry_run,
        )
        if action.dry_run and action.deed in _WOULD:
            self._note("WouldAct", f"would {_WOULD[action.deed]}: {text}", action, client)
            return
        match action.deed:
            case ActionKind.WARN:
                if client:
                    said = f"this program {text}"
                    client.connection.send(WarningMessage(text=said).encode())
            case ActionKind.EVENT:
                self._note(REASONS[action.offence], text, action, client)
            case ActionKind.SPARE:
                self._note("Spared", text, action, client)
            case ActionKind.OVER:
                self._note("OffenceOver", f"{action.offence.value}: {text}", action, client)
            case ActionKind.KILL:
                self._kill(action, client)

    def _note(self, reason: str, text: str, action: Action, client: Client | None) -> None:
        who = action.use.who
        whose = f"user {who.user}" + f", {who.where}" * bool(who.where)
        self._journal.note(
            reason,
            f"{text} ({whose})",
            client,
            action.use.gpu,
            pid=who.pid,
            program=who.command,
            uid=who.uid,
            pod=who.pod,
        )

    def _kill(self, action: Action, client: Client | None) -> None:
        """End the process, unless it is gone or its pid belongs to another process."""
        who = action.use.who
        if action.offence is Offence.UNREGISTERED and self._is_client(who.pid):
            return  # it connected meanwhile
        try:
            pidfd = os.pidfd_open(who.pid)
        except OSError:
            return  # it is gone
        try:
            if processes.start_time(who.pid) != who.started:
                return  # another process has its pid
            try:
                processes.kill(pidfd)
            except OSError as error:
                self._note("Spared", f"it cannot be ended: {error.strerror}", action, client)
                return
        finally:
            os.close(pidfd)
        self._note("Killed", action.text, action, client)

    def _is_client(self, pid: int) -> bool:
        return any(client.pid == pid for client in self._clients.values())
