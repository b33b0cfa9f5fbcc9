"""Users' limits, from the system's file: its sections [users.NAME], [groups.NAME], [defaults]."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from moiety.agent.control.card_loads import CardLoad
from moiety.agent.control.owner_guarantees import OwnerGuarantees
from moiety.agent.control.rows import UserLimitRow
from moiety.agent.control.running_workload import RunningWorkload
from moiety.agent.control.workloads import Workloads
from moiety.agent.core.client import Client
from moiety.agent.core.runtime import Runtime
from moiety.agent.system.subordinate_users import unchanged
from moiety.agent.system.users import USERS, User, Users
from moiety.arbiter import events as ev
from moiety.arbiter.admission.user_limits import (
    FIELDS,
    Entitlement,
    Rule,
    Rules,
    divide,
    entitle,
    refuse,
    within,
)
from moiety.config.guarantees import GuaranteeRules
from moiety.config.load import Config, Source, Value
from moiety.model.errors import NotAllowed, UserLimit
from moiety.model.format import format_bytes, format_fraction
from moiety.model.share import Share
from moiety.model.units import NO_LIMIT

QUANTUM: Final = Rule(10.0, "unless [defaults] quantum says otherwise")
"""The longest quantum that users may ask for where no file sets one; others wait for its end."""


class LimitRules:
    """The rules of one agent. A user's own agent has none: every share is allowed."""

    def __init__(
        self,
        config: Config | None = None,
        exempt: frozenset[int] = frozenset(),
        users: Users = USERS,
    ) -> None:
        """Defaults do not apply to the users in `exempt`. Raises BadSetting."""
        self._names = users
        self._users: dict[str, Rules] = {}
        self._groups: dict[str, Rules] = {}
        self._defaults: Rules = {}
        self._exempt = exempt
        self._known: dict[int, Entitlement] = {}
        self.are_none = config is None
        """True if there are no rules, so that every share is allowed."""
        self.guaranteed = GuaranteeRules() if config is None else GuaranteeRules.of(config)
        """What users and groups are guaranteed."""
        if config is not None:
            self._users = {name: _rules(v) for name, v in config.named("users").items()}
            self._groups = {name: _rules(v) for name, v in config.named("groups").items()}
            self._defaults = {"quantum_s": QUANTUM} | _rules(config.section("defaults"))

    def of(self, uid: int) -> Entitlement:
        """The rules for one user; until its name is known, the rules for its number."""
        if known := self._known.get(uid):
            return known
        user = self._names.of(uid)
        own = self._users.get(user.name, self._users.get(str(uid), {}))
        groups = [self._groups[name] for name in sorted(user.groups) if name in self._groups]
        defaults = {} if uid in self._exempt else self._defaults
        found = entitle(user.name, own, groups, defaults)
        if user.is_known:
            self._known[uid] = found
        return found

    def is_certain(self, uid: int) -> bool:
        """True if no name or group that is still unknown could change a user's rules."""
        if not (self._users or self._groups) or uid in self._exempt:
            return True
        return self._names.of(uid).is_known

    def found(self, user: User) -> None:
        """A user's name and groups were found."""
        self._known.pop(user.uid, None)


class LimitEnforcer:
    """Keeps each user within its limits: for a new share, and when anything changes."""

    def __init__(
        self,
        runtime: Runtime,
        clients: Mapping[int, Client],
        workloads: Workloads,
        entitlements: LimitRules,
        account_of: Callable[[int], int] = unchanged,
        capacity: int = 0,
    ) -> None:
        """Listens to processes that come and go; `account_of` names who accounts for a user.

        `capacity` is what the largest GPU shares out; 0: unknown.
        """
        self.account_of = account_of
        self._capacity = capacity
        self._runtime = runtime
        self._clients = clients
        self._workloads = workloads
        self._entitlements = entitlements
        self._told = ev.UserLimitsSet({})
        """The limits of memory that the arbiter was told."""
        self.guarantees = OwnerGuarantees(runtime, workloads, entitlements.guaranteed)
        workloads.effective = self.effective
        workloads.on_owner.append(self._apply)

    def check(
        self,
        uid: int,
        share: Share,
        own: RunningWorkload | None = None,
        *,
        alone: bool = False,
        capacity: int = 0,
        on: Collection[CardLoad] = (),
        each: bool = True,
    ) -> None:
        """Raise UserLimit if a user may not have this share; `own` has it instead of its own.

        `alone`: as if the user had no other workloads. `capacity` is what its GPU shares out; 0: as
        much as the largest. `on` is what is on the GPUs of the share, each of which must have room
        for it, or one of them if not `each`; without any, all workloads of the user count as on
        one GPU. Raises NotAllowed while the user's name and groups are unknown.
        """
        if self._entitlements.are_none:
            return
        uid = self.account_of(uid)
        if not self._entitlements.is_certain(uid):
            raise NotAllowed(
                f"what user {uid} may have depends on its name and groups, and the system's tables "
                "(a directory service?) do not say them",
                f"again later; `getent passwd {uid}` asks the same tables",
            )
        may, capacity = self._entitlements.of(uid), capacity or self._capacity
        others = [] if alone else [w for w in self._of(uid) if w is not own]
        there = [[w for w in others if id(w) in load.on] for load in on] or [others]
        refused = [
            refuse(may, share, [w.record.promised for w in beside], capacity, len(others))
            for beside in there
        ]
        found = [no for no in refused if no is not None]
        if found and (each or len(found) == len(there)):
            raise UserLimit(*found[0])

    def gpus_of(self, uid: int) -> tuple[int, ...] | None:
        """The only GPUs that a user's workloads may be on; None: any."""
        if self._entitlements.are_none:
            return None
        found = self._entitlements.of(self.account_of(uid)).gpus
        return found.value if found else None

    def row_of(self, uid: int) -> UserLimitRow | None:
        """What a user may have, for a list; None: nothing is limited."""
        if self._entitlements.are_none:
            return None
        may = self._entitlements.of(self.account_of(uid))
        memory = may.memory.value if may.memory else NO_LIMIT
        rules = {field: rule for field in FIELDS if (rule := getattr(may, field)) is not None}
        return UserLimitRow(
            gpu=may.gpu.value if may.gpu else None,
            memory_bytes=memory.size_bytes,
            memory_part=memory.part,
            workloads=may.workloads.value if may.workloads else None,
            gpus=list(may.gpus.value) if may.gpus else None,
            priority=int(may.priority.value) if may.priority else None,
            where={field: rule.where for field, rule in rules.items()},
            has=[each.record.id for each in self._of(uid)],
        )

    def effective(self, workload: RunningWorkload) -> Share:
        """The part of its share that a workload gets beside the other workloads of its user."""
        share = workload.record.share
        if self._entitlements.are_none:
            return share
        may = self._entitlements.of(self.account_of(workload.record.uid))
        if may.gpu is None:
            return within(may, share, capacity=self._capacity)
        parts = [1.0]
        for gpu in self._gpus(workload):
            beside = [w for w in self._of(workload.record.uid) if gpu in self._gpus(w)]
            caps = divide(may.gpu.value, [w.record.promised for w in beside])
            parts.append(caps[beside.index(workload)])
        return within(may, share, min(*parts, may.gpu.value), self._capacity)

    def replace(self, entitlements: LimitRules) -> None:
        """Apply other rules from now on."""
        self._entitlements = entitlements
        self.guarantees.replace(entitlements.guaranteed)
        for uid in {w.record.uid for w in self._workloads.by_id.values()}:
            self._limit(uid)
            for workload in self._of(uid):
                self._workloads.divide(workload)

    def found(self, user: User) -> None:
        """A user's name and groups were found: apply its rules from now on."""
        self._entitlements.found(user)
        self.guarantees.tell()
        if not self._entitlements.are_none and self._of(user.uid):
            self._limit(user.uid)
            for workload in self._of(user.uid):
                self._workloads.divide(workload)

    def _apply(self, uid: int) -> None:
        """The workloads of a user have changed: apply its limits."""
        if self._entitlements.are_none:
            return
        self._limit(uid)
        if self._entitlements.of(self.account_of(uid)).gpu:
            for workload in self._of(uid):
                self._workloads.divide(workload)

    def _limit(self, uid: int) -> None:
        limits: dict[int, tuple[int, str]] = {}
        parts: dict[int, tuple[float, str]] = {}
        for owner in {each.account for each in self._clients.values()} | {self.account_of(uid)}:
            may = self._entitlements.of(owner)
            if may.memory is None:
                continue
            (most, part), there = may.memory.value, f"{may.user} may have there"
            if most is not None:
                limits[owner] = most, f"{there}, {format_bytes(most)} ({may.memory.where})"
            if part is not None:
                rule = f"{there}, {format_fraction(part)} of its memory ({may.memory.where})"
                parts[owner] = part, rule
        told = ev.UserLimitsSet(limits, parts)
        if told != self._told:
            self._told = told
            self._runtime.feed(told)

    def _of(self, uid: int) -> list[RunningWorkload]:
        """The workloads that count as a user's."""
        account_of, account = self.account_of, self.account_of(uid)
        known = self._workloads.by_id.values()
        return [each for each in known if account_of(each.record.uid) == account]

    def _gpus(self, workload: RunningWorkload) -> set[int]:
        clients = self._clients
        return {gpu for n in workload.clients if n in clients for gpu in clients[n].gpus}


def _rules(values: Mapping[str, Value]) -> dict[str, Rule[Any]]:
    """The rules of one section, without the defaults."""
    return {
        field: Rule(found.value, found.where)
        for field, found in values.items()
        if field in FIELDS and found.source is not Source.DEFAULT
    }
