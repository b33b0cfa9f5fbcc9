"""Who asked the agent for something and was told no: an event for whoever has to answer for it."""

from __future__ import annotations

from typing import Final

from moiety.agent.control import protocol
from moiety.agent.core.journal import Journal
from moiety.agent.system.processes import Peer
from moiety.agent.system.users import name_of
from moiety.model import errors

ASKED: Final[dict[type[protocol.Request], str]] = {
    protocol.CreateWorkload: "moiety run",
    protocol.CreateContainer: "moiety container spec",
    protocol.RemoveContainer: "moiety container remove",
    protocol.SetShare: "moiety set",
    protocol.SetAgent: "moiety set --agent",
    protocol.Reload: "moiety agent reload",
    protocol.Stop: "moiety agent stop",
}
"""what would have changed something; who may not look is no event"""
REFUSALS: Final = (
    errors.AmountError,
    errors.InvalidGang,
    errors.LimitTooSmall,
    errors.NotAllowed,
    errors.TooMany,
)


def tell(
    journal: Journal, request: protocol.Request, peer: Peer, error: errors.MoietyError
) -> None:
    """Write down that this was refused, if it is something that an administrator may ask about."""
    asked = ASKED.get(type(request))
    if asked is None or not isinstance(error, REFUSALS):
        return
    program = ""
    if isinstance(request, protocol.CreateWorkload):
        program = (request.name or request.program)[: protocol.NAME_MAX]
    turn_away(journal, peer, f"`{asked}`: {error.what}", program)


def turn_away(journal: Journal, peer: Peer, text: str, program: str = "") -> None:
    """Write down that somebody who has no program here was refused, and why."""
    told = f"{text} (user {name_of(peer.uid)})"
    source = f"user {peer.uid}"
    journal.often(source, "Refused", told, pid=peer.pid, program=program, uid=peer.uid)
