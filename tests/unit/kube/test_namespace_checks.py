"""Namespaces and their rules at the webhook, beside a stand-in for the API server."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import structlog

from moiety.kube.client import CLAIMS, CONFIG_MAPS, PODS, SLICES, ApiClient
from moiety.kube.model import names
from moiety.kube.webhook.clients import ReviewClients
from moiety.kube.webhook.server import Webhook
from moiety.testing.apiserver import ApiServer

LOG = structlog.wrap_logger(structlog.ReturnLogger())
DRIVER = "gpu.moiety.dev"
GPU = {
    "attributes": {"productName": {"string": "NVIDIA A100"}},
    "capacity": {"memory": {"value": "80Gi"}},
}


@contextlib.asynccontextmanager
async def webhook(
    authority: Path | None = Path("ca.crt"), **limits: str
) -> AsyncIterator[tuple[ApiServer, Webhook]]:
    """A webhook that knows its cluster, and what the ConfigMap of namespaces says."""
    async with ApiServer() as server, ApiClient(server.access, patience_s=1) as client:
        server.put(
            SLICES, {"metadata": {"name": "a"}, "spec": {"driver": DRIVER, "devices": [GPU] * 2}}
        )
        data = {key.replace("__", "_"): text for key, text in limits.items()}
        server.put(
            CONFIG_MAPS, {"metadata": {"name": names.NAMESPACES}, "data": data}, names.NAMESPACE
        )
        hook = Webhook(client, names.NAMESPACE, LOG, ReviewClients(authority))
        watching = asyncio.create_task(hook.knowledge.watch())
        try:
            await hook.until_known()
            yield server, hook
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 60))


def pod(**notes: str) -> dict[str, Any]:
    said = {f"moiety.dev/{key}": text for key, text in notes.items()}
    return {
        "metadata": {"name": "p", "annotations": said},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


def claim(compute: int, name: str = "c", **parameters: Any) -> dict[str, Any]:
    kind = {"apiVersion": "resource.moiety.dev/v1alpha1", "kind": "ShareConfig"}
    opaque = {"driver": DRIVER, "parameters": {**kind, **parameters}}
    exactly = {
        "deviceClassName": DRIVER,
        "capacity": {"requests": {"compute": str(compute)}},
    }
    requests = [{"name": "gpu", "exactly": exactly}]
    return {
        "metadata": {"name": name, "uid": str(uuid.uuid4())},
        "spec": {"devices": {"requests": requests, "config": [{"opaque": opaque}]}},
    }


async def asked(hook: Webhook, body: dict[str, Any], kind: str = "Pod", **more: Any) -> str:
    """What the webhook says against an object; empty: it admits it."""
    request = {"uid": "u", "kind": {"kind": kind}, "operation": "CREATE", "object": body,
               "namespace": "team"} | more  # fmt: skip
    verdict = await hook.decide(request)
    return verdict.problem


def test_a_pod_with_a_class_that_its_namespace_has_not_is_refused_with_the_rule() -> None:
    async def body() -> None:
        async with webhook(serving="latency: true") as (_, hook):
            first = pod(gpu="0.2", latency="true")
            said = await asked(hook, first)
            assert "namespace team may have no program of the latency class" in said
            assert "ConfigMap moiety-namespaces" in said
            assert not await asked(hook, first, namespace="serving")
            high = pod(gpu="0.2", priority="high")
            assert "normal at most, not high" in await asked(hook, high)
            assert not await asked(hook, pod(gpu="0.2"))

    run(body)


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate"])
def test_claims_and_templates_that_people_wrote_are_held_to_it_too(kind: str) -> None:
    async def body() -> None:
        async with webhook(team="gpu: 0.5") as (_, hook):
            made = claim(30, priority="high")
            if kind == "ResourceClaimTemplate":
                made["spec"] = {"spec": made["spec"]}
            assert "normal at most, not high" in await asked(hook, made, kind)
            # A template promises nothing before a pod has it.
            made = claim(80)
            if kind == "ResourceClaimTemplate":
                made["spec"] = {"spec": made["spec"]}
                assert not await asked(hook, made, kind)
            else:
                assert "may have 50 % in all" in await asked(hook, made, kind)

    run(body)


def test_the_claims_of_a_namespace_are_added_up() -> None:
    async def body() -> None:
        async with webhook(team="gpu: 1") as (server, hook):
            server.put(CLAIMS, claim(70, "first"), "team")
            server.put(CLAIMS, claim(90, "others"), "other")
            assert not await asked(hook, pod(gpu="0.3"))
            said = await asked(hook, pod(gpu="0.4"))
            assert "may have 100 % in all; 70 % of it are guaranteed already" in said
            assert "may have 100 % in all" in await asked(hook, pod(gpu="0.3", gpus="2"))
            assert not await asked(hook, pod(memory="1Gi"))
            server.fail = lambda _, path: 403 if "resourceclaims" in path else 0
            assert "cannot be read" in await asked(hook, pod(gpu="0.3"))

    run(body)


def test_of_many_claims_at_one_moment_only_those_that_fit_are_admitted() -> None:
    async def body() -> None:
        async with webhook(team="gpu: 1") as (server, hook):
            claims = [claim(30, f"c{number}") for number in range(8)]
            said = await asyncio.gather(*(asked(hook, each, "ResourceClaim") for each in claims))
            assert [not text for text in said] == [True] * 3 + [False] * 5
            # One that is listed by now does not count twice.
            server.put(CLAIMS, claims[0], "team")
            assert not await asked(hook, claim(10, "small"), "ResourceClaim")
            assert await asked(hook, claim(10, "more"), "ResourceClaim")

    run(body)


def test_a_claim_that_is_there_may_change_whatever_the_rules_are_now() -> None:
    """Or its finalizers would stay, and the claim with them."""

    async def body() -> None:
        async with webhook(team="gpu: 0.1") as (server, hook):
            found = server.put(CLAIMS, claim(50, priority="high"), "team")
            update: dict[str, Any] = {"operation": "UPDATE", "oldObject": found}
            for kind in ("ResourceClaim", "ResourceClaimTemplate"):
                assert not await asked(hook, found, kind, **update)

    run(body)


def test_claims_that_a_stranger_makes_up_take_nothing_of_the_sum() -> None:
    async def body() -> None:
        async with webhook(None, team="gpu: 0.5") as (_, hook):
            for _ in range(3):
                assert not await asked(hook, claim(50), "ResourceClaim")

    run(body)


def test_a_dry_run_takes_nothing_of_the_sum() -> None:
    async def body() -> None:
        async with webhook(team="gpu: 0.5") as (_, hook):
            for _ in range(3):
                assert not await asked(hook, claim(50), "ResourceClaim", dryRun=True)
            assert not await asked(hook, claim(50), "ResourceClaim")

    run(body)


def test_a_resize_is_for_namespaces_that_are_allowed_it() -> None:
    async def body() -> None:
        async with webhook(free="resize: true") as (_, hook):
            old = pod()
            old["metadata"]["labels"] = {names.SHARED: "claim"}

            def wishes(text: str) -> dict[str, Any]:
                return {**old, "metadata": {**old["metadata"], "annotations": {names.RESIZE: text}}}

            update: dict[str, Any] = {"operation": "UPDATE", "oldObject": old}
            said = await asked(hook, wishes("gpu=0.6"), **update)
            assert "namespace team may not change shares of running pods" in said
            assert not await asked(hook, wishes("gpu=0.6"), namespace="free", **update)
            said = await asked(hook, wishes("latency=true"), namespace="free", **update)
            assert "latency class" in said
            # One that stands already is no obstacle to other changes.
            changed: dict[str, Any] = {"operation": "UPDATE", "oldObject": wishes("gpu=0.6")}
            assert not await asked(hook, wishes("gpu=0.6"), **changed)
            # A new pod does not get past it either.
            new = pod(gpu="0.1", resize="gpu=1")
            assert "may not change shares" in await asked(hook, new)

    run(body)


def test_units_of_pods_are_added_up_where_pods_get_units() -> None:
    async def body() -> None:
        async with webhook(team="gpu: 1") as (server, hook):
            hook.knowledge.changed.clear()
            server.put(
                CONFIG_MAPS,
                {"metadata": {"name": names.SETTINGS}, "data": {"shares": "units"}},
                names.NAMESPACE,
            )
            await hook.knowledge.changed.wait()

            def units(name: str, count: int) -> dict[str, Any]:
                limits = {"moiety.dev/gpu-percent": str(count)}
                containers = [{"name": "main", "resources": {"limits": limits}}]
                return {"metadata": {"name": name}, "spec": {"containers": containers}}

            server.put(PODS, units("first", 70), "team")
            assert not await asked(hook, units("second", 30))
            assert "70 % of it are guaranteed already" in await asked(hook, units("second", 31))
            assert "70 % of it are guaranteed already" in await asked(hook, pod(gpu="0.5"))

    run(body)


def test_the_rules_count_as_soon_as_they_are_written() -> None:
    async def body() -> None:
        async with webhook() as (server, hook):
            first = pod(gpu="0.2", latency="true")
            assert await asked(hook, first)
            allowed = {"metadata": {"name": names.NAMESPACES}, "data": {"team": "latency: true"}}
            hook.knowledge.changed.clear()
            server.put(CONFIG_MAPS, allowed, names.NAMESPACE)
            await hook.knowledge.changed.wait()
            assert not await asked(hook, first)

    run(body)
