"""Commands that were refused, as events of the journal."""

from __future__ import annotations

from typing import Final

from moiety.agent.control import protocol
from moiety.agent.core.journal import Journal
from moiety.agent.system.processes import Peer
from moiety.model import errors

ASKED: Final[dict[type[protocol.ControlRequest], str]] = {
    protocol.CreateWorkload: "moiety run",
    protocol.CreateContainer: "moiety container spec",
    protocol.RemoveContainer: "moiety container rm",
    protocol.SetShare: "moiety set",
    protocol.SetAgent: "moiety set --agent",
    protocol.SuspendWorkload: "moiety suspend",
    protocol.ResumeWorkload: "moiety resume",
    protocol.DrainGpus: "moiety gpu drain",
    protocol.Reload: "moiety agent reload",
    protocol.Stop: "moiety agent stop",
}
"""Requests that would have changed something; a refused look at the agent is no event."""
REFUSALS: Final = (
    errors.AmountError,
    errors.GpusDrained,
    errors.InvalidGang,
    errors.LimitTooSmall,
    errors.NotAllowed,
    errors.PoolPromises,
    errors.TooMany,
)


def record(
    journal: Journal, request: protocol.ControlRequest, peer: Peer, error: errors.MoietyError
) -> None:
    """Record a refusal, if an administrator may ask about it."""
    asked = ASKED.get(type(request))
    if asked is None or not isinstance(error, REFUSALS):
        return
    program = ""
    if isinstance(request, protocol.CreateWorkload):
        program = (request.name or request.program)[: protocol.NAME_MAX]
    journal.turned_away(peer, f"`{asked}`: {error.what}", program)
