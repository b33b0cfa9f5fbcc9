"""A tenant that is suspended: what it gets back when it is resumed."""

from __future__ import annotations

from dataclasses import dataclass

from moiety.model.share import Share


@dataclass(slots=True)
class Suspension:
    """What is remembered of a tenant from `Suspend` to `Resume`."""

    share: Share
    """Its share, whose promises count again once it is resumed."""
    wants: bool = False
    """A thread of it stands at the gate."""
    is_told: bool = False
    """It was reported that nothing more of it can leave."""
