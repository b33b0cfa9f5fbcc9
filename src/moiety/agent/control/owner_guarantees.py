"""Tells the arbiter what users, groups and namespaces are guaranteed of each GPU's time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from moiety.agent.control.workloads import Workloads
from moiety.agent.core.runtime import Runtime
from moiety.agent.core.time_owners import of_namespace, of_user
from moiety.agent.system.users import USERS, Users
from moiety.arbiter import events as ev
from moiety.config.guarantees import GuaranteeRules
from moiety.model.errors import BadArgument
from moiety.model.format import format_fraction

_ROUNDING: Final = 1e-9


class OwnerGuarantees:
    """The guarantees of one agent: users and groups from its file, namespaces from Kubernetes."""

    def __init__(
        self,
        runtime: Runtime,
        workloads: Workloads,
        rules: GuaranteeRules,
        users: Users = USERS,
    ) -> None:
        """Listens to workloads that come and go: the guarantees of their users get their owners."""
        self._runtime = runtime
        self._workloads = workloads
        self._rules = rules
        self._users = users
        self._namespaces: Mapping[str, float] = {}
        self._asking = -1
        self._told = ev.GuaranteesSet({})
        workloads.on_owner.append(self._changed)
        self.tell()

    def replace(self, rules: GuaranteeRules) -> None:
        """Apply other rules for users and groups from now on."""
        self._rules = rules
        self.tell()

    def check(self, rules: GuaranteeRules) -> None:
        """Raise BadArgument if these rules cannot be kept beside what namespaces are guaranteed."""
        whole, others = _sum(rules), sum(self._namespaces.values())
        if others and whole + others > 1 + _ROUNDING:
            raise BadArgument(
                f"users and groups cannot be guaranteed {format_fraction(whole)} of each GPU "
                f"together: namespaces are guaranteed {format_fraction(others)}",
                "smaller parts here, or in the ConfigMap moiety-namespaces",
            )

    def set_namespaces(self, parts: Mapping[str, float]) -> None:
        """Guarantee these parts to namespaces, in place of all earlier ones.

        Raises BadArgument if they cannot be kept beside what users and groups are guaranteed.
        """
        others = _sum(self._rules)
        whole = sum(parts.values())
        if whole + others > 1 + _ROUNDING or any(part <= 0 for part in parts.values()):
            raise BadArgument(
                f"namespaces cannot be guaranteed {format_fraction(whole)} of each GPU together: "
                f"{format_fraction(max(0.0, 1 - others))} are left",
                "smaller parts in the ConfigMap moiety-namespaces",
            )
        self._namespaces = dict(parts)
        self.tell()

    def names(self) -> dict[str, float]:
        """The guaranteed parts, by name, for `moiety status`."""
        return {
            **{f"user {name}": part for name, part in self._rules.users.items()},
            **{f"group {name}": part for name, part in self._rules.groups.items()},
            **{of_namespace(name): part for name, part in self._namespaces.items()},
        }

    def asks(self, account: int) -> None:
        """A user asks for a workload: what it is guaranteed counts for its first one, too."""
        if self._rules.users or self._rules.groups:
            self._asking = account
            self.tell()

    def tell(self) -> None:
        """Let the arbiter know what counts now, if that has changed."""
        found = ev.GuaranteesSet(self._parts(), self._groups())
        if found != self._told:
            self._told = found
            self._runtime.feed(found)

    def _changed(self, uid: int) -> None:
        del uid
        if self._rules.users or self._rules.groups:
            self.tell()

    def _accounts(self) -> list[int]:
        found = {each.account for each in self._workloads.by_id.values()}
        return sorted(found | {self._asking} - {-1})

    def _parts(self) -> dict[str, float]:
        """By owner; a user without a workload is kept its part under its name."""
        by_name = {}
        if self._rules.users:
            for account in self._accounts():
                by_name[str(account)] = by_name[self._users.of(account).name] = of_user(account)
        found = {by_name.get(n, of_user_name(n)): part for n, part in self._rules.users.items()}
        return found | {of_namespace(name): part for name, part in self._namespaces.items()}

    def _groups(self) -> dict[str, tuple[float, tuple[str, ...]]]:
        """By group: its part, and its members with workloads. The largest of a user's counts."""
        found: dict[str, tuple[float, tuple[str, ...]]] = {}
        left = self._accounts() if self._rules.groups else []
        for name, part in sorted(self._rules.groups.items(), key=lambda each: (-each[1], each[0])):
            inside = [account for account in left if name in self._users.of(account).groups]
            left = [account for account in left if account not in inside]
            found[name] = part, tuple(map(of_user, inside))
        return found


def _sum(rules: GuaranteeRules) -> float:
    """What all users and groups are guaranteed together."""
    return sum(rules.users.values()) + sum(rules.groups.values())


def of_user_name(name: str) -> str:
    """The owner of the part that is kept for a user who has no workload."""
    return f"user named {name}"
