"""The GPU time that a tenant was promised and received, and when it uses the GPU."""

from __future__ import annotations

from dataclasses import dataclass, field

from moiety.arbiter.state.busy_period import BusyPeriods
from moiety.arbiter.state.idle_timeout import IdlePeriods
from moiety.arbiter.states import Apart
from moiety.model.share import NOTHING_ASKED


@dataclass(slots=True)
class TenantUsage:
    """The time of one tenant; fair_share.py writes what it received."""

    silent_since_s: float | None = None
    """Since when it has submitted nothing; None: no silence is known."""
    idle_periods: IdlePeriods = field(default_factory=IdlePeriods)
    busy_periods: BusyPeriods = field(default_factory=BusyPeriods)
    watched_s: float = 0.0
    """The length of the silence that it is asked to report; 0: none."""
    timed: bool = False
    """It, or its owner, was promised a part of the time, or it is limited to one."""
    weighed: bool = False
    """It takes turns on a GPU with tenants whose parts differ from its own."""
    class_rank: int = NOTHING_ASKED.rank
    """The rank of its share, or the highest of its gang."""
    rank: int = NOTHING_ASKED.rank
    """The rank that counts now: above `class_rank` while its promise is due (class_budget.py)."""
    part: float = 1.0
    """Its part of the time that its class receives now."""
    promised: float = 0.0
    """The part of the GPU's time that its share, or its owner's guarantee, promises it now."""
    joined_s: float = 0.0
    rate: float = 0.0
    limited_rate: float = 0.0
    """The part of the GPU that its work could use last: its limit counts no restores."""
    received_s: float = 0.0
    recent: float = 0.0
    """The part of the GPU that it received lately, not corrected for a short life."""
    worked: float = 0.0
    """The same without restores: the part of the GPU that its work could use."""
    budget_s: float = 0.0
    """GPU time that it may use at once, if it has a limit."""
    paused: bool = False
    """Its limit is used up."""
    sits_out: bool = False
    """It is ahead of its part, and others that it fits beside catch up (side_by_side.py)."""
    apart: Apart = Apart.NO
    """Tenants that it takes turns with although they fit, as the GPU's division is not equal."""

    @property
    def by_lag(self) -> bool:
        """Whether its turns follow its lag exactly."""
        return self.timed or self.weighed
