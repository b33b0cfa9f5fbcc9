"""A claim whose pod is not bound yet is admitted or refused, once, and by its own node only."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import structlog

from moiety.kube.binding_checks import BindingChecks, waits
from moiety.kube.client import CLAIMS, ApiClient, Object
from moiety.kube.model.share_config import DRIVER
from moiety.kube.resource_slices import ADMITTED, REFUSED
from moiety.model.errors import AgentError, MoietyError
from moiety.testing.apiserver import ApiServer

NODE = "node-a"
TEAM = "team"


def claim(name: str, pool: str = NODE, *, conditions: tuple[str, ...] = (ADMITTED,)) -> Object:
    result = {
        "driver": DRIVER,
        "pool": pool,
        "device": "gpu-0",
        "shareID": "00000000-0000-4000-8000-000000000001",
        "bindingConditions": list(conditions),
    }
    return {
        "metadata": {"name": name, "namespace": TEAM},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": f"{name}-pod", "uid": "1"}],
        },
    }


def said(found: Object) -> list[tuple[str, str]]:
    return [
        (each["type"], each["message"])
        for device in found["status"].get("devices") or []
        for each in device["conditions"]
    ]


def answers(api: ApiServer) -> dict[str, list[tuple[str, str]]]:
    """What was said about each claim of this node."""
    mine = [each for each in api.all(CLAIMS) if each["metadata"]["name"] != "other"]
    return {each["metadata"]["name"]: said(each) for each in mine}


def answer(api: ApiServer, name: str) -> list[tuple[str, str]]:
    """What was said about one claim."""
    return answers(api)[name]


def test_only_claims_that_the_scheduler_keeps_for_this_node_wait() -> None:
    assert waits(claim("mine"), NODE)
    assert not waits(claim("other", "node-b"), NODE)
    assert not waits(claim("unconditional", conditions=()), NODE)
    unreserved = claim("unreserved")
    del unreserved["status"]["reservedFor"]
    assert not waits(unreserved, NODE)
    assert not waits({"metadata": {"name": "new"}}, NODE)


def test_each_claim_is_answered_with_its_condition_and_the_reason() -> None:
    asked: list[str] = []
    away = {"late": 1}

    async def check(found: Object) -> None:
        name = found["metadata"]["name"]
        asked.append(name)
        if away.pop(name, 0):
            raise AgentError("the agent is away")
        if name == "large":
            raise MoietyError("there is no room", "less")

    async def story() -> dict[str, Any]:
        async with ApiServer() as api, ApiClient(api.access) as client:
            for name in ("fits", "large", "late"):
                api.put(CLAIMS, claim(name), TEAM)
            api.put(CLAIMS, claim("other", "node-b"), TEAM)
            checks = BindingChecks(NODE, client, check, structlog.get_logger(), again_s=0.05)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in (checks.follow(), checks.decide())]
                await api.changes.until(lambda: all(answers(api).values()))
                for task in tasks:
                    task.cancel()
            return {each["metadata"]["name"]: each for each in api.all(CLAIMS)}

    found = asyncio.run(asyncio.wait_for(story(), 20))
    assert said(found["fits"]) == said(found["late"]) == [(ADMITTED, "")]
    ((condition, reason),) = said(found["large"])
    assert condition == REFUSED
    assert "there is no room" in reason
    assert said(found["other"]) == []
    (device,) = found["fits"]["status"]["devices"]
    assert {key: device[key] for key in ("driver", "pool", "device", "shareID")} == {
        "driver": DRIVER,
        "pool": NODE,
        "device": "gpu-0",
        "shareID": "00000000-0000-4000-8000-000000000001",
    }
    assert sorted(asked) == ["fits", "large", "late", "late"]
    assert not any(waits(each, NODE) for each in found.values())


def test_a_claim_that_was_taken_back_meanwhile_is_left_alone() -> None:
    asked: list[str] = []

    async def check(found: Object) -> None:
        asked.append(found["metadata"]["name"])

    async def story() -> None:
        async with ApiServer() as api, ApiClient(api.access) as client:
            gone = CLAIMS.path("gone", TEAM, "status")
            api.fail = lambda method, path: 422 if (method, path) == ("PATCH", gone) else 0
            api.put(CLAIMS, claim("gone"), TEAM)
            checks = BindingChecks(NODE, client, check, structlog.get_logger())
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in (checks.follow(), checks.decide())]
                for name in ("next", "last"):  # each look would ask again for what is left
                    api.put(CLAIMS, claim(name), TEAM)
                    await api.changes.until(partial(answer, api, name))
                for task in tasks:
                    task.cancel()

    asyncio.run(asyncio.wait_for(story(), 20))
    assert sorted(asked) == ["gone", "last", "next"]


async def until_answered(name: str, api: ApiServer, client: ApiClient) -> None:
    """Put a claim that fits, and check claims until it has an answer."""

    async def check(found: Object) -> None:
        del found

    api.put(CLAIMS, claim(name), TEAM)
    checks = BindingChecks(NODE, client, check, structlog.get_logger(), again_s=0.01)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(each) for each in (checks.follow(), checks.decide())]
        await api.changes.until(partial(answer, api, name))
        for task in tasks:
            task.cancel()


def test_claims_that_cannot_be_read_for_a_while_are_decided_about_later() -> None:
    refused = [403, 403]

    async def story() -> None:
        async with ApiServer() as api, ApiClient(api.access) as client:
            lists = CLAIMS.path()
            api.fail = lambda _, path: refused.pop() if refused and path == lists else 0
            await until_answered("fits", api, client)

    asyncio.run(asyncio.wait_for(story(), 20))
    assert refused == []


def test_a_claim_whose_answer_a_busy_server_does_not_take_is_answered_again() -> None:
    busy = [429, 429]

    async def story() -> None:
        async with ApiServer() as api, ApiClient(api.access, patience_s=0.0) as client:
            api.fail = lambda method, _: busy.pop() if busy and method == "PATCH" else 0
            await until_answered("fits", api, client)

    asyncio.run(asyncio.wait_for(story(), 20))
    assert busy == []
