"""What an agent in a test reports about its GPUs and processes."""

from __future__ import annotations

from moiety.agent.components import Components
from moiety.agent.control.report import Reports
from moiety.agent.core.journal import Journal
from moiety.agent.monitor.usage_monitor import UsageMonitor


def reports_of(
    agent: Components, *, journal: Journal | None = None, monitor: UsageMonitor | None = None
) -> Reports:
    """Reports of these components, with another journal or a monitor if given."""
    return Reports(
        agent.runtime,
        arbiter=agent.arbiter,
        gpus=agent.gpus,
        clients=agent.clients.by_number,
        recovery=agent.recovery,
        timeline=agent.timeline,
        journal=journal or agent.journal,
        devices=agent.devices,
        monitor=monitor,
    )
