"""Holds namespaces to an administrator's rules when their objects are made.

Claims are checked as well as pods: a pod is made before its claims, and several pods may be made at
one moment. Each node checks again what a claim was given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

from moiety.kube import namespace_shares
from moiety.kube.client import CLAIMS, PODS, ApiClient, ApiError
from moiety.kube.namespace_limits import LimitRefusal, NamespaceRules
from moiety.kube.webhook.admission import AllocationMethod, ClusterView, Verdict
from moiety.kube.webhook.cluster_cache import ClusterCache
from moiety.model.share import Share

RECENT_S: Final = 10.0
"""Longer than an admitted claim takes to be listed."""
CREATE: Final = "CREATE"
POD: Final = "Pod"
TEMPLATE: Final = "ResourceClaimTemplate"
CLAIM: Final = "ResourceClaim"


class NamespaceChecks:
    """The checks of one copy of the webhook."""

    def __init__(self, client: ApiClient, knowledge: ClusterCache, *, proven: bool) -> None:
        """`proven`: reviews come from the API server. Others could make up claims to be kept."""
        self._proven = proven
        self._client = client
        self._knowledge = knowledge
        self._locks: dict[str, asyncio.Lock] = {}
        """By namespace: claims are added up one after the other."""
        self._recent: dict[str, dict[str, tuple[float, tuple[Share, ...]]]] = {}
        """Admitted claims that may not be listed yet, with their time, by namespace and UID."""

    async def refuse(self, asked: Mapping[str, Any], verdict: Verdict) -> str:
        """Why a namespace may not have what an admitted object asks for; empty: it may."""
        if asked["kind"]["kind"] != POD and asked.get("operation") != CREATE:
            return ""  # what a claim asks for never changes, and its finalizers must
        namespace = str(asked.get("namespace") or "")
        rules = self._knowledge.limits.of(namespace)
        try:
            if verdict.resizes:
                rules.check_resize()
            for share in verdict.shares:
                rules.check_class(share)
            if asked["kind"]["kind"] != TEMPLATE and _adds(verdict.shares) and rules.has_sums:
                await self._check_sum(asked, namespace, rules, verdict.shares)
        except LimitRefusal as no:
            return f"moiety: {no.what} ({no.hint})"
        except ApiError as no:
            return f"moiety: what the namespace has cannot be read: {no.what} (the same once more)"
        return ""

    async def _check_sum(
        self,
        asked: Mapping[str, Any],
        namespace: str,
        rules: NamespaceRules,
        shares: tuple[Share, ...],
    ) -> None:
        uid = str(((asked.get("object") or {}).get("metadata") or {}).get("uid") or "")
        if not self._proven:
            rules.check(shares, await self._others(namespace, uid, self._knowledge.cluster))
            return
        async with self._locks.setdefault(namespace, asyncio.Lock()):
            others = await self._others(namespace, uid, self._knowledge.cluster)
            rules.check(shares, others)
            if asked["kind"]["kind"] == CLAIM and uid and not asked.get("dryRun"):
                self._recent.setdefault(namespace, {})[uid] = time.monotonic(), shares

    async def _others(self, namespace: str, without: str, cluster: ClusterView) -> list[Share]:
        """What a namespace is promised or has asked for, beside one object. Raises ApiError."""
        if cluster.by is AllocationMethod.UNITS:
            pods, _ = await self._client.list(PODS, namespace)
            return namespace_shares.of_pods(pods, without=without)
        found: list[Share] = []
        claims, _ = await self._client.list(CLAIMS, namespace)
        listed = {each["metadata"]["uid"] for each in claims}
        for each in claims:
            if each["metadata"]["uid"] != without:
                found += namespace_shares.of_claim(each)
        for uid, shares in self._unlisted(namespace, listed).items():
            if uid != without:
                found += shares
        return found

    def _unlisted(self, namespace: str, listed: set[str]) -> dict[str, tuple[Share, ...]]:
        """The recently admitted claims that are not listed; forgets all others."""
        now_s = time.monotonic()
        kept = {
            uid: (at_s, shares)
            for uid, (at_s, shares) in self._recent.pop(namespace, {}).items()
            if uid not in listed and now_s - at_s < RECENT_S
        }
        if kept:
            self._recent[namespace] = kept
        return {uid: shares for uid, (_, shares) in kept.items()}


def _adds(shares: tuple[Share, ...]) -> bool:
    """Whether shares count in a sum."""
    return any(each.gpu is not None or each.memory_bytes for each in shares)
