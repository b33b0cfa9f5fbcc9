"""Whose turn it is: who is chosen, who is revoked for whom, and who waits behind whom."""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.admission import outgrown
from moiety.arbiter.scene import Scene, movable_bytes
from moiety.arbiter.states import Cause, State
from moiety.arbiter.tenant import Tenant

_BEHIND = "others are ahead in the queue"


def refuse_outgrown(scene: Scene) -> None:
    """Say no to requests that were admitted before something came that cannot leave."""
    for tenant in scene.asking:
        for request in reversed(list(tenant.requests)):
            if request.is_context or request.bytes == 0:
                continue
            balance = scene.balances[request.gpu]
            refusal = outgrown(scene.ledger, tenant, request.gpu, balance.capacity_bytes)
            if refusal is None:
                continue
            on = tenant.gpus[request.gpu]
            on.allocated_bytes -= request.bytes
            if request.pinned:
                on.pinned_bytes -= request.bytes
            tenant.requests.remove(request)
            if tenant.stays:
                balance.staying_bytes -= request.bytes
                balance.pending_bytes -= request.bytes
            code, text = refusal
            scene.out.append(do.Refused(tenant.number, request.gpu, request.serial, code, text))


def make_fit(scene: Scene) -> None:
    """Where those who hold or come do not fit any more, send some of them away.

    A context that came in between can do that, or memory that was on its way out and
    turned out unable to leave. Those who come step back first: nobody is interrupted by
    that.
    """
    for gpu, balance in scene.balances.items():
        if balance.staying_bytes - balance.pending_bytes <= balance.capacity_bytes:
            continue
        for tenant in reversed(list(scene.coming)):
            if scene.gives(tenant, gpu) > 0 and scene.over_bytes(gpu) > 0:
                scene.coming.remove(tenant)
                scene.move(tenant, Cause.POSTPONED)
        holding = sorted(scene.holding, key=scene.by_turn)
        for tenant in holding:
            if scene.over_bytes(gpu) <= 0:
                break
            if scene.gives(tenant, gpu) <= 0:
                continue
            if scene.turn_is_over(tenant):
                scene.revoke(tenant)
            else:
                scene.watch(tenant, scene.over_bytes(gpu))


def take_turns(scene: Scene) -> None:
    """Choose whoever fits, first come first; revoke for the first who does not.

    Who comes later may pass only where that cannot make those ahead wait any longer.
    """
    ahead: dict[int, int] = {}
    for tenant in _demands(scene):
        if tenant.state is State.DRAINING:
            continue  # revoked for somebody before it in this very loop
        if ahead and _is_plainly_behind(scene, tenant, ahead):
            tenant.blocked_by = _BEHIND
            continue
        behind = not tenant.gpus.keys().isdisjoint(ahead)
        if never := scene.why_never(tenant):
            tenant.blocked_by = never
        elif behind and not _may_pass(scene, tenant, ahead):
            tenant.blocked_by = _BEHIND
            _line_up(scene, tenant, ahead)
        elif scene.fits(tenant) or (not behind and _revoke_for(scene, tenant)):
            tenant.blocked_by = ""
            if tenant.state is State.WAITING:
                scene.move(tenant, Cause.CHOSEN)
                scene.coming.append(tenant)
                for gpu in ahead.keys() & tenant.gpus.keys():
                    ahead[gpu] -= movable_bytes(tenant, tenant.gpus[gpu])
        else:
            _line_up(scene, tenant, ahead)


def _demands(scene: Scene) -> list[Tenant]:
    tenants = scene.ledger.tenants
    growing = [t for t in scene.asking if t.is_growing]
    return growing + [tenants[number] for number in scene.ledger.queue]


def _is_plainly_behind(scene: Scene, tenant: Tenant, ahead: dict[int, int]) -> bool:
    """The common case of a long queue, quickly: one GPU, and no room beside those ahead."""
    if len(tenant.gpus) != 1 or tenant.silent:
        return False
    (gpu,) = tenant.gpus
    if gpu not in ahead:
        return False
    need = movable_bytes(tenant, tenant.gpus[gpu])
    room = ahead[gpu]
    balance = scene.balances[gpu]
    if need <= max(0, room) or need > balance.capacity_bytes - balance.firm_bytes:
        return False
    ahead[gpu] = room - need
    return True


def _line_up(scene: Scene, tenant: Tenant, ahead: dict[int, int]) -> None:
    """Note in `ahead`, for each of its GPUs, what others may take without being in its way.

    Only those who hold from before it began to wait will make way for it; with all others
    it must fit together.
    """
    for gpu, on in tenant.gpus.items():
        if gpu not in ahead:
            balance = scene.balances[gpu]
            ahead[gpu] = balance.capacity_bytes - balance.firm_bytes
            if tenant.state is State.HOLDING:
                ahead[gpu] = 0
            for other in scene.holding + scene.coming:
                if other.since_s >= tenant.waits_since_s and gpu in other.gpus:
                    ahead[gpu] -= movable_bytes(other, other.gpus[gpu])
        ahead[gpu] -= movable_bytes(tenant, on)


def _may_pass(scene: Scene, tenant: Tenant, ahead: dict[int, int]) -> bool:
    if tenant.state is State.HOLDING:
        return False
    return all(
        movable_bytes(tenant, on) <= max(0, ahead[gpu])
        for gpu, on in tenant.gpus.items()
        if gpu in ahead
    ) and scene.fits(tenant)


def _revoke_for(scene: Scene, tenant: Tenant) -> bool:
    """Revoke the longest holders whose turn is over until `tenant` fits; False if it cannot.

    Those whose turn is not over are watched, and their turn's end becomes the deadline.
    """
    gaps = {gpu: -left for gpu in tenant.gpus if (left := scene.left_bytes(tenant, gpu)) < 0}
    helpers = [
        other
        for other in scene.holding
        if other is not tenant and any(scene.gives(other, gpu) > 0 for gpu in gaps)
    ]
    helpers.sort(key=scene.by_turn)
    leaving: list[Tenant] = []
    still = dict(gaps)
    for other in helpers:
        if not scene.turn_is_over(other):
            continue
        if any(gap > 0 and scene.gives(other, gpu) > 0 for gpu, gap in still.items()):
            leaving.append(other)
            for gpu in still:
                still[gpu] -= scene.gives(other, gpu)
        if all(gap <= 0 for gap in still.values()):
            for each in _needed(scene, leaving, still):
                scene.revoke(each)
            return True
    for other in helpers:
        scene.watch(other, scene.move_bytes(tenant))
    names = [t.number for t in helpers]
    names += [t.number for t in scene.coming if any(scene.gives(t, gpu) > 0 for gpu in gaps)]
    tenant.blocked_by = _held_by(names)
    return False


def _needed(scene: Scene, leaving: list[Tenant], still: dict[int, int]) -> list[Tenant]:
    """Those of `leaving` who must go; whoever holds the shortest is let off first."""
    needed = list(leaving)
    for other in reversed(leaving[:-1]):
        if all(gap + scene.gives(other, gpu) <= 0 for gpu, gap in still.items()):
            needed.remove(other)
            for gpu in still:
                still[gpu] += scene.gives(other, gpu)
    return needed


def _held_by(numbers: list[int]) -> str:
    if not numbers:
        return "room is being made for others"
    names = ", ".join(str(number) for number in numbers)
    return f"tenant {names} holds the GPU" if len(numbers) == 1 else f"tenants {names} hold the GPU"
