"""One round of deciding: a fresh look at the whole state, and everything that follows from it.

A round begins with the sums of every GPU and keeps them up to date while it decides, so that
each of its phases sees what those before it changed.
"""

from __future__ import annotations

from moiety.arbiter import instructions as do
from moiety.arbiter.admission import outgrown
from moiety.arbiter.ledger import Ledger
from moiety.arbiter.settings import Settings
from moiety.arbiter.states import Cause, State
from moiety.arbiter.tenant import OnGpu, Tenant
from moiety.arbiter.turns import Turns
from moiety.model.units import format_bytes


class Round:
    """Decides at `now_s`; `out` receives the instructions, `deadline_s` says when to look again."""

    def __init__(
        self,
        ledger: Ledger,
        settings: Settings,
        turns: Turns,
        now_s: float,
        out: list[do.Instruction],
    ) -> None:
        self.deadline_s: float | None = None
        self._ledger = ledger
        self._settings = settings
        self._turns = turns
        self._now_s = now_s
        self._out = out
        self._asking: list[Tenant] = []
        self._coming: list[Tenant] = []
        self._holding: list[Tenant] = []
        self._draining: list[Tenant] = []
        self._watched: list[Tenant] = []
        self._wanted_watches: set[int] = set()
        self._look()
        self._balances = ledger.balances()

    def run(self) -> None:
        """Every phase, in the order in which one makes way for the next."""
        if self._asking:
            self._refuse_outgrown()
        self._finish_coming()
        granted = True
        while granted:  # whoever got its lease may be in the way of those who wait
            self._make_fit()
            if self._asking or self._ledger.queue:
                self._take_turns()
            self._order_evictions()
            if self._asking:
                self._answer_requests()
            self._give_room()
            granted = self._finish_coming()
        if self._watched:
            self._end_watches()

    # Looking

    def _look(self) -> None:
        for tenant in self._ledger.tenants.values():
            state = tenant.state
            if state is State.HOLDING:
                self._holding.append(tenant)
            elif state is State.COMING:
                self._coming.append(tenant)
            elif state is State.DRAINING:
                self._draining.append(tenant)
            if tenant.requests:
                self._asking.append(tenant)
            if tenant.watched_s:
                self._watched.append(tenant)
            if tenant.due_s:
                self._check_due(tenant)
            if tenant.stuck_until_s:
                if self._now_s >= tenant.stuck_until_s:
                    tenant.stuck_until_s = 0.0
                else:
                    self._wake_at(tenant.stuck_until_s)
        if len(self._coming) > 1:
            self._coming.sort(key=lambda t: t.since_s)

    def _check_due(self, tenant: Tenant) -> None:
        if self._now_s >= tenant.due_s:
            waited_s = self._now_s - tenant.told_s
            kill = self._settings.overdue_kill
            self._out.append(do.Overdue(tenant.number, waited_s, kill=kill))
            tenant.silent = tenant.state is State.DRAINING or tenant.has_orders
            tenant.due_s = self._now_s + self._settings.revoke_deadline_s
        self._wake_at(tenant.due_s)

    def _wake_at(self, when_s: float) -> None:
        if self.deadline_s is None or when_s < self.deadline_s:
            self.deadline_s = when_s

    # Whose place it is

    def _refuse_outgrown(self) -> None:
        """Say no to requests that were admitted before something came that cannot leave."""
        for tenant in self._asking:
            for request in reversed(list(tenant.requests)):
                if request.is_context or request.bytes == 0:
                    continue
                refusal = outgrown(self._ledger, tenant, request.gpu)
                if refusal is None:
                    continue
                on = tenant.gpus[request.gpu]
                on.allocated_bytes -= request.bytes
                if request.pinned:
                    on.pinned_bytes -= request.bytes
                tenant.requests.remove(request)
                if tenant.stays:
                    self._balances[request.gpu].staying_bytes -= request.bytes
                    self._balances[request.gpu].pending_bytes -= request.bytes
                code, text = refusal
                self._out.append(
                    do.Refused(tenant.number, request.gpu, request.serial, code, text)
                )

    def _make_fit(self) -> None:
        """Where those who hold or come do not fit any more, send some of them away.

        A context that came in between can do that, or memory that was on its way out and
        turned out unable to leave. Those who come step back first: nobody is interrupted by
        that.
        """
        for gpu, balance in self._balances.items():
            if balance.staying_bytes - balance.pending_bytes <= balance.capacity_bytes:
                continue
            for tenant in reversed(list(self._coming)):
                if self._gives(tenant, gpu) > 0 and self._over_bytes(gpu) > 0:
                    self._coming.remove(tenant)
                    self._move(tenant, Cause.POSTPONED)
            holding = sorted(self._holding, key=self._by_turn)
            for tenant in holding:
                if self._over_bytes(gpu) <= 0:
                    break
                if self._gives(tenant, gpu) <= 0:
                    continue
                if self._turn_is_over(tenant):
                    self._revoke(tenant)
                else:
                    self._watch(tenant, self._over_bytes(gpu))

    def _take_turns(self) -> None:
        """Choose whoever fits, first come first; revoke for the first who does not.

        Who comes later may pass only where that cannot make those ahead wait any longer.
        """
        ahead: dict[int, int] = {}
        for tenant in self._demands():
            if tenant.state is State.DRAINING:
                continue  # revoked for somebody before it in this very loop
            behind = not tenant.gpus.keys().isdisjoint(ahead)
            if never := self._why_never(tenant):
                tenant.blocked_by = never
            elif behind and not self._may_pass(tenant, ahead):
                tenant.blocked_by = "others are ahead in the queue"
                self._line_up(tenant, ahead)
            elif self._fits(tenant) or (not behind and self._revoke_for(tenant)):
                tenant.blocked_by = ""
                if tenant.state is State.WAITING:
                    self._move(tenant, Cause.CHOSEN)
                    self._coming.append(tenant)
                    for gpu in ahead.keys() & tenant.gpus.keys():
                        ahead[gpu] -= _movable_bytes(tenant, tenant.gpus[gpu])
            else:
                self._line_up(tenant, ahead)

    def _demands(self) -> list[Tenant]:
        tenants = self._ledger.tenants
        growing = [t for t in self._asking if t.is_growing]
        return growing + [tenants[number] for number in self._ledger.queue]

    def _line_up(self, tenant: Tenant, ahead: dict[int, int]) -> None:
        """Note in `ahead`, for each of its GPUs, what others may take without being in its way.

        Only those who hold from before it began to wait will make way for it; with all others
        it must fit together.
        """
        for gpu, on in tenant.gpus.items():
            if gpu not in ahead:
                balance = self._balances[gpu]
                ahead[gpu] = balance.capacity_bytes - balance.firm_bytes
                if tenant.state is State.HOLDING:
                    ahead[gpu] = 0
                for other in self._holding + self._coming:
                    if other.since_s >= tenant.waits_since_s and gpu in other.gpus:
                        ahead[gpu] -= _movable_bytes(other, other.gpus[gpu])
            ahead[gpu] -= _movable_bytes(tenant, on)

    def _may_pass(self, tenant: Tenant, ahead: dict[int, int]) -> bool:
        if tenant.state is State.HOLDING:
            return False
        return all(
            _movable_bytes(tenant, on) <= max(0, ahead[gpu])
            for gpu, on in tenant.gpus.items()
            if gpu in ahead
        ) and self._fits(tenant)

    def _revoke_for(self, tenant: Tenant) -> bool:
        """Revoke the longest holders whose turn is over until `tenant` fits; False if it cannot.

        Those whose turn is not over are watched, and their turn's end becomes the deadline.
        """
        gaps = {gpu: -left for gpu in tenant.gpus if (left := self._left_bytes(tenant, gpu)) < 0}
        helpers = [
            other
            for other in self._holding
            if other is not tenant and any(self._gives(other, gpu) > 0 for gpu in gaps)
        ]
        helpers.sort(key=self._by_turn)
        leaving: list[Tenant] = []
        still = dict(gaps)
        for other in helpers:
            if not self._turn_is_over(other):
                continue
            if any(gap > 0 and self._gives(other, gpu) > 0 for gpu, gap in still.items()):
                leaving.append(other)
                for gpu in still:
                    still[gpu] -= self._gives(other, gpu)
            if all(gap <= 0 for gap in still.values()):
                for each in self._needed(leaving, still):
                    self._revoke(each)
                return True
        for other in helpers:
            self._watch(other, self._move_bytes(tenant))
        names = [t.number for t in helpers]
        names += [t.number for t in self._coming if any(self._gives(t, gpu) > 0 for gpu in gaps)]
        tenant.blocked_by = _held_by(names)
        return False

    def _needed(self, leaving: list[Tenant], still: dict[int, int]) -> list[Tenant]:
        """Those of `leaving` who must go; whoever holds the shortest is let off first."""
        needed = list(leaving)
        for other in reversed(leaving[:-1]):
            if all(gap + self._gives(other, gpu) <= 0 for gpu, gap in still.items()):
                needed.remove(other)
                for gpu in still:
                    still[gpu] += self._gives(other, gpu)
        return needed

    def _watch(self, holder: Tenant, move_bytes: int) -> None:
        """Have a holder whose turn goes on looked at again when it ends, or falls idle before."""
        if not self._now_s >= holder.turn_ends_s:
            self._wake_at(holder.turn_ends_s)
        self._wanted_watches.add(holder.number)
        if self._now_s < holder.idle_until_s:
            self._wake_at(holder.idle_until_s)
            return
        idle_s = self._turns.idle_s(move_bytes)
        if not holder.watched_s or idle_s < holder.watched_s / 2:
            holder.watched_s = idle_s
            self._out.append(do.Watch(holder.number, idle_s))

    def _end_watches(self) -> None:
        for tenant in self._watched:
            if tenant.watched_s and tenant.number not in self._wanted_watches:
                tenant.watched_s = 0.0
                self._out.append(do.Watch(tenant.number, 0.0))

    # Whose bytes move

    def _order_evictions(self) -> None:
        """Order out what those who come or grow still miss, from whoever runs furthest away."""
        for gpu, balance in self._balances.items():
            short = -balance.free_bytes - balance.leaving_bytes
            for tenant in self._coming:
                if on := tenant.gpus.get(gpu):
                    short += on.allocated_bytes - on.charged_bytes
            for tenant in self._asking:
                if tenant.is_growing and not tenant.blocked_by and (on := tenant.gpus.get(gpu)):
                    short += on.allocated_bytes - on.charged_bytes
            if short > 0:
                self._evict(gpu, short)

    def _evict(self, gpu: int, short: int) -> None:
        """Who wants nothing goes first, least recently used first; then the queue from its end.

        Who is still draining will stand at its end, so what it has is waited for, not taken
        from somebody whose turn comes sooner.
        """
        tenants = self._ledger.tenants
        out = [t for t, _ in self._ledger.on(gpu) if t.state is State.OUT]
        out.sort(key=lambda t: t.since_s)
        queue = [tenants[number] for number in reversed(self._ledger.queue)]
        for victim in out + self._draining + queue:
            on = victim.gpus.get(gpu)
            if on is None:
                continue
            amount = min(short, victim.evictable_bytes(on))
            if amount <= 0:
                continue
            short -= amount
            if victim.state is not State.DRAINING:
                self._order(victim, gpu, amount)
            if short == 0:
                return

    def _order(self, victim: Tenant, gpu: int, amount: int) -> None:
        if not victim.has_orders:
            victim.told_s = self._now_s
            victim.due_s = self._now_s + self._settings.revoke_deadline_s
            self._wake_at(victim.due_s)
        victim.gpus[gpu].orders.append(amount)
        self._balances[gpu].leaving_bytes += amount
        self._out.append(do.Evict(victim.number, gpu, amount))

    def _give_room(self) -> None:
        for tenant in self._coming:
            if tenant.has_orders:
                continue
            given = False
            for gpu in tenant.gpus:
                balance = self._balances[gpu]
                amount = min(balance.free_bytes, tenant.missing_bytes(gpu))
                if amount > 0:
                    given = True
                    tenant.gpus[gpu].charged_bytes += amount
                    balance.charged_bytes += amount
                    tenant.coming_bytes += amount
                    self._out.append(do.Room(tenant.number, gpu, amount))
            if given:
                tenant.room_given = True
                if not tenant.restored and not self._misses(tenant):
                    longest_s = 4 * self._turns.move_s(tenant.coming_bytes)
                    tenant.told_s = self._now_s
                    tenant.due_s = self._now_s + self._settings.revoke_deadline_s + longest_s
                    self._wake_at(tenant.due_s)

    def _finish_coming(self) -> bool:
        granted = False
        for tenant in list(self._coming):
            if tenant.room_given and not tenant.restored:
                continue
            if tenant.has_orders or self._misses(tenant):
                continue
            self._turns.moved(tenant, self._now_s)
            self._coming.remove(tenant)
            self._holding.append(tenant)
            self._move(tenant, Cause.READY)
            tenant.epoch += 1
            tenant.turns += 1
            tenant.coming_bytes = 0
            tenant.room_given = tenant.restored = False
            tenant.stuck_until_s = tenant.due_s = 0.0
            tenant.turn_ends_s = self._now_s + self._turns.turn_s(tenant)
            self._out.append(do.Grant(tenant.number, tenant.epoch))
            granted = True
        return granted

    def _answer_requests(self) -> None:
        for tenant in self._asking:
            waiting = []
            for request in tenant.requests:
                balance = self._balances[request.gpu]
                if request.is_context:
                    ready = balance.free_bytes >= 0
                    if not ready:
                        tenant.blocked_by = "room for its context is being made"
                else:
                    settled = balance.staying_bytes - balance.pending_bytes
                    left = balance.capacity_bytes - max(settled, balance.charged_bytes)
                    ready = tenant.state is State.HOLDING and left >= request.bytes
                if not ready:
                    waiting.append(request)
                    continue
                tenant.gpus[request.gpu].charged_bytes += request.bytes
                balance.charged_bytes += request.bytes
                if tenant.stays:
                    balance.pending_bytes -= request.bytes
                self._out.append(do.Admitted(tenant.number, request.gpu, request.serial))
            tenant.requests = waiting

    # Small questions and moves

    def _misses(self, tenant: Tenant) -> bool:
        return any(tenant.missing_bytes(gpu) for gpu in tenant.gpus)

    def _left_bytes(self, tenant: Tenant, gpu: int) -> int:
        """What is left of a GPU once `tenant` is wholly there beside those that stay."""
        balance = self._balances[gpu]
        left = balance.capacity_bytes - balance.staying_bytes
        return left if tenant.stays else left - _movable_bytes(tenant, tenant.gpus[gpu])

    def _fits(self, tenant: Tenant) -> bool:
        return all(self._left_bytes(tenant, gpu) >= 0 for gpu in tenant.gpus)

    def _why_never(self, tenant: Tenant) -> str:
        """Why `tenant` could not hold even if everybody else gave way; empty if it could."""
        if tenant.silent:
            return "it does not move its memory out as it was told"
        for gpu, on in tenant.gpus.items():
            balance = self._balances[gpu]
            if balance.capacity_bytes - balance.firm_bytes < _movable_bytes(tenant, on):
                return self._name_firm(tenant, gpu)
        return ""

    def _name_firm(self, tenant: Tenant, gpu: int) -> str:
        need = format_bytes(tenant.gpus[gpu].allocated_bytes)
        room = format_bytes(self._balances[gpu].capacity_bytes)
        why = [
            f"tenant {other.number}'s {format_bytes(stays)} {_why_firm(other)}"
            for other, on in self._ledger.on(gpu)
            if other is not tenant and (stays := other.staying_bytes(on)) > 0
        ]
        beside = f" beside {', '.join(why)}" if why else ""
        return f"its {need} do not fit into the {room} of GPU {gpu}{beside}"

    def _gives(self, holder: Tenant, gpu: int) -> int:
        """What a holder's going makes room for."""
        on = holder.gpus.get(gpu)
        return _movable_bytes(holder, on) if on else 0

    def _over_bytes(self, gpu: int) -> int:
        """By how much those who hold or come exceed a GPU."""
        balance = self._balances[gpu]
        return balance.staying_bytes - balance.pending_bytes - balance.capacity_bytes

    def _move_bytes(self, tenant: Tenant) -> int:
        """What would have to move, one way, before `tenant` could run."""
        move = 0
        for gpu, on in tenant.gpus.items():
            need = on.allocated_bytes - on.charged_bytes
            move += max(tenant.missing_bytes(gpu), need - self._balances[gpu].free_bytes)
        return max(0, move)

    def _turn_is_over(self, tenant: Tenant) -> bool:
        return self._now_s >= tenant.turn_ends_s or self._now_s < tenant.idle_until_s

    def _by_turn(self, tenant: Tenant) -> tuple[bool, float]:
        return self._now_s >= tenant.idle_until_s, tenant.since_s

    def _revoke(self, tenant: Tenant) -> None:
        self._holding.remove(tenant)
        self._draining.append(tenant)
        self._move(tenant, Cause.REVOKED)
        tenant.told_s = self._now_s
        tenant.due_s = self._now_s + self._settings.revoke_deadline_s
        self._wake_at(tenant.due_s)
        self._out.append(do.Revoke(tenant.number, tenant.epoch))

    def _move(self, tenant: Tenant, cause: Cause) -> None:
        """Change the state, and the sums with it."""
        stayed = tenant.stays
        self._ledger.move(tenant, cause, self._now_s)
        if tenant.stays == stayed:
            return
        sign = -1 if stayed else 1
        for gpu, on in tenant.gpus.items():
            balance = self._balances[gpu]
            balance.staying_bytes += sign * _movable_bytes(tenant, on)
            balance.pending_bytes += sign * tenant.pending_bytes(gpu)
            if on.orders and not tenant.silent:
                balance.leaving_bytes -= sign * sum(on.orders)


def _movable_bytes(tenant: Tenant, on: OnGpu) -> int:
    """What is there of a tenant only while it holds."""
    return on.allocated_bytes - tenant.staying_bytes(on)


def _why_firm(tenant: Tenant) -> str:
    if tenant.silent:
        return "(it does not answer)"
    if tenant.stuck_until_s > 0:
        return "(moving it out failed)"
    return f"that cannot leave ({tenant.pinned_by})" if tenant.pinned_by else "that cannot leave"


def _held_by(numbers: list[int]) -> str:
    if not numbers:
        return "room is being made for others"
    names = ", ".join(str(number) for number in numbers)
    return f"tenant {names} holds the GPU" if len(numbers) == 1 else f"tenants {names} hold the GPU"
