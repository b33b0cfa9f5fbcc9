"""What tests of shares ask a simulated node for, and read in its answers."""

from __future__ import annotations

from moiety.arbiter import events as ev
from moiety.arbiter import instructions as do
from moiety.model.share import Share
from tests.support.simulated_node import SimulatedNode
from tests.support.simulated_tenants import SimulatedTenant


def revoked(told: list[do.Instruction]) -> list[int]:
    """Who is to give the GPU back."""
    return [each.tenant for each in told if isinstance(each, do.Revoke)]


def promise(node: SimulatedNode, tenant: SimulatedTenant, share: Share) -> list[do.Instruction]:
    """Give a tenant a share, and hear what follows from it."""
    return node.feed(ev.ShareSet(tenant.number, share))
