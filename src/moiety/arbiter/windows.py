"""Turns that end although nobody waits: limits of GPU time, and shares that changed meanwhile."""

from __future__ import annotations

from moiety.arbiter.scene import Scene, are_rivals
from moiety.arbiter.states import Cause, State
from moiety.arbiter.tenant import Tenant
from moiety.model.format import format_fraction


def separate(scene: Scene) -> None:
    """Where those who hold or come have become rivals, let the one that goes first stay.

    A share was changed, or a process that held already came to another GPU.
    """
    staying: list[Tenant] = []
    together = scene.holding + scene.coming
    if len(together) < 2:
        return
    together.sort(
        key=lambda t: (
            scene.now_s >= t.kept_until_s,
            t.state is State.UNDRAINABLE,
            -t.rank,
            t.state is State.COMING,
            -t.lag_s,
            t.since_s,
        )
    )
    for tenant in together:
        if not any(are_rivals(tenant, other) for other in staying):
            staying.append(tenant)
        elif tenant.holds:
            scene.revoke(tenant)
        else:
            postpone(scene, tenant)


def end_windows(scene: Scene) -> None:
    """Take the lease of whoever has used up what its limit allows."""
    for tenant in list(scene.holding):
        if tenant.share.gpu_limit >= 1 or not tenant.gpus:
            continue
        if tenant.paused and scene.now_s >= tenant.window_ends_s:
            scene.revoke(tenant)
        else:
            scene.wake_at(scene.accounts.pauses_at_s(tenant))


def wait_for_window(scene: Scene, tenant: Tenant) -> None:
    """Note why a tenant whose limit is used up does not get its turn, and until when."""
    scene.wake_at(scene.accounts.paused_until_s(tenant))
    limit = format_fraction(tenant.share.gpu_limit)
    tenant.blocked_by = f"its limit of {limit} of the GPU is used up for the moment"


def postpone(scene: Scene, tenant: Tenant) -> None:
    """Send one that comes back into the queue: nobody is interrupted by that."""
    scene.coming.remove(tenant)
    scene.move(tenant, Cause.POSTPONED)
