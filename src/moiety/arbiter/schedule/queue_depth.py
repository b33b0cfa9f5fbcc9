"""How much unfinished work a holder may have submitted, so that it can give way quickly.

Only who holds submits, so only holders are told, and only when their bound changes. A hand-off by
a holder that fell idle, the frequent kind, changes none (docs/decisions/0006).
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.schedule.gangs import are_mates, gpus_of, mates
from moiety.arbiter.schedule.round import Scene
from moiety.arbiter.state.tenant import Tenant


def pace(scene: Scene) -> None:
    """Tell every holder whose bound is no longer the one it was told."""
    for tenant in scene.holding:
        queue_s = _bound_s(scene, tenant)
        if queue_s != tenant.queue_s:
            tenant.queue_s = queue_s
            scene.out.append(do.SetQueueDepth(tenant.number, queue_s))


def _bound_s(scene: Scene, tenant: Tenant) -> float:
    """None for who is alone; little for who may be revoked soon; else a little more."""
    gpus = gpus_of(tenant)
    if not gpus:
        return 0.0
    settings = scene.settings
    gives_way_s = scene.gives_way_s.get(tenant.number)
    if gives_way_s is not None:
        soon_s = gives_way_s - settings.queue_lead_s
        if scene.now_s >= soon_s:
            return settings.queue_waited_s
        scene.wake_at(soon_s)
        return settings.queue_shared_s
    if scene.has_rivals and not tenant.share.latency:
        others = (t for gpu in gpus for t, _ in scene.ledger.on(gpu) if t.share.latency)
        if any(not are_mates(other, tenant) for other in others):  # whose requests come at any time
            return settings.queue_waited_s
    is_alone = all(
        scene.balances[gpu].tenants == sum(gpu in mate.gpus for mate in mates(tenant))
        for gpu in gpus
    )
    is_limited = any(mate.share.gpu_limit < 1 for mate in mates(tenant))
    if is_alone and not is_limited:  # a limit interrupts also who is alone
        return 0.0
    return settings.queue_shared_s
