"""What an older agent would not know of a request."""

from __future__ import annotations

from moiety.agent.control import protocol
from moiety.agent.control.client import Call
from moiety.model.errors import AgentVersion
from moiety.model.share import Share
from moiety.version import __version__


def must_know(share: Share, call: Call) -> None:
    """Raise AgentVersion for an agent that would ignore a part of a share."""
    if share.memory_limit_part is not None and protocol.MEMORY_PART not in call.agent.features:
        raise AgentVersion(agent=call.agent.product, own=__version__)
