"""Holds the namespaces of pods to an administrator's rules, on a node.

The webhook checks the same when objects are made. A node checks again, as objects can be made while
the webhook is away. It reads the rules for each decision, and what the namespace's other claims
have; without an answer of the API server nothing is given.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from moiety.kube import namespace_shares
from moiety.kube.allocation_result import consumers
from moiety.kube.checkpoint import CLAIM, UNITS, Assignment
from moiety.kube.client import CLAIMS, CONFIG_MAPS, PODS, ApiClient, ApiError, Object
from moiety.kube.model import names
from moiety.kube.namespace_limits import LimitRefusal, NamespaceLimits, NamespaceRules
from moiety.model.share import Share

SLACK: Final = 1e-6
PENDING: Final = "Pending"


def _grows(share: Share, other: Share) -> bool:
    """Whether a share promises more than another one."""
    more = (share.gpu or 0.0) > (other.gpu or 0.0) + SLACK
    return more or share.memory_bytes > other.memory_bytes


def _age(found: Object) -> tuple[str, str]:
    """The order in which objects were made."""
    return str(found["metadata"].get("creationTimestamp") or ""), found["metadata"]["uid"]


class NamespaceGuard:
    """The checks of one node."""

    def __init__(self, client: ApiClient, system: str, kinds: frozenset[str]) -> None:
        """`system` is moiety's namespace."""
        self._client = client
        self._system = system
        self._kinds = kinds

    async def rules(self, namespace: str) -> NamespaceRules:
        """The present rules for a namespace. Raises ApiError."""
        return (await self._limits()).of(namespace)

    async def guaranteed(self) -> dict[str, float]:
        """The part of each GPU's time that each namespace is guaranteed now.

        Raises ApiError, and LimitRefusal if all together are more than there is.
        """
        return (await self._limits()).guaranteed()

    async def _limits(self) -> NamespaceLimits:
        try:
            found = await self._client.get(CONFIG_MAPS, names.NAMESPACES, self._system)
        except ApiError as no:
            if not no.is_missing:
                raise
            found = {}
        return NamespaceLimits(found.get("data") or {})

    async def check_claim(
        self, claim: Object, shares: Iterable[Share], held: Collection[str]
    ) -> None:
        """Raise LimitRefusal if a claim's namespace may not have its shares; or ApiError.

        `held` are the UIDs of the claims that this node has prepared.
        """
        metadata = claim["metadata"]
        namespace = metadata.get("namespace", "")
        rules = await self.rules(namespace)
        for share in shares:
            rules.check_class(share)
        others = await self._before(claim, held) if rules.has_sums else []
        rules.check(namespace_shares.of_claim(claim), others)

    async def check_units(self, namespace: str, pod_uid: str, assignment: Assignment,
                          share: Share) -> None:  # fmt: skip
        """Raise LimitRefusal if a pod's namespace may not have this share of units; or ApiError."""
        rules = await self.rules(namespace)
        others = await self._others(namespace, rules, pod_uid)
        rules.check([share] * len(assignment.slots), others)

    async def check_resize(self, assignment: Assignment, share: Share) -> None:
        """Raise LimitRefusal if a share may not be changed to this one; or ApiError.

        A namespace with a sum may grow a share up to what its claim consumes: only that is counted
        when another claim comes.
        """
        rules = await self.rules(assignment.labels.get("namespace", assignment.namespace))
        rules.check_resize()
        before = assignment.share
        if (share.priority, share.latency) != (before.priority, before.latency):
            rules.check_class(share)
        if not rules.has_sums or not _grows(share, before):
            return
        counted = await self._counted(assignment)
        if _grows(share, counted):
            where = (rules.may.gpu or rules.may.memory or rules.resize).where
            raise LimitRefusal(
                f"{rules.may.user} has a limit for all of its shares, so a share cannot grow "
                f"beyond what its pod was admitted with, {counted} ({where})"
            )
        own = assignment.key if assignment.kind == CLAIM else "".join(assignment.pods)
        namespace = assignment.labels.get("namespace", assignment.namespace)
        rules.check([share] * len(assignment.slots), await self._others(namespace, rules, own))

    async def _before(self, claim: Object, held: Collection[str]) -> list[Share]:
        """What counts before a claim: older claims, and those that pods have by now.

        Of claims that together exceed the sum, the oldest ones are prepared, and not none.
        """
        namespace = claim["metadata"].get("namespace", "")
        claims, _ = await self._client.list(CLAIMS, namespace)
        pods, _ = await self._client.list(PODS, namespace)
        started = {
            each["metadata"]["uid"]
            for each in pods
            if (each.get("status") or {}).get("phase", PENDING) != PENDING
        }
        found: list[Share] = []
        for each in claims:
            uid = each["metadata"]["uid"]
            if uid == claim["metadata"]["uid"] or not namespace_shares.is_allocated(each):
                continue
            users = {consumer.uid for consumer in consumers(each)}
            if uid in held or users & started or _age(each) < _age(claim):
                found += namespace_shares.of_claim(each)
        if UNITS in self._kinds:
            found += namespace_shares.of_pods(pods)
        return found

    async def _others(self, namespace: str, rules: NamespaceRules, without: str) -> list[Share]:
        """What the namespace has beside the claim or pod with the UID `without`: what is given.

        The webhook counts claims that are only asked for as well.
        """
        found: list[Share] = []
        if rules.has_sums and CLAIM in self._kinds:
            claims, _ = await self._client.list(CLAIMS, namespace)
            for each in claims:
                if each["metadata"]["uid"] != without and namespace_shares.is_allocated(each):
                    found += namespace_shares.of_claim(each)
        if rules.has_sums and UNITS in self._kinds:
            pods, _ = await self._client.list(PODS, namespace)
            found += namespace_shares.of_pods(pods, without=without)
        return found

    async def _counted(self, assignment: Assignment) -> Share:
        """What counts of a share in the sum of its namespace, on each GPU."""
        if assignment.kind == UNITS:
            found = namespace_shares.of_units(len(assignment.units))
        else:
            claim = await self._client.get(CLAIMS, assignment.claim, assignment.namespace)
            found = namespace_shares.of_allocated(claim, assignment.request)
        return min(found, key=lambda each: each.gpu or 0.0, default=Share())
