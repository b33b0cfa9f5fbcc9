"""The dialects of other systems that a namespace has opted in to, by a label.

The label is read when a pod needs it: no copy of it can be too old, and other pods cost nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from moiety.kube.client import NAMESPACES, ApiClient, Object
from moiety.kube.dialects import resolve
from moiety.kube.dialects.request import SPELLINGS, RequestRefused, WebhookConfig
from moiety.kube.model import names
from moiety.kube.webhook.admission import ClusterView


async def view(client: ApiClient, request: Mapping[str, Any], cluster: ClusterView) -> ClusterView:
    """The cluster as one namespace has it; raises ApiError, and RequestRefused for a bad label."""
    if request["kind"]["kind"] != "Pod" or request.get("operation") != "CREATE":
        return cluster
    try:
        others = resolve.unread(request.get("object") or {}, cluster.config)
    except (AttributeError, KeyError, TypeError, ValueError):  # no pod: `review.decide` refuses it
        return cluster
    if not others:
        return cluster
    found = await client.get(NAMESPACES, str(request.get("namespace") or "default"))
    return dataclasses.replace(cluster, config=opted_in(found, cluster.config))


def opted_in(namespace: Object, config: WebhookConfig) -> WebhookConfig:
    """The settings with the dialects of a namespace; raises RequestRefused for a bad label."""
    metadata = namespace["metadata"]
    text = (metadata.get("labels") or {}).get(names.DIALECTS, "")
    chosen = set(SPELLINGS) if text == "all" else {each for each in text.split(".") if each}
    if unknown := sorted(chosen - set(SPELLINGS)):
        raise RequestRefused(
            f"namespace {metadata.get('name')} has the label {names.DIALECTS}: {text}, and there "
            f"is no dialect {unknown[0]}; there are {', '.join(SPELLINGS[1:])}, and all"
        )
    both = chosen | set(config.spellings)
    return dataclasses.replace(config, spellings=tuple(e for e in SPELLINGS if e in both))
