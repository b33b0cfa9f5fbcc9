"""Words of other systems: read where a namespace or an administrator says so, and nowhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moiety.kube.client import NAMESPACES, ApiClient, ApiError
from moiety.kube.dialects.request import SPELLINGS, RequestRefused, WebhookConfig
from moiety.kube.model import names
from moiety.kube.webhook import namespace_dialects, registration
from moiety.kube.webhook.admission import ClusterView
from moiety.testing.apiserver import ApiServer

HAMI = {"nvidia.com/gpu": "1", "nvidia.com/gpumem": "3000"}


def request(limits: dict[str, str], **more: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": limits}}
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    return {
        "kind": {"kind": "Pod"},
        "operation": "CREATE",
        "namespace": "team",
        "object": body,
    } | more


def with_label(label: str | None, story: Callable[[ApiServer, ApiClient], Awaitable[None]]) -> None:
    async def tell() -> None:
        async with ApiServer() as server, ApiClient(server.access, patience_s=0.1) as client:
            labels = {} if label is None else {names.DIALECTS: label}
            server.put(NAMESPACES, {"metadata": {"name": "team", "labels": labels}})
            await story(server, client)

    asyncio.run(tell())


@pytest.mark.parametrize(
    ("label", "read"),
    [
        (None, ("moiety",)),
        ("kai", ("moiety", "kai")),
        ("kubeshare.hami", ("moiety", "kubeshare", "hami")),
        ("all", SPELLINGS),
    ],
)
def test_a_namespace_has_the_dialects_of_its_label(
    label: str | None, read: tuple[str, ...]
) -> None:
    async def story(_server: ApiServer, client: ApiClient) -> None:
        view = await namespace_dialects.view(client, request(HAMI), ClusterView())
        assert view.config.spellings == read

    with_label(label, story)


def test_what_an_administrator_turned_on_everywhere_needs_no_label() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        every = ClusterView(config=WebhookConfig(spellings=("moiety", "hami")))
        assert await namespace_dialects.view(client, request(HAMI), every) is every
        assert server.asked == []

    with_label(None, story)


def test_a_label_that_names_no_dialect_is_a_refusal() -> None:
    async def story(_server: ApiServer, client: ApiClient) -> None:
        with pytest.raises(RequestRefused, match="there is no dialect hamy; there are nvshare"):
            await namespace_dialects.view(client, request(HAMI), ClusterView())

    with_label("hamy", story)


@pytest.mark.parametrize(
    "asked",
    [
        request({"moiety.dev/gpu": "1"}),
        request({"nvidia.com/gpu": "1"}),
        request(HAMI, operation="UPDATE"),
        request(HAMI, kind={"kind": "ResourceClaim"}),
        request(HAMI, object={"spec": {"containers": 3}}),
    ],
    ids=["ours", "whole GPUs", "an update", "a claim", "no pod"],
)
def test_only_a_new_pod_with_words_of_another_system_has_its_namespace_looked_at(
    asked: dict[str, Any],
) -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        cluster = ClusterView()
        assert await namespace_dialects.view(client, asked, cluster) is cluster
        assert server.asked == []

    with_label("all", story)


def test_a_namespace_that_cannot_be_read_is_an_error_and_no_guess() -> None:
    async def story(server: ApiServer, client: ApiClient) -> None:
        server.fail = lambda *_: 403
        with pytest.raises(ApiError, match="/api/v1/namespaces/team"):
            await namespace_dialects.view(client, request(HAMI), ClusterView())

    with_label("all", story)


def test_the_api_server_asks_about_other_systems_words_only_in_namespaces_with_the_label() -> None:
    ours, theirs = registration.mutating(WebhookConfig())["webhooks"]
    (everywhere,) = ours["matchConditions"]
    labelled, not_ours = theirs["matchConditions"]
    for word in ("nvidia.com/gpumem", "sharedgpu/", "nvshare.com/", "gpu-fraction", "metagpu"):
        assert word not in everywhere["expression"]
        assert word in labelled["expression"]
    assert not_ours["expression"] == f"!({everywhere['expression']})"
    chosen = {"key": names.DIALECTS, "operator": "Exists"}
    assert chosen in theirs["namespaceSelector"]["matchExpressions"]
    assert chosen not in ours["namespaceSelector"]["matchExpressions"]
    ours, theirs = registration.mutating(WebhookConfig(spellings=SPELLINGS))["webhooks"]
    assert "nvidia.com/gpumem" in ours["matchConditions"][0]["expression"]
    assert theirs["matchConditions"][0]["expression"] == "false"
