"""Makes the templates of claims that pods need, and removes unused ones.

A template is made before its pod, so it is kept until it is old. A removed template that a new pod
names at the same moment is made again.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from moiety.kube.client import PODS, ApiClient, ApiError, Object, Resource
from moiety.kube.model import names
from moiety.kube.model.pod_spec import ENDED
from moiety.kube.templates import NAME_PREFIX
from moiety.kube.webhook.cluster_cache import age_s

TEMPLATES: Final = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate"
)
OURS: Final = f"{names.MANAGED_BY}=moiety"
KEEP_S: Final = 3600.0
"""The least age of a removed template: younger ones may have a pod that is not there yet."""
SETTLE_S: Final = 30.0
"""Longer than an answer of the webhook takes to arrive."""


async def make(client: ApiClient, template: Object, namespace: str) -> None:
    """Make a template in a namespace, unless its name exists there. Raises ApiError."""
    try:
        await client.create(TEMPLATES, template, namespace)
    except ApiError as no:
        if not no.is_conflict:
            raise


async def sweep(
    client: ApiClient, log: Any, *, keep_s: float = KEEP_S, settle_s: float = SETTLE_S
) -> int:
    """Remove templates that no pod needs; returns how many. Raises ApiError."""
    there, _ = await client.list(TEMPLATES, label_selector=OURS)
    old = [
        each
        for each in there
        if age_s(each) >= keep_s and each["metadata"]["name"].startswith(NAME_PREFIX)
    ]
    needed = await _needed(client) if old else set()
    gone = []
    for each in old:
        told = each["metadata"]
        where = {"template": told["name"], "namespace": told["namespace"]}
        if _key(each) in needed:
            continue
        try:
            await client.delete(TEMPLATES, told["name"], told["namespace"], uid=told["uid"])
        except ApiError as no:  # what was removed before has to be looked at again, all the same
            log.warning("template_not_removed", problem=no.what, **where)
            continue
        gone.append(each)
        log.info("template_removed", **where)
    if not gone:
        return 0
    await asyncio.sleep(settle_s)
    needed = await _needed(client)
    back = [each for each in gone if _key(each) in needed]
    for each in back:
        told = {key: each["metadata"][key] for key in ("name", "labels")}
        await make(client, {"metadata": told, "spec": each["spec"]}, each["metadata"]["namespace"])
    return len(gone) - len(back)


async def _needed(client: ApiClient) -> set[tuple[str, str]]:
    """Namespace and name of each template that a pod names, unless the pod has ended."""
    pods, _ = await client.list(PODS, label_selector=f"{names.SHARED}=claim")
    return {
        (pod["metadata"]["namespace"], claim["resourceClaimTemplateName"])
        for pod in pods
        if (pod.get("status") or {}).get("phase") not in ENDED
        for claim in (pod.get("spec") or {}).get("resourceClaims") or []
        if claim.get("resourceClaimTemplateName")
    }


def _key(found: Object) -> tuple[str, str]:
    return found["metadata"]["namespace"], found["metadata"]["name"]


async def remove_all(client: ApiClient) -> int:
    """Remove all of moiety's templates, needed or not: claims that were made of them stay."""
    there, _ = await client.list(TEMPLATES, label_selector=OURS)
    for each in there:
        await client.delete(TEMPLATES, each["metadata"]["name"], each["metadata"]["namespace"])
    return len(there)
