"""Templates that nothing needs go, and one that a pod names by then comes back."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from moiety.kube.client import PODS, ApiClient
from moiety.kube.model import names
from moiety.kube.webhook import template_gc
from moiety.kube.webhook.template_gc import TEMPLATES
from moiety.testing.apiserver import ApiServer

LABELS = {names.MANAGED_BY: "moiety"}


def template(name: str) -> dict[str, Any]:
    metadata = {"name": name, "labels": LABELS, "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "spec": {"spec": {"of": name}}}


def pod(name: str, uses: str) -> dict[str, Any]:
    claims = [{"name": "gpu", "resourceClaimTemplateName": uses}]
    labels = {names.SHARED: "claim"}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"resourceClaims": claims}}


@pytest.mark.parametrize("status", [409, 500])
def test_a_template_that_a_pod_names_by_then_comes_back_also_if_another_stays(status: int) -> None:
    async def story() -> None:
        async with ApiServer() as server, ApiClient(server.access) as client:
            for name in ("moiety-a", "moiety-b", "moiety-c", "moiety-used"):
                server.put(TEMPLATES, template(name), "team")
            server.put(PODS, pod("runs", "moiety-used"), "team")

            def fail(method: str, path: str) -> int:
                if (method, path) != ("DELETE", TEMPLATES.path("moiety-b", "team")):
                    return 0
                server.put(PODS, pod("new", "moiety-a"), "team")
                return status

            server.fail = fail
            log = structlog.get_logger()
            assert await template_gc.sweep(client, log, settle_s=0.0) == 1
            left = {each["metadata"]["name"] for each in server.all(TEMPLATES)}
            assert left == {"moiety-a", "moiety-b", "moiety-used"}

    asyncio.run(asyncio.wait_for(story(), 20))
